from __future__ import annotations

import io
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import List

import pytest

import paddock
from paddock import Ended, Output, Sandbox


def test_a_shell_line_and_a_list_of_arguments(sandbox: Sandbox) -> None:
    result = sandbox.exec("echo out; echo err >&2; exit 3", timeout_seconds=30)
    assert (result.stdout, result.stderr, result.exit_code, result.ok) == ("out\n", "err\n", 3, False)
    assert result.cause.kind == "exited"
    assert not result.timed_out
    result = sandbox.exec(["printf", "%s|", "a b", "$HOME"])
    assert (result.stdout, result.ok) == ("a b|$HOME|", True)


def test_environment_directory_and_user(sandbox: Sandbox) -> None:
    result = sandbox.exec('echo "$A:$PWD:$(id -u)"', env={"A": "ä"}, cwd="/tmp", user="root")
    assert result.stdout == "ä:/tmp:0\n"
    assert sandbox.exec("id -u").stdout != "0\n"


@pytest.mark.parametrize("stdin", ["ab\n", b"ab\n", io.BytesIO(b"ab\n"), io.StringIO("ab\n")])
def test_input_of_every_kind(sandbox: Sandbox, stdin: object) -> None:
    assert sandbox.exec("cat; echo end", stdin=stdin).stdout == "ab\nend\n"  # type: ignore[call-overload]


def test_without_input_there_is_nothing_to_read(sandbox: Sandbox) -> None:
    assert sandbox.exec("cat; echo end", timeout_seconds=10).stdout == "end\n"


def test_input_that_the_command_does_not_want(sandbox: Sandbox) -> None:
    assert sandbox.exec("true", stdin=b"x" * 3_000_000).exit_code == 0


def test_a_time_limit_ends_all_that_was_started(sandbox: Sandbox) -> None:
    begun = time.monotonic()
    result = sandbox.exec("echo before; sleep 1000 & sleep 1000", timeout_seconds=1)
    assert time.monotonic() - begun < 15
    assert (result.timed_out, result.exit_code, result.stdout) == (True, 124, "before\n")
    assert result.cause.kind == "time_limit"
    assert "sleep" not in sandbox.exec("cat /proc/[0-9]*/comm 2>/dev/null").stdout


def test_a_command_that_does_not_exist(sandbox: Sandbox) -> None:
    result = sandbox.exec(["/no/such/command"])
    assert not result.ok
    assert result.exit_code in (126, 127)
    assert result.cause.kind == "not_started"


def test_callbacks_get_output_while_it_is_printed(sandbox: Sandbox) -> None:
    seen: List[tuple[str, float]] = []
    errors: List[str] = []
    result = sandbox.exec(
        "echo one; sleep 1; echo twö; echo bad >&2",
        on_stdout=lambda text: seen.append((text, time.monotonic())),
        on_stderr=errors.append,
    )
    assert "".join(text for text, _ in seen) == result.stdout == "one\ntwö\n"
    assert "".join(errors) == "bad\n"
    assert seen[-1][1] - seen[0][1] > 0.7


def test_an_exception_of_a_callback_ends_the_command(sandbox: Sandbox) -> None:
    def stop(text: str) -> None:
        raise KeyError(text)

    with pytest.raises(KeyError):
        sandbox.exec("echo x; sleep 1000", on_stdout=stop)
    (process,) = sandbox.processes()
    assert process.wait(timeout_seconds=20).cause.kind in ("killed", "signaled")


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", "import sys; print(6 * 7); print('e', file=sys.stderr)"), ("bash", "echo $((6 * 7)); echo e >&2")],
)
def test_code(sandbox: Sandbox, language: str, code: str) -> None:
    seen: List[str] = []
    for result in (sandbox.run_code(code, language), sandbox.run_code(code, language, on_stdout=seen.append)):
        assert (result.stdout, result.stderr, result.ok) == ("42\n", "e\n", True)
    assert "".join(seen) == "42\n"
    # The source text is nowhere in the way of what the code does itself.
    assert sandbox.files.list("/tmp") == []
    assert sandbox.run_code("import time; time.sleep(60)", timeout_seconds=1).timed_out


def test_a_language_that_nobody_speaks(sandbox: Sandbox) -> None:
    with pytest.raises(paddock.PaddockError, match="cobol"):
        sandbox.run_code("x", "cobol")
    with pytest.raises(paddock.InvalidRequest, match="cobol"):
        sandbox.run_code("x", "cobol", on_stdout=print)


def test_a_conversation_with_a_background_command(sandbox: Sandbox) -> None:
    process = sandbox.exec("while read line; do echo got $line; done; echo bye", background=True)
    events = process.stream()
    for word in ("one", "two"):
        process.write_stdin(word + "\n")
        event = next(events)
        assert isinstance(event, Output)
        assert event.text == f"got {word}\n"
    assert process.poll() is None
    with pytest.raises(paddock.WaitTimeout):
        process.wait(timeout_seconds=0.2)
    # Found again, as another program would; it goes on where the input is.
    again = sandbox.process(process.exec)
    again.write_stdin("three\n")
    again.close_stdin()
    result = process.wait(timeout_seconds=20)
    assert result.stdout == "got one\ngot two\ngot three\nbye\n"
    *_, last = events
    assert isinstance(last, Ended)
    assert process.output_bytes(offset=8) == b"got two\ngot three\nbye\n"
    assert [found.exec for found in sandbox.processes()] == [process.exec]


def test_signals(sandbox: Sandbox) -> None:
    process = sandbox.exec("trap 'echo usr1; exit 7' USR1; echo ready; while :; do sleep 0.1; done", background=True)
    next(process.stream())
    process.signal(signal.SIGUSR1)
    result = process.wait(timeout_seconds=20)
    assert (result.exit_code, result.stdout) == (7, "ready\nusr1\n")
    process = sandbox.exec(["sleep", "1000"], background=True)
    process.kill()
    assert process.wait(timeout_seconds=20).exit_code == 137
    process.kill()


def test_a_terminal(sandbox: Sandbox) -> None:
    assert sandbox.exec("stty size; test -t 1 && echo tty", terminal=(33, 99)).stdout == "33 99\r\ntty\r\n"
    process = sandbox.exec("read x; stty size", terminal=True, background=True)
    process.resize(11, 22)
    process.write_stdin("\n")
    assert process.wait(timeout_seconds=20).stdout.endswith("11 22\r\n")


def test_much_output_arrives_whole(sandbox: Sandbox) -> None:
    size = 6_000_000
    total = 0
    process = sandbox.exec(f"head -c {size} /dev/zero", background=True, open_stdin=False)
    for event in process.stream():
        if isinstance(event, Output):
            assert event.offset == total
            total += len(event.data)
    assert total == size
    assert process.poll().stdout_bytes == size  # type: ignore[union-attr]


def test_output_that_is_not_text(sandbox: Sandbox) -> None:
    process = sandbox.exec(r"printf '\377\000\303\244'", background=True)
    assert process.wait().stdout == "\ufffd\0ä"
    assert process.output_bytes() == b"\xff\x00\xc3\xa4"


def test_many_at_once_from_threads(sandbox: Sandbox) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: sandbox.exec(f"echo {number}").stdout, range(24)))
    assert results == [f"{number}\n" for number in range(24)]
