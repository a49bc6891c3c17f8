"""Headers that rules set in requests to a host: their values are at the gate and never inside."""
import json

import pytest_like as expect
from e2b import AsyncSandbox, Sandbox, SandboxException, Secret

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


def case_rules_stay_as_they_are(world):
    name = secret("rule-stays", hosts="web.example")
    rules = {"web.example": rule(Authorization=f"Bearer {Secret.fill(name)}")}
    with Sandbox.create(network={"rules": rules}) as sandbox:
        for other in ({}, {"rules": {}}, {"rules": {"web.example": rule(Authorization="Bearer another-one")}}):
            error = expect.raises(SandboxException, sandbox.update_network, other)
            assert "rules" in str(error), error
        sandbox.update_network({"rules": rules, "deny_out": ["other.example"]})
        assert values(sent(sandbox), "authorization")
        (child,) = sandbox.fork(timeout=60)
        assert not values(sent(child, options="-k"), "authorization"), "a fork has no rules"
        child.kill()
    error = expect.raises(SandboxException, world.sandbox.update_network, {"rules": rules})
    assert "rules" in str(error), error


def case_what_the_gate_cannot_set_is_refused(world):
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


async def case_rules_of_the_other_flavour(world):
    rules = {"web.example": rule(**{"X-Team": "team-of-agents"})}
    sandbox = await AsyncSandbox.create(network={"rules": rules})
    try:
        got = json.loads((await sandbox.commands.run("curl -sS -m 20 https://web.example/", timeout=40)).stdout)
        assert values(got, "x-team") == ["*" * len("team-of-agents")], got
    finally:
        await sandbox.kill()
