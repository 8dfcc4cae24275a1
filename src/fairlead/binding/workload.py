"""Workloads: where they keep containers and volumes, and what of a binding is on them.

A ClusterWorkloadResourceMapping, or the default, says where a kind of workload has its containers.
A :class:`Workload` is one object with its containers found by that. :class:`Traces` tell what an
earlier pass put there: nothing is noted on workloads. A generated Secret belongs to its binding
alone, so whatever refers to it is ours. A Secret that is projected as it is may be used by others
too: of it, only a volume in the exact shape and with the name we give is ours.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.mapping import MappingContainer, MappingSpec, MappingTemplate
from fairlead.binding.expressions import JSONPath, JSONPathError, fixedpath
from fairlead.binding.expressions.fixedpath import FixedPath, ProjectionError, fixed_path


_POD_SPEC = ".spec.template.spec"

_DEFAULT_CONTAINERS = [
    MappingContainer(path=f"{_POD_SPEC}.containers[*]", name=".name"),
    MappingContainer(path=f"{_POD_SPEC}.initContainers[*]", name=".name"),
]


class ContainerTemplate(msgspec.Struct, frozen=True):
    """One kind of container; without a name path no container is ever filtered out."""

    expression: str
    path: JSONPath
    name: FixedPath | None
    env: FixedPath
    volume_mounts: FixedPath
    env_from: FixedPath = ("envFrom",)


class WorkloadTemplate(msgspec.Struct, frozen=True):
    """The mapping of one version of a workload's resource, parsed."""

    containers: tuple[ContainerTemplate, ...]
    volumes: FixedPath


class MappingError(ValueError):
    """A ClusterWorkloadResourceMapping that cannot be used; the text says where it is wrong."""


def build_template(
    spec: MappingSpec, version: str, *, containers_path: str = ""
) -> WorkloadTemplate:
    """The template for a version: its own, that of ``*``, or the default one.

    ``containers_path`` is a dotted path that is added to what the mapping has.

    Raises:
        MappingError: a path cannot be read.
    """
    by_version = {template.version: template for template in spec.versions}
    mapping = by_version.get(version) or by_version.get("*") or MappingTemplate(version="*")
    containers = list(mapping.containers or _DEFAULT_CONTAINERS)
    if containers_path:
        added = MappingContainer(path=f".{containers_path}[*]", name=".name")
        if [container.path for container in containers] != [added.path]:
            containers.append(added)
    return WorkloadTemplate(
        containers=tuple(_container(container) for container in containers),
        volumes=_fixed(mapping.volumes, f"{_POD_SPEC}.volumes"),
    )


def parse_mapping(mapping: JSON) -> MappingSpec:
    """The spec of a ClusterWorkloadResourceMapping.

    Raises:
        MappingError: it does not fit its type.
    """
    try:
        return msgspec.convert(mapping.get("spec") or {}, MappingSpec)
    except msgspec.ValidationError as error:
        name = (mapping.get("metadata") or {}).get("name", "")
        raise MappingError(f"ClusterWorkloadResourceMapping {name}: {error}") from None


def _container(container: MappingContainer) -> ContainerTemplate:
    expression = f"{{{container.path}}}"
    try:
        path = JSONPath(expression)
    except JSONPathError as error:
        text = f"Error in parsing JSONPath expression {expression}: {error}"
        raise MappingError(text) from None
    return ContainerTemplate(
        expression=container.path,
        path=path,
        name=_fixed(container.name, "") if container.name else None,
        env=_fixed(container.env, ".env"),
        volume_mounts=_fixed(container.volume_mounts, ".volumeMounts"),
    )


def _fixed(expression: str, default: str) -> FixedPath:
    try:
        return fixed_path(expression or default)
    except JSONPathError as error:
        text = f"Error in parsing JSONPath expression {expression}: {error}"
        raise MappingError(text) from None


