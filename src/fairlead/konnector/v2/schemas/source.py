"""The source of a provider's schemas that is active: its labelled CRDs, or its OpenAPI.

Auto reads labelled CRDs where there is one, and OpenAPI where there is none or the server has no
CRDs. It does not leave CRDs again: a provider that takes off its last label offers nothing, rather
than all that it serves. Source: kbind v2, but for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from fairlead.api.kbind import ConnectionStatus, ExportedAPI
from fairlead.api.kbind.names import LABEL_EXPORTED
from fairlead.api.kbind.types import ActiveSchemaSource, SchemaSource
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Forbidden
from fairlead.client.errors import NotFound
from fairlead.konnector.v2.bindings.crds import Fault
from fairlead.konnector.v2.connection.reconcile import exported_apis
from fairlead.konnector.v2.schemas.documents import ServedSchemas
from fairlead.runtime import Cluster, Delta, Informer


ANSWER_SECONDS = 10.0
"""Seconds after which a provider that has not answered counts as silent."""


class ProviderSchemas:
    """The APIs that one provider offers, and their schemas.

    Args:
        cluster: the provider's cluster.
        source: the source that the Connection asks for.
        former: the Connection's status of before.
        interval: seconds between looks at the state of watches, which cost no request.
        patience: looks in a row that must find a fault before the provider counts as lost.
        tell: called with fields of the link's state that may have changed.
    """

    def __init__(
        self,
        cluster: Cluster,
        source: SchemaSource,
        former: ConnectionStatus,
        *,
        interval: float,
        patience: int,
        tell: Callable[..., None],
    ) -> None:
        self.active: ActiveSchemaSource | None = None
        """The source that is read, None before it is known."""
        self.apis: tuple[ExportedAPI, ...] | None = None
        """The APIs that are offered, None before they are known."""
        self._cluster = cluster
        self._source = source
        self._interval = interval
        self._patience = patience
        self._tell = tell
        self._labelled = source == "Auto" and former.active_schema_source == "CRD"
        exports = former.exported_apis if former.active_schema_source == "OpenAPI" else ()
        self._served = ServedSchemas(cluster.client, exports, self._served_changed)
        self._crds: Informer | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._lost_since: float | None = None
        self._wake = asyncio.Event()

    def choose(self, source: SchemaSource) -> None:
        """Read from another source."""
        if source != self._source:
            self._source = source
            self._labelled = False
            self._wake.set()

    def get(self, name: str) -> Object | None:
        """Return the provider's CRD of an API, None if it does not offer one.

        One of OpenAPI has no schemas before they are read.
        """
        if self.active == "OpenAPI":
            return self._served.get(name)
        return self._crds.get("", name) if self.active and self._crds is not None else None

    def fault(self, name: str) -> Fault | None:
        """Return why the schema of an offered API is not known, None if it is."""
        if self.active == "OpenAPI" and any(api.name == name for api in self.apis or ()):
            return self._served.fault(name)
        return None

    def read(self, name: str) -> None:
        """Have the schema of an API read, and read again when it changes."""
        self._served.follow(name)

    def miss(self) -> None:
        """Have the APIs looked at soon, since one of them is not served any more."""
        self._served.miss()

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call the listener with the name of each API that changes, comes or goes."""
        self._listeners.append(listener)

    async def follow(self) -> None:
        """Follow what is offered, until the provider is lost: another cluster may be there."""
        reading = asyncio.create_task(self._served.run(self._wake.set))
        looks = 0
        try:
            while not reading.done():
                self._wake.clear()
                await self._follow_crds()
                self._refresh()
                looks = looks + 1 if self._note_faults() else 0
                if looks >= self._patience:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._wake.wait()
            # It only ends by a fault of the konnector.
            await reading
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _follow_crds(self) -> None:
        """Watch labelled CRDs, unless OpenAPI alone is read."""
        if self._source == "OpenAPI":
            if self._crds is not None:
                await self._crds.close()
                self._crds = None
        elif self._crds is None:
            self._crds = self._cluster.informer(
                CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_EXPORTED}=true"
            )
            self._crds.subscribe(self._crd_changed)
            self._crds.listen(self._wake.set)

    def _chosen(self) -> ActiveSchemaSource | None:
        """Return the source that is to be read now, the one of before while that is not clear."""
        crds = self._crds
        if crds is None or self._lacks_crds():
            return "OpenAPI"
        if not crds.has_synced:
            return self.active
        if self._source == "CRD":
            return "CRD"
        self._labelled = self._labelled or bool(crds.list())
        return "CRD" if self._labelled else "OpenAPI"

    def _lacks_crds(self) -> bool:
        """Whether the server is without CRDs, which Auto takes for one without labels."""
        auto = self._source == "Auto" and not self._labelled
        return auto and self._crds is not None and isinstance(self._crds.cause, NotFound)

    def _refresh(self) -> None:
        """Take what the active source offers, and report it if it has changed."""
        active = self._chosen()
        self._served.active.set() if active == "OpenAPI" else self._served.active.clear()
        apis = self.apis
        if active == "CRD" and self._crds is not None and self._crds.has_synced:
            apis = exported_apis(self._crds.list())
        elif active == "OpenAPI" and self._served.has_synced:
            apis = self._served.exports
        elif active != self.active:
            apis = None
        changed = active != self.active
        names = {api.name for api in (*(self.apis or ()), *(apis or ()))} if changed else ()
        self.active, self.apis = active, apis
        if apis is not None:
            self._tell(source=active, apis=apis)
        self._report(names)

    def _report(self, names: Iterable[str]) -> None:
        for name in names:
            for listener in self._listeners:
                listener(name)

    def _crd_changed(self, delta: Delta) -> None:
        if self._crds is not None and self._crds.has_synced:
            self._refresh()
        if self.active == "CRD":
            self._report([delta.object.meta.name])

    def _served_changed(self, names: Iterable[str]) -> None:
        if self.active == "OpenAPI":
            self._refresh()
            self._report(names)

    def _note_faults(self) -> bool:
        """Report what fails; return whether the provider does not say what it offers."""
        crds, causes, refusals = self._crds, [], []
        if crds is not None and crds.error and not self._lacks_crds():
            # CRDs that may be listed, and not watched, are all that the protocol asks for.
            watched = not (crds.has_synced and crds.error.startswith("cannot watch"))
            if not isinstance(crds.cause, Forbidden):
                causes.append(crds.error)
            elif watched:
                refusals.append(self._refusal(crds.error))
        if self.active == "OpenAPI" and self._served.error is not None:
            error = self._served.error
            (refusals if isinstance(error, Forbidden) else causes).append(str(error))
        loop = asyncio.get_running_loop()
        if causes:
            self._lost_since = since = self._lost_since or loop.time()
            # A watch that breaks is soon mended, and a provider that answers is not silent.
            if loop.time() - since >= ANSWER_SECONDS:
                self._tell(silent="; ".join(causes))
            return True
        if refusals or self.apis is not None:
            self._lost_since = None
            self._tell(forbidden="; ".join(refusals), silent="")
        return False

    def _refusal(self, message: str) -> str:
        if self._source == "CRD":
            return message
        return f"{message}; to do without CRDs, set schema.source OpenAPI"
