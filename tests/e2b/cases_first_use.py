"""`base` and `code-interpreter-v1` are built when a program asks for them first; the programs are told how far it is."""
import contextlib
import http.server
import json
import os
import subprocess
import tempfile
import threading
import urllib.request

import pytest_like as expect
from e2b import Sandbox, SandboxException, Template
from e2b.exceptions import ServiceBusyException
from pytest_like import Skip
from world import another_server

NAME = "code-interpreter-v1"


class Source:
    """Packages of the build: a server that answers when the case says so."""

    def __init__(self):
        self.asked, self.open = 0, threading.Event()
        source = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                source.asked += 1
                source.open.wait(60)
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(b"built\n")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open.set()
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def server_that_builds(world, run, *options, name=NAME):
    """A server whose build file for this template is one step over the image of the tests, and the options of a client of it."""
    if not world.image:
        raise Skip("e2b-templates: the host has no static busybox for an image")
    with tempfile.TemporaryDirectory(prefix="paddock-e2b-files-") as place:
        with open(os.path.join(place, f"{name}.toml"), "w") as file:
            file.write(f'base = "{world.image}"\nrun = [{run}]\n')
        chosen = ["--build-on-first-use", name, "--build-files", place, *options]
        with another_server(world, *chosen) as (server, variables):
            yield server, {
                "api_key": variables["E2B_API_KEY"], "api_url": variables["E2B_API_URL"], "sandbox_url": variables["E2B_SANDBOX_URL"],
            }


def fetching(source):
    return f'{{ command = "wget -q -O /etc/built {source.url}", net = "host" }}'


def first_build(server, name=NAME):
    templates = server.owner("templates", "/v1/templates")["templates"]
    return next((one.get("first_build") for one in templates if one["name"] == name), None)


def of_api(options):
    return {name: options[name] for name in ("api_key", "api_url")}


