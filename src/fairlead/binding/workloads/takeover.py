"""Projections without a record: from before records, by the original operator, or of a lost one.

A client that replaces a workload may lose a record too. An item counts as the binding's by the
binding's own Secret in its status, or for another Secret by the form of the whole projection:
volume and mount with the binding's name, at its place, of that Secret. Other items are left, and
so is a volume that another program alone wrote by ``metadata.managedFields``.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from fairlead.api.servicebinding.common import DEFAULT_ROOT, ROOT_VARIABLE
from fairlead.api.servicebinding.generated import is_generated
from fairlead.binding.expressions import fixedpath
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.workloads.holdings import (
    Holding,
    name_of,
    secret_of_source,
    secret_of_variable,
    secret_of_volume,
    text_of_variable,
)
from fairlead.binding.workloads.projection import MANAGER, ProjectionOwner
from fairlead.binding.workloads.records import BindingRecord, BoundContainer, ContainerPath
from fairlead.binding.workloads.workload import Container, TooMuchEffortError, Workload


class Former(msgspec.Struct, frozen=True):
    """The former projection of a binding, by its status and spec.

    ``secret`` is the Secret in its status, ``directory`` the one below the binding root,
    ``variables`` are pairs of name and entry, and ``env_from`` says whether the whole Secret
    was projected. ``of_client`` are the pairs that a client may have had, ``texts`` the names of
    its other variables, whose texts have ``reference`` or a path in the directory.
    """

    owner: ProjectionOwner
    secret: str
    volume: str
    directory: str
    variables: Sequence[tuple[str, str]] = ()
    env_from: bool = False
    of_client: Collection[tuple[str, str]] = ()
    texts: Collection[str] = ()
    reference: str = ""

    @property
    def generated(self) -> bool:
        """Whether the Secret is the binding's own, so that references to it are, too."""
        return is_generated(self.secret, self.owner.name)


def infer(
    workload: Workload,
    former: Former,
    others: Collection[BindingRecord],
    *,
    own: bool,
    recorded: bool,
) -> BindingRecord | None:
    """Infer the record of a projection without one.

    Args:
        workload: the workload.
        former: the binding's former projection.
        others: the records of other bindings on the workload.
        own: whether the Secret is the binding's own, so that all references to it are, too.
        recorded: whether each projection of the binding had a record. Then volume and mount at
            their exact places have to prove that one was lost.
    """
    # Without a Secret in the status nothing was ever projected.
    if not former.secret:
        return None
    taken = [Holding(workload.body, record, effort=workload.effort) for record in others]
    search = _Search(workload, former, taken, own=own, recorded=recorded)
    return search.record()


def is_applied(workload: Workload) -> bool:
    """Whether server-side apply wrote the spec of a workload's Pods.

    A program that applies keeps fields of others, unlike most that update.
    """
    path = (*(f"f:{step}" for step in workload.template.volumes[:-1]),)
    entries = fixedpath.read_list(workload.original.to_dict(), ("metadata", "managedFields"))
    return any(
        isinstance(entry, dict)
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
        and bool(fixedpath.read(entry.get("fieldsV1") or {}, path))
        for entry in entries
    )


