"""Ports inside, the two doors of E2B's own and signed addresses by their host names, as a server with `--domain` has them."""
import http.client
import json
import urllib.parse

import pytest_like as expect
from e2b import Sandbox, SandboxException
from e2b_code_interpreter import Sandbox as Interpreter
from world import another_server

DOMAIN = "box.localhost"
# Answers with the request that it was sent.
MIRROR = """
import http.server
class Mirror(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write((self.path + "\\n" + str(self.headers)).encode())
http.server.HTTPServer(("", 3000), Mirror).serve_forever()
"""
SERVE = "mkdir -p /tmp/site && cd /tmp/site && echo served > index.html && exec python3 -m http.server 3000"


def by_name(variables, name, path="/", method="GET", body=None, headers=None):
    """One request with that name as its Host, as a browser sends it when the domain leads to the server."""
    address = urllib.parse.urlsplit(variables["E2B_API_URL"])
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    try:
        connection.request(method, path, body, {"Host": f"{name}:{address.port}", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def options(variables):
    """Of the SDK, for that server."""
    names = {"api_key": "E2B_API_KEY", "api_url": "E2B_API_URL", "sandbox_url": "E2B_SANDBOX_URL"}
    return {option: variables[name] for option, name in names.items()}


def served(sandbox):
    sandbox.commands.run(SERVE, background=True, timeout=0)
    sandbox.commands.run("for n in $(seq 100); do curl -so /dev/null localhost:3000 && exit; sleep 0.1; done; exit 1")


def case_ports_are_public_where_the_owner_of_the_host_says_so(world):
    with another_server(world, "--domain", DOMAIN, "--public-ports") as (_, variables):
        with Sandbox.create(**options(variables)) as sandbox:
            served(sandbox)
            host = sandbox.get_host(3000)
            assert host == f"3000-{sandbox.sandbox_id}.{DOMAIN}"
            assert by_name(variables, host) == (200, b"served\n")
            own = {"Authorization": "Bearer the-program's-own", "Cookie": "a=b"}
            assert by_name(variables, host, headers=own) == (200, b"served\n"), "a token of the program's own is not looked at"
            status, said = by_name(variables, sandbox.get_host(3001))
            assert status == 502 and b"port" in said, (status, said)
            path = f"/v1/sandboxes/{sandbox.sandbox_id}/ports/3000/"
            assert by_name(variables, "127.0.0.1", path)[0] == 401, "by path a port has the origin of the server, and wants a token"
            for port in (49983, 49999):
                assert by_name(variables, sandbox.get_host(port), "/files?path=/etc/passwd")[0] != 200
            sandbox.pause()
            assert by_name(variables, host)[0] == 502, "a visitor wakes nothing"
            sandbox.connect()
            assert by_name(variables, host) == (200, b"served\n")
        status, said = by_name(variables, host)
        assert status == 502 and b"was not found" in said, (status, said)
        assert by_name(variables, f"3000-sb-0000000000000000.{DOMAIN}")[0] == 401
        with Sandbox.create(**options(variables), network={"allow_public_traffic": False}) as sandbox:
            served(sandbox)
            host = sandbox.get_host(3000)
            assert by_name(variables, host)[0] == 401
            token = {"E2B-Traffic-Access-Token": sandbox.traffic_access_token}
            assert by_name(variables, host, headers=token) == (200, b"served\n")
            assert by_name(variables, host, headers={"E2B-Traffic-Access-Token": "x"})[0] == 401


def case_ports_are_settings_that_v1_knows_and_the_network_changes(world):
    with another_server(world, "--domain", DOMAIN, "--public-ports") as (server, variables):
        with Sandbox.create(network={"mask_request_host": "app.example"}, **options(variables)) as sandbox:
            served(sandbox)
            target = f"/v1/sandboxes/{sandbox.sandbox_id}"
            known = server.owner("sandbox", target)
            assert known["ports"] == {"public": "all", "request_host": "app.example"}, known
            assert not any(word in known["metadata"].get("paddock.e2b.network", "") for word in ("Public", "mask")), known["metadata"]
            assert not {"paddock.e2b.public-ports", "paddock.e2b.request-host"} & known["metadata"].keys()

            def change(body):
                address = urllib.parse.urlsplit(variables["E2B_API_URL"])
                connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
                headers = {"X-API-KEY": variables["E2B_API_KEY"], "Content-Type": "application/json"}
                connection.request("PUT", f"/sandboxes/{sandbox.sandbox_id}/network", json.dumps(body), headers)
                answer = connection.getresponse()
                said = answer.status, answer.read()
                connection.close()
                return said

            host = sandbox.get_host(3000)
            assert by_name(variables, host) == (200, b"served\n")
            assert change({"allowPublicTraffic": False})[0] == 204
            assert by_name(variables, host)[0] == 401
            told = sandbox.get_info().network
            assert told["allow_public_traffic"] is False and told["mask_request_host"] == "app.example", told
            assert change({"denyOut": ["9.9.9.9"]})[0] == 204
            assert by_name(variables, host)[0] == 401, "what a change does not name stays"
            assert change({"allowPublicTraffic": True, "maskRequestHost": "${PORT}.example"})[0] == 204
            assert by_name(variables, host) == (200, b"served\n")
            assert server.owner("sandbox", target)["ports"] == {"public": "all", "request_host": "${PORT}.example"}
            status, said = change({"maskRequestHost": "a b"})
            assert status == 400 and b"maskRequestHost" in said, said


def case_public_ports_end_with_the_key_that_opened_them(world):
    with another_server(world, "--domain", DOMAIN, "--public-ports") as (server, variables):
        second = server.variables("--tenant", "e2b")
        sandbox = Sandbox.create(**options(second))
        served(sandbox)
        assert by_name(variables, sandbox.get_host(3000)) == (200, b"served\n")
        tokens = server.owner("tokens", "/v1/tokens")["tokens"]
        newest = max(tokens, key=lambda token: token["created_at_ms"])
        server.run("token", "revoke", newest["id"])
        assert by_name(variables, sandbox.get_host(3000))[0] == 401
        assert Sandbox.kill(sandbox.sandbox_id, **options(variables))


def case_without_the_owners_word_no_port_is_public(world):
    error = expect.raises(SandboxException, Sandbox.create, network={"allow_public_traffic": True})
    assert "--public-ports" in str(error), error
    with Sandbox.create(network={"allow_public_traffic": False}) as sandbox:
        assert sandbox.commands.run("echo here").stdout == "here\n"
    with another_server(world, "--domain", DOMAIN) as (_, variables):
        with Sandbox.create(**options(variables)) as sandbox:
            served(sandbox)
            host = sandbox.get_host(3000)
            assert by_name(variables, host)[0] == 401
            token = {"E2B-Traffic-Access-Token": sandbox.traffic_access_token}
            assert by_name(variables, host, headers=token) == (200, b"served\n")
            with Sandbox.create(**options(variables)) as other:
                assert by_name(variables, other.get_host(3000), headers=token)[0] == 401, "a token opens one sandbox"


def case_no_token_of_the_server_goes_inside(world):
    with another_server(world, "--domain", DOMAIN, "--public-ports") as (server, variables):
        secret = server.run("token", "create", "--tenant", "e2b").strip()
        with Sandbox.create(**options(variables)) as sandbox:
            sandbox.files.write("/tmp/mirror.py", MIRROR)
            sandbox.commands.run("python3 /tmp/mirror.py", background=True, timeout=0)
            sandbox.commands.run("for n in $(seq 100); do curl -so /dev/null localhost:3000 && exit; sleep 0.1; done; exit 1")
            own = {"Cookie": f"own=kept; paddock_token={secret}", "Authorization": f"Bearer {secret}", "X-Copy": f"a {secret} b"}
            traffic = {"E2B-Traffic-Access-Token": sandbox.traffic_access_token}
            for headers in (own, {**own, **traffic}, {**traffic, "Authorization": "Bearer of-the-program"}):
                status, said = by_name(variables, sandbox.get_host(3000), "/a?b=1", headers=headers)
                assert status == 200 and said.startswith(b"/a?b=1\n"), (status, said)
                assert secret.encode() not in said and sandbox.traffic_access_token.encode() not in said, said
                assert (b"own=kept" in said) == ("Cookie" in headers) and (b"of-the-program" in said) == ("Cookie" not in headers), said


def case_a_program_inside_is_asked_as_the_host_that_its_sandbox_names(world):
    for mask, told in ((None, "localhost:3000"), ("${PORT}.app.example:${PORT}", "3000.app.example:3000"), ("app.example", "app.example")):
        network = {"mask_request_host": mask} if mask else None
        with Sandbox.create(network=network) as sandbox:
            sandbox.files.write("/tmp/mirror.py", MIRROR)
            sandbox.commands.run("python3 /tmp/mirror.py", background=True, timeout=0)
            sandbox.commands.run("for n in $(seq 100); do curl -so /dev/null localhost:3000 && exit; sleep 0.1; done; exit 1")
            headers = {
                "E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "3000", "E2B-Traffic-Access-Token": sandbox.traffic_access_token,
            }
            status, said = by_name(world.variables, "127.0.0.1", "/", headers=headers)
            lines = said.decode().lower().splitlines()
            assert status == 200 and f"host: {told}" in lines, (status, said)
            if mask:
                assert sandbox.get_info().network["mask_request_host"] == mask
                sandbox.update_network({"deny_out": ["9.9.9.9"]})
                assert sandbox.get_info().network["mask_request_host"] == mask, "a change of the rules leaves it"


def case_the_doors_of_e2b_have_host_names(world):
    """The requests of an SDK that knows a domain and neither E2B_SANDBOX_URL nor the header with the sandbox."""
    with another_server(world, "--domain", DOMAIN) as (_, variables):
        with Interpreter.create(**options(variables)) as sandbox:
            token = {"X-Access-Token": sandbox._envd_access_token, "Content-Type": "application/json"}
            envd, code = sandbox.get_host(49983), sandbox.get_host(49999)
            assert by_name(variables, envd, "/health", headers=token)[0] == 204
            status, said = by_name(variables, envd, "/filesystem.Filesystem/Stat", "POST", b'{"path": "/tmp"}', token)
            assert status == 200 and b'"/tmp"' in said, said
            status, said = by_name(variables, code, "/execute", "POST", b'{"code": "40 + 2"}', token)
            assert status == 200 and b'"42"' in said, said
            with Interpreter.create(**options(variables)) as other:
                for name, path in ((other.get_host(49983), "/filesystem.Filesystem/Stat"), (other.get_host(49999), "/execute")):
                    headers = {**token, "E2b-Sandbox-Id": sandbox.sandbox_id}
                    assert by_name(variables, name, path, "POST", b"{}", headers)[0] == 401, "the name says which sandbox, and no header"


def case_a_signed_address_with_a_host_name_is_not_looked_for(world):
    with another_server(world, "--domain", DOMAIN) as (_, variables):
        with Sandbox.create(**options(variables)) as sandbox, Sandbox.create(**options(variables)) as other:
            sandbox.files.write("/tmp/signed.txt", "signed")
            query = urllib.parse.urlsplit(sandbox.download_url("/tmp/signed.txt", use_signature_expiration=60)).query
            envd = sandbox.get_host(49983)
            assert by_name(variables, envd, f"/files?{query}") == (200, b"signed")
            assert by_name(variables, other.get_host(49983), f"/files?{query}")[0] == 401
            assert by_name(variables, f"49983-sb-0000000000000000.{DOMAIN}", f"/files?{query}")[0] == 401
            assert by_name(variables, envd, f"/files?{query.replace('signed.txt', 'other.txt')}")[0] == 401
            assert by_name(variables, envd, f"/files?{query}", "POST", b"x", {"Content-Type": "application/octet-stream"})[0] == 401
            upload = urllib.parse.urlsplit(sandbox.upload_url("/tmp/up.txt")).query
            kind = {"Content-Type": "application/octet-stream"}
            assert by_name(variables, envd, f"/files?{upload}", "POST", b"came up", kind)[0] == 200
            assert sandbox.files.read("/tmp/up.txt") == "came up"
