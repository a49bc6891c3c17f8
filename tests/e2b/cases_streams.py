"""Streams of commands and terminals with the Python SDK: readers that come and go, input, ends, and processes that are not there."""
import pytest_like as expect
from e2b import CommandExitException, NotFoundException, PtySize, Sandbox, SandboxException, TimeoutException
from pytest_like import read_until

NO_SUCH_PID = 4_000_000


def case_output_is_iterated_as_it_comes(world):
    handle = world.sandbox.commands.run("echo one; read line; echo $line >&2", background=True, stdin=True)
    pieces = iter(handle)
    assert next(pieces) == ("one\n", None, None)
    handle.send_stdin("two\n")
    assert next(pieces) == (None, "two\n", None)
    assert list(pieces) == []


def case_callbacks_get_each_stream_apart(world):
    out, err = [], []
    result = world.sandbox.commands.run(
        "for n in 1 2 3; do echo o$n; echo e$n >&2; done", on_stdout=out.append, on_stderr=err.append)
    assert "".join(out) == result.stdout == "o1\no2\no3\n"
    assert "".join(err) == result.stderr == "e1\ne2\ne3\n"


def case_output_need_not_be_kept(world):
    seen = []
    result = world.sandbox.commands.run("echo passing", on_stdout=seen.append, retain_output=False)
    assert (result.stdout, result.stderr, result.exit_code) == (None, None, 0) and seen == ["passing\n"]


def case_bytes_that_are_no_text_are_replaced(world):
    assert world.sandbox.commands.run("printf 'a\\377b\\000c'").stdout == "a\ufffdb\0c"


def case_a_letter_in_two_pieces_is_one_letter(world):
    handle = world.sandbox.commands.run("printf '\\303'; read line; printf '\\274'", background=True, stdin=True)
    handle.send_stdin("\n")
    assert handle.wait().stdout == "ü"


def case_errors_in_bulk_come_whole(world):
    result = world.sandbox.commands.run("seq 1 100000 >&2")
    assert result.stdout == "" and result.stderr.endswith("\n100000\n") and result.stderr.count("\n") == 100000


def case_a_line_without_an_end_comes_too(world):
    assert world.sandbox.commands.run("printf 'no newline'").stdout == "no newline"


def case_a_program_that_is_not_there_is_127(world):
    error = expect.raises(CommandExitException, world.sandbox.commands.run, "no-such-program-here")
    assert error.exit_code == 127 and "no-such-program-here" in error.stderr


def case_a_signal_is_told_as_one(world):
    error = expect.raises(CommandExitException, world.sandbox.commands.run, "kill -9 $$")
    assert error.exit_code != 0 and "killed" in error.error, error.error
    error = expect.raises(CommandExitException, world.sandbox.commands.run, "sh -c 'kill -15 $$'; exit $?")
    assert (error.exit_code, error.error) == (143, "exit status 143")


def case_quotes_newlines_and_other_scripts_reach_the_shell(world):
    run = world.sandbox.commands.run
    assert run("echo \"a 'b'\" 'c \"d\"'\necho grün").stdout == "a 'b' c \"d\"\ngrün\n"
    assert run("cat <<'END'\n$HOME `x`\nEND").stdout == "$HOME `x`\n"


def case_a_long_command_line_and_many_variables(world):
    run = world.sandbox.commands.run
    assert run(f": {'x' * 100_000}; echo done").stdout == "done\n"
    many = {f"V{n}": str(n) for n in range(300)}
    assert run("env | grep -c '^V[0-9]'", envs=many).stdout == "300\n"
    assert run("printf %s \"$A\"", envs={"A": "line 1\nline 2 = \"x\""}).stdout == "line 1\nline 2 = \"x\""


def case_variables_of_a_command_win_and_stay_its_own(world):
    with Sandbox.create(envs={"A": "sandbox", "B": "both"}) as sandbox:
        assert sandbox.commands.run("echo $A $B", envs={"A": "command"}).stdout == "command both\n"
        assert sandbox.commands.run("echo $A").stdout == "sandbox\n"
        handle = sandbox.pty.create(size=PtySize(rows=24, cols=80))
        seen = bytearray()
        sandbox.pty.send_stdin(handle.pid, b"echo =$A$B=; exit\n")
        handle.wait(on_pty=seen.extend)
        assert b"=sandboxboth=" in seen, seen


def case_no_time_limit_is_zero(world):
    handle = world.sandbox.commands.run("read line; echo $line", background=True, stdin=True, timeout=0)
    handle.send_stdin("late\n")
    assert handle.wait().stdout == "late\n"


def case_a_time_limit_holds_in_the_background(world):
    handle = world.sandbox.commands.run("echo begun; sleep 60", background=True, timeout=1)
    expect.raises(TimeoutException, handle.wait)
    # The client's clock may be ahead of the guest's by a moment.
    listed = expect.until(lambda: {one.pid for one in world.sandbox.commands.list()}, lambda pids: handle.pid not in pids)
    assert handle.pid not in listed


def case_a_reader_has_a_time_limit_of_its_own(world):
    commands = world.sandbox.commands
    handle = commands.run("read line; echo $line", background=True, stdin=True, timeout=0)
    expect.raises(TimeoutException, commands.connect(handle.pid, timeout=1).wait)
    # Reading along ends nothing: its limit is not the command's.
    handle.send_stdin("alive\n")
    assert handle.wait().stdout == "alive\n"