class _Search:
    """The search for the items of one projection without a record; see :func:`infer`."""

    def __init__(
        self,
        workload: Workload,
        former: Former,
        taken: Collection[Holding],
        *,
        own: bool,
        recorded: bool,
    ) -> None:
        self._workload = workload
        self._former = former
        self._taken = taken
        self._own = own
        self._recorded = recorded
        self._containers = _containers(workload)
        self._pairs = {*former.variables, *former.of_client}

    def record(self) -> BindingRecord | None:
        """Return the record of what was found; None without anything."""
        former, workload = self._former, self._workload
        volumes = fixedpath.read_list(workload.body, workload.template.volumes)
        volume = next((name_of(item) for item in volumes if self._is_volume(item)), None) or ""
        places: dict[int, ContainerPath] = {}
        mounted = False
        for container in self._containers:
            bound = BoundContainer(mount=self._mount(container, volume))
            mounted = mounted or bool(bound.mount)
            place = places.setdefault(id(container.template), _place(container))
            place.bound[container.key] = bound
        # Variables of any writer may refer to a Secret that the binding does not own; but a mount
        # of it at the binding's directory is the binding's.
        certain = self._own or mounted
        for container in self._containers:
            bound = places[id(container.template)].bound[container.key]
            bound.env = self._variables(container) if certain else []
            bound.texts = self._texts(container, bound.mount) if certain else {}
            bound.env_from = self._has_source(container, certain=certain)
        for place in places.values():
            place.bound = {key: bound for key, bound in place.bound.items() if bound}
        places_bound = [place for place in places.values() if place.bound]
        own_volume = bool(volume) and certain and not self._is_shared(volume, places_bound)
        if not places_bound and not own_volume:
            return None
        owner = former.owner
        return BindingRecord(
            group=owner.group,
            name=owner.name,
            created=owner.created,
            secret=former.secret,
            volume=volume,
            volumes=workload.template.volumes if own_volume else (),
            containers=places_bound,
        )

    def _is_volume(self, item: Any) -> bool:
        return (
            secret_of_volume(item) == self._former.secret
            and (self._own or name_of(item) == self._former.volume)
            and not any(other.is_volume(item) for other in self._taken)
            and not self._is_by_hand(item)
        )

    def _is_by_hand(self, item: Any) -> bool:
        """Whether a volume without a record was written by another program, and not by ours.

        A binding that finds it in its way has a Secret in its status, and no record, too.
        """
        if self._own or not self._recorded:
            return False
        path, body = self._workload.template.volumes, self._workload.original.to_dict()
        writers = {
            str(entry.get("manager"))
            for entry in fixedpath.read_list(body, ("metadata", "managedFields"))
            if isinstance(entry, dict)
            and not entry.get("subresource")
            and _owns(entry.get("fieldsV1"), path, name_of(item) or "")
        }
        return bool(writers) and not any(one.startswith(MANAGER) for one in writers)

    def _mount(self, container: Container, volume: str) -> str:
        """Return the path of the binding's mount of the volume in a container, "" for none."""
        for item in container.volume_mounts(create=False) if volume else ():
            path = item.get("mountPath") if isinstance(item, dict) else None
            if isinstance(path, str) and name_of(item) == volume and self._is_at(container, path):
                return path
        return ""

    def _is_at(self, container: Container, path: str) -> bool:
        if self._own:
            return True
        if not self._recorded:
            return posixpath.basename(path) == self._former.directory
        return path == posixpath.join(_root(container), self._former.directory)

    def _is_shared(self, volume: str, paths: Collection[ContainerPath]) -> bool:
        """Whether the volume of a lost record is mounted elsewhere, too, by another writer."""
        if self._own or not self._recorded:
            return False
        mounts = {bound.mount for place in paths for bound in place.bound.values()}
        return any(
            name_of(item) == volume and item.get("mountPath") not in mounts
            for container in self._containers
            for item in container.volume_mounts(create=False)
        )

    def _variables(self, container: Container) -> list[str]:
        """Return the variables of a generated Secret; of another one those in the spec."""
        return [
            str(name_of(item))
            for item in container.env(create=False)
            if secret_of_variable(item) == self._former.secret
            and not any(other.is_variable(container, item) for other in self._taken)
            and (
                self._own
                or (name_of(item), item["valueFrom"]["secretKeyRef"].get("key")) in self._pairs
            )
        ]

    def _texts(self, container: Container, mount: str) -> dict[str, str]:
        """Return the variables of a client that have paths, with their texts."""
        texts = {
            str(name_of(item)): text_of_variable(item) or ""
            for item in container.env(create=False)
            if name_of(item) in self._former.texts
            and not any(other.is_variable(container, item) for other in self._taken)
        }
        return {
            name: text
            for name, text in texts.items()
            if self._former.reference in text or (mount and text.startswith(f"{mount}/"))
        }

    def _has_source(self, container: Container, *, certain: bool) -> bool:
        if not self._own and not (self._former.env_from and (certain or not self._recorded)):
            return False
        return any(
            secret_of_source(item) == self._former.secret
            and not any(other.is_source(container, item) for other in self._taken)
            for item in container.env_from(create=False)
        )


def _owns(fields: Any, path: fixedpath.FixedPath, name: str) -> bool:
    """Whether fields of a manager have the item of a name in the list at a path.

    Source: FieldsV1 in k8s.io/apimachinery. A list that is atomic has no keys, and one owner.
    """
    owned = fixedpath.read(fields, tuple(f"f:{step}" for step in path))
    if not isinstance(owned, dict):
        return False
    keys = [key.removeprefix("k:") for key in owned if key.startswith("k:")]
    return not keys or json.dumps({"name": name}, separators=(",", ":")) in keys


def _root(container: Container) -> str:
    """Return the binding root of a container that a binding was projected onto."""
    env = container.env(create=False)
    values = [item.get("value") for item in env if name_of(item) == ROOT_VARIABLE]
    root = values[-1] if values else DEFAULT_ROOT
    return posixpath.normpath(root) if isinstance(root, str) and root else DEFAULT_ROOT


def _containers(workload: Workload) -> list[Container]:
    try:
        return workload.containers()
    # A ProjectionError too, which must not pass for a workload without containers.
    except TooMuchEffortError:
        raise
    except ProjectionError:
        return []


def _place(container: Container) -> ContainerPath:
    template = container.template
    return ContainerPath(
        path=template.expression,
        name=template.name or (),
        env=template.env,
        volume_mounts=template.volume_mounts,
    )
