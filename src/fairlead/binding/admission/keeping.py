"""The key under which webhooks prove who asked: one Secret that all replicas follow."""

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
    """The key as it is now, in every replica; run by who leads, it is made where there is none."""

    name = "key of requester proofs"

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._client = cluster.client
        self._key = (namespace, name)
        self._secrets = cluster.informer(
            SECRETS, namespace=namespace, fields=f"metadata.name={name}"
        )
        self._changed = asyncio.Event()

    def __call__(self) -> bytes:
        """The key, b"" while it is not known or cannot be used."""
        found = self._secrets.get(*self._key)
        try:
            return key_in(found) if found is not None else b""
        except UnusableKeyError:
            return b""

    async def run(self) -> None:
        """Have a key until cancelled."""
        self._secrets.subscribe(self._notice)
        await self._secrets.synced()
        backoff, loop = Backoff(delays.CHILD), asyncio.get_running_loop()
        while True:
            self._changed.clear()
            wait: float | None = None
            try:
                # Also when somebody has deleted it: proofs from before do not count any more then.
                if not self():
                    await kept_key(self._client, *self._key, labels=_LABELS)
                backoff.good(loop.time())
            except UnusableKeyError as error:
                # Only somebody who changes the Secret can help.
                _log.warning("no requester is proven", error=str(error))
            except ClientError as error:
                wait = backoff.failed(loop.time())
                _log.warning("there is no key of proofs", error=str(error), retry_seconds=wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _notice(self, delta: Delta) -> None:
        self._changed.set()
