"""Maintains BindableKinds, the list of bindable kinds, from CustomResourceDefinitions.

CRDs are large and few of them are bindable, so only their metadata is watched, and each is read
once after a change. The list is first written after all of them have been read.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.api.servicebinding.coreos import BINDABLEKINDS, BINDABLEKINDS_NAME, BindableKind
from fairlead.binding import bounds
from fairlead.binding.handlers.collecting import is_bindable
from fairlead.binding.services.definitions import registered
from fairlead.client import AlreadyExists, Conflict, NotFound
from fairlead.runtime import Cluster, Controller, Delta, Request, changed
from fairlead.runtime.controller.controller import ControllerStats


def bindable_kinds(crd: JSON) -> list[BindableKind]:
    """Return a CRD's bindable versions: all served ones, or those with built-in definitions."""
    spec = crd.get("spec") or {}
    group, kind = spec.get("group", ""), (spec.get("names") or {}).get("kind", "")
    whole = is_bindable(crd)
    return [
        BindableKind(group=group, kind=kind, version=version["name"])
        for version in spec.get("versions") or []
        if version.get("served") and (whole or registered(f"{group}/{version['name']}", kind))
    ]


def _view(crd: Object | None) -> Any:
    meta = crd.meta if crd else None
    return meta and (meta.uid, meta.generation, meta.annotations, meta.labels)


class BindableKindsController:
    """Writes a cluster's only BindableKinds, by ``controller``."""

    name = "bindablekinds"

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client
        self.controller = Controller(self.name, self.reconcile, workers=bounds.KIND_READERS)
        self._crds = cluster.informer(CUSTOMRESOURCEDEFINITIONS, metadata_only=True)
        self._written = cluster.informer(BINDABLEKINDS)
        self._kinds: dict[str, list[BindableKind]] = {}
        self._unread: dict[str, object] = {}
        """The last change of each CRD that has not been read yet, by name."""
        self._list = Request(cluster.name, "", BINDABLEKINDS_NAME)

    async def run(self) -> None:
        """Work until canceled."""
        self.controller.watch(self._crds, self._came, predicate=changed(_view))
        self.controller.watch(self._written, lambda _: [self._list])
        await self._crds.synced()
        # Once at the start, so that the list exists without any CRD.
        self.controller.enqueue(self._list)
        await self.controller.run()

    def adopt(self, stats: ControllerStats) -> None:
        """Use these statistics from now on."""
        self.controller.adopt(stats)

    def _came(self, delta: Delta) -> list[Request]:
        name = delta.object.meta.name
        self._unread[name] = object()
        return [self._list._replace(name=name)]

    async def reconcile(self, request: Request) -> None:
        """Read a CRD, or write the list after all of them have been read.

        Raises:
            ClientError: the server is unavailable, or the list was changed meanwhile.
        """
        # A CRD's name has a dot, so it cannot be this one.
        if request.name != BINDABLEKINDS_NAME:
            await self._read(request.name)
            self.controller.enqueue(self._list)
        elif not self._unread:
            await self._write()

    async def _read(self, name: str) -> None:
        last = self._unread.get(name)
        try:
            crd = await self._client.get(CUSTOMRESOURCEDEFINITIONS, name)
        except NotFound:
            self._kinds.pop(name, None)
        else:
            self._kinds[name] = bindable_kinds(crd.to_dict())
        # Removed after the read: others are read concurrently, and the list must wait for all.
        if self._unread.get(name) is last:
            self._unread.pop(name, None)

    async def _write(self) -> None:
        kinds = {kind for kinds in self._kinds.values() for kind in kinds}
        status = [msgspec.to_builtins(kind) for kind in sorted(kinds)]
        body: JSON = {
            "apiVersion": BINDABLEKINDS.api_version,
            "kind": BINDABLEKINDS.kind,
            "metadata": {"name": BINDABLEKINDS_NAME},
            "status": status,
        }
        try:
            live = await self._client.get(BINDABLEKINDS, BINDABLEKINDS_NAME)
        except NotFound:
            try:
                await self._client.create(BINDABLEKINDS, body)
            except AlreadyExists as error:
                raise Conflict(error.status) from None
            return
        if live.to_dict().get("status") != status:
            preconditions = {"uid": live.meta.uid, "resourceVersion": live.meta.resource_version}
            patch = {"metadata": preconditions, "status": status}
            await self._client.merge_patch(BINDABLEKINDS, BINDABLEKINDS_NAME, "", patch)
