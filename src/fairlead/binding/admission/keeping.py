"""The key of requester proofs: one Secret that all replicas watch."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from fairlead.api.keys import UnusableKeyError, key_in
from fairlead.api.resource import SECRETS
from fairlead.binding.admission.names import NAME
from fairlead.client import ClientError
from fairlead.runtime import Cluster, Delta, delays
from fairlead.runtime.admission.keeping import OWNER_LABEL
from fairlead.runtime.backoff import Backoff
from fairlead.runtime.keys import kept_key


_LABELS = {OWNER_LABEL: NAME, "app.kubernetes.io/part-of": "fairlead"}
_log = structlog.get_logger(logger_name="fairlead.binding.admission")


class RequesterKey:
    """The present key in every replica; the leader runs it, and creates a missing key."""

    name = "key of requester proofs"

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._client = cluster.client
        self._key = (namespace, name)
        self._secrets = cluster.informer(
            SECRETS, namespace=namespace, fields=f"metadata.name={name}"
        )
        self._changed = asyncio.Event()

    def __call__(self) -> bytes:
        """Return the key, b"" while it is unknown or unusable."""
        secret = self._secrets.get(*self._key)
        try:
            return key_in(secret) if secret is not None else b""
        except UnusableKeyError:
            return b""

    async def run(self) -> None:
        """Create the key whenever it is missing, until canceled."""
        self._secrets.subscribe(self._notice)
        await self._secrets.synced()
        backoff, loop = Backoff(delays.CHILD), asyncio.get_running_loop()
        while True:
            # Before the look: a change during it must not be waited for in vain.
            self._changed.clear()
            wait: float | None = None
            try:
                # A deleted key is replaced too: earlier proofs are void then.
                if not self():
                    await kept_key(self._client, *self._key, labels=_LABELS)
                backoff.good(loop.time())
            except UnusableKeyError as error:
                # Only a change of the Secret can help.
                _log.warning("no requester is proven", error=str(error))
            except ClientError as error:
                wait = backoff.failed(loop.time())
                _log.warning("there is no key of proofs", error=str(error), retry_seconds=wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _notice(self, delta: Delta) -> None:
        self._changed.set()
