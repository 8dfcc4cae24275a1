"""Where a workload keeps its containers and volumes, from a mapping or by default."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.mapping import MappingContainer, MappingSpec, MappingTemplate
from fairlead.binding.fixedpath import FixedPath, fixed_path
from fairlead.binding.jsonpath import JSONPath, JSONPathError


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


class Template(msgspec.Struct, frozen=True):
    """The mapping of one version of a workload's resource, parsed."""

    containers: tuple[ContainerTemplate, ...]
    volumes: FixedPath


class MappingError(ValueError):
    """A ClusterWorkloadResourceMapping that cannot be used; the text says where it is wrong."""


def build_template(spec: MappingSpec, version: str, *, containers_path: str = "") -> Template:
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
    return Template(
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
