"""What SubjectAccessReviews said, kept for a moment.

No watch tells that a right was given or taken, so nothing is believed for long: shorter than by
Kubernetes' own authorizing webhook (5 minutes and 30 seconds), for here another pass may follow
soon, and an author who has just been given a right waits for it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import msgspec

from fairlead.binding.cluster.fetching import review
from fairlead.binding.reads import Review
from fairlead.client import Client


ALLOWED_SECONDS = 30.0
"""That an allowed request is not asked for again."""

DENIED_SECONDS = 5.0
"""That a denied one is not."""

MOST_VERDICTS = 20_000
"""That are kept; beyond it the oldest go first."""


class Verdicts:
    """Asks on behalf of users what they may do; ``clock`` gives seconds."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[bytes, tuple[bool, float]] = {}

    async def allowed(self, read: Review) -> bool:
        """Whether the user may do it; where nobody says so it counts as a refusal."""
        # A requester may be in many groups with long names.
        key = hashlib.blake2b(msgspec.json.encode(read), digest_size=16).digest()
        known, until = self._known.get(key, (False, 0.0))
        if self._clock() < until:
            return known
        # From before the question on: what changes meanwhile may not be in the answer.
        asked = self._clock()
        found = await review(self._client, read)
        self._known.pop(key, None)
        if found is None:
            return False
        if len(self._known) >= MOST_VERDICTS:
            del self._known[next(iter(self._known))]
        self._known[key] = found, asked + (ALLOWED_SECONDS if found else DENIED_SECONDS)
        return found