class Container:
    """One container-like fragment of a workload's body; changes to it change the body."""

    def __init__(self, body: JSON, template: ContainerTemplate) -> None:
        self.body = body
        self._template = template

    @property
    def name(self) -> str:
        """Its name, "" when it has none."""
        path = self._template.name
        return str(fixedpath.read(self.body, path) or "") if path else ""

    def wanted(self, names: Collection[str]) -> bool:
        """Whether a filter of container names lets it through."""
        return not names or self._template.name is None or self.name in names

    def env(self, *, create: bool = True) -> list[Any]:
        """Its environment variables; raises ProjectionError when it cannot be made."""
        return self._list(self._template.env, create=create)

    def env_from(self, *, create: bool = True) -> list[Any]:
        """Its environment sources; raises ProjectionError when it cannot be made."""
        return self._list(self._template.env_from, create=create)

    def volume_mounts(self, *, create: bool = True) -> list[Any]:
        """Its volume mounts; raises ProjectionError when it cannot be made."""
        return self._list(self._template.volume_mounts, create=create)

    def _list(self, path: tuple[str, ...], *, create: bool) -> list[Any]:
        if not create:
            return fixedpath.read_list(self.body, path)
        try:
            return fixedpath.ensure_list(self.body, path)
        except ProjectionError as error:
            raise ProjectionError(f"container {self.name or '(unnamed)'}: {error}") from None


class Workload:
    """One workload and the copy of its body that handlers change."""

    def __init__(
        self,
        original: Object,
        resource: Resource,
        template: WorkloadTemplate,
        *,
        matched: bool = True,
        secret_path: str = "",
    ) -> None:
        self.original = original
        self.resource = resource
        self.template = template
        self.matched = matched
        """False for one that the binding does not select any more."""
        self.secret_path = secret_path
        self.body = original.to_dict()
        self._before = copy.deepcopy(self.body)

    @property
    def changed(self) -> bool:
        """Whether handlers changed the body."""
        return self.body != self._before

    def containers(self, names: Collection[str] = ()) -> list[Container]:
        """The containers that the filter lets through.

        Raises:
            ProjectionError: there is none, or a path leads to something else.
        """
        found = [item for item in self._fragments() if item.wanted(names)]
        if not found:
            filtered = f" named {', '.join(sorted(names))}" if names else ""
            paths = ", ".join(container.expression for container in self.template.containers)
            text = f"no containers found in application resource {self}{filtered} at {paths}"
            raise ProjectionError(text)
        return found

    def bound_containers(self, names: Collection[str] = ()) -> list[Container]:
        """The containers to bind; there may be none where the Secret's name is what is wanted.

        Raises:
            ProjectionError: as :meth:`containers`.
        """
        try:
            return self.containers(names)
        except ProjectionError:
            if self.secret_path:
                return []
            raise

    def any_containers(self) -> list[Container]:
        """All containers there are, without any complaint."""
        try:
            return list(self._fragments())
        except ProjectionError:
            return []

    def _fragments(self) -> Iterator[Container]:
        for template in self.template.containers:
            try:
                results = template.path.find(self.body)
            except JSONPathError:
                continue
            for value in (value for values in results for value in values):
                for fragment in value if isinstance(value, list) else [value]:
                    if not isinstance(fragment, dict):
                        text = f"{template.expression} of {self} is not a container"
                        raise ProjectionError(text)
                    yield Container(fragment, template)

    def volumes(self, *, create: bool = True) -> list[Any]:
        """Its volumes; raises ProjectionError when it cannot be made."""
        path = self.template.volumes
        if create:
            return fixedpath.ensure_list(self.body, path)
        return fixedpath.read_list(self.body, path)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.original.key}"


class Traces(msgspec.Struct, frozen=True):
    """The binding's name, its volume's name, and the Secrets it projects or projected."""

    binding: str
    volume_name: str
    secrets: frozenset[str]

    def on(self, workload: Workload) -> bool:
        """Whether anything of the binding is on a workload."""
        volumes = workload.volumes(create=False)
        return any(self.is_volume(volume) for volume in volumes) or any(
            self.is_env(entry) or self.is_env_from(entry)
            for container in workload.any_containers()
            for entry in (*container.env(create=False), *container.env_from(create=False))
        )

    def is_volume(self, volume: Any) -> bool:
        """Whether the binding made this volume."""
        secret = _object(volume).get("secret")
        if not isinstance(secret, dict) or set(volume) != {"name", "secret"}:
            return False
        name = secret.get("secretName")
        if self._generated(name):
            return True
        return name in self.secrets and volume.get("name") == self.volume_name

    def is_env(self, variable: Any) -> bool:
        """Whether an environment variable reads a generated Secret of the binding."""
        source = _object(_object(variable).get("valueFrom"))
        return self._generated(_object(source.get("secretKeyRef")).get("name"))

    def is_env_from(self, entry: Any) -> bool:
        """Whether an environment source is a generated Secret of the binding."""
        return self._generated(_object(_object(entry).get("secretRef")).get("name"))

    def _generated(self, name: Any) -> bool:
        return bool(re.fullmatch(re.escape(self.binding) + "-[0-9a-f]{8}", str(name)))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