def created(options):
    """A sandbox of `base` as the SDK asks for it: its id, and the header that warns."""
    headers = {"X-API-KEY": options["api_key"], "Content-Type": "application/json"}
    request = urllib.request.Request(options["api_url"] + "/v2/sandboxes", b'{"templateID":"base"}', headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["sandboxID"], answer.headers.get("Warning")


def case_the_first_create_begins_the_build_and_each_is_told_how_far_it_is(world):
    with Source() as source, server_that_builds(world, fetching(source)) as (server, options):
        error = expect.raises(ServiceBusyException, Sandbox.create, NAME, **options)
        assert "is being built for the first time" in str(error) and "paddock template ls" in str(error), error
        told = expect.until(lambda: first_build(server), lambda build: build and build["step"] == 2)
        assert told["state"] == "building" and told["steps"] == 2 and "wget" in told["doing"], told
        listed = server.run("template", "ls")
        assert f"{NAME}" in listed and "is built: step 2 of 2" in listed, listed
        again = expect.raises(ServiceBusyException, Sandbox.create, NAME, **options)
        assert "step 2 of 2" in str(again), again
        # Any other name is as before.
        with Sandbox.create("base", **options) as sandbox:
            assert sandbox.commands.run("echo here").stdout == "here\n"
        source.open.set()
        assert expect.until(lambda: first_build(server), lambda build: build is None, patience=60) is None
        with Sandbox.create(NAME, **options) as sandbox:
            assert sandbox.commands.run("cat /etc/built").stdout == "built\n"
        assert source.asked == 1, "it was built once"
        assert "is built: step" not in server.run("template", "ls")


def case_a_create_waits_for_the_build_as_long_as_the_owner_says(world):
    with Source() as source, server_that_builds(world, fetching(source), "--build-wait", "100s") as (_, options):
        source.open.set()
        with Sandbox.create(NAME, request_timeout=110, **options) as sandbox:
            assert sandbox.commands.run("cat /etc/built").stdout == "built\n"


def case_a_build_that_fails_is_told_and_is_no_other_template(world):
    run = '"echo not for tenants >&2; exit 3"'
    with server_that_builds(world, run, "--build-wait", "100s") as (server, options):
        for _ in range(2):
            error = expect.raises(SandboxException, Sandbox.create, NAME, request_timeout=110, **options)
            assert "422" in str(error) and "exit code 3" in str(error) and server.directory not in str(error), error
        assert "the build failed" in server.run("template", "ls")
        assert first_build(server)["state"] == "failed"
        with open(server.log) as log:
            assert "not for tenants" in log.read(), "the owner sees the output"


def case_base_goes_on_with_the_hosts_programs_until_it_is_built(world):
    with Source() as source, server_that_builds(world, fetching(source), name="base") as (server, options):
        with Sandbox.create(**options) as sandbox:
            assert sandbox.commands.run("pwd; test ! -e /etc/built && echo host").stdout == "/home/user\nhost\n"
            told = expect.until(lambda: first_build(server, "base"), lambda build: build and build["step"] == 2)
            assert told["state"] == "building" and told["steps"] == 2, told
            assert "is built: step 2 of 2" in server.run("template", "ls")
            _, warning = created(options)
            assert warning.startswith('299 paddock "') and "is being built" in warning and "step 2 of 2" in warning, warning
            assert "the host's own /usr" in warning, warning
            # A build that begins with it is refused until it is there, and is no sandbox of another kind.
            error = expect.raises(Exception, Template.build, Template().from_base_image(), "over-base", **of_api(options))
            assert "is being built for the first time" in str(error), error
            source.open.set()
            assert expect.until(lambda: first_build(server, "base"), lambda build: build is None, patience=60) is None
            with Sandbox.create(**options) as built:
                assert built.commands.run("cat /etc/built").stdout == "built\n"
            _, warning = created(options)
            assert warning is None, warning
            # The sandbox that was there keeps its own programs.
            assert sandbox.commands.run("test ! -e /etc/built && echo host").stdout == "host\n"
        assert source.asked == 1, "it was built once"


def case_base_works_where_it_cannot_be_built(world):
    run = '"echo not for $(echo tenants) >&2; exit 3"'
    with server_that_builds(world, run, name="base") as (server, options):
        created(options)
        told = expect.until(lambda: first_build(server, "base"), lambda build: build and build["state"] == "failed", patience=60)
        assert told["step"] == 2, told
        with Sandbox.create(**options) as sandbox:
            assert sandbox.commands.run("echo here").stdout == "here\n"
        _, warning = created(options)
        assert "could not be built" in warning and "exit code 3" in warning, warning
        assert "not for tenants" not in warning and server.directory not in warning, warning
        again = first_build(server, "base")
        assert again["started_at_ms"] == told["started_at_ms"], "it was not tried again at once"
        assert "the build failed" in server.run("template", "ls")


def case_what_is_built_so_is_both_of_e2bs_defaults(world):
    said = world.server.run("serve", "--help")
    assert "[default: base,code-interpreter-v1]" in said.replace("base code", "base,code"), said


def case_a_build_file_that_is_none_ends_the_start(world):
    with tempfile.TemporaryDirectory(prefix="paddock-e2b-files-") as place:
        with open(os.path.join(place, f"{NAME}.toml"), "w") as file:
            file.write("packages = []\n")
        environment = dict(os.environ, PADDOCK_STATE_DIR=os.path.join(place, "state"))
        environment.pop("PADDOCK_URL", None)
        for options, words in (
            (["--build-files", place], "packages"),
            (["--build-files", os.path.join(place, "none")], "cannot be read"),
            (["--build-on-first-use", "nothing-of-that-name"], "nothing-of-that-name"),
        ):
            said = subprocess.run(
                [world.server.paddock, "serve", "--socket", os.path.join(place, "api.sock"), *options],
                env=environment, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            assert said.returncode != 0 and words in said.stderr, (options, said.returncode, said.stderr)
