"""Workloads: where they keep containers and volumes.

A ClusterWorkloadResourceMapping, or the default, says where a kind of workload has its containers.
A :class:`Workload` is one object with its containers found by that.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from fairlead.api.jsonpath import BudgetExhausted, JSONPath, JSONPathError
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.mapping import MappingContainer, MappingSpec, MappingTemplate
from fairlead.binding.expressions import fixedpath
from fairlead.binding.expressions.fixedpath import FixedPath, ProjectionError, fixed_path
from fairlead.binding.workloads.effort import Effort, TooMuchEffortError
from fairlead.binding.workloads.operations import MappingError


_POD_SPEC = ".spec.template.spec"
_CLAIMS = ("spec", "volumeClaimTemplates")

FIXED = frozenset({("batch", "jobs"), ("", "pods")})
"""Of these, servers let hardly anything but the metadata change once they are there."""

_FINISHED = {"Complete", "Failed", "Succeeded"}
"""Conditions of Jobs and phases of Pods."""

_PODS = MappingTemplate(
    version="*",
    annotations=".metadata.annotations",
    containers=[
        MappingContainer(path=".spec.containers[*]", name=".name"),
        MappingContainer(path=".spec.initContainers[*]", name=".name"),
    ],
    volumes=".spec.volumes",
)

_DEFAULT_CONTAINERS = [
    MappingContainer(path=f"{_POD_SPEC}.containers[*]", name=".name"),
    MappingContainer(path=f"{_POD_SPEC}.initContainers[*]", name=".name"),
]


_CONTAINER = 10
"""Steps that finding a container and looking at it takes."""


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
    annotations: FixedPath


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
        # Two templates of one path would bind each container twice.
        if [container.path for container in containers] != [added.path]:
            containers.append(added)
    return WorkloadTemplate(
        containers=tuple(_container(container) for container in containers),
        volumes=_fixed(mapping.volumes, f"{_POD_SPEC}.volumes"),
        annotations=_fixed(mapping.annotations, ".spec.template.metadata.annotations"),
    )


def default_mapping(resource: Resource) -> MappingSpec:
    """The mapping of a resource that has none: Pods have no template of Pods."""
    is_pod = (resource.group, resource.plural) == ("", "pods")
    return MappingSpec(versions=[_PODS] if is_pod else [])


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
    return container_template(
        container.path,
        name=_fixed(container.name, "") if container.name else None,
        env=_fixed(container.env, ".env"),
        volume_mounts=_fixed(container.volume_mounts, ".volumeMounts"),
    )


@functools.lru_cache(maxsize=1000)
def container_template(
    expression: str, *, name: FixedPath | None, env: FixedPath, volume_mounts: FixedPath
) -> ContainerTemplate:
    """The template of one kind of container.

    Raises:
        MappingError: the expression cannot be read.
    """
    try:
        path = JSONPath(f"{{{expression}}}")
    except JSONPathError as error:
        text = f"Error in parsing JSONPath expression {{{expression}}}: {error}"
        raise MappingError(text) from None
    return ContainerTemplate(expression, path, name, env, volume_mounts)


def _fixed(expression: str, default: str) -> FixedPath:
    try:
        return fixed_path(expression or default)
    except JSONPathError as error:
        text = f"Error in parsing JSONPath expression {expression}: {error}"
        raise MappingError(text) from None


class Container:
    """One container-like fragment of a workload's body; changes to it change the body."""

    def __init__(self, body: JSON, template: ContainerTemplate, position: int = 0) -> None:
        self.body = body
        self.template = template
        self._position = position

    @property
    def name(self) -> str:
        """Its name, "" when it has none."""
        path = self.template.name
        return str(fixedpath.read(self.body, path) or "") if path else ""

    @property
    def key(self) -> str:
        """Its name, or its position where it has none."""
        return self.name or f"#{self._position}"

    def wanted(self, names: Collection[str]) -> bool:
        """Whether a filter of container names lets it through."""
        return not names or self.template.name is None or self.name in names

    def env(self, *, create: bool = True) -> list[Any]:
        """Its environment variables; raises ProjectionError when it cannot be made."""
        return self._list(self.template.env, create=create)

    def env_from(self, *, create: bool = True) -> list[Any]:
        """Its environment sources; raises ProjectionError when it cannot be made."""
        return self._list(self.template.env_from, create=create)

    def volume_mounts(self, *, create: bool = True) -> list[Any]:
        """Its volume mounts; raises ProjectionError when it cannot be made."""
        return self._list(self.template.volume_mounts, create=create)

    def _list(self, path: tuple[str, ...], *, create: bool) -> list[Any]:
        if not create:
            return fixedpath.read_list(self.body, path)
        try:
            return fixedpath.ensure_list(self.body, path)
        except ProjectionError as error:
            raise ProjectionError(f"{self}: {error}") from None

    def __str__(self) -> str:
        return f"container {self.name or '(unnamed)'}"


