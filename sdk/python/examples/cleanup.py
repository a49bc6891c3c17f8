"""Two guarantees that do not depend on each other: the block, and the time to live."""

import time

from paddock import Sandbox


def killed_by_the_block() -> str:
    """The sandbox is gone when the block is left, also by an exception."""
    try:
        with Sandbox.create(ttl_seconds=600) as sandbox:
            identity = sandbox.id
            raise RuntimeError("the agent crashed in the middle of its loop")
    except RuntimeError:
        pass
    end = Sandbox.connect(identity).info().end
    return end.cause.kind if end else "still there"


def killed_by_its_time_to_live() -> str:
    """Nobody cleans up: the sandbox ends by itself."""
    sandbox = Sandbox.create(ttl_seconds=1)
    deadline = time.monotonic() + 30
    while sandbox.info().end is None and time.monotonic() < deadline:
        time.sleep(0.1)
    end = sandbox.info().end
    return end.cause.kind if end else "still there"


def left_alone_when_persistent() -> str:
    """For long-lived things: the block does not end it, so somebody has to."""
    with Sandbox.create(persistent=True) as sandbox:
        pass
    state = sandbox.info().state
    sandbox.kill()
    return state


if __name__ == "__main__":
    print(killed_by_the_block())  # -> killed
    print(killed_by_its_time_to_live())  # -> time_to_live
    print(left_alone_when_persistent())  # -> running
