"""What a fork, and a sandbox from a snapshot, has of its source: user, home, directory, variables, limits, rights, and what is told of it."""
import os
import time

import pytest_like as expect
from cases_ports import DOMAIN, by_name, options, served
from cases_sleep import RESUME, until_paused
from e2b import Sandbox, SandboxException, Template
from pytest_like import Skip
from template_builds import built, name
from world import another_server

POLICY = """
user = "root"
cwd = "/tmp"
hostname = "kept"
env = { FLAVOUR = "sour", PATH = "/opt/own:/usr/bin:/bin" }
limits = { memory = "300MiB", pids = "77" }
"""
LOOK = "id -un; pwd; uname -n; echo $HOME $USER $LOGNAME $FLAVOUR $PATH; ulimit -n"


def look(sandbox):
    """What commands and files see, and the limits."""
    info = sandbox.get_info()
    seen = sandbox.commands.run(LOOK).stdout, sandbox.files.read("~/note"), sandbox.files.read("note")
    return *seen, sandbox.files.get_info("~/note").path, info.cpu_count, info.memory_mb


def copies_are_as_their_source(template, memory_mb):
    """Makes a sandbox of the template, and compares copies of it in both ways, and copies of these."""
    with Sandbox.create(template, timeout=300, envs={"OF_CALLER": "hush"}, metadata={"flavour": "a"}) as source:
        source.files.write("~/note", "kept")
        before = look(source)
        assert before[-1] == memory_mb and before[1] == before[2] == "kept", before
        snapshot = source.create_snapshot().snapshot_id
        (child,) = source.fork(timeout=300)
        made = [child]
        try:
            assert look(child) == before
            info = child.get_info()
            assert info.template_id == source.get_info().template_id and info.metadata == {"flavour": "a"}, info
            assert child.commands.run("echo $OF_CALLER").stdout == "hush\n", "a fork has the variables that its source was given"
            copy = Sandbox.create(snapshot, timeout=300)
            made.append(copy)
            assert look(copy) == before
            assert copy.get_info().template_id == snapshot, "a snapshot is a template of its own"
            assert copy.commands.run("echo [$OF_CALLER]").stdout == "[]\n", "values of a caller are not kept"
            # What a request says holds.
            other = Sandbox.create(snapshot, timeout=300, envs={"FLAVOUR": "sweet"})
            made.append(other)
            assert other.commands.run("echo $FLAVOUR").stdout == "sweet\n"
            again = copy.create_snapshot().snapshot_id
            made += copy.fork(timeout=300)
            assert look(made[-1]) == before
            made.append(Sandbox.create(again, timeout=300))
            assert look(made[-1]) == before, "copies of copies are the same"
            for one in (snapshot, again):
                assert Sandbox.delete_snapshot(one) is True
        finally:
            for one in made:
                one.kill()


def case_copies_of_a_template_that_names_a_user(world):
    template = name("kept")
    place = os.path.join(world.server.directory, f"{template}.toml")
    with open(place, "w") as file:
        file.write(POLICY)
    world.server.run("template", "add", template, "--policy", place)
    copies_are_as_their_source(template, 300)


def case_copies_of_a_template_with_an_image(world):
    if not world.image:
        raise Skip("e2b-templates: the host has no static busybox for an image")
    template = (Template().from_image(world.image).set_envs({"FLAVOUR": "sour", "PATH": "/opt/own:/usr/bin:/bin"})
                .set_workdir("/app"))
    info, _ = built(world, template, cpu_count=1, memory_mb=384)
    copies_are_as_their_source(info.name, 384)


def case_copies_of_the_default(world):
    with Sandbox.create(timeout=300) as source:
        source.files.write("~/note", "kept")
        before = look(source)
        snapshot = source.create_snapshot().snapshot_id
        (child,) = source.fork(timeout=300)
        with Sandbox.create(snapshot, timeout=300) as copy:
            assert look(copy) == look(child) == before
        assert child.get_info().template_id == "base"
        child.kill()
        Sandbox.delete_snapshot(snapshot)


def case_a_fork_resumes_by_itself_as_its_source_does(world):
    with Sandbox.create(timeout=600, lifecycle=RESUME) as source:
        (child,) = source.fork(timeout=300)
        lifecycle = child.get_info().lifecycle
        assert lifecycle["on_timeout"] == "pause" and lifecycle["auto_resume"] is True, lifecycle
        child.set_timeout(1)
        until_paused(child)
        assert child.commands.run("echo back").stdout == "back\n"
        left = child.get_info().end_at.timestamp() - time.time()
        assert 200 < left <= 301, f"its own time begins anew, and not that of its source: {left}"
        child.kill()
    with Sandbox.create(timeout=600) as source:
        (child,) = source.fork(timeout=300)
        assert child.get_info().lifecycle["auto_resume"] is False
        child.pause()
        expect.raises(SandboxException, child.commands.run, "true")
        child.kill()


def case_a_fork_tells_the_network_of_its_source(world):
    network = {"deny_out": ["9.9.9.9"], "mask_request_host": "app.example"}
    with Sandbox.create(network=network) as source:
        (child,) = source.fork(timeout=60)
        told = child.get_info().network
        assert told["deny_out"] == ["9.9.9.9"] and told["mask_request_host"] == "app.example", told
        child.kill()
    with Sandbox.create(allow_internet_access=False) as source:
        (child,) = source.fork(timeout=60)
        assert child.get_info().allow_internet_access is False
        child.kill()


def case_ports_of_a_fork_are_public_for_the_key_that_forks(world):
    with another_server(world, "--domain", DOMAIN, "--public-ports") as (server, first):
        newest = max(server.owner("tokens", "/v1/tokens")["tokens"], key=lambda token: token["created_at_ms"])
        second = server.variables("--tenant", "e2b")
        source = Sandbox.create(timeout=300, **options(first))
        served(source)
        (child,) = Sandbox.fork(source.sandbox_id, timeout=300, **options(second))
        served(child)
        for one in (source, child):
            assert by_name(second, one.get_host(3000)) == (200, b"served\n")
        private = Sandbox.create(timeout=300, network={"allow_public_traffic": False}, **options(first))
        (of_private,) = Sandbox.fork(private.sandbox_id, timeout=300, **options(second))
        served(of_private)
        assert by_name(second, of_private.get_host(3000))[0] == 401
        # The token of the source's maker opens nothing of the fork.
        server.run("token", "revoke", newest["id"])
        assert by_name(second, source.get_host(3000))[0] == 401
        assert by_name(second, child.get_host(3000)) == (200, b"served\n")
        (late,) = Sandbox.fork(source.sandbox_id, timeout=300, **options(second))
        served(late)
        assert by_name(second, late.get_host(3000))[0] == 401, "the ports of its source are not public any more"
