"""Commands and terminals with the Python SDK, as programs that wait use it."""
import time

import pytest_like as expect
from e2b import (
    CommandExitException, InvalidArgumentException, NotFoundException, PtySize, Sandbox, SandboxException, TimeoutException,
)
from pytest_like import read_until


def case_output_and_code_of_a_command(world):
    result = world.sandbox.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code, result.error) == ("out\n", "err\n", 0, None)


def case_a_command_that_fails_raises_with_its_output(world):
    error = expect.raises(CommandExitException, world.sandbox.commands.run, "echo some; echo more >&2; exit 7")
    assert (error.exit_code, error.stdout, error.stderr, error.error) == (7, "some\n", "more\n", "exit status 7")


def case_output_comes_as_it_is_printed(world):
    """The command waits for what the reader of its first line does."""
    seen = []

    def first(text):
        seen.append(text)
        world.sandbox.files.write("/tmp/first-was-read", "")

    world.sandbox.commands.run(
        "echo one; while [ ! -e /tmp/first-was-read ]; do sleep 0.01; done; echo two >&2", on_stdout=first, on_stderr=seen.append)
    assert seen == ["one\n", "two\n"]


def case_text_of_other_scripts_comes_whole(world):
    assert world.sandbox.commands.run("printf 'gr\\303\\274n \\360\\237\\230\\200'").stdout == "grün 😀"


def case_large_output_comes_whole(world):
    result = world.sandbox.commands.run("seq 1 400000")
    lines = result.stdout.split()
    assert len(lines) == 400000 and lines[-1] == "400000"


def case_variables_directory_and_user(world):
    run = world.sandbox.commands.run
    assert run("echo $A-$B", envs={"A": "1", "B": "x y"}).stdout == "1-x y\n"
    assert run("pwd").stdout == "/home/user\n"
    assert run("pwd", cwd="/tmp").stdout == "/tmp\n"
    assert run("echo $HOME $USER $LOGNAME").stdout == "/home/user user user\n"
    assert run("id -u").stdout == "1000\n"
    assert run("id -u; echo $HOME $USER; pwd", user="root").stdout == "0\n/root root\n/root\n"
    assert run("id -u", user="user").stdout == "1000\n"


def case_a_directory_that_is_not_there_is_refused(world):
    expect.raises(InvalidArgumentException, world.sandbox.commands.run, "true", cwd="/no/such/place")
    expect.raises(InvalidArgumentException, world.sandbox.commands.run, "true", cwd="/etc/hostname")


def case_a_user_that_is_not_there_is_an_error(world):
    expect.raises(SandboxException, world.sandbox.commands.run, "true", user="nobody-knows")


def case_too_long_is_a_timeout(world):
    began = time.monotonic()
    error = expect.raises(TimeoutException, world.sandbox.commands.run, "echo a; sleep 30", timeout=1)
    assert time.monotonic() - began < 10
    assert "timeout" in str(error)
    # The client's clock may be ahead of the guest's by a moment.
    while any("sleep 30" in " ".join(one.args) for one in world.sandbox.commands.list()):
        assert time.monotonic() - began < 10, "it is killed"
        time.sleep(0.05)


def case_background_list_connect_and_kill(world):
    commands = world.sandbox.commands
    handle = commands.run("sleep 60", background=True, envs={"MARK": "1"}, cwd="/tmp", timeout=0)
    listed = {one.pid: one for one in commands.list()}
    assert handle.pid in listed
    one = listed[handle.pid]
    assert one.cmd == "/bin/bash" and one.args == ["-l", "-c", "sleep 60"]
    assert one.envs == {"MARK": "1"} and one.cwd == "/tmp"
    again = commands.connect(handle.pid)
    assert again.pid == handle.pid
    assert commands.kill(handle.pid) is True
    error = expect.raises(CommandExitException, again.wait)
    assert error.exit_code != 0 and "killed" in (error.error or "")
    assert commands.kill(handle.pid) is False
    assert handle.pid not in {one.pid for one in commands.list()}
    expect.raises(NotFoundException, commands.connect, handle.pid)


def case_a_reader_that_goes_away_ends_nothing(world):
    commands = world.sandbox.commands
    handle = commands.run("sleep 0.5; echo survived > /tmp/survived", background=True)
    handle.disconnect()
    assert expect.until(lambda: commands.run("cat /tmp/survived || true").stdout, bool) == "survived\n"


def case_connect_reads_along_from_then_on(world):
    commands = world.sandbox.commands
    handle = commands.run("echo before; read line; echo after", background=True, stdin=True)
    assert next(iter(handle))[0] == "before\n"
    again = commands.connect(handle.pid)
    handle.send_stdin("\n")
    assert again.wait().stdout == "after\n"


def case_input_goes_in_and_is_closed(world):
    commands = world.sandbox.commands
    handle = commands.run("cat; echo end", background=True, stdin=True)
    commands.send_stdin(handle.pid, "one\n")
    handle.send_stdin("two\n")
    handle.close_stdin()
    assert handle.wait().stdout == "one\ntwo\nend\n"
    expect.raises(NotFoundException, commands.send_stdin, handle.pid, "late")


def case_much_input_goes_in_whole(world):
    handle = world.sandbox.commands.run("wc -c", background=True, stdin=True)
    handle.send_stdin("x" * 3_000_000)
    handle.close_stdin()
    assert handle.wait().stdout.strip() == "3000000"


def case_without_input_a_command_reads_nothing(world):
    assert world.sandbox.commands.run("cat; echo end").stdout == "end\n"


def case_many_commands_at_once(world):
    handles = [world.sandbox.commands.run(f"sleep 0.2; echo {n}", background=True) for n in range(20)]
    assert [handle.wait().stdout for handle in handles] == [f"{n}\n" for n in range(20)]


def case_a_terminal_has_a_size_that_changes(world):
    pty = world.sandbox.pty
    handle = pty.create(size=PtySize(rows=30, cols=100), cwd="/tmp", envs={"MARK": "m1"})
    pty.send_stdin(handle.pid, b"stty size; echo =$MARK=$TERM=$(pwd)=\n")
    assert "30 100" in read_until(handle, b"=m1=xterm-256color=/tmp=").decode()
    pty.resize(handle.pid, PtySize(rows=40, cols=120))
    pty.send_stdin(handle.pid, b"stty size; exit\n")
    read_until(handle, b"40 120")


def case_a_terminal_is_killed(world):
    handle = world.sandbox.pty.create(size=PtySize(rows=24, cols=80))
    assert world.sandbox.pty.kill(handle.pid) is True
    expect.raises(CommandExitException, handle.wait)


def case_the_network_is_a_setting(world):
    with Sandbox.create(allow_internet_access=False) as sandbox:
        error = expect.raises(CommandExitException, sandbox.commands.run, "curl -sSf -m 5 http://1.1.1.1/")
        assert error.exit_code != 0
        sandbox.update_network({"allow_out": ["example.com"], "deny_out": ["0.0.0.0/0"]})
        sandbox.update_network({})


def case_git_helpers_run(world):
    git = world.sandbox.git
    git.init("/tmp/repository")
    world.sandbox.files.write("/tmp/repository/a.txt", "a")
    git.configure_user("Ann", "ann@example.com", scope="local", path="/tmp/repository")
    git.add("/tmp/repository")
    git.commit("/tmp/repository", "first")
    assert git.status("/tmp/repository").is_clean
