"""SkyRL's clients of SandboxFusion, unmodified, against `/run_code`: the one that it has from verl, and the one of its
verifier of code."""

from __future__ import annotations

import importlib
import os
import sys
import types
import urllib.parse
from pathlib import Path
from types import ModuleType

import pytest
from helpers import LOST_SERVER, nothing_lives
from real_server import Server

PLACE = Path(os.environ.get("PADDOCK_TEST_INTEGRATIONS", "")) / "rewards"
VERIFIERS = PLACE / "skyrl-agent" / "skyrl_agent" / "tasks" / "verifiers"
if not (PLACE / "complete").exists():
    pytest.skip(f"rewards: no skyrl in {PLACE}", allow_module_level=True)


def part(name: str, module: str) -> ModuleType:
    """A module of the verifiers. All of SkyRL takes torch and ray, so that the package around it is only its place."""
    package = types.ModuleType(f"skyrl_{name}")
    package.__path__ = [str(VERIFIERS / name)]
    sys.modules[package.__name__] = package
    return importlib.import_module(f"{package.__name__}.{module}")


@pytest.fixture(scope="module")
def host(server: Server) -> str:
    """The part of a URL between `http://` and its path: SkyRL has no other place for a token."""
    return f"paddock:{server.token()}@127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def from_verl() -> ModuleType:
    return part("sandbox_fusion", "utils")


@pytest.fixture
def verifier(host: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # The verifier puts `:8080/run_code` behind the name of a host: here it becomes a fragment.
    monkeypatch.setenv("SANDBOX_FUSION_SERVERS", f"{host}/run_code#")
    return part("coder1", "sandboxfusion_exec")


def test_rewards_of_its_client_from_verl(from_verl: ModuleType, host: str) -> None:
    cases = {"inputs": ["1 2", "3 4", "x"], "outputs": ["3", "8", "0"]}
    results, metadata = from_verl.check_correctness(
        f"http://{host}/run_code", cases, "print(sum(map(int, input().split())))", timeout=10
    )
    assert results == [True, False, -2]
    assert [case["status"] for case in metadata] == ["success", "wrong_answer", "runtime_error"]


def test_a_function_is_called_with_its_arguments(from_verl: ModuleType, host: str) -> None:
    cases = {"inputs": ["[1, 2]\n3"], "outputs": ["[1, 2, 3]"], "fn_name": "extended"}
    code = "class Solution:\n    def extended(self, a, b): return a + [b]"
    assert from_verl.check_correctness(f"http://{host}/run_code", cases, code, timeout=10)[0] == [True]


def test_programs_that_are_compiled(from_verl: ModuleType, host: str) -> None:
    cases = {"inputs": ["6"], "outputs": ["42"]}
    code = "#include <iostream>\nint main(){int n; std::cin >> n; std::cout << n * 7;}"
    url = f"http://{host}/run_code"
    assert from_verl.check_correctness(url, cases, code, timeout=60, language="cpp")[0] == [True]
    results, metadata = from_verl.check_correctness(url, cases, "int main(", timeout=60, language="cpp")
    assert results == [-4]
    assert "error" in metadata[0]["compile_stderr"]


def test_a_program_that_runs_out_of_time(from_verl: ModuleType, host: str) -> None:
    cases = {"inputs": [""], "outputs": [""]}
    results, metadata = from_verl.check_correctness(f"http://{host}/run_code", cases, "while True: pass", timeout=1)
    assert results == [-3]
    assert metadata[0]["run_status"] == "TimeLimitExceeded"


def test_its_verifier_runs_code(verifier: ModuleType) -> None:
    assert verifier.code_exec_sandboxfusion("print(input()[::-1])", stdin="abc") == (True, "cba\n")
    succeeded, told = verifier.code_exec_sandboxfusion("print('so far')\n1 / 0")
    assert not succeeded
    assert "so far" in told
    assert "ZeroDivisionError" in told
    good = verifier.code_exec_sandboxfusion_with_pytest("def f(): return 42", "assert f() == 42\nprint('ok')")
    assert good == (True, "ok\n")


def test_its_verifier_tells_of_a_server_that_refuses(verifier: ModuleType, host: str) -> None:
    wrong = host.replace("pdk_", "pdk_x") + "/run_code#"
    succeeded, told = verifier.code_exec_sandboxfusion("print(1)", sandbox_servers=[wrong])
    assert (succeeded, "All sandbox servers failed" in told) == (False, True), told
    # It goes on with the next one.
    assert verifier.code_exec_sandboxfusion("print(1)", sandbox_servers=[wrong, f"{host}/run_code#"]) == (True, "1\n")


def test_a_lost_server_is_told(verifier: ModuleType, from_verl: ModuleType) -> None:
    lost = urllib.parse.urlsplit(LOST_SERVER).netloc
    succeeded, told = verifier.code_exec_sandboxfusion("print(1)", sandbox_servers=[f"{lost}/run_code#"])
    assert (succeeded, "All sandbox servers failed" in told) == (False, True), told
    results, _ = from_verl.check_correctness(f"{LOST_SERVER}/run_code", {"inputs": ["1"], "outputs": ["1"]}, "1")
    assert results == [-1]


def test_its_verifier_leaves_no_sandbox(verifier: ModuleType) -> None:
    succeeded, told = verifier.code_exec_sandboxfusion("import time; time.sleep(60)", timeout=1)
    assert not succeeded
    assert told.startswith("Failed to execute program")
    nothing_lives()
