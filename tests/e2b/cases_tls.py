"""A server with `--tls-cert`, as the SDKs speak to it: by HTTP/1.1 and HTTP/2, and its ports by their host names."""
import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from unittest import mock

import pytest_like as expect
from world import another_server

HERE = os.path.dirname(os.path.abspath(__file__))
DOMAIN = "box.localhost"
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
NAMES = f"subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:{DOMAIN},DNS:*.{DOMAIN}\nbasicConstraints=CA:FALSE\n"
PATIENCE = 100


def openssl(place, *arguments):
    subprocess.run(["openssl", *arguments], cwd=place, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificate(place):
    """An authority of the test's own, and what it has signed for the names of the server."""
    if not shutil.which("openssl"):
        raise expect.Skip("e2b-tls: there is no openssl to make a certificate with")
    openssl(place, "req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=tests of Paddock")
    openssl(place, "req", *KEY, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost")
    with open(os.path.join(place, "names"), "w") as file:
        file.write(NAMES)
    openssl(place, "x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "cert.pem")
    return [os.path.join(place, name) for name in ("ca.pem", "cert.pem", "key.pem")]


@contextlib.contextmanager
def over_tls(world):
    """The variables for a client of such a server, and the authority that it is to trust."""
    with tempfile.TemporaryDirectory() as place:
        authority, cert, key = certificate(place)
        # For what this process asks of that server, at its end too.
        with mock.patch.dict(os.environ, SSL_CERT_FILE=authority), another_server(world, "--tls-cert", cert, "--tls-key", key, "--domain", DOMAIN) as (_, variables):
            port = urllib.parse.urlsplit(variables["E2B_API_URL"]).port
            # The names of the domain are not resolved everywhere; its address is in the certificate too.
            addresses = {name: f"https://127.0.0.1:{port}" for name in variables if name.endswith("_URL")}
            assert all(value.startswith("https://") for name, value in variables.items() if name.endswith("_URL")), variables
            yield {**variables, **addresses}, authority


def asked_over_tls(address, authority, name, path="/", headers=None):
    """One request with that name as its Host, which the certificate has to be for."""
    there = urllib.parse.urlsplit(address)
    context = ssl.create_default_context(cafile=authority)
    connection = http.client.HTTPSConnection(name, there.port, context=context, timeout=30)
    # As if the name were resolved.
    connection._create_connection = lambda _, *rest: socket.create_connection((there.hostname, there.port), *rest)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def is_whole(told):
    assert (told["said"], told["pieces"]) == ("hello\n", "hello\n"), told
    assert told["large"] == 3_000_000 and told["code"] == "42" and "seen" in told["events"], told
    assert told["beside"] == [str(number) for number in range(10)], told


def downloaded(told):
    with urllib.request.urlopen(told["download"], timeout=30) as answer:
        return answer.read()


def python(variables, **more):
    environment = {**os.environ, **variables, **more, "PYTHONPATH": os.environ["PADDOCK_TEST_E2B"]}
    environment = {name: value for name, value in environment.items() if value is not None}
    return subprocess.Popen(
        [sys.executable, os.path.join(HERE, "tls", "speak.py")], env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def case_the_python_sdk_speaks_https_by_both_versions_of_http(world):
    with over_tls(world) as (variables, authority):
        for wanted, found in (("1.1", "HTTP/1.1"), ("2", "HTTP/2")):
            process = python(variables, E2B_HTTP_VERSION=wanted)
            try:
                line = process.stdout.readline()
                if not line:
                    raise AssertionError(process.communicate(timeout=PATIENCE)[1])
                told = json.loads(line)
                is_whole(told)
                assert told["version"] == found, told
                name = told["host"].partition(":")[0]
                assert name.startswith("3000-") and name.endswith(DOMAIN), told
                address = variables["E2B_API_URL"]
                assert asked_over_tls(address, authority, name)[0] == 401
                assert asked_over_tls(address, authority, name, headers={"E2B-Traffic-Access-Token": told["token"]}) == (200, b"served\n")
                assert downloaded(told) == b"x"
                _, errors = process.communicate("done\n", timeout=PATIENCE)
                assert process.returncode == 0, errors
            finally:
                process.kill()
                process.wait()


def case_a_certificate_that_is_not_trusted_ends_the_call(world):
    with over_tls(world) as (variables, _):
        said = python(variables, SSL_CERT_FILE=None, E2B_CONNECTION_RETRIES="0").communicate("done\n", timeout=PATIENCE)
        assert said[0] == "" and "certificate" in said[1], said


def case_the_sdk_for_node_speaks_https(world):
    place, node = os.environ.get("PADDOCK_TEST_E2B_NODE"), shutil.which("node")
    if not place or not node:
        raise expect.Skip("e2b-node: the SDK for Node is not there")
    with over_tls(world) as (variables, authority):
        environment = {**os.environ, **variables, "NODE_EXTRA_CA_CERTS": authority, "PADDOCK_TEST_E2B_NODE": place}
        run = subprocess.run([node, os.path.join(HERE, "tls", "speak.mjs")], env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert run.returncode == 0, run.stderr
        told = json.loads(run.stdout)
        is_whole(told)
        assert "h2" in told["versions"] and told["download"] == "x", told
