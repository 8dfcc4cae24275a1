"""Deletion of requests and answers of binds whose replica was killed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable

import structlog

from fairlead.api.kubebind import BINDABLERESOURCESREQUESTS
from fairlead.api.meta import Object
from fairlead.api.resource import SECRETS, Resource
from fairlead.client import ClientError, Conflict, NotFound
from fairlead.runtime import Cluster


LEFT_SECONDS = 180.0
"""Age at which a request is left over, in seconds: three times the longest bind."""
SWEEP_SECONDS = 60.0
"""Interval between sweeps, in seconds."""

_CALL_SECONDS = 10.0
_PREFIX = "fairlead-bind-"
_OURS = re.compile(re.escape(_PREFIX) + r"[0-9a-f]{16}")
_log = structlog.get_logger(logger_name="fairlead.portal.leftovers")


def new_name() -> str:
    """Return a new name of a request and its answer, with the prefix that sweeps look for."""
    return _PREFIX + secrets.token_hex(8)


class Leftovers:
    """Deletes what killed replicas left, :data:`LEFT_SECONDS` after this replica first saw it.

    Needed rights: list and delete Secrets and requests of the namespace. Run it as a task, beside
    the cluster.
    """

    name = "leftovers"

    def __init__(
        self, cluster: Cluster, namespace: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = cluster.client
        self._namespace = namespace
        self._clock = clock
        self._requests = cluster.informer(BINDABLERESOURCESREQUESTS, namespace=namespace)
        # When this replica first saw each, by its own monotonic clock: creationTimestamp would
        # make a running request look old if the clocks differ.
        self._seen: dict[str, float] = {}

    async def run(self) -> None:
        """Sweep at intervals, until canceled."""
        await self._requests.synced()
        while True:
            try:
                await self.sweep()
            except (ClientError, TimeoutError) as error:
                _log.warning("leftovers of binds cannot be deleted yet", error=str(error))
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Delete requests and answers that this replica first saw :data:`LEFT_SECONDS` ago.

        Raises:
            ClientError: the API server refused or is unavailable.
            TimeoutError: the API server did not answer.
        """
        now = self._clock()
        found = set()
        async for resource, one in self._found():
            found.add(one.meta.uid)
            first = self._seen.setdefault(one.meta.uid, now)
            if now - first < LEFT_SECONDS or one.meta.deleting:
                continue
            with contextlib.suppress(NotFound, Conflict):
                async with asyncio.timeout(_CALL_SECONDS):
                    # By its uid: a new object of the same name is not a leftover.
                    await self._client.delete(
                        resource, one.meta.name, self._namespace, uid=one.meta.uid
                    )
                _log.info("deleted a leftover of a bind", kind=resource.kind, name=one.meta.name)
        self._seen = {uid: first for uid, first in self._seen.items() if uid in found}

    async def _found(self) -> AsyncIterator[tuple[Resource, Object]]:
        """Yield our requests and then our Secrets: a request would get a deleted Secret again."""
        for one in self._requests.list(self._namespace):
            if _OURS.fullmatch(one.meta.name):
                yield BINDABLERESOURCESREQUESTS, one
        async with asyncio.timeout(_CALL_SECONDS):
            # Sessions have another type, so this list is short.
            answers = await self._client.list(
                SECRETS, self._namespace, fields="type=Opaque", metadata_only=True
            )
        for one in answers.items:
            if _OURS.fullmatch(one.meta.name) and _is_answer(one):
                yield SECRETS, one


def _is_answer(secret: Object) -> bool:
    kinds = {owner.kind for owner in secret.meta.owner_references}
    return BINDABLERESOURCESREQUESTS.kind in kinds
