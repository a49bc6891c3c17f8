"""Headers that rules set in requests to a host: their values are at the gate and never inside."""
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest_like as expect
from e2b import AsyncSandbox, Sandbox, SandboxException, Secret
from world import another_server

ALL = "0.0.0.0/0"
VALUE = "sk-of-the-tenant-0001"


def rule(**headers):
    return [{"transform": {"headers": headers}}]


def sent(sandbox, host="web.example", options=""):
    """The headers of a request as the host got them."""
    return json.loads(sandbox.commands.run(f"curl -sS -m 20 {options} https://{host}/", timeout=40).stdout)


def values(headers, name):
    return [value for key, value in headers if key == name]


def secret(name, **metadata):
    Secret.create(name, VALUE, metadata=metadata)
    return name


def case_a_header_with_a_secret_is_set_at_the_gate(world):
    name = secret("rule-set", hosts="web.example, other.example")
    rules = {"web.example": rule(Authorization=f"Bearer {Secret.fill(name)}", **{"X-Team": "team-of-agents"})}
    with Sandbox.create(network={"rules": rules}) as sandbox:
        got = sent(sandbox, options="-H 'Authorization: Bearer own' -H 'X-Other: kept'")
        # A host that repeats a value gets it masked in its answer: the header is there, once, and its text is not to be read.
        stars = "*" * len(VALUE)
        assert values(got, "authorization") == [f"Bearer {stars}"] and values(got, "x-other") == ["kept"], got
        assert values(got, "x-team") == ["*" * len("team-of-agents")], got
        other = sent(sandbox, host="other.example", options="-k -H 'Authorization: Bearer own'")
        assert values(other, "authorization") == ["Bearer own"] and not values(other, "x-team"), "no rule is for this host"
        inside = sandbox.commands.run("env; cat /proc/self/environ | tr '\\0' '\\n'").stdout
        assert VALUE not in inside and "E2B_RULE" not in inside and "paddock-secret" not in inside, inside
        clear = sandbox.commands.run("curl -sS -m 20 -o /dev/null -w '%{http_code}' http://web.example/", timeout=40).stdout
        assert clear == "403", "no value goes in the clear"


def case_the_later_rule_for_a_header_counts(world):
    name = secret("rule-later", hosts="web.example")
    rules = {"web.example": rule(Authorization="Bearer first-and-long") + rule(authorization=Secret.fill(name))}
    with Sandbox.create(network={"rules": rules}) as sandbox:
        assert values(sent(sandbox), "authorization") == ["*" * len(VALUE)]


def case_a_rule_does_not_open_its_host(world):
    rules = {"web.example": rule(**{"X-Team": "team-of-agents"})}
    with Sandbox.create(network={"rules": rules, "deny_out": [ALL]}) as sandbox:
        code = sandbox.commands.run("curl -sS -m 10 https://web.example/ > /dev/null 2>&1; echo $?", timeout=30).stdout
        assert code.strip() != "0"
    network = {"rules": rules, "allow_out": lambda context: list(context.rules), "deny_out": [ALL]}
    with Sandbox.create(network=network) as sandbox:
        assert values(sent(sandbox), "x-team")


def case_a_secret_goes_to_the_hosts_that_it_is_bound_to(world):
    bound, unbound = secret("rule-bound", hosts="other.example"), secret("rule-unbound")
    for name in (bound, unbound):
        error = expect.raises(SandboxException, Sandbox.create, network={"rules": {"web.example": rule(A=Secret.fill(name))}})
        assert name in str(error) and "web.example" in str(error) and "metadata" in str(error), error
    error = expect.raises(SandboxException, Sandbox.create, network={"rules": {"web.example": rule(A=Secret.fill("nobodys"))}})
    assert "nobodys" in str(error), error
    Secret.update(unbound, VALUE, metadata={"hosts": "web.example"})
    with Sandbox.create(network={"rules": {"web.example": rule(**{"X-Key": Secret.fill(unbound)})}}) as sandbox:
        assert values(sent(sandbox), "x-key")


def case_another_tenants_secret_is_none(world):
    name = secret("rule-of-e2b", hosts="web.example")
    network = {"rules": {"web.example": rule(A=Secret.fill(name))}}
    error = expect.raises(SandboxException, Sandbox.create, network=network, api_key=world.other_key)
    assert "there is no secret" in str(error), error


