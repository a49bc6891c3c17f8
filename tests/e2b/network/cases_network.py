"""The way out of a sandbox, with the Python SDK: names and addresses that are allowed and denied, also while it runs."""
import pytest_like as expect
from e2b import AsyncSandbox, CommandExitException, Sandbox, SandboxException
from outside_world import INSIDE, OUTSIDE

ALL = "0.0.0.0/0"


def reaches(sandbox, host):
    try:
        return sandbox.commands.run(f"curl -sSf -m 10 http://{host}/", timeout=30).stdout == f"{host}\n"
    except CommandExitException:
        return False


def case_everything_public_is_open_unless_it_is_said(world):
    assert reaches(world.sandbox, "web.example") and reaches(world.sandbox, OUTSIDE)


def case_what_is_not_public_stays_closed(world):
    """The host itself, its loopback and metadata services, whatever a sandbox asks for."""
    with Sandbox.create(network={"allow_out": ["127.0.0.1", INSIDE, "169.254.169.254", "10.0.0.0/8"], "deny_out": [ALL]}) as sandbox:
        port = world.url.rsplit(":", 1)[1]
        for host in (f"127.0.0.1:{port}", f"{INSIDE}:{port}", "169.254.169.254"):
            assert not reaches(sandbox, host), host


def case_closed(world):
    with Sandbox.create(allow_internet_access=False) as sandbox:
        assert not reaches(sandbox, "web.example") and not reaches(sandbox, OUTSIDE)


def case_one_name_is_allowed(world):
    with Sandbox.create(network={"allow_out": ["web.example"], "deny_out": [ALL]}) as sandbox:
        assert reaches(sandbox, "web.example")
        assert not reaches(sandbox, "other.example") and not reaches(sandbox, OUTSIDE)


def case_one_address_is_allowed(world):
    with Sandbox.create(network={"allow_out": [f"{OUTSIDE}/32"], "deny_out": [ALL]}) as sandbox:
        assert reaches(sandbox, OUTSIDE)


def case_an_allowed_address_is_an_exception_from_a_denied_block(world):
    block = "93.184.216.0/24"
    with Sandbox.create(network={"allow_out": [OUTSIDE], "deny_out": [block]}) as sandbox:
        assert reaches(sandbox, OUTSIDE) and reaches(sandbox, "web.example")
        sandbox.update_network({"allow_out": ["93.184.216.0/27"], "deny_out": [block]})
        assert not reaches(sandbox, OUTSIDE), "another part of the block is allowed"
        sandbox.update_network({"allow_out": ["93.184.216.32/28"], "deny_out": [block, "other.example"]})
        assert reaches(sandbox, "web.example") and not reaches(sandbox, "other.example")
        sandbox.update_network({"allow_out": ["93.184.0.0/16"], "deny_out": [block]})
        assert reaches(sandbox, OUTSIDE), "the exception is larger than the block"


def case_the_selectors_of_the_sdk_are_resolved(world):
    with Sandbox.create(network={"allow_out": ["web.example"], "deny_out": lambda context: [context.all_traffic]}) as sandbox:
        assert reaches(sandbox, "web.example") and not reaches(sandbox, "other.example")


def case_an_address_and_a_block_are_denied(world):
    for rule in (OUTSIDE, "93.184.216.0/24"):
        with Sandbox.create(network={"deny_out": [rule]}) as sandbox:
            assert not reaches(sandbox, OUTSIDE) and not reaches(sandbox, "web.example"), rule


def case_rules_change_while_it_runs(world):
    with Sandbox.create() as sandbox:
        assert reaches(sandbox, "web.example")
        sandbox.update_network({"deny_out": [ALL]})
        assert not reaches(sandbox, "web.example")
        sandbox.update_network({"allow_out": ["other.example"], "deny_out": [ALL]})
        assert reaches(sandbox, "other.example") and not reaches(sandbox, "web.example")
        Sandbox.update_network(sandbox.sandbox_id, {})
        assert reaches(sandbox, "web.example")
        sandbox.update_network({"allow_internet_access": False})
        assert not reaches(sandbox, "web.example")


def case_a_closed_sandbox_is_opened(world):
    with Sandbox.create(allow_internet_access=False) as sandbox:
        assert not reaches(sandbox, "web.example")
        sandbox.update_network({"allow_internet_access": True})
        assert reaches(sandbox, "web.example")


def case_a_connection_that_new_rules_forbid_is_cut(world):
    with Sandbox.create() as sandbox:
        handle = sandbox.commands.run("curl -sSN http://web.example/slow", background=True, timeout=30)
        assert next(iter(handle))[0] == "begun\n"
        sandbox.update_network({"deny_out": [ALL]})
        error = expect.raises(CommandExitException, handle.wait)
        assert error.exit_code != 0


def case_forks_have_the_rules_of_their_source(world):
    with Sandbox.create(network={"allow_out": ["web.example"], "deny_out": [ALL]}) as sandbox:
        (child,) = sandbox.fork(timeout=60)
        assert reaches(child, "web.example") and not reaches(child, "other.example")
        child.kill()


def case_rules_that_are_none_are_refused(world):
    for network in (
        {"deny_out": ["not an address!"]}, {"allow_out": [""], "deny_out": [ALL]}, {"deny_out": ["1.2.3.4/99"]},
        {"allow_out": ["web.example"], "deny_out": ["93.0.0.0/8"]}, {"allow_out": ["web.example"]},
    ):
        expect.raises(SandboxException, Sandbox.create, network=network)
        expect.raises(SandboxException, world.sandbox.update_network, network)
    assert reaches(world.sandbox, "web.example"), "a change that is refused changes nothing"


async def case_rules_of_the_other_flavour(world):
    sandbox = await AsyncSandbox.create(network={"allow_out": ["web.example"], "deny_out": [ALL]})
    try:
        assert (await sandbox.commands.run("curl -sSf -m 10 http://web.example/")).stdout == "web.example\n"
        await sandbox.update_network({"deny_out": [ALL]})
        await expect.raises_later(CommandExitException, sandbox.commands.run("curl -sSf -m 10 http://web.example/"))
    finally:
        await sandbox.kill()
