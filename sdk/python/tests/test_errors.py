from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import List

import httpx
import pytest

import paddock
from paddock import PaddockError, Sandbox
from paddock._errors import BY_CODE, from_answer

from .answers import Script, client

# The stable codes of the API.
CODES = """invalid_request unknown_field invalid_path unauthorized forbidden sandbox_not_found exec_not_found
file_not_found snapshot_not_found token_not_found template_not_found image_failed name_taken wrong_state quota_exceeded
too_large requirement_not_met unsupported sandbox_ended not_a_file not_a_directory not_empty file_exists
permission_denied disk_full port_closed guest_lost storage_failed internal unavailable
scan_denied scan_failed host_certs_unusable exec_ended exec_forgotten request_under_way""".split()


@pytest.mark.parametrize("code", CODES)
def test_each_code_has_a_class_of_its_own(code: str) -> None:
    error = from_answer(400, {"code": code, "message": "m", "hint": "h", "request_id": "r"}, {})
    assert type(error) is BY_CODE[code]
    assert (error.code, error.message, error.hint, error.status, error.request_id) == (code, "m", "h", 400, "r")
    assert str(error) == f"m ({code})\nhint: h"


def test_kinds_can_be_caught_together() -> None:
    assert issubclass(paddock.FileNotFound, paddock.NotFound)
    assert issubclass(paddock.FileNotFound, paddock.FilesystemError)
    assert issubclass(paddock.SandboxEnded, paddock.WrongState)
    assert issubclass(paddock.ExecEnded, paddock.WrongState)
    assert issubclass(paddock.ServerNotStarted, paddock.ConnectionFailed)


def test_a_code_of_a_newer_server_is_kept_and_its_status_counts() -> None:
    error = from_answer(404, {"code": "planet_not_found", "message": "no planet", "request_id": "r"}, {})
    assert type(error) is paddock.NotFound
    assert error.code == "planet_not_found"
    assert error.hint is None


@pytest.mark.parametrize("body", ["<html>bad gateway</html>", "", ["a list"], {"detail": "x"}, None])
def test_an_answer_of_something_else_is_no_crash(body: object) -> None:
    error = from_answer(502, body, {})
    assert isinstance(error, paddock.Unavailable)
    assert error.code == "unexpected_answer"
    assert "502" in str(error)


def test_denied_code_says_what_was_found_and_survives_a_process_pool() -> None:
    found = {"kind": "subprocess", "line": 2, "column": 1, "text": "os.system"}
    body = {"code": "scan_denied", "message": "denied", "request_id": "r", "details": {"findings": [found]}}
    error = from_answer(403, body, {})
    assert isinstance(error, paddock.ScanDenied)
    assert isinstance(error, paddock.Forbidden)
    assert error.findings == [paddock.Finding("subprocess", 2, 1, "os.system")]
    assert str(error.findings[0]) == "line 2, column 1: subprocess: os.system"
    assert pickle.loads(pickle.dumps(error)).findings == error.findings
    assert from_answer(403, {**body, "details": "x"}, {}).details == {}


def test_a_quota_says_when_to_come_again() -> None:
    full = {"code": "quota_exceeded", "message": "3 of 3 sandboxes live", "request_id": "r"}
    script = Script(httpx.Response(429, json=full, headers={"Retry-After": "7"}))
    with pytest.raises(paddock.QuotaExceeded) as caught:
        Sandbox.create(client=client(script))
    assert caught.value.retry_after == 7.0
    assert len(script.requests) == 1


def test_errors_cross_processes() -> None:
    error = paddock.QuotaExceeded("full", hint="wait", status=429, request_id="r", retry_after=2.5)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is paddock.QuotaExceeded
    assert (str(copy), copy.retry_after, copy.status) == (str(error), 2.5, 429)


def test_success_with_nonsense_is_told() -> None:
    for answer in (httpx.Response(200, text="hello"), httpx.Response(200, json=[1])):
        with pytest.raises(paddock.UnexpectedAnswer, match="JSON object"):
            Sandbox.connect("x", client=client(Script(answer)))


def test_no_error_class_is_left_out_of_the_package() -> None:
    source = (Path(paddock.__file__).parent / "_errors.py").read_text()
    names: List[str] = re.findall(r"^class (\w+)\(", source, re.MULTILINE)
    assert len(names) > 30
    for name in names:
        assert issubclass(getattr(paddock, name), PaddockError)
        assert name in paddock.__all__