def masked(value):
    return ["*" * len(value)]


# Asks the host once for each line, on one connection, and prints what it got for the header.
ON_ONE_CONNECTION = """
import http.client, json, ssl, sys
connection = http.client.HTTPSConnection("web.example", timeout=20, context=ssl.create_default_context())
connection.connect()
connection.auto_open = 0
for line in sys.stdin:
    try:
        connection.request("GET", "/")
        got = json.loads(connection.getresponse().read())
        print(json.dumps([value for name, value in got if name == "x-key"]), flush=True)
    except Exception as error:
        print(json.dumps(type(error).__name__), flush=True)
"""


def case_rules_change_while_it_runs_on_open_connections_too(world):
    name, second = secret("rule-changes", hosts="web.example"), "sk-of-the-tenant-number-two"
    rules = {"web.example": rule(**{"X-Key": Secret.fill(name)})}
    with Sandbox.create(network={"rules": rules}) as sandbox:
        sandbox.files.write("/home/user/ask.py", ON_ONE_CONNECTION)
        asking = sandbox.commands.run("python3 ask.py", background=True, stdin=True, timeout=0)
        lines = (json.loads(line) for out, _, _ in asking for line in (out or "").splitlines())

        def ask():
            sandbox.commands.send_stdin(asking.pid, "once\n")
            return next(lines)

        assert ask() == masked(VALUE)
        # Another value under the same name: the rules are said again.
        Secret.update(name, second, metadata={"hosts": "web.example"})
        assert ask() == masked(VALUE), "a sandbox keeps the value that it was given"
        sandbox.update_network({"rules": rules})
        assert ask() == masked(second)
        # A rule more, and one with a value that is written out.
        both = {"web.example": rule(**{"X-Key": "written-out-and-long", "X-Team": "team-of-agents"})}
        sandbox.update_network({"rules": both, "deny_out": ["other.example"]})
        assert ask() == masked("written-out-and-long")
        assert values(sent(sandbox), "x-team") == masked("team-of-agents")
        assert "X-Team" in json.dumps(sandbox.get_info().network["rules"])
        # Rules that are left out are cleared. The gate has no business in that TLS any more, so that the connection ends.
        sandbox.update_network({})
        assert isinstance(ask(), str)
        got = sent(sandbox, options="-k -H 'X-Key: own'")
        assert values(got, "x-key") == ["own"] and not values(got, "x-team"), got
        asking.kill()
        sandbox.update_network({"rules": rules})
        assert values(sent(sandbox), "x-key") == masked(second)
        (child,) = sandbox.fork(timeout=60)
        assert not values(sent(child, options="-k"), "x-key"), "a fork has no rules"
        child.kill()
    kept = subprocess.run(["grep", "-rlsaF", "-e", VALUE, "-e", second, "-e", "written-out-and-long", world.server.directory],
                          capture_output=True, text=True, check=False)
    assert kept.stdout == "", f"a value is readable in {kept.stdout}"


def case_a_sandbox_without_rules_gets_some(world):
    rules = {"web.example": rule(**{"X-Key": "the-first-of-all"})}
    with Sandbox.create() as sandbox:
        before = sandbox.commands.run("echo up; sleep 100", background=True)
        assert next(iter(before))[0] == "up\n"
        assert not values(sent(sandbox, options="-k"), "x-key")
        sandbox.pause()
        error = expect.raises(SandboxException, sandbox.update_network, {"rules": rules})
        assert "resume it first" in str(error), error
        sandbox.connect()
        sandbox.update_network({"rules": rules})
        # Commands that begin now trust the gate.
        assert values(sent(sandbox), "x-key") == masked("the-first-of-all")
        before.kill()


def case_rules_that_two_set_at_a_time_are_those_of_the_last(world):
    """What is told of the rules and what the gate has are of one change: none that was cleared stays at the gate."""
    rules = {"web.example": rule(**{"X-Key": "of-one-of-the-two"})}
    with Sandbox.create() as sandbox, ThreadPoolExecutor() as both:
        for _ in range(25):
            list(both.map(sandbox.update_network, ({"rules": rules}, {})))
            told = (sandbox.get_info().network or {}).get("rules")
            kept = world.server.owner("server", f"/v1/sandboxes/{sandbox.sandbox_id}").get("secrets")
            assert bool(told) == bool(kept), (told, kept)
            sandbox.update_network({})


