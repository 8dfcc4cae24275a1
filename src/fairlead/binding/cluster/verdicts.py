"""Answers of SubjectAccessReviews, cached for a moment.

No watch shows a change of rights, so answers are cached for less time than by Kubernetes' own
authorization webhook (5 minutes and 30 seconds): another pass may follow soon, and an author who
was just given a right waits for it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import msgspec

from fairlead.binding.cluster.fetching import review
from fairlead.binding.reads import RightsReview
from fairlead.client import Client


ALLOWED_SECONDS = 30.0
"""How long an allowed request is cached, in seconds."""

DENIED_SECONDS = 5.0
"""How long a denied request is cached, in seconds."""

MOST_VERDICTS = 20_000
"""Largest number of cached answers; the oldest are dropped."""


class Verdicts:
    """Asks whether users may do something; ``clock`` returns seconds."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._verdicts: dict[bytes, tuple[bool, float]] = {}

    async def allowed(self, read: RightsReview) -> bool:
        """Whether the user may do it; no verdict counts as a refusal."""
        # Hashed, since a requester may be in many groups with long names.
        key = hashlib.blake2b(msgspec.json.encode(read), digest_size=16).digest()
        is_allowed, until = self._verdicts.get(key, (False, 0.0))
        if self._clock() < until:
            return is_allowed
        # Cached from the start of the review: the right may change before its answer.
        begun = self._clock()
        verdict = await review(self._client, read)
        self._verdicts.pop(key, None)
        if verdict is None:
            return False
        if len(self._verdicts) >= MOST_VERDICTS:
            del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[key] = verdict, begun + (ALLOWED_SECONDS if verdict else DENIED_SECONDS)
        return verdict
