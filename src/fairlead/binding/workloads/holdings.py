"""Holdings: the items of a record in the workload's present state.

A volume, mount or variable is a binding's while it has the recorded name and place, and refers to
a Secret of the binding. If another writer has replaced it, it is theirs. Fields that others add to
it, as policies, schemas with defaults and people do, leave it the binding's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.binding.expressions import fixedpath
from fairlead.binding.expressions.fixedpath import FixedPath, ProjectionError
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.records import BindingRecord, BoundContainer, ContainerPath
from fairlead.binding.workloads.workload import (
    BindingEffort,
    Container,
    ContainerTemplate,
    TooMuchEffortError,
    container_template,
    containers_of,
)


Key = tuple[int, str, str]
"""Key of an item in a workload: the identity of its list, its kind and its name."""


class HeldContainer(msgspec.Struct, frozen=True):
    """A container, with the recorded items in it."""

    container: Container
    bounds: list[BoundContainer]


@dataclass(slots=True)
class _Known:
    """The recorded items of a container: variables, mounts, the whole Secret, and the root.

    ``names`` are those of all variables.
    """

    env: set[str | None] = field(default_factory=set)
    texts: set[tuple[str, str]] = field(default_factory=set)
    names: set[str | None] = field(default_factory=set)
    mounts: set[str | None] = field(default_factory=set)
    env_from: bool = False
    root: bool = False


_NOTHING = _Known()
_PATH = 50
"""Cost of reading a path, in steps."""


class Holding:
    """The items of a binding on a workload by its record; ``secrets`` are the binding's."""

    def __init__(
        self,
        body: JSON,
        record: BindingRecord,
        secrets: Collection[str] = (),
        effort: BindingEffort | None = None,
    ) -> None:
        self.record = record
        self._body = body
        self._effort = effort or BindingEffort()
        self._secrets = {record.secret, *secrets} - {""}

    @cached_property
    def _containers(self) -> list[HeldContainer]:
        """The record's containers, found on first use: most records need no check."""
        return list(_held_containers(self._body, self.record, self._effort))

    @cached_property
    def _recorded(self) -> dict[int, _Known]:
        """The recorded items by the container's identity: several paths may reach one."""
        items: dict[int, _Known] = {}
        for holding in self._containers:
            entry = items.setdefault(id(holding.container.body), _Known())
            for bound in holding.bounds:
                self._effort.spend(1 + len(bound.env) + len(bound.texts))
                entry.env.update(bound.env)
                entry.texts.update(bound.texts.items())
                entry.names.update(bound.env, bound.texts)
                if bound.mount:
                    entry.mounts.add(bound.mount)
                entry.env_from = entry.env_from or bound.env_from
                entry.root = entry.root or bound.root
        return items

    def _of(self, container: Container) -> _Known:
        return self._recorded.get(id(container.body), _NOTHING)

    def is_volume(self, item: Any) -> bool:
        """Whether the volume ``item`` is the binding's."""
        return (
            bool(self.record.volumes)
            and name_of(item) == self.record.volume
            and secret_of_volume(item) in self._secrets
        )

    def is_mount(self, container: Container, item: Any) -> bool:
        """Whether the mount ``item`` is the binding's."""
        path = _get(item, "mountPath")
        return name_of(item) == self.record.volume and path in self._of(container).mounts

    def is_variable(self, container: Container, item: Any) -> bool:
        """Whether the variable ``item`` is the binding's."""
        bound, name = self._of(container), name_of(item)
        if secret_of_variable(item) in self._secrets and name in bound.env:
            return True
        text = text_of_variable(item)
        return name is not None and text is not None and (name, text) in bound.texts

    def is_source(self, container: Container, item: Any) -> bool:
        """Whether the envFrom source ``item`` is the binding's."""
        return secret_of_source(item) in self._secrets and self._of(container).env_from

    def has_root(self, container: Container) -> bool:
        """Whether a binding has added SERVICE_BINDING_ROOT to the container."""
        return self._of(container).root

    def lost(self) -> list[str]:
        """Return descriptions of recorded items that the workload no longer has."""
        volumes = fixedpath.read_list(self._body, self.record.volumes)
        items = [] if not self.record.volumes else [f"volume {self.record.volume}"]
        if any(map(self.is_volume, volumes)):
            items = []
        for holding in self._containers:
            container = holding.container
            env, sources = container.env(create=False), container.env_from(create=False)
            mounts = container.volume_mounts(create=False)
            names = {name_of(item) for item in env if self.is_variable(container, item)}
            for bound in holding.bounds:
                recorded = [*bound.env, *bound.texts]
                items += [f"variable {name}" for name in recorded if name not in names]
                if bound.mount and not any(self.is_mount(container, item) for item in mounts):
                    items.append(f"mount {bound.mount}")
                if bound.env_from and not any(self.is_source(container, one) for one in sources):
                    items.append("the variables of the whole Secret")
        return list(dict.fromkeys(items))

    def containers(self) -> list[Container]:
        """Return the containers at the recorded paths, each once."""
        containers = {
            id(holding.container.body): holding.container for holding in self._containers
        }
        return [*containers.values()]

    def replaced(self, others: Collection[Holding]) -> list[str]:
        """Return descriptions of items in the recorded places that are not the binding's.

        Without those of ``others``, which are the holdings of other bindings. At the place of a
        Secret's name the name itself is described, since it stays there.
        """
        record = self.record
        volumes = fixedpath.read_list(self._body, record.volumes) if record.volumes else []
        items = [
            f"volume {record.volume}"
            for item in volumes
            if name_of(item) == record.volume
            and not any(one.is_volume(item) for one in (self, *others))
        ]
        for holding in self._containers:
            container, bound = holding.container, self._of(holding.container)
            env, mounts = container.env(create=False), container.volume_mounts(create=False)
            self._effort.spend(len(env) + len(mounts))
            items += [
                f"variable {name_of(item)} of {container}"
                for item in env
                if name_of(item) in bound.names
                and not any(one.is_variable(container, item) for one in (self, *others))
            ]
            items += [
                f"mount {_get(item, 'mountPath')} of {container}"
                for item in mounts
                if _get(item, "mountPath") in bound.mounts
                and not any(one.is_mount(container, item) for one in (self, *others))
            ]
        path = tuple(record.secret_path.split("."))
        if record.secret_path and fixedpath.read(self._body, path) == record.secret:
            items.append(f"the name of Secret {record.secret} at .{record.secret_path}")
        return list(dict.fromkeys(items))

    def remove(self, keys: Collection[Key] = ()) -> None:
        """Remove the binding's items except those in ``keys``.

        Empty lists stay, and SERVICE_BINDING_ROOT: other bindings may mount below it.
        """
        volumes = fixedpath.read_list(self._body, self.record.volumes)
        gone = _remove(volumes, self.is_volume, "volume", keys)
        for holding in self._containers:
            container = holding.container
            env, sources = container.env(create=False), container.env_from(create=False)
            self._effort.spend(len(env) + len(sources))
            _remove(env, partial(self.is_variable, container), "variable", keys)
            _remove(sources, partial(self.is_source, container), "source", keys)
            mounts = container.volume_mounts(create=False)
            self._effort.spend(2 * len(mounts))
            # A server refuses mounts of a missing volume, so others' mounts of it are removed too.
            mounts[:] = [item for item in mounts if name_of(item) not in gone]
            _remove(mounts, partial(self.is_mount, container), "mount", keys)


