"""Jobs as the server describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, List, Mapping, Optional

from ._models import Json
from ._models_more import Change

#: States in which a job or a task stays.
ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class JobBest:
    """The winner of a `best_of`."""

    #: The candidate's number, from 0.
    index: int
    score: float
    #: What it changed; the patch is the artifact `changes.patch` of its task.
    changes: List[Change]


@dataclass(frozen=True)
class JobInfo:
    id: str
    name: Optional[str]
    tenant: str
    #: `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    state: str
    #: Why it failed or was cancelled.
    reason: Optional[str]
    created_at: datetime
    ended_at: Optional[datetime]
    #: How many tasks: `total`, and those in each state.
    tasks: Mapping[str, int]
    #: Of all attempts together: `attempts`, `wall_ms`, `cpu_ms`, `peak_memory_bytes`.
    cost: Mapping[str, Any]
    best: Optional[JobBest]
    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it stays as it is."""
        return self.state in ENDED

    @classmethod
    def parse(cls, body: Json) -> JobInfo:
        best = body.get("best")
        return cls(
            id=body["id"],
            name=body.get("name"),
            tenant=body["tenant"],
            state=body["state"],
            reason=body.get("reason"),
            created_at=_moment(body["created_at_ms"]),
            ended_at=_moment(body["ended_at_ms"]) if "ended_at_ms" in body else None,
            tasks=body["tasks"],
            cost=body["cost"],
            best=JobBest(best["index"], best["score"], [Change.parse(change) for change in best["changes"]])
            if best
            else None,
            raw=body,
        )


@dataclass(frozen=True)
class JobArtifact:
    task: int
    path: str
    bytes: int
    sha256: str

    @classmethod
    def parse(cls, body: Json) -> JobArtifact:
        return cls(body["task"], body["path"], body["bytes"], body["sha256"])


@dataclass(frozen=True)
class JobTask:
    job: str
    index: int
    state: str
    reason: Optional[str]
    exit_code: Optional[int]
    #: What a script returned, or the value of the code's last expression.
    result: Any
    #: Of a candidate: what its verifier said.
    score: Optional[float]
    #: The last 4 KiB that the last attempt printed.
    stdout: str
    stderr: str
    attempts: List[Mapping[str, Any]]
    artifacts: List[JobArtifact]
    raw: Mapping[str, Any] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def parse(cls, body: Json) -> JobTask:
        return cls(
            job=body["job"],
            index=body["index"],
            state=body["state"],
            reason=body.get("reason"),
            exit_code=body.get("exit_code"),
            result=body.get("result"),
            score=body.get("score"),
            stdout=body["stdout"],
            stderr=body["stderr"],
            attempts=body["attempts"],
            artifacts=[JobArtifact.parse(artifact) for artifact in body["artifacts"]],
            raw=body,
        )


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