def containers_of(body: JSON, template: ContainerTemplate, effort: Effort) -> Iterator[Container]:
    """The containers of one kind in the body of a workload; none where the path leads nowhere.

    Raises:
        ProjectionError: the path leads to something else than an object.
        TooMuchEffortError: it takes too long.
    """
    try:
        results = template.path.find(body, effort.budget)
    except BudgetExhausted as error:
        raise TooMuchEffortError(str(error)) from None
    # Kinds need not have all paths: there are workloads without init containers.
    except JSONPathError:
        return
    found = [value for values in results for value in values]
    # A path may lead to containers, or to lists of them.
    fragments = [one for value in found for one in (value if isinstance(value, list) else [value])]
    effort.spend(len(fragments) * _CONTAINER)
    for position, fragment in enumerate(fragments):
        if not isinstance(fragment, dict):
            raise ProjectionError(f"{template.expression} is not a container")
        yield Container(fragment, template, position)


class Workload:
    """One workload and the copy of its body that handlers change."""

    def __init__(
        self,
        original: Object,
        resource: Resource,
        template: WorkloadTemplate,
        *,
        secret_path: str = "",
        effort: Effort | None = None,
    ) -> None:
        self.effort = effort or Effort()
        self.original = original
        self.resource = resource
        self.template = template
        self.secret_path = secret_path
        self.body = original.to_dict()

    @property
    def changed(self) -> bool:
        """Whether handlers changed the body."""
        return self.body != self.original.to_dict()

    @property
    def stays(self) -> bool:
        """Whether handlers changed what servers do not let anybody change any more.

        What has no uid is not there yet: it is being created, or is a manifest.
        """
        fixed = (self.resource.group, self.resource.plural) in FIXED and self.original.meta.uid
        return bool(fixed) and _told(self.body) != _told(self.original.to_dict())

    @property
    def finished(self) -> bool:
        """Whether it is a Job or a Pod that runs no more."""
        status = self.body.get("status")
        found = status if isinstance(status, dict) else {}
        true = [one for one in found.get("conditions") or [] if one.get("status") == "True"]
        return bool(_FINISHED & {found.get("phase"), *(one.get("type") for one in true)})

    def restore(self) -> None:
        """Undo what handlers changed."""
        self.body = self.original.to_dict()

    def containers(self, names: Collection[str] = ()) -> list[Container]:
        """The containers that the filter lets through, which may be none.

        Raises:
            ProjectionError: there is no container at all, or a path leads to something else.
        """
        found = list(self._containers())
        # Where only the Secret's name is wanted, no container is.
        if not found and not self.secret_path:
            paths = ", ".join(container.expression for container in self.template.containers)
            text = f"no containers found in application resource {self} at {paths}"
            raise ProjectionError(text)
        return [item for item in found if item.wanted(names)]

    def _containers(self) -> Iterator[Container]:
        for template in self.template.containers:
            try:
                yield from containers_of(self.body, template, self.effort)
            except ProjectionError as error:
                raise ProjectionError(f"{self}: {error}") from None

    def volumes(self) -> list[Any]:
        """Its volumes, made where there are none; raises ProjectionError when they cannot be."""
        return fixedpath.ensure_list(self.body, self.template.volumes)

    @property
    def claims(self) -> set[str]:
        """The names of a StatefulSet's volumeClaimTemplates, which pods have as volumes.

        One of them takes the place of a volume of its name (StatefulSetSpec).
        """
        found = fixedpath.read_list(self.body, _CLAIMS)
        metadata = [one.get("metadata") for one in found if isinstance(one, dict)]
        names = [one.get("name") for one in metadata if isinstance(one, dict)]
        return {name for name in names if isinstance(name, str)}

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.original.key}"


def _told(body: JSON) -> JSON:
    return {name: value for name, value in body.items() if name not in {"metadata", "status"}}
