"""Holdings: what a record names, found in a workload as it is now.

A volume, mount or variable counts as a binding's while it is under the recorded name, in the
recorded place, and refers to a Secret of the binding. Whoever has put something else there since
has taken the place over: it is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.binding.expressions import fixedpath
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.records import Bound, ContainerPath, Record
from fairlead.binding.workloads.workload import (
    Container,
    ContainerTemplate,
    container_template,
    containers_of,
)


Key = tuple[int, str, str]
"""A thing in a workload: the identity of its list, its kind, and what it is called there."""


class HeldContainer(msgspec.Struct, frozen=True):
    """A container, and what records say of it."""

    container: Container
    bounds: list[Bound]


class Holding:
    """What one record's binding has on a workload; ``secrets`` are those of the binding."""

    def __init__(self, body: JSON, record: Record, secrets: Collection[str] = ()) -> None:
        self.record = record
        self._body = body
        self._secrets = {record.secret, *secrets} - {""}
        self._containers = list(_held(body, record))

    def is_volume(self, item: Any) -> bool:
        """Whether a volume is the binding's."""
        return (
            bool(self.record.volumes)
            and name_of(item) == self.record.volume
            and secret_of_volume(item) in self._secrets
        )

    def is_mount(self, container: Container, item: Any) -> bool:
        """Whether a mount is the binding's."""
        wanted = {"name": self.record.volume, "mountPath": _get(item, "mountPath")}
        return item == wanted and any(
            bound.mount == wanted["mountPath"] for bound in self._bounds(container)
        )

    def is_variable(self, container: Container, item: Any) -> bool:
        """Whether a variable is the binding's."""
        return secret_of_variable(item) in self._secrets and any(
            name_of(item) in bound.env for bound in self._bounds(container)
        )

    def is_source(self, container: Container, item: Any) -> bool:
        """Whether a source of variables is the binding's."""
        return secret_of_source(item) in self._secrets and any(
            bound.env_from for bound in self._bounds(container)
        )

    def lost(self) -> list[str]:
        """What the record names and the workload has no more, in words."""
        volumes = fixedpath.read_list(self._body, self.record.volumes)
        found = [] if not self.record.volumes else [f"volume {self.record.volume}"]
        if any(map(self.is_volume, volumes)):
            found = []
        for held in self._containers:
            container = held.container
            env, sources = container.env(create=False), container.env_from(create=False)
            mounts = container.volume_mounts(create=False)
            names = {name_of(item) for item in env if self.is_variable(container, item)}
            for bound in held.bounds:
                found += [f"variable {name}" for name in bound.env if name not in names]
                if bound.mount and not any(self.is_mount(container, item) for item in mounts):
                    found.append(f"mount {bound.mount}")
                if bound.env_from and not any(self.is_source(container, one) for one in sources):
                    found.append("the variables of the whole Secret")
        return list(dict.fromkeys(found))

    def remove(self, kept: Collection[Key] = ()) -> None:
        """Take the binding's things away, but those that are ``kept``.

        Lists that become empty stay, as does SERVICE_BINDING_ROOT: others may mount below it.
        """
        volumes = fixedpath.read_list(self._body, self.record.volumes)
        gone = _remove(volumes, self.is_volume, "volume", kept)
        for held in self._containers:
            container = held.container
            env, sources = container.env(create=False), container.env_from(create=False)
            _remove(env, partial(self.is_variable, container), "variable", kept)
            _remove(sources, partial(self.is_source, container), "source", kept)
            mounts = container.volume_mounts(create=False)
            # A server refuses a mount of a volume that is not there, whoever made it.
            mounts[:] = [item for item in mounts if name_of(item) not in gone]
            _remove(mounts, partial(self.is_mount, container), "mount", kept)

    def _bounds(self, container: Container) -> list[Bound]:
        return [
            bound
            for held in self._containers
            if held.container.body is container.body
            for bound in held.bounds
        ]


def key_of(items: list[Any], kind: str, item: Any) -> Key:
    """What identifies a thing among those of its list."""
    match kind:
        case "mount":
            name = f"{name_of(item)} {_get(item, 'mountPath')}"
        case "source":
            name = str(secret_of_source(item))
        case _:
            name = str(name_of(item))
    return id(items), kind, name


def _remove(
    items: list[Any], unwanted: Callable[[Any], bool], kind: str, kept: Collection[Key]
) -> set[Any]:
    gone = [item for item in items if unwanted(item) and key_of(items, kind, item) not in kept]
    items[:] = [item for item in items if all(item is not other for other in gone)]
    return {name_of(item) for item in gone}


def _held(body: JSON, record: Record) -> Iterator[HeldContainer]:
    for place in record.containers:
        template = place_template(place)
        if template is None:
            continue
        try:
            found = list(containers_of(body, template))
        # Where no container is any more, there is nothing left to take away.
        except ProjectionError:
            continue
        present = {container.key for container in found}
        # What a container had goes with it when it is renamed.
        strays = [bound for key, bound in place.bound.items() if key not in present]
        for container in found:
            known = place.bound.get(container.key)
            yield HeldContainer(container, [known] if known else strays)


def place_template(place: ContainerPath) -> ContainerTemplate | None:
    """The template that a record was made with; None when somebody has made it unreadable."""
    try:
        return container_template(
            place.path,
            name=tuple(place.name) or None,
            env=tuple(place.env),
            volume_mounts=tuple(place.volume_mounts),
        )
    except MappingError:
        return None


def secret_of_volume(item: Any) -> str | None:
    """The Secret of a volume in the shape that bindings give it, else None."""
    if not isinstance(item, dict) or set(item) != {"name", "secret"}:
        return None
    source = item["secret"]
    if not isinstance(source, dict) or not set(source) <= {"secretName", "defaultMode"}:
        return None
    return _get(source, "secretName")


def secret_of_variable(item: Any) -> str | None:
    """The Secret of a variable in the shape that bindings give it, else None."""
    if not isinstance(item, dict) or set(item) != {"name", "valueFrom"}:
        return None
    source = item["valueFrom"]
    if not isinstance(source, dict) or set(source) != {"secretKeyRef"}:
        return None
    return _get(source["secretKeyRef"], "name")


def secret_of_source(item: Any) -> str | None:
    """The Secret of a source of variables in the shape that bindings give it, else None."""
    if not isinstance(item, dict) or set(item) != {"secretRef"}:
        return None
    return _get(item["secretRef"], "name")


def name_of(item: Any) -> str | None:
    """The name of an item of a list that others may have written anything into."""
    return _get(item, "name")


def _get(item: Any, field: str) -> str | None:
    value = item.get(field) if isinstance(item, dict) else None
    return value if isinstance(value, str) else None
