"""Codex of npm with its exec server in a sandbox, by the recipe of docs/guides/integrations.md as it stands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers import LOST_SERVER
from paddock import Sandbox
from real_server import BINARY, Server

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "tests" / "e2e" / "models" / "server.py"
GUIDE = ROOT / "docs" / "guides" / "integrations.md"
KEY = "sk-the-real-key-of-the-tests-0123456789"
STAYS = """
default = "sandbox"
include_local = false

[[environments]]
id = "sandbox"
program = "paddock"
args = ["exec", "-i", "codex-stays", "codex", "exec-server", "--listen", "stdio"]
"""


def program() -> Path | None:
    """The package's own directory: its executable is static and has its helpers beside it."""
    place = Path(os.environ.get("PADDOCK_TEST_AGENTS", "/nonexistent")) / "@openai"
    return next((found.parents[1] for found in place.glob("codex-linux-*/vendor/*/bin/codex")), None)


def recipe() -> str:
    found = re.search(r"```toml\n(default = \"sandbox\".*?)```", GUIDE.read_text(), re.S)
    assert found, "the guide has no environments.toml"
    return found[1]


@dataclass
class Codex:
    """One home of Codex, the model behind it, and the directory that it works in."""

    directory: Path
    work: Path
    environment: dict[str, str]
    log: Path

    def command(self) -> list[str]:
        flags = ["--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check"]
        return [str(self.directory / "bin" / "codex"), "exec", *flags, "What is 6 * 7? Compute it."]

    def ask(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(),
            cwd=self.work,
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def results(self) -> list[str]:
        """What its commands printed, as it told the model."""
        last = self.asked()[-1]["body"]["input"]
        return [item["output"] for item in last if item["type"] == "function_call_output"]

    def asked(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def codex(server: Server, tmp_path: Path) -> Iterator[Callable[..., Codex]]:
    place = program()
    if place is None:
        pytest.skip("codex: PADDOCK_TEST_AGENTS names no directory with Codex")
    models: list[subprocess.Popen[str]] = []
    home, tools, work = tmp_path / "home", tmp_path / "bin", tmp_path / "work"
    for directory in (home, tools, work):
        directory.mkdir()
    (tools / "codex").symlink_to(place / "bin" / "codex")
    assert BINARY
    (tools / "paddock").symlink_to(BINARY)
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "CODEX_HOME": str(home),
        "OPENAI_API_KEY": KEY,
        "PADDOCK_URL": server.url,
        "PADDOCK_STATE_DIR": str(server.state),
    }
    template = [
        "template",
        "add",
        "codex",
        "--read",
        f"{place}:/opt/codex",
        "--env",
        "PATH=/opt/codex/bin:/usr/bin:/bin",
    ]
    subprocess.run([str(BINARY), *template], env=environment, check=True, capture_output=True)

    def start(*commands: str, environments: str | None = None) -> Codex:
        script, log = tmp_path / "script.json", tmp_path / "asked"
        calls = [{"calls": [{"name": "exec_command", "arguments": {"cmd": command}}]} for command in commands]
        script.write_text(json.dumps([*calls, {"text": "It is 42."}]))
        model = subprocess.Popen([sys.executable, str(MODEL), str(script), str(log)], stdout=subprocess.PIPE, text=True)
        models.append(model)
        assert model.stdout is not None
        own = 'name = "own"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"'
        url = f"http://127.0.0.1:{model.stdout.readline().strip()}/v1"
        settings = f'model = "gpt-5"\nmodel_provider = "own"\n[model_providers.own]\n{own}\nbase_url = "{url}"\n'
        (home / "config.toml").write_text(settings)
        (home / "environments.toml").write_text(recipe() if environments is None else environments)
        return Codex(tmp_path, work, environment, log)

    yield start
    for model in models:
        model.kill()
        model.wait()
        if model.stdout is not None:
            model.stdout.close()
    subprocess.run([str(BINARY), "template", "rm", "codex"], env=environment, check=True, capture_output=True)


def test_its_commands_run_in_a_sandbox(codex: Callable[..., Codex]) -> None:
    made = codex("echo $((6 * 7)) > n; id -un; cat n; pwd")
    done = made.ask()
    assert done.stdout.strip() == "It is 42.", done.stderr
    (printed,) = made.results()
    assert printed.split()[-3:] == ["agent", "42", "/workspace"]
    # The workspace is the host's directory.
    assert (made.work / "n").read_text() == "42\n"


def test_the_key_stays_on_the_host(codex: Callable[..., Codex]) -> None:
    made = codex("env; cat /proc/*/environ | tr '\\0' '\\n'; cat ~/.codex/* /root/* 2>&1")
    made.ask()
    (printed,) = made.results()
    assert "PATH=" in printed
    assert KEY not in printed
    assert {one["headers"]["authorization"] for one in made.asked()} == {f"Bearer {KEY}"}


def test_there_is_no_network_and_no_other_directory(codex: Callable[..., Codex]) -> None:
    made = codex("cat ../secret; (echo > /dev/tcp/127.0.0.1/80) 2>&1; ls /sys/class/net")
    (made.directory / "secret").write_text("of the host")
    made.ask()
    (printed,) = made.results()
    assert "of the host" not in printed
    assert "No such file or directory" in printed


def test_protected_names_of_the_workspace_stay(codex: Callable[..., Codex]) -> None:
    made = codex("echo evil > .git/hooks/pre-commit; echo kept > file")
    subprocess.run(["git", "init", "--quiet", made.work], check=True)
    made.ask()
    assert "Read-only file system" in made.results()[0]
    assert not (made.work / ".git/hooks/pre-commit").exists()
    assert (made.work / "file").read_text() == "kept\n"


def test_a_sandbox_that_stays_is_worked_in_again(codex: Callable[..., Codex]) -> None:
    made = codex("echo $(($(cat /tmp/n 2> /dev/null || echo 40) + 1)) > /tmp/n; cat /tmp/n", environments=STAYS)
    with Sandbox.create(template="codex", name="codex-stays", ttl_seconds=300, tmpfs=[str(made.work)]):
        assert made.ask().stdout.strip() == "It is 42."
        first = made.results()[0].split()[-1]
        again = codex("echo $(($(cat /tmp/n) + 1))", environments=STAYS)
        again.ask()
        assert (first, again.results()[0].split()[-1]) == ("41", "42")


def test_a_sandbox_that_has_gone_is_told(codex: Callable[..., Codex]) -> None:
    made = codex("echo never", environments=STAYS)
    made.ask()
    assert made.results()[0].startswith("No usable execution environment is available.")


def test_a_command_that_fails_is_told_with_its_exit_code(codex: Callable[..., Codex]) -> None:
    made = codex("echo so far; exit 3", "no-such-command")
    assert made.ask().stdout.strip() == "It is 42."
    first, second = made.results()
    assert "so far" in first
    assert "code 3" in first
    assert "not found" in second


def test_a_command_that_takes_long_is_told_with_its_output_so_far(codex: Callable[..., Codex]) -> None:
    """Codex has no time limit for a command: it comes back after a while, and the command goes on."""
    made = codex("echo so far; sleep 600")
    assert made.ask().stdout.strip() == "It is 42."
    (told,) = made.results()
    assert "so far" in told
    assert "running with session" in told
    until(lambda: not processes(made.work))


def test_a_time_limit_of_the_recipe_ends_the_sandbox(codex: Callable[..., Codex]) -> None:
    """Codex has a word for the end, and none for the output until then."""
    limited = recipe().replace("--net none", "--net none --timeout 5s")
    assert limited != recipe()
    made = codex("echo so far; sleep 600", "echo on", environments=limited)
    made.ask()
    told = made.results()[0]
    # A busy host may take as long for the first command.
    assert "disconnected" in told or told.startswith("No usable execution environment is available.")
    until(lambda: not processes(made.work))


def test_an_unknown_template_is_told(codex: Callable[..., Codex]) -> None:
    made = codex("touch ran", environments=recipe().replace("--template codex", "--template no-such-template"))
    made.ask()
    assert made.results()[0].startswith("No usable execution environment is available.")
    assert not (made.work / "ran").exists()


def test_a_lost_server_is_told(codex: Callable[..., Codex]) -> None:
    made = codex("touch ran", environments=STAYS)
    made.environment = {**made.environment, "PADDOCK_URL": LOST_SERVER}
    made.ask()
    assert made.results()[0].startswith("No usable execution environment is available.")
    assert not (made.work / "ran").exists()


def test_each_session_has_a_sandbox_of_its_own(codex: Callable[..., Codex]) -> None:
    first = codex("echo mine > /tmp/of-one; echo shared > of-both")
    first.ask()
    second = codex("cat /tmp/of-one of-both; ls /proc | grep -c '^[0-9]'")
    second.ask()
    (printed,) = second.results()
    assert "/tmp/of-one: No such file or directory" in printed
    assert "shared" in printed
    # Processes of the host are not there: those of the exec server and of the command are.
    assert int(printed.split()[-1]) < 20


def test_limits_hold_and_codex_goes_on(codex: Callable[..., Codex]) -> None:
    limited = recipe().replace("--net none", "--net none --disk 48MiB --timeout 10m")
    assert limited != recipe()
    made = codex(
        "head -c 100000000 /dev/zero > /tmp/fill; echo exit $?; : > /tmp/fill", "echo on", environments=limited
    )
    assert made.ask().stdout.strip() == "It is 42."
    full, after = made.results()
    assert "error writing" in full
    assert "on" in after.split()


def test_a_killed_codex_leaves_nothing(codex: Callable[..., Codex]) -> None:
    made = codex("echo begun > begun; sleep 600")
    running = subprocess.Popen(made.command(), cwd=made.work, env=made.environment, stdin=subprocess.DEVNULL)
    until((made.work / "begun").exists)
    assert processes(made.work)
    running.kill()
    running.wait()
    until(lambda: not processes(made.work))


def until(true: Callable[[], object]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("it did not come true")


def processes(work: Path) -> list[str]:
    """Those of Paddock that know the directory: `paddock run` and what it started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if os.fsencode(work) in words and b"paddock" in words:
            found.append(words.decode(errors="replace"))
    return found