def case_rules_that_were_changed_are_kept_asleep(world):
    with Sandbox.create(network={"rules": {"web.example": rule(**{"X-Key": "of-the-beginning"})}}) as sandbox:
        sandbox.update_network({"rules": {"web.example": rule(**{"X-Key": "of-the-day"})}})
        sandbox.pause(mode="filesystem")
        sandbox.connect()
        assert values(sent(sandbox), "x-key") == masked("of-the-day")
        sandbox.pause(mode="filesystem")
        sandbox.update_network({"rules": {"web.example": rule(**{"X-Key": "of-the-night-long"})}})
        sandbox.connect()
        assert values(sent(sandbox), "x-key") == masked("of-the-night-long")


def case_rules_that_were_changed_outlive_the_server(world):
    with another_server(world) as (server, variables):
        shutil.copytree(os.path.join(world.server.directory, "state", "net"), os.path.join(server.directory, "state", "net"),
                        dirs_exist_ok=True)
        key = variables["E2B_API_KEY"]
        at = lambda: {"api_key": key, "api_url": address(server), "sandbox_url": address(server)}
        sandbox = Sandbox.create(network={"rules": {"web.example": rule(**{"X-Key": "of-the-beginning"})}}, **at())
        sandbox.update_network({"rules": {"web.example": rule(**{"X-Key": "of-the-day"})}})
        server.process.kill()
        server.process.wait()
        server.start()
        again = Sandbox.connect(sandbox.sandbox_id, **at())
        assert values(sent(again), "x-key") == masked("of-the-day")
        again.update_network({})
        assert not values(sent(again, options="-k"), "x-key")
        again.kill()


def address(server):
    return server.owner("server", "/v1/server")["addresses"][0]


def case_a_template_of_the_owners_keeps_its_own_secrets(world):
    settings = os.path.join(world.server.directory, "own-secret.toml")
    with open(settings, "w") as file:
        file.write('[secrets.OWN]\nvalue = "of-the-owner-of-all"\nhosts = ["web.example"]\ninject = { x-own = "{}" }\n')
    world.server.run("template", "add", "own-secret", "--policy", settings)
    os.remove(settings)
    with Sandbox.create("own-secret", network={"rules": {"web.example": rule(**{"X-Key": "of-the-tenant"})}}) as sandbox:
        for wanted in ({}, {"rules": {"web.example": rule(**{"X-Key": "another-one"})}}):
            sandbox.update_network(wanted)
            assert values(sent(sandbox), "x-own") == masked("of-the-owner-of-all")


def case_what_the_gate_cannot_set_is_refused(world):
    before = world.sandbox.get_info().network
    for rules, word in (
        ({"web.example": rule(Host="other.example")}, "host"),
        ({"web.example": rule(**{"Content-Length": "12345678"})}, "content-length"),
        ({"web.example": rule(A="short")}, "8 characters"),
        ({"web.example": rule(A="Bearer ${e2b.identity.tokens.aws}")}, "workload"),
        ({"93.184.216.34": rule(A="long-enough")}, "93.184.216.34"),
        ({"web.example": rule(A="line\r\nHost: other.example")}, "printable"),
    ):
        error = expect.raises(SandboxException, Sandbox.create, network={"rules": rules})
        assert word in str(error), (word, error)
        error = expect.raises(SandboxException, world.sandbox.update_network, {"rules": rules})
        assert word in str(error), (word, error)
    assert world.sandbox.get_info().network == before, "a change that is refused changes nothing"


async def case_rules_of_the_other_flavour(world):
    rules = {"web.example": rule(**{"X-Team": "team-of-agents"})}
    sandbox = await AsyncSandbox.create(network={"rules": rules})
    try:
        got = json.loads((await sandbox.commands.run("curl -sS -m 20 https://web.example/", timeout=40)).stdout)
        assert values(got, "x-team") == ["*" * len("team-of-agents")], got
        await sandbox.update_network({"rules": {"web.example": rule(**{"X-Team": "team-of-others"})}})
        await sandbox.update_network({"rules": {"web.example": rule(**{"X-Team": "another-team"})}})
        got = json.loads((await sandbox.commands.run("curl -sS -m 20 https://web.example/", timeout=40)).stdout)
        assert values(got, "x-team") == masked("another-team"), got
    finally:
        await sandbox.kill()
