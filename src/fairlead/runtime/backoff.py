"""Back-off: delays before another attempt after failures."""

from __future__ import annotations

import random

import msgspec


class BackoffPolicy(msgspec.Struct, frozen=True):
    """Exponential delays in seconds: ``initial`` times ``factor`` each, at most ``maximum``.

    Each is multiplied by a random number within ``jitter`` of 1, so that clients which fail
    together do not come back together. The values are those of Kubernetes' own reflector.
    """

    initial: float = 0.8
    maximum: float = 30.0
    factor: float = 2.0
    jitter: float = 0.25
    stable: float = 30.0
    """Seconds without a failure after which a :class:`Backoff` starts with ``initial`` again."""

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after a failure, given the number of failures before it."""
        # Beyond 64 doublings the power overflows and the maximum holds anyway.
        delay = min(self.initial * self.factor ** min(failures, 64), self.maximum)
        spread = self.jitter * (2 * random.random() - 1)  # noqa: S311
        return min(delay * (1 + spread), self.maximum)


class Backoff:
    """Counts the failures of one watch, part or request, and gives the delay after each.

    Times are seconds of the caller's clock.

    ``failures`` counts since the last stable period.
    """

    def __init__(self, policy: BackoffPolicy) -> None:
        self.policy = policy
        self.failures = 0
        self._good_since: float | None = None

    def good(self, now: float) -> None:
        """Record a success; the first one after a failure begins the stable period."""
        if self._good_since is None:
            self._good_since = now

    def failed(self, now: float) -> float:
        """Record a failure, and return the delay before the next attempt, in seconds."""
        policy = self.policy
        if self._good_since is not None and now - self._good_since >= policy.stable:
            self.failures = 0
        self._good_since = None
        delay = policy.delay(self.failures)
        self.failures += 1
        return delay
