"""When a request is tried again, and how long to wait before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class RetryPolicy:
    """Requests that are safe to repeat (by their method, by an idempotency key, by offsets) are repeated when the
    connection is lost; all others only when it was never made, so that nothing is done twice."""

    retries: int = 6
    first_seconds: float = 0.05
    longest_seconds: float = 2.0

    def pause(self, attempt: int, retry_after: Optional[float] = None) -> float:
        """Seconds before the try after `attempt` (from 0); spread out, so that many clients do not come at once."""
        import random

        if retry_after is not None:
            return min(retry_after, 10 * self.longest_seconds)
        ceiling = min(self.longest_seconds, self.first_seconds * 2.0**attempt)
        return ceiling * random.uniform(0.5, 1.0)


class WireError(Exception):
    """No whole answer came. What was raised below, if anything, is its `__cause__`."""


class NeverReached(WireError):
    """There was no connection: the server cannot have seen the request."""


class Broken(WireError):
    """The connection was lost, or what came over it was no HTTP."""


class Silent(WireError):
    """Nothing came or went for the whole patience."""


class Unusable(WireError):
    """The request cannot be sent at all."""


class AnswerClosed(Exception):
    """An answer was closed, by the caller, while it was read."""


def may_repeat(error: WireError, *, repeatable: bool) -> bool:
    # A server that is silent for the whole patience is not asked for the same patience again.
    return isinstance(error, NeverReached) or (repeatable and isinstance(error, Broken))
