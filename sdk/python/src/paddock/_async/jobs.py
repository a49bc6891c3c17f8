"""Work that is described once, queued, and outlives whoever sent it."""

from __future__ import annotations

import json
import time
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional

from .._defaults import async_default_client
from .._errors import UnexpectedAnswer, WaitTimeout
from .._jobs import JobArtifact, JobInfo, JobTask
from .._models_output import OutputEvent, parse_output_event
from .client import LONG_PATIENCE, AsyncClient, lines_of, quoted

#: Longest that the server waits within one request.
_WAIT = 30.0
#: The server says a word on a silent stream every 15 s.
_SILENCE = 60.0


class AsyncJobs:
    """The jobs of a server.

    Args:
        client: the server to use; default is the one of the environment, started if need be.
    """

    def __init__(self, client: Optional[AsyncClient] = None) -> None:
        self._client = client or async_default_client()

    async def submit(self, spec: Optional[Mapping[str, Any]] = None, **fields: Any) -> JobInfo:
        """Sends a job; from then on it runs, whatever becomes of this program.

        The fields are those of a job's file: `jobs.submit(code="print(1)", array=100, timeout_seconds=5)`.
        """
        body = {**(spec or {}), **{name: value for name, value in fields.items() if value is not None}}
        return JobInfo.parse(await self._client.call("POST", "/v1/jobs", json=body, idempotent=True))

    async def run(self, spec: Optional[Mapping[str, Any]] = None, **fields: Any) -> JobInfo:
        """Sends a job and waits for its end."""
        return await self.wait((await self.submit(spec, **fields)).id)

    async def get(self, job: str) -> JobInfo:
        """As it is now."""
        return JobInfo.parse(await self._client.call("GET", _at(job)))

    async def list(self, *, state: Optional[str] = None) -> List[JobInfo]:
        """All of one's own, the newest first."""
        query = [("limit", "200")] + ([("state", state)] if state else [])
        return [JobInfo.parse(item) async for item in self._client.pages("/v1/jobs", "jobs", query)]

    async def wait(self, job: str, *, timeout_seconds: Optional[float] = None) -> JobInfo:
        """As it is when it has ended; raises `WaitTimeout` where that takes longer than the given time."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            left = _WAIT if deadline is None else max(0.0, min(_WAIT, deadline - time.monotonic()))
            body = await self._client.call(
                "GET", _at(job), query={"wait_seconds": f"{left:.3f}"}, patience=left + _SILENCE
            )
            info = JobInfo.parse(body)
            if info.ended:
                return info
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(
                    f"job {job} is {info.state} after {timeout_seconds} s", hint="wait again, or cancel() it"
                )

    async def tasks(self, job: str, *, state: Optional[str] = None) -> List[JobTask]:
        """Its tasks in their order, with their attempts."""
        tasks: List[JobTask] = []
        start: Optional[int] = 0
        while start is not None:
            query = {"limit": "1000", "from": str(start), **({"state": state} if state else {})}
            page = await self._client.call("GET", _at(job, "/tasks"), query=query)
            tasks += [JobTask.parse(item) for item in page["tasks"]]
            start = page.get("next")
        return tasks

    async def task(self, job: str, index: int = 0) -> JobTask:
        """One of them."""
        return JobTask.parse(await self._client.call("GET", _at(job, f"/tasks/{index}")))

    async def logs(
        self, job: str, task: int = 0, *, attempt: Optional[int] = None, follow: bool = False
    ) -> AsyncIterator[OutputEvent]:
        """What a task printed, in the order in which it did; with `follow` until its end."""
        query: Dict[str, str] = {"task": str(task), "follow": "true" if follow else "false"}
        if attempt is not None:
            query["attempt"] = str(attempt)
        async with self._client.stream(_at(job, "/logs"), query=query, patience=_SILENCE) as response:
            async for line in lines_of(response):
                event = _event(line)
                if event is not None:
                    yield event

    async def artifacts(self, job: str, task: Optional[int] = None) -> List[JobArtifact]:
        """The files that its tasks left."""
        query = {} if task is None else {"task": str(task)}
        body = await self._client.call("GET", _at(job, "/artifacts"), query=query)
        return [JobArtifact.parse(item) for item in body["artifacts"]]

    async def read_artifact(self, job: str, path: str, task: int = 0) -> bytes:
        """The content of one of them."""
        query = {"path": path, "task": str(task)}
        place = _at(job, "/artifacts/content")
        return (await self._client.request("GET", place, query=query, patience=LONG_PATIENCE)).content

    async def cancel(self, job: str) -> JobInfo:
        """What waits is not begun, what runs is stopped."""
        body = await self._client.call("POST", _at(job, "/cancel"), repeatable=True, patience=LONG_PATIENCE)
        return JobInfo.parse(body)

    async def remove(self, job: str) -> None:
        """Forgets one that has ended, with its artifacts."""
        await self._client.request("DELETE", _at(job))

    async def aclose(self) -> None:
        """Closes the connections; the next request opens new ones."""
        await self._client.aclose()


def _at(job: str, more: str = "") -> str:
    return f"/v1/jobs/{quoted(job)}{more}"


def _event(line: bytes) -> Optional[OutputEvent]:
    if not line.strip():
        return None
    try:
        return parse_output_event(json.loads(line))
    except (ValueError, KeyError, TypeError) as error:
        raise UnexpectedAnswer(f"a line of a log makes no sense ({error!r}): {line[:200]!r}") from error
