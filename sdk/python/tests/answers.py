"""Bodies as the server writes them, for the tests that need no server."""

from __future__ import annotations

import base64
import json
from typing import Any, Callable, Dict, List

import httpx

from paddock import AsyncClient, Client, RetryPolicy

QUICK = RetryPolicy(retries=3, first_seconds=0.001, longest_seconds=0.002)

Handler = Callable[[httpx.Request], httpx.Response]


def sandbox(**fields: Any) -> Dict[str, Any]:
    return {
        "id": "sb-0123456789abcdef",
        "state": "running",
        "tenant": "default",
        "created_at_ms": 1_790_000_000_000,
        "expires_at_ms": 1_790_000_600_000,
        "persistent": False,
        "metadata": {},
        "limits": {"memory": 1 << 31},
        "guarantees": {"backend": "process"},
        "running_execs": 0,
        **fields,
    }


def ended_exec(**fields: Any) -> Dict[str, Any]:
    return {
        "exec": 1,
        "sandbox": "sb-0123456789abcdef",
        "state": "ended",
        "command": "true",
        "started_at_ms": 1_790_000_000_000,
        "ended_at_ms": 1_790_000_000_010,
        "exit_code": 0,
        "cause": {"kind": "exited"},
        "timed_out": False,
        "stdout": "",
        "stderr": "",
        "stdout_bytes": 0,
        "stderr_bytes": 0,
        "stdout_missing_bytes": 0,
        "stderr_missing_bytes": 0,
        **fields,
    }


def output(stream: str, offset: int, data: bytes) -> bytes:
    encoded = base64.b64encode(data).decode()
    return line({"type": "output", "stream": stream, "offset": offset, "data": encoded})


def ended_line(**fields: Any) -> bytes:
    return line({"type": "ended", "exec": ended_exec(**fields)})


def line(body: Dict[str, Any]) -> bytes:
    # As serde writes it: characters such as U+2028 stand as they are.
    return json.dumps(body, ensure_ascii=False).encode() + b"\n"


class Script:
    """Answers requests one after the other, and keeps them; an exception is raised in place of an answer."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: List[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        return httpx.Response(200, json=answer)

    def body(self, index: int = 0) -> Any:
        return json.loads(self.requests[index].content)


def client(handler: Handler) -> Client:
    return Client("http://server.test", "secret", retry=QUICK, transport=httpx.MockTransport(handler))


def async_client(handler: Handler) -> AsyncClient:
    return AsyncClient("http://server.test", "secret", retry=QUICK, transport=httpx.MockTransport(handler))