def naming(
    body: JSON,
    volumes: FixedPath,
    containers: Collection[Container],
    secrets: Collection[str],
    others: Collection[Holding],
) -> list[str]:
    """Return descriptions of the items that name one of the Secrets, without those of others.

    Args:
        body: the workload.
        volumes: the path of its volumes, () for none.
        containers: its containers.
        secrets: the names of Secrets.
        others: the holdings of other bindings.
    """
    holdings = [
        f"volume {name_of(item)} of Secret {secret_of_volume(item)}"
        for item in (fixedpath.read_list(body, volumes) if volumes else [])
        if secret_of_volume(item) in secrets and not any(one.is_volume(item) for one in others)
    ]
    for container in containers:
        holdings += [
            f"variable {name_of(item)} of {container}"
            for item in container.env(create=False)
            if secret_of_variable(item) in secrets
            and not any(one.is_variable(container, item) for one in others)
        ]
        holdings += [
            f"the variables of Secret {_part(item, 'secretRef')['name']} in {container}"
            for item in container.env_from(create=False)
            if _get(_part(item, "secretRef"), "name") in secrets
            and not any(one.is_source(container, item) for one in others)
        ]
    return holdings


def managers_of(body: JSON, container: Container, variable: str) -> set[str]:
    """Return the field managers that own a variable of a container.

    None are known of a container without a name, or in an atomic list.

    Source: ``metadata.managedFields``, FieldsV1 in k8s.io/apimachinery.
    """
    path = (*(f"f:{step}" for step in container.template.env), _name_key(variable))
    return {
        str(entry.get("manager"))
        for entry in fixedpath.read_list(body, ("metadata", "managedFields"))
        if isinstance(entry, dict)
        and any(
            fixedpath.read(fields, path) is not None
            for fields in _fields_of(entry.get("fieldsV1"), _name_key(container.name))
        )
    }