def case_two_readers_see_the_same(world):
    commands = world.sandbox.commands
    first = commands.run("read line; echo out; echo err >&2; exit 5", background=True, stdin=True)
    second = commands.connect(first.pid)
    first.send_stdin("\n")
    for reader in (first, second):
        error = expect.raises(CommandExitException, reader.wait)
        assert (error.exit_code, error.stdout, error.stderr) == (5, "out\n", "err\n")


def case_a_reader_leaves_and_another_takes_over(world):
    commands = world.sandbox.commands
    handle = commands.run("read line; echo $line", background=True, stdin=True)
    handle.disconnect()
    again = commands.connect(handle.pid)
    commands.send_stdin(handle.pid, "still here\n")
    assert again.wait().stdout == "still here\n"


def case_input_of_bytes_and_in_pieces(world):
    commands = world.sandbox.commands
    handle = commands.run("od -An -tx1 | tr -d ' \\n'", background=True, stdin=True)
    handle.send_stdin(b"\x00\xff")
    handle.send_stdin("")
    commands.send_stdin(handle.pid, b"\n")
    handle.close_stdin()
    assert handle.wait().stdout == "00ff0a"


def case_input_is_streamed(world):
    commands = world.sandbox.commands
    handle = commands.run("wc -lc", background=True, stdin=True)
    commands.stream_input(handle.pid, (f"line {n}\n" for n in range(1000)))
    handle.close_stdin()
    assert handle.wait().stdout.split() == ["1000", str(sum(len(f"line {n}\n") for n in range(1000)))]


def case_input_that_nothing_reads_is_refused(world):
    handle = world.sandbox.commands.run("sleep 60", background=True)
    try:
        expect.raises(SandboxException, handle.send_stdin, "x")
    finally:
        assert handle.kill() is True


def case_processes_that_are_not_there(world):
    commands, pty = world.sandbox.commands, world.sandbox.pty
    assert commands.kill(NO_SUCH_PID) is False and pty.kill(NO_SUCH_PID) is False
    expect.raises(NotFoundException, commands.connect, NO_SUCH_PID)
    expect.raises(NotFoundException, commands.send_stdin, NO_SUCH_PID, "x")
    expect.raises(NotFoundException, commands.close_stdin, NO_SUCH_PID)
    expect.raises(NotFoundException, commands.stream_input, NO_SUCH_PID, ["x"])
    expect.raises(NotFoundException, pty.connect, NO_SUCH_PID)
    expect.raises(NotFoundException, pty.resize, NO_SUCH_PID, PtySize(rows=1, cols=1))


def case_a_killed_command_takes_its_children_along(world):
    commands = world.sandbox.commands
    handle = commands.run("sleep 4321 & sleep 4321; wait", background=True)
    found = expect.until(lambda: commands.run("pgrep -fc '^sleep 4321' || true").stdout, lambda count: count == "2\n")
    assert found == "2\n", found
    assert handle.kill() is True
    assert expect.until(lambda: commands.run("pgrep -fc '^sleep 4321' || true").stdout, lambda count: count == "0\n") == "0\n"


def case_a_terminal_is_one(world):
    pty = world.sandbox.pty
    handle = pty.create(size=PtySize(rows=20, cols=70), user="root", cwd="/tmp")
    pty.send_stdin(handle.pid, b"tty; stty size; id -u; pwd; echo e''nd\n")
    seen = read_until(handle, b"end").decode()
    assert "/dev/pts/" in seen and "20 70" in seen and "\r\n0\r\n" in seen and "/tmp" in seen, seen
    assert handle.kill() is True


def case_control_characters_reach_the_program(world):
    pty = world.sandbox.pty
    handle = pty.create(size=PtySize(rows=24, cols=80))
    pty.send_stdin(handle.pid, b"sh -c \"trap 'exit 130' INT; echo re''ady; while :; do sleep 0.1; done\"\n")
    read_until(handle, b"ready")
    pty.send_stdin(handle.pid, b"\x03")
    pty.send_stdin(handle.pid, b"echo code=$?\n")
    read_until(handle, b"code=130")
    assert handle.kill() is True


def case_a_terminal_is_left_and_found_again(world):
    pty = world.sandbox.pty
    first = pty.create(size=PtySize(rows=24, cols=80), timeout=0)
    first.disconnect()
    assert first.pid in {one.pid for one in world.sandbox.commands.list()}
    again = pty.connect(first.pid)
    pty.send_stdin(first.pid, b"echo back a''gain; exit 3\n")
    seen = bytearray()
    error = expect.raises(CommandExitException, again.wait, on_pty=seen.extend)
    assert error.exit_code == 3 and b"back again" in seen, seen


def case_input_of_a_terminal_is_streamed(world):
    pty = world.sandbox.pty
    handle = pty.create(size=PtySize(rows=24, cols=80))
    pty.stream_input(handle.pid, [b"echo in pie", b"ces; ex", b"it\n"])
    seen = bytearray()
    handle.wait(on_pty=seen.extend)
    assert b"in pieces\r\n" in seen, seen


def case_a_terminal_has_a_time_limit(world):
    handle = world.sandbox.pty.create(size=PtySize(rows=24, cols=80), timeout=1)
    expect.raises(TimeoutException, handle.wait)
