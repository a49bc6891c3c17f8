"""SandboxFusion's own client and verl's rewards, unmodified, against the server's `/run_code`."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests
from helpers import LOST_SERVER, living, nothing_lives
from paddock import Sandbox
from real_server import BINARY, Server

PLACE = Path(os.environ.get("PADDOCK_TEST_INTEGRATIONS", "")) / "rewards"
if not (PLACE / "complete").exists():
    pytest.skip(f"rewards: no sandbox-fusion and no verl in {PLACE}", allow_module_level=True)

from sandbox_fusion import (  # noqa: E402
    CommandRunStatus,
    RunCodeRequest,
    RunJupyterRequest,
    RunStatus,
    SubmitRequest,
    SummaryMapping,
    run_code,
    run_code_async,
    run_concurrent,
    run_jupyter,
    run_jupyter_async,
    set_sandbox_endpoint,
    submit,
    summary_run_code_result,
)

TEXT = base64.b64encode(b"six\nseven\n").decode()


@pytest.fixture(scope="module")
def token(server: Server) -> str:
    return server.token()


@pytest.fixture(scope="module", autouse=True)
def endpoint(server: Server, token: str) -> str:
    """A URL is all that these clients take: the token is in it."""
    url = f"http://paddock:{token}@127.0.0.1:{server.port}"
    set_sandbox_endpoint(url)
    return url


@pytest.fixture(scope="module")
def verl() -> ModuleType:
    """The module of verl's that rewards code. Importing all of verl takes torch."""
    place = PLACE / "verl" / "utils" / "reward_score" / "sandbox_fusion"
    spec = importlib.util.spec_from_file_location(
        "verl_sandbox_fusion", place / "__init__.py", submodule_search_locations=[str(place)]
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def ask(code: str, language: str = "python", **more: Any) -> Any:
    return run_code(RunCodeRequest(code=code, language=language, **more), max_attempts=1)


def raw(endpoint: str, body: Any, path: str = "/run_code", **more: Any) -> requests.Response:
    return requests.post(f"{endpoint}{path}", json=body, timeout=2500, **more)


def paddock(server: Server, *words: str) -> str:
    environment = {**os.environ, "PADDOCK_URL": server.url}
    ran = subprocess.run([BINARY, *words], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout


def test_a_program_ends_well() -> None:
    told = ask("print(input()[::-1])", stdin="dlrow olleh")
    assert (told.status, told.message, told.compile_result) == (RunStatus.Success, "", None)
    ran = told.run_result
    assert (ran.status, ran.return_code, ran.stdout, ran.stderr) == (CommandRunStatus.Finished, 0, "hello world\n", "")
    assert ran.execution_time >= 0
    assert told.executor_pod_name is None
    assert told.files == {}
    assert summary_run_code_result(told, SummaryMapping()) == "Success"


def test_a_program_that_fails_tells_as_python_does() -> None:
    told = ask("print('so far')\n1 / 0")
    assert told.status == RunStatus.Failed
    assert told.run_result.return_code == 1
    assert told.run_result.stdout == "so far\n"
    expected = 'Traceback (most recent call last):\n  File "/workspace/run_code.py", line 2, in <module>\n'
    assert told.run_result.stderr.startswith(expected)
    assert "\nZeroDivisionError: " in told.run_result.stderr
    assert summary_run_code_result(told, SummaryMapping(RunFailed="wrong")) == "wrong"
    assert ask("import sys; sys.exit(3)").run_result.return_code == 3
    assert ask("import os; os.abort()").run_result.return_code == -6


#: Each is told in the same way by an interpreter that waited and by one that was started.
PROGRAMS = [
    "import sys; print(sys.argv, __name__, __file__, sys.path[0], list(globals()))",
    "import sys; print(sys.stdin.read()); print(sys.stdout, sys.stderr, sys.flags)",
    "import sys; print('out'); print('err', file=sys.stderr); sys.exit('words')",
    "def f(n): return f(n + 1)\nf(0)",
    "print(",
    "import atexit; atexit.register(print, 'at exit')\nraise ValueError('x')",
    "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
    "class A:\n    def __del__(self): print('del')\na = A()",
    "from multiprocessing import Pool\ndef f(x): return x * x\nif __name__ == '__main__':\n    print(Pool(2).map(f, [1, 2]))",  # noqa: E501
    "import os; print(sorted(os.environ)); print(os.getcwd(), os.listdir())",
    "raise KeyboardInterrupt",
    "import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
]


@pytest.fixture(scope="module")
def pool(server: Server) -> Iterator[Callable[[], None]]:
    """Of sandboxes in which an interpreter waits. What it gives waits until one is ready."""
    paddock(server, "pool", "set", "code-interpreter", "--min", "1", "--max", "2")

    def is_ready() -> bool:
        return paddock(server, "pool", "ls").splitlines()[1].split()[4] != "0"

    def wait() -> None:
        for _ in range(400):
            if is_ready():
                return
            time.sleep(0.05)
        raise AssertionError(paddock(server, "pool", "ls"))

    yield wait
    paddock(server, "pool", "rm", "code-interpreter")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_waiting_interpreter_is_no_other(program: str, pool: Callable[[], None]) -> None:
    """`inspect` in a comment makes the server start a process; without it the interpreter of the pool takes it."""
    ran = []
    for comment in ("", "\n# inspect"):
        pool()
        told = ask(program + comment, stdin="a\r\nb").run_result
        ran.append((told.status, told.return_code, told.stdout, told.stderr))
    assert ran[0] == ran[1]


def test_the_waiting_interpreter_is_used(pool: Callable[[], None]) -> None:
    """Its command line, which no program sees by accident, is the loader's."""
    code = "print(open('/proc/self/cmdline').read().split(chr(0))[1])"
    pool()
    assert ask(code).run_result.stdout == "-c\n"
    pool()
    assert ask(code + "  # inspect").run_result.stdout == "/workspace/run_code.py\n"


def test_a_time_limit_comes_with_the_output_so_far() -> None:
    told = ask("import time; print('so far', flush=True); time.sleep(60)", run_timeout=1)
    assert told.status == RunStatus.Failed
    assert told.run_result.status == CommandRunStatus.TimeLimitExceeded
    assert (told.run_result.stdout, told.run_result.stderr, told.run_result.return_code) == ("so far\n", "", None)
    assert told.run_result.execution_time >= 1
    assert summary_run_code_result(told, SummaryMapping(RunTimeout="late")) == "late"
    assert ask("while True: pass", run_timeout=0.2).run_result.status == CommandRunStatus.TimeLimitExceeded
    nothing_lives()


def test_memory_is_bounded_by_the_request(endpoint: str) -> None:
    body = {"code": "x = bytearray(600 << 20); print(len(x))", "language": "python"}
    assert raw(endpoint, {**body, "memory_limit_MB": 1024}).json()["run_result"]["stdout"] == f"{600 << 20}\n"
    told = raw(endpoint, {**body, "memory_limit_MB": 128}).json()
    assert (told["status"], told["run_result"]["return_code"]) == ("Failed", -9)
    assert "out of memory" in told["run_result"]["stderr"]
    assert raw(endpoint, {**body, "memory_limit_MB": 1}).json()["status"] == "SandboxError"


def test_files_go_in_and_come_out() -> None:
    code = "import helper, os; os.makedirs('made'); open('made/out', 'w').write(helper.read().upper())"
    helper = base64.b64encode(b"def read(): return open('data/in').read()").decode()
    told = ask(code, files={"data/in": TEXT, "helper.py": helper}, fetch_files=["made/out", "none", "made"])
    assert told.status == RunStatus.Success, told
    assert {name: base64.b64decode(text) for name, text in told.files.items()} == {"made/out": b"SIX\nSEVEN\n"}
    with pytest.raises(Exception, match="more than 32 MiB together"):
        ask("open('out', 'wb').truncate(40 << 20)", fetch_files=["out"])


def test_what_a_program_prints_is_cut_as_sandbox_fusion_cuts_it() -> None:
    told = ask("import sys; sys.stdout.write('x' * (3 << 20)); sys.stderr.write('y')")
    assert told.run_result.stdout == "x" * (1 << 20)
    assert told.run_result.stderr == "y"


COMPILED = {
    "c": '#include <stdio.h>\n#include <math.h>\nint main(){int n; scanf("%d", &n); printf("%d\\n", n * (int)sqrt(49.0));}',  # noqa: E501
    "cpp": "#include <iostream>\nint main(){int n; std::cin >> n; std::cout << n * 7 << std::endl;}",
    "rust": 'fn main(){let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap(); println!("{}", s.trim().parse::<i32>().unwrap() * 7);}',  # noqa: E501
    "go": 'package main\nimport "fmt"\nfunc main(){var n int; fmt.Scan(&n); fmt.Println(n * 7)}',
    "java": "public class Main { public static void main(String[] a) { System.out.println(new java.util.Scanner(System.in).nextInt() * 7); } }",  # noqa: E501
}
INTERPRETED = {
    "bash": "read n; echo $((n * 7))",
    "nodejs": "console.log(require('fs').readFileSync(0, 'utf8') * 7)",
    "typescript": "import { readFileSync } from 'fs';\nconst n: number = Number(readFileSync(0, 'utf8'));\nconsole.log(n * 7);",  # noqa: E501
    "go_test": None,
}


#: The part of a host's tools that the tests of a language want, where the rest of the tests can do without it.
PART = {"cpp": "cpp", "java": "java", "go": "go", "go_test": "go"}


@pytest.mark.parametrize("language", [*COMPILED, *INTERPRETED])
def test_every_language_runs_or_says_what_the_template_lacks(language: str, endpoint: str, server: Server) -> None:
    code = COMPILED.get(language) or INTERPRETED[language]
    if language == "go_test":
        code = 'package main\nimport "testing"\nfunc TestX(t *testing.T) { if 6*7 != 42 { t.Fatal() } }'
    # Go compiles its standard library first, which takes minutes on a busy host.
    asked = {"code": code, "language": language, "stdin": "6", "compile_timeout": 1200, "run_timeout": 1200}
    told = raw(endpoint, asked).json()
    if told["status"] == "SandboxError":
        assert "code-interpreter" in told["message"], told
        if language not in TOOLCHAINS:
            pytest.skip(f"{PART.get(language, 'languages')}: no tools for {language} in the sandbox")
        template = toolchain(language, server)
        told = raw(endpoint, asked, f"/run_code/in/{template}/run_code").json()
    assert told["status"] == "Success", told
    assert told["run_result"]["stdout"] == "42\n" or (
        language == "go_test" and told["run_result"]["stdout"].startswith("ok")
    )
    assert (told["compile_result"] is not None) == (language in COMPILED)


#: The command that tells where the host's tools of a language are.
TOOLCHAINS = {
    "rust": ("rustc", "--print", "sysroot"),
    "go": ("go", "env", "GOROOT"),
    "go_test": ("go", "env", "GOROOT"),
}


def toolchain(language: str, server: Server) -> str:
    """A template of the owner's that shows the host's tools, where /usr has none, or has them off the path."""
    command = TOOLCHAINS[language]
    if not shutil.which(command[0]):
        pytest.skip(f"{PART.get(language, 'languages')}: no {command[0]} on this host")
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    templates = server.state / "templates"
    templates.mkdir(exist_ok=True)
    name = language.partition("_")[0]
    path = "/usr/local/bin:/usr/bin:/bin:/opt/tools/bin"
    (templates / f"{name}.toml").write_text(f'read = ["{found}:/opt/tools"]\n\n[env]\nPATH = "{path}"\n')
    return name


@pytest.mark.parametrize(
    ("language", "wrong", "said"),
    [
        ("rust", "fn main(){ x }", "cannot find value `x`"),
        ("go", "package main\nfunc main(){ x() }", "undefined: x"),
    ],
)
def test_a_template_with_a_toolchain_runs_its_language(
    language: str, wrong: str, said: str, endpoint: str, server: Server
) -> None:
    route = f"/run_code/in/{toolchain(language, server)}/run_code"
    # Go compiles its standard library first.
    asked = {"language": language, "compile_timeout": 1200, "run_timeout": 1200}
    told = raw(endpoint, {**asked, "code": COMPILED[language], "stdin": "6"}, route).json()
    assert (told["status"], told["run_result"]["stdout"]) == ("Success", "42\n"), told
    told = raw(endpoint, {**asked, "code": wrong}, route).json()
    assert (told["status"], told["run_result"]) == ("Failed", None), told
    assert said in told["compile_result"]["stderr"] + told["compile_result"]["stdout"]


def test_a_compiler_tells_what_is_wrong(verl: ModuleType, endpoint: str) -> None:
    told = ask("int main(){ return undefined; }", "cpp")
    assert told.status == RunStatus.Failed
    assert told.run_result is None
    assert told.compile_result.return_code == 1
    assert "undefined" in told.compile_result.stderr
    told = ask("#include <cstdlib>\nint main(){ abort(); }", "cpp")
    assert told.compile_result.return_code == 0
    assert told.run_result.return_code == -6
    in_outs = {"inputs": ["", ""], "outputs": ["", ""]}
    results, metadata = verl.utils.check_correctness(
        sandbox_fusion_url=f"{endpoint}/run_code", in_outs=in_outs, generation="int main(", language="cpp"
    )
    assert results == [-4, -4]
    assert metadata[0]["compile_status"] == "Finished"


def test_cells_remember_and_go_on_after_a_failure() -> None:
    cells = ["a = 6", "a * 7", "print(a)", "import sys; sys.stderr.write('err')", "raise RuntimeError('no')", "a"]
    told = run_jupyter(RunJupyterRequest(cells=cells, files={"in": TEXT}, fetch_files=["in"]), max_attempts=1)
    assert told.status == RunStatus.Success
    assert told.driver.status == CommandRunStatus.Finished
    assert [cell.stdout for cell in told.cells] == ["", "", "6\n", "", "", ""]
    assert [cell.stderr for cell in told.cells] == ["", "", "", "err", "", ""]
    assert [[shown["text/plain"] for shown in cell.display] for cell in told.cells] == [
        [],
        ["42"],
        [],
        ["3"],
        [],
        ["6"],
    ]
    (error,) = told.cells[4].error
    assert (error["ename"], error["evalue"]) == ("RuntimeError", "no")
    assert error["traceback"][-1] == "RuntimeError: no"
    assert told.files == {"in": TEXT}
    late = run_jupyter(RunJupyterRequest(cells=["print(1)", "while True: pass", "2"], cell_timeout=1), max_attempts=1)
    assert late.status == RunStatus.Failed
    assert late.driver.status == CommandRunStatus.TimeLimitExceeded
    assert late.cells[0].stdout == "1\n"
    assert len(late.cells) == 2
    died = run_jupyter(RunJupyterRequest(cells=["import os; os._exit(7)", "2"]), max_attempts=1)
    assert died.status == RunStatus.Failed
    assert died.driver.status == CommandRunStatus.Error
    nothing_lives()


def test_the_async_client_asks_the_same() -> None:
    async def both() -> None:
        told = await run_code_async(RunCodeRequest(code="print(42)", language="python"), max_attempts=1)
        assert told.run_result.stdout == "42\n"
        cells = await run_jupyter_async(RunJupyterRequest(cells=["6 * 7"]), max_attempts=1)
        assert cells.cells[0].display == [{"text/plain": "42"}]

    asyncio.run(both())


def test_rewards_of_verl(verl: ModuleType, endpoint: str) -> None:
    url = f"{endpoint}/run_code"
    told, error = verl.utils.call_sandbox_api(url, "print(input())", "hi", 10, 10, 1024, "python")
    assert error is None
    assert told["run_result"]["stdout"] == "hi\n"
    cases = {"inputs": ["1 2", "3 4", "x"], "outputs": ["3", "8", "0"]}
    code = "```python\nprint(sum(map(int, input().split())))\n```"
    score, metadata = verl.compute_score(url, threading.Semaphore(8), 1024, code, cases, timeout=10)
    assert score == pytest.approx(1 / 3)
    assert [case["status"] for case in metadata] == ["success", "wrong_answer", "runtime_error"]
    function = {"inputs": ["[1, 2]\n3"], "outputs": ["[1, 2, 3]"], "fn_name": "extended"}
    code = "```python\nclass Solution:\n    def extended(self, a, b): return a + [b]\n```"
    score, _ = verl.compute_score(url, None, 1024, code, json.dumps(function), timeout=10)
    assert score == 1.0
    score, metadata = verl.compute_score(url, None, 1024, "```python\nwhile True: pass\n```", cases, timeout=1)
    assert score == 0
    assert {case["status"] for case in metadata} == {"timeout"}


def test_many_rewards_at_once_leave_nothing() -> None:
    asked = [
        [RunCodeRequest(code=f"print({number} * int(input()))", language="python", stdin="7")] for number in range(100)
    ]
    told = run_concurrent(run_code, args=asked, concurrency=16)
    assert [one.run_result.stdout for one in told] == [f"{number * 7}\n" for number in range(100)]
    nothing_lives()


BAD = [
    ({"code": "1"}, ["body"]),
    ({"code": 1, "language": "python"}, ["body", "code"]),
    ({"code": "1", "language": "brainfuck"}, ["body", "language"]),
    ({"code": "1", "language": "python", "run_timeout": -1}, ["body", "run_timeout"]),
    ({"code": "1", "language": "python", "run_timeout": 1e9}, ["body", "run_timeout"]),
    ({"code": "1", "language": "python", "files": {"/etc/passwd": TEXT}}, ["body", "files", "/etc/passwd"]),
    ({"code": "1", "language": "python", "files": {"../up": TEXT}}, ["body", "files", "../up"]),
    ({"code": "1", "language": "python", "files": {"a": "not base64"}}, ["body", "files", "a"]),
    ([], ["body"]),
]


@pytest.mark.parametrize(("body", "place"), BAD)
def test_a_wrong_request_is_told_by_its_field(body: Any, place: list[str], endpoint: str) -> None:
    answer = raw(endpoint, body)
    assert (answer.status_code, answer.json()["detail"][0]["loc"]) == (422, place), answer.text
    assert not living()


def test_what_is_not_had_is_refused_in_words(endpoint: str, verl: ModuleType) -> None:
    for language in ("php", "cuda", "pytest", "lean"):
        with pytest.raises(Exception, match="is not run by this server"):
            ask("1", language)
    told = raw(endpoint, {"code": "1", "language": "python"}, "/run_code/in/no-such-template/run_code").json()
    assert told["status"] == "SandboxError"
    assert "no-such-template" in told["message"]
    assert (
        raw(endpoint, {"code": "print(1)", "language": "python"}, "/run_code/in/code-interpreter/run_code").json()[
            "run_result"
        ]["stdout"]
        == "1\n"
    )
    answer = raw(endpoint, {"code": "x" * (9 << 20), "language": "python"})
    assert answer.status_code == 413
    assert answer.json()["status"] == "SandboxError"
    assert requests.post(f"{endpoint}/run_code", data="{", timeout=60).status_code == 422
    assert requests.get(f"{endpoint}/v1/ping", timeout=60).json() == "pong"
    with pytest.raises(Exception, match="has no data sets"):
        submit(SubmitRequest(dataset="d", id=1, completion="", config={}), endpoint, max_attempts=1)
    results, metadata = verl.utils.check_correctness(
        f"{endpoint}/run_code", {"inputs": [1], "outputs": [1]}, "1", language="php"
    )
    assert results == [-1]
    assert metadata[0]["status"] == "sandbox_error"


def test_a_token_is_needed_and_enters_nothing(endpoint: str, server: Server, token: str) -> None:
    body = {"code": "import os; print(os.environ, open('/proc/self/cmdline').read())", "language": "python"}
    plain = f"http://127.0.0.1:{server.port}"
    for url in (plain, f"http://paddock:pdk_wrong@127.0.0.1:{server.port}"):
        answer = raw(url, body)
        assert (answer.status_code, answer.json()["status"]) == (401, "SandboxError"), answer.text
        assert "http://paddock:TOKEN@" in answer.json()["message"]
    assert raw(plain, body, headers={"Authorization": f"Bearer {token}"}).status_code == 200
    assert raw(f"http://{token}:@127.0.0.1:{server.port}", body).status_code == 200
    assert token not in raw(endpoint, body).text
    assert token not in server.log.read_text()


def test_a_tenant_is_held_to_its_role_and_quota(server: Server, verl: ModuleType) -> None:
    tokens = {}
    for role in ("read-only", "user"):
        tokens[role] = paddock(server, "token", "create", "--tenant", "small", "--role", role).split()[-1]
    at = {role: f"http://paddock:{token}@127.0.0.1:{server.port}" for role, token in tokens.items()}
    body = {"code": "print(1)", "language": "python"}
    assert raw(at["read-only"], body).status_code == 403
    assert raw(at["user"], {**body, "code": "1"}).json()["status"] == "Success"
    paddock(server, "quota", "small", "--sandboxes", "4", "--memory", "3GiB", "--creates-per-minute", "1")
    # One is made in a minute, and the next one is not waited for so long. verl asks again after 504 alone.
    answers = [raw(at["user"], body) for _ in range(2)]
    assert 504 in [answer.status_code for answer in answers], [answer.text for answer in answers]
    full = next(answer for answer in answers if answer.status_code == 504)
    assert full.json()["status"] == "SandboxError"
    assert full.headers["Retry-After"]
    paddock(server, "quota", "small", "--sandboxes", "4", "--memory", "3GiB", "--creates-per-minute", "600")
    nothing_lives()
    told = raw(at["user"], {**body, "memory_limit_MB": 2500})
    assert told.json()["status"] == "Success", told.text
    told = raw(at["user"], {**body, "memory_limit_MB": 5000})
    assert "memory" in told.json()["message"], told.text
    assert told.json()["status"] == "SandboxError"
    nothing_lives()


def test_there_is_no_network(endpoint: str, server: Server) -> None:
    code = f"import socket\ntry:\n    socket.create_connection(('127.0.0.1', {server.port}), 2)\nexcept OSError as e:\n    print('closed')"  # noqa: E501
    assert ask(code).run_result.stdout == "closed\n"


def test_a_full_disk_is_told_by_the_program(endpoint: str, server: Server) -> None:
    templates = server.state / "templates"
    templates.mkdir(exist_ok=True)
    (templates / "small.toml").write_text('[limits]\ndisk = "48MiB"\n')
    body = {"code": "print('so far', flush=True)\nopen('fill', 'wb').write(bytes(100 << 20))", "language": "python"}
    told = raw(endpoint, body, "/run_code/in/small/run_code").json()
    assert (told["status"], told["run_result"]["status"]) == ("Failed", "Finished"), told
    assert told["run_result"]["stdout"] == "so far\n"
    # By the quota of the file system, or by its end.
    assert "OSError" in told["run_result"]["stderr"], told


def test_a_sandbox_that_dies_is_an_error_of_the_sandbox(endpoint: str) -> None:
    with ThreadPoolExecutor(1) as thread:
        body = {"code": "import time; time.sleep(600)", "language": "python", "run_timeout": 600}
        asked = thread.submit(raw, endpoint, body)
        for _ in range(600):
            if (running := living()) or asked.done():
                break
            time.sleep(0.1)
        for sandbox_id in running:
            Sandbox.connect(sandbox_id).kill()
        told = asked.result().json()
    assert told["status"] == "SandboxError", told
    assert told["run_result"] is None
    nothing_lives()


def test_a_lost_server_is_an_error_of_the_client(verl: ModuleType) -> None:
    with pytest.raises(requests.ConnectionError):
        run_code(RunCodeRequest(code="1", language="python"), endpoint=LOST_SERVER, max_attempts=1)
    results, metadata = verl.utils.check_correctness(f"{LOST_SERVER}/run_code", {"inputs": [1], "outputs": [1]}, "1")
    assert results == [-1]
    assert metadata[0]["status"] == "api_error"


def test_a_client_that_goes_away_leaves_nothing(endpoint: str, server: Server, token: str) -> None:
    body = json.dumps({"code": "import time; time.sleep(600)", "language": "python", "run_timeout": 600})
    parts = urllib.parse.urlsplit(endpoint)
    with socket.create_connection((parts.hostname, parts.port)) as stream:
        head = f"POST /run_code HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        stream.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        for _ in range(200):
            if living():
                break
            time.sleep(0.05)
        assert living()
    nothing_lives()
