"""When a request is tried again, and how long to wait before."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Optional

import httpx


@dataclass(frozen=True)
class RetryPolicy:
    """Requests that are safe to repeat (by their method, by an idempotency key, by offsets) are repeated when the
    connection is lost; all others only when it was never made, so that nothing is done twice."""

    retries: int = 6
    first_seconds: float = 0.05
    longest_seconds: float = 2.0

    def pause(self, attempt: int, retry_after: Optional[float] = None) -> float:
        """Seconds before the try after `attempt` (from 0); spread out, so that many clients do not come at once."""
        if retry_after is not None:
            return min(retry_after, 10 * self.longest_seconds)
        ceiling = min(self.longest_seconds, self.first_seconds * 2.0**attempt)
        return ceiling * random.uniform(0.5, 1.0)


def never_reached(error: Exception) -> bool:
    """The server cannot have seen the request."""
    return isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))


def may_repeat(error: Exception, *, repeatable: bool) -> bool:
    # A server that is silent for the whole patience is not asked for the same patience again.
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.ProxyError, httpx.ReadTimeout, httpx.WriteTimeout)):
        return False
    return never_reached(error) or (repeatable and isinstance(error, httpx.TransportError))
