"""When a refused request is sent again: the server must have asked for it, or done nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass


IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds for one request; the caller's own back-off takes over beyond them.

    ``attempts`` counts the first one too; the waits of a request add up to ``budget`` seconds at
    most.
    """

    attempts: int = 6
    budget: float = 30.0
    base: float = 0.25

    def wait(
        self, method: str, code: int, retry_after: float | None, attempt: int, waited: float
    ) -> float | None:
        """Seconds until the next attempt, None when the answer is final.

        A 429 was not processed, so any method may follow it; a 503 only an idempotent one, and
        only where the server says when.
        """
        if code == 429:
            delay = retry_after if retry_after is not None else self._backoff(attempt)
        elif code == 503 and method in IDEMPOTENT and retry_after is not None:
            delay = retry_after
        else:
            return None
        # A server that says 0 is still given a moment: no answer may make a hot loop.
        delay = max(delay, self._backoff(attempt) if attempt else 0.0)
        if attempt + 1 >= self.attempts or waited + delay > self.budget:
            return None
        return delay

    def _backoff(self, attempt: int) -> float:
        return self.base * 2.0**attempt * random.uniform(1.0, 1.5)  # noqa: S311  jitter