def _name_key(name: str) -> str:
    return f"k:{json.dumps({'name': name}, separators=(',', ':'))}"


def _fields_of(fields: Any, key: str) -> Iterator[JSON]:
    """Yield the owned fields of the list items with a key, wherever they are."""
    waiting = [fields]
    while waiting:
        owned = waiting.pop()
        if isinstance(owned, dict):
            if isinstance(owned.get(key), dict):
                yield owned[key]
            waiting += owned.values()


def key_of(items: list[Any], kind: str, item: Any) -> Key:
    """Return the key of an item in its list."""
    match kind:
        case "mount":
            name = f"{name_of(item)} {_get(item, 'mountPath')}"
        case "source":
            name = str(secret_of_source(item))
        case _:
            name = str(name_of(item))
    return id(items), kind, name


def _remove(
    items: list[Any], unwanted: Callable[[Any], bool], kind: str, keys: Collection[Key]
) -> set[Any]:
    gone = [item for item in items if unwanted(item) and key_of(items, kind, item) not in keys]
    # By identity: another writer's item in the list may be equal to one that goes.
    identities = {id(item) for item in gone}
    items[:] = [item for item in items if id(item) not in identities]
    return {name_of(item) for item in gone}


def _held_containers(
    body: JSON, record: BindingRecord, effort: BindingEffort
) -> Iterator[HeldContainer]:
    for place in record.containers:
        effort.spend(_PATH + len(place.path))
        template = place_template(place)
        if template is None:
            continue
        try:
            containers = list(containers_of(body, template, effort))
        # A ProjectionError too, which must not pass for a path that leads nowhere.
        except TooMuchEffortError:
            raise
        # The path no longer leads to containers: there is nothing to remove.
        except ProjectionError:
            continue
        present = {container.key for container in containers}
        # Items of containers that are gone may be in renamed ones.
        strays = [bound for key, bound in place.bound.items() if key not in present]
        for container in containers:
            bound = place.bound.get(container.key)
            effort.spend(1 if bound else len(strays))
            yield HeldContainer(container, [bound] if bound else strays)


def place_template(place: ContainerPath) -> ContainerTemplate | None:
    """Return the template of a record's paths; None if it was edited and is invalid."""
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
    """Return the Secret of a volume, None for a volume of another kind."""
    return _get(_part(item, "secret"), "secretName")


def secret_of_variable(item: Any) -> str | None:
    """Return the Secret of which a variable has an entry, else None."""
    return _get(_part(_part(item, "valueFrom"), "secretKeyRef"), "name")


def text_of_variable(item: Any) -> str | None:
    """Return the literal value of a variable, None for one that has its value from elsewhere."""
    return None if _part(item, "valueFrom") else _get(item, "value")


def secret_of_source(item: Any) -> str | None:
    """Return the Secret of which an envFrom source has all entries by their names, else None."""
    # A prefix gives other variables: a workload may have the same Secret with one and without.
    return None if _get(item, "prefix") else _get(_part(item, "secretRef"), "name")


_NARROWING = {"items", "subPath", "subPathExpr"}
"""Fields with which a volume or a mount has only a part of the Secret."""

_VALUES = {"value", "valueFrom"}
"""Fields with the value of a variable, which has one of them."""


def is_as_wanted(item: Any, template: Any) -> bool:
    """Whether an item of any writer does what a binding's does.

    It may have more fields, as filled-in defaults are, but none that hides files.
    """
    if not isinstance(template, dict):
        return bool(item == template)
    return (
        isinstance(item, dict)
        and not any(item.get(name) for name in _NARROWING)
        and all(is_as_wanted(item.get(name), value) for name, value in template.items())
    )


def with_added(template: JSON, item: Any) -> JSON:
    """Return the wanted item with the fields that others added to the present one.

    A variable that had its value from elsewhere may have a text now, or the other way round:
    servers refuse both.
    """
    if not isinstance(item, dict):
        return template
    return {
        **{name: value for name, value in item.items() if not (name in _VALUES and value)},
        **{
            name: with_added(value, item.get(name)) if isinstance(value, dict) else value
            for name, value in template.items()
        },
    }


def name_of(item: Any) -> str | None:
    """Return the name of a list's item, None if it is malformed."""
    return _get(item, "name")


def _part(item: Any, field: str) -> Any:
    return item.get(field) if isinstance(item, dict) else None


def _get(item: Any, field: str) -> str | None:
    value = item.get(field) if isinstance(item, dict) else None
    return value if isinstance(value, str) else None
