"""Jobs as the SDK gives them; the queue itself is tested where it is."""

from __future__ import annotations

import asyncio

import pytest

import paddock
from paddock import AsyncJobs, Ended, Jobs, Output

from ..real_server import Server


def test_an_array_runs_and_leaves_files(server: Server) -> None:
    jobs = Jobs()
    job = jobs.run(
        command="echo task $1; mkdir out; echo $1 > out/$1.txt",
        args=["{index}"],
        outputs=["out/*.txt"],
        array=3,
        timeout_seconds=60,
    )
    assert (job.state, job.tasks["succeeded"], job.ended) == ("succeeded", 3, True)
    assert [task.stdout for task in jobs.tasks(job.id)] == ["task 0\n", "task 1\n", "task 2\n"]
    assert [(file.task, file.path) for file in jobs.artifacts(job.id, 1)] == [(1, "out/1.txt")]
    assert jobs.read_artifact(job.id, "out/2.txt", task=2) == b"2\n"
    events = list(jobs.logs(job.id, 1))
    assert isinstance(events[0], Output)
    assert events[0].data == b"task 1\n"
    assert isinstance(events[-1], Ended)
    assert job.id in [other.id for other in jobs.list(state="succeeded")]
    jobs.remove(job.id)
    with pytest.raises(paddock.JobNotFound, match="there is no job"):
        jobs.get(job.id)


def test_code_has_a_result_and_a_failure_a_reason(server: Server) -> None:
    jobs = Jobs()
    done = jobs.run(code="6 * 7", timeout_seconds=60)
    assert (done.state, jobs.task(done.id).result) == ("succeeded", "42")
    failed = jobs.run({"code": "1 / 0", "timeout_seconds": 60})
    assert failed.state == "failed"
    assert "ZeroDivisionError" in (failed.reason or "")
    for job in (done, failed):
        jobs.remove(job.id)


def test_one_that_waits_is_cancelled(server: Server) -> None:
    jobs = Jobs()
    job = jobs.submit(command="sleep 600", array=50, timeout_seconds=700)
    with pytest.raises(paddock.WaitTimeout, match=job.id):
        jobs.wait(job.id, timeout_seconds=0.2)
    assert jobs.cancel(job.id).state == "cancelled"
    jobs.remove(job.id)


def test_what_is_wrong_is_named(server: Server) -> None:
    with pytest.raises(paddock.InvalidRequest, match="`priority`: `1000`"):
        Jobs().submit(command="true", priority=1000)
    with pytest.raises(paddock.UnknownField, match="comand"):
        Jobs().submit(comand="true")


def test_the_same_for_asyncio(server: Server) -> None:
    async def run() -> str:
        jobs = AsyncJobs()
        job = await jobs.run(command=["echo", "hello"], timeout_seconds=60)
        task = await jobs.task(job.id)
        await jobs.remove(job.id)
        return task.stdout

    assert asyncio.run(run()) == "hello\n"
