"""E2B's user becomes root by `sudo`, where the template and the server let it."""
import contextlib
import os
import tempfile

import pytest_like as expect
from e2b import CommandExitException, Sandbox
from pytest_like import Skip
from world import another_server

BASE = 'become_root = true\nroot_may_install = true\n'


def options_of(variables):
    return {"api_key": variables["E2B_API_KEY"], "api_url": variables["E2B_API_URL"], "sandbox_url": variables["E2B_SANDBOX_URL"]}


def add_base(server):
    place = os.path.join(server.directory, "base.toml")
    with open(place, "w") as file:
        file.write(BASE)
    server.run("template", "add", "base", "--policy", place)


def case_sudo_makes_the_user_root_where_the_template_says_so(world):
    if os.geteuid() != 0:
        raise Skip("e2b-root: an ordinary user has too few ids for a user who becomes root")
    with another_server(world) as (server, variables):
        add_base(server)
        with Sandbox.create(timeout=60, **options_of(variables)) as sandbox:
            run = sandbox.commands.run
            assert run("sudo whoami").stdout == "root\n"
            assert run("id -u; sudo -n -E id -u").stdout == "1000\n0\n"
            assert run("echo line | sudo tee /etc/of-root; cat /etc/of-root; stat -c %U /etc/of-root").stdout == "line\nline\nroot\n"
            assert run("sudo sh -c 'touch /tmp/given && chown 7:8 /tmp/given'; stat -c %u:%g /tmp/given").stdout == "7:8\n"
            failed = expect.raises(CommandExitException, run, "sudo sh -c 'echo why >&2; exit 3'")
            assert (failed.exit_code, failed.stderr) == (3, "why\n")
            assert run("sudo id -u", envs={"A": "b"}, cwd="/tmp").stdout == "0\n"


def case_without_the_servers_leave_the_same_template_has_no_sudo(world):
    if os.geteuid() != 0:
        raise Skip("e2b-root: an ordinary user has too few ids for a user who becomes root")
    with another_server(world, "--root-may-install", "nobody") as (server, variables):
        add_base(server)
        with Sandbox.create(timeout=60, **options_of(variables)) as sandbox:
            assert sandbox.commands.run("id -u; test ! -e /dev/become-root && echo none").stdout == "1000\nnone\n"


# A template whose image has a `sudo` of its own, as that of `base` has.
NAME = "code-interpreter-v1"
BUILD = """
base = "IMAGE"
run = ['''
mkdir -p /usr/local/bin /home/user && printf '#!/bin/sh\\necho the-one-of-the-image\\n' > /usr/local/bin/sudo && chmod 755 /usr/local/bin/sudo
echo user:x:1000:1000::/home/user:/bin/sh >> /etc/passwd && echo user:x:1000: >> /etc/group && chown 1000:1000 /home/user
''']
[template]
user = "user"
cwd = "/home/user"
root_may_install = true
become_root = true
"""


@contextlib.contextmanager
def sandbox_of_an_image_with_sudo(world, *options):
    if os.geteuid() != 0:
        raise Skip("e2b-root: an ordinary user has too few ids for a user who becomes root")
    if not world.image:
        raise Skip("e2b-templates: the host has no static busybox for an image")
    with tempfile.TemporaryDirectory(prefix="paddock-e2b-files-") as place:
        with open(os.path.join(place, f"{NAME}.toml"), "w") as file:
            file.write(BUILD.replace("IMAGE", world.image))
        chosen = ["--build-on-first-use", NAME, "--build-files", place, "--build-wait", "100s", *options]
        with another_server(world, *chosen) as (_, variables):
            with Sandbox.create(NAME, timeout=60, request_timeout=110, **options_of(variables)) as sandbox:
                yield sandbox


def case_sudo_stands_over_the_one_of_the_image(world):
    with sandbox_of_an_image_with_sudo(world) as sandbox:
        run = sandbox.commands.run
        assert run("sudo id -u; id -u").stdout == "0\n1000\n"
        assert run("grep -c the-one-of-the-image /usr/local/bin/sudo || true").stdout == "0\n"
        assert run("sudo touch /usr/local/bin/beside && stat -c %U /usr/local/bin/beside").stdout == "root\n"
        refused = expect.raises(CommandExitException, run, "sudo sh -c 'echo x > /usr/local/bin/sudo'")
        assert "Read-only" in refused.stderr or "busy" in refused.stderr, refused.stderr


def case_without_the_servers_leave_the_one_of_the_image_is_seen(world):
    with sandbox_of_an_image_with_sudo(world, "--root-may-install", "nobody") as sandbox:
        assert sandbox.commands.run("sudo id -u; id -u").stdout == "the-one-of-the-image\n1000\n"


def case_copies_have_sudo_as_their_source(world):
    if os.geteuid() != 0:
        raise Skip("e2b-root: an ordinary user has too few ids for a user who becomes root")
    # Under `owner` a tenant may not ask for it, and the owner's template gives it.
    for options in ((), ("--root-may-install", "owner")):
        with another_server(world, *options) as (server, variables):
            add_base(server)
            with Sandbox.create(timeout=60, **options_of(variables)) as sandbox:
                sandbox.commands.run("echo kept | sudo tee /root/note")
                snapshot = sandbox.create_snapshot().snapshot_id
                (child,) = sandbox.fork(timeout=60)
                with Sandbox.create(snapshot, timeout=60, **options_of(variables)) as copy:
                    for one in (child, copy):
                        assert one.commands.run("sudo cat /root/note; sudo sh -c 'chown 7:8 /root/note && id -un'").stdout == "kept\nroot\n"


def case_a_snapshot_gives_no_right_that_the_server_does_not_give_any_more(world):
    if os.geteuid() != 0:
        raise Skip("e2b-root: an ordinary user has too few ids for a user who becomes root")
    with another_server(world) as (server, variables):
        add_base(server)
        with Sandbox.create(timeout=60, **options_of(variables)) as sandbox:
            sandbox.commands.run("echo kept > /tmp/note; sudo true")
            snapshot = sandbox.create_snapshot().snapshot_id
        look = "cat /tmp/note; id -u; test ! -e /dev/become-root && echo none"
        # The owner forbids it; or leaves it to templates of the owner's, of which none gives it any more.
        for says in ("nobody", "owner"):
            variables = served_again(server, "--root-may-install", says)
            with Sandbox.create(snapshot, timeout=60, **options_of(variables)) as copy:
                assert copy.commands.run(look).stdout == "kept\n1000\nnone\n", says
            if says == "nobody":
                server.run("template", "rm", "base")


def served_again(server, *options):
    """The server anew with other options; the variables of a client of it."""
    server.process.terminate()
    server.process.wait(60)
    server.options = options
    server.start()
    return server.variables("--tenant", "e2b")
