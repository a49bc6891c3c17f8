"""A sandbox that is paused when its time is over, and comes back: by a call of the program, or by itself."""
import json
import time
import urllib.error
import urllib.request

import pytest_like as expect
from cases_wire import ask
from e2b import AsyncSandbox, Sandbox, SandboxException, SandboxState

PAUSE = {"on_timeout": "pause"}
RESUME = {"on_timeout": "pause", "auto_resume": True}


def until_paused(sandbox):
    end = time.monotonic() + 60
    while sandbox.get_info().state != SandboxState.PAUSED:
        assert time.monotonic() < end, "it is not paused"
        time.sleep(0.1)


def case_it_is_paused_when_its_time_is_over_and_connect_resumes_it(world):
    sandbox = Sandbox.create(timeout=600, lifecycle=PAUSE)
    assert sandbox.get_info().lifecycle["on_timeout"] == "pause"
    process = sandbox.commands.run("sleep 1000", background=True)
    sandbox.files.write("/home/user/kept", "x")
    sandbox.set_timeout(1)
    until_paused(sandbox)
    assert not sandbox.is_running()
    expect.raises(SandboxException, sandbox.commands.run, "true")
    assert sandbox.get_info().state == SandboxState.PAUSED, "a look resumes nothing"
    again = Sandbox.connect(sandbox.sandbox_id, timeout=300)
    assert again.files.read("/home/user/kept") == "x"
    assert process.pid in [one.pid for one in again.commands.list()], "its processes went on"
    left = again.get_info().end_at.timestamp() - time.time()
    assert 200 < left <= 301, left
    assert again.kill()


def case_one_without_memory_has_its_files(world):
    sandbox = Sandbox.create(timeout=600, lifecycle={"on_timeout": {"action": "pause", "mode": "filesystem"}})
    sandbox.files.write("/home/user/kept", "y")
    sandbox.set_timeout(1)
    until_paused(sandbox)
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.files.read("/home/user/kept") == "y"
    assert again.kill()


def case_one_that_resumes_by_itself_answers_the_next_call(world):
    sandbox = Sandbox.create(timeout=600, lifecycle=RESUME)
    assert sandbox.get_info().lifecycle["auto_resume"] is True
    for _ in range(2):
        sandbox.set_timeout(1)
        until_paused(sandbox)
        assert sandbox.commands.run("echo back").stdout == "back\n"
        assert sandbox.get_info().state == SandboxState.RUNNING
        left = sandbox.get_info().end_at.timestamp() - time.time()
        assert 500 < left <= 601, f"its time begins anew: {left}"
    sandbox.pause()
    assert sandbox.files.exists("/home/user"), "one that was paused by a call comes back too"
    assert sandbox.kill()


async def case_it_works_for_programs_that_do_not_wait(world):
    sandbox = await AsyncSandbox.create(timeout=600, lifecycle=RESUME)
    await sandbox.pause()
    assert (await sandbox.commands.run("echo back")).stdout == "back\n"
    assert await sandbox.kill()


def case_a_signed_address_resumes_it_too(world):
    sandbox = Sandbox.create(timeout=600, lifecycle=RESUME)
    sandbox.files.write("/home/user/a.txt", "signed")
    address = sandbox.download_url("/home/user/a.txt")
    sandbox.pause()
    with urllib.request.urlopen(address, timeout=60) as answer:
        assert answer.read() == b"signed"
    sandbox.kill()
    still = Sandbox.create(timeout=600, lifecycle=PAUSE)
    still.files.write("/home/user/a.txt", "signed")
    address = still.download_url("/home/user/a.txt")
    still.pause()
    refused = expect.raises(urllib.error.HTTPError, urllib.request.urlopen, address, timeout=60)
    assert refused.code == 502, refused.code
    still.kill()


def case_it_cannot_resume_by_itself_without_memory(world):
    wanted = {"templateID": "base", "autoPause": True, "autoPauseMemory": False, "autoResume": {"enabled": True}}
    headers = {"X-API-KEY": world.key, "Content-Type": "application/json"}
    status, body, _ = ask(world, "POST", "/v2/sandboxes", json.dumps(wanted), headers)
    assert status == 400 and b"autoResume" in body, (status, body)
