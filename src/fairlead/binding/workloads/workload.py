"""Workloads and the paths of their containers and volumes.

A ClusterWorkloadResourceMapping, or the default, has the paths of a workload kind. A
:class:`Workload` is an object whose containers are found by these paths, within the budget of a
pass.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.jsonpath import Budget, BudgetExhausted, JSONPath, JSONPathError
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.mapping import (
    CLUSTERWORKLOADRESOURCEMAPPINGS,
    MappingContainer,
    MappingSpec,
    MappingTemplate,
    mapping_name,
)
from fairlead.binding import bounds
from fairlead.binding.expressions import fixedpath
from fairlead.binding.expressions.fixedpath import FixedPath, ProjectionError, fixed_path
from fairlead.binding.workloads.operations import MappingError


_POD_SPEC = ".spec.template.spec"
_CLAIMS = ("spec", "volumeClaimTemplates")

FIXED = frozenset({("batch", "jobs"), ("", "pods")})
"""Kinds of which servers allow hardly any change but of metadata after creation."""

_PLAIN = re.compile(r"[.\w]+")

_FINISHED = {"Complete", "Failed", "Succeeded"}
"""Conditions of Jobs and phases of Pods that mean the end."""


def _paths(template: str) -> MappingTemplate:
    """Return the paths of a kind that has metadata and spec of Pods below a path."""
    return MappingTemplate(
        version="*",
        annotations=f"{template}.metadata.annotations",
        containers=[
            MappingContainer(path=f"{template}.spec.{containers}[*]", name=".name")
            for containers in ("containers", "initContainers")
        ],
        volumes=f"{template}.spec.volumes",
    )


_BUILT_IN = {
    ("", "pods"): _paths(""),
    ("", "podtemplates"): _paths(".template"),
    ("batch", "cronjobs"): _paths(".spec.jobTemplate.spec.template"),
}
"""Paths of Kubernetes' own kinds that are not at the default places, by group and plural."""

# Both of the specification's default paths: init containers are bound, ephemeral ones are not.
_DEFAULT_CONTAINERS = [
    MappingContainer(path=f"{_POD_SPEC}.containers[*]", name=".name"),
    MappingContainer(path=f"{_POD_SPEC}.initContainers[*]", name=".name"),
]


_CONTAINER = 10
"""Cost of finding and reading a container, in steps."""


class TooMuchEffortError(ProjectionError):
    """The budget of a binding is exceeded."""


class BindingEffort:
    """The budget of a pass for its workloads and their records: any editor can make them large."""

    def __init__(self, steps: int = bounds.STEPS) -> None:
        self.budget = Budget(
            steps,
            "the binding selects too many workloads, containers and annotations: select fewer"
            " workloads, or look for annotations projection.servicebinding.io/… that no binding"
            " wrote",
        )

    def spend(self, steps: int) -> None:
        """Subtract steps from the budget.

        Raises:
            TooMuchEffortError: the budget is exceeded.
        """
        try:
            self.budget.spend(steps)
        except BudgetExhausted as error:
            raise TooMuchEffortError(str(error)) from None


class ContainerTemplate(msgspec.Struct, frozen=True):
    """The paths of one kind of container; without a name path no filter of names applies."""

    expression: str
    path: JSONPath
    name: FixedPath | None
    env: FixedPath
    volume_mounts: FixedPath
    # ClusterWorkloadResourceMappings have no path for envFrom.
    env_from: FixedPath = ("envFrom",)


class WorkloadTemplate(msgspec.Struct, frozen=True):
    """The mapping of one version of a workload's resource, parsed; ``mapped`` if there is one."""

    containers: tuple[ContainerTemplate, ...]
    volumes: FixedPath
    annotations: FixedPath
    mapped: bool = False


def build_template(
    spec: MappingSpec, version: str, *, containers_path: str = "", mapped: bool = True
) -> WorkloadTemplate:
    """Return the template for a version: its own, that of ``*``, or the default.

    ``containers_path`` is a dotted path that is added to the mapping's, and ``mapped`` is False
    for paths that are no mapping's of the cluster.

    Raises:
        MappingError: a path is invalid.
    """
    by_version = {template.version: template for template in spec.versions}
    mapping = by_version.get(version) or by_version.get("*") or MappingTemplate(version="*")
    # The defaults apply together: a mapping that gives one path gives all of them.
    containers = list(mapping.containers or _DEFAULT_CONTAINERS)
    # Added to the mapping's paths, and the volumes stay at theirs, as with Service Binding
    # Operator.
    if containers_path:
        added = MappingContainer(path=f".{containers_path}[*]", name=".name")
        # The same path twice would bind each container twice.
        if [container.path for container in containers] != [added.path]:
            containers.append(added)
    return WorkloadTemplate(
        containers=tuple(_container(container) for container in containers),
        volumes=_fixed(mapping.volumes, f"{_POD_SPEC}.volumes"),
        annotations=_fixed(mapping.annotations, ".spec.template.metadata.annotations"),
        mapped=mapped,
    )


def default_template(
    resource: Resource | None = None, *, containers_path: str = ""
) -> WorkloadTemplate:
    """Return the template of a kind without a mapping.

    Raises:
        MappingError: ``containers_path`` is invalid.
    """
    key = (resource.group, resource.plural) if resource else None
    return _default_template(containers_path, key if key in _BUILT_IN else None)


# Almost no kind has a mapping: its paths are not put together anew in each pass.
@functools.lru_cache(maxsize=100)
def _default_template(containers_path: str, kind: tuple[str, str] | None) -> WorkloadTemplate:
    spec = MappingSpec(versions=[_BUILT_IN[kind]] if kind else [])
    return build_template(spec, "*", containers_path=containers_path, mapped=False)


def parse_mapping(mapping: JSON) -> MappingSpec:
    """Decode the spec of a ClusterWorkloadResourceMapping.

    Raises:
        MappingError: the mapping does not fit its type.
    """
    try:
        return msgspec.convert(mapping.get("spec") or {}, MappingSpec)
    except msgspec.ValidationError as error:
        name = (mapping.get("metadata") or {}).get("name", "")
        raise MappingError(
            f"ClusterWorkloadResourceMapping {name}: {field_message(error)}"
        ) from None


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
    """Return the template of one kind of container.

    Raises:
        MappingError: the expression is invalid.
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
    """A container in a workload's body; changes to it change the body."""

    def __init__(self, body: JSON, template: ContainerTemplate, position: int = 0) -> None:
        self.body = body
        self.template = template
        self._position = position

    @property
    def name(self) -> str:
        """Its name, "" without one."""
        path = self.template.name
        return str(fixedpath.read(self.body, path) or "") if path else ""

    @property
    def key(self) -> str:
        """Its name, or its position without a name."""
        return self.name or f"#{self._position}"

    def passes(self, names: Collection[str]) -> bool:
        """Whether the container passes a filter of names."""
        # The specification binds a container whose name no expression leads to, whatever the
        # filter.
        return not names or self.template.name is None or self.name in names

    def env(self, *, create: bool = True) -> list[Any]:
        """Return its environment variables; raises ProjectionError if the list is malformed."""
        return self._list(self.template.env, create=create)

    def env_from(self, *, create: bool = True) -> list[Any]:
        """Return its envFrom sources; raises ProjectionError if the list is malformed."""
        return self._list(self.template.env_from, create=create)

    def volume_mounts(self, *, create: bool = True) -> list[Any]:
        """Return its volume mounts; raises ProjectionError if the list is malformed."""
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


def containers_of(
    body: JSON, template: ContainerTemplate, effort: BindingEffort
) -> Iterator[Container]:
    """Yield the containers of one kind in a workload's body; none if the path is missing.

    Raises:
        ProjectionError: the path leads to a value that is not an object.
        TooMuchEffortError: the budget is exceeded.
    """
    try:
        results = template.path.find(body, effort.budget)
    except BudgetExhausted as error:
        raise TooMuchEffortError(str(error)) from None
    # A path may be missing: there are workloads without init containers.
    except JSONPathError:
        return
    containers = [value for values in results for value in values]
    # A path may lead to containers, or to lists of them.
    fragments = [
        fragment
        for value in containers
        for fragment in (value if isinstance(value, list) else [value])
    ]
    effort.spend(len(fragments) * _CONTAINER)
    for position, fragment in enumerate(fragments):
        if not isinstance(fragment, dict):
            raise ProjectionError(f"{template.expression} is not a container")
        yield Container(fragment, template, position)


class Workload:
    """A workload, and the copy of its body that handlers change."""

    def __init__(
        self,
        original: Object,
        resource: Resource,
        template: WorkloadTemplate,
        *,
        secret_path: str = "",
        effort: BindingEffort | None = None,
    ) -> None:
        self.effort = effort or BindingEffort()
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
        """Whether handlers changed immutable fields.

        An object without a uid does not exist yet: it is being created, or is a manifest.
        """
        fixed = self.is_of_fixed_kind and self.original.meta.uid
        return bool(fixed) and _content(self.body) != _content(self.original.to_dict())

    @property
    def is_of_fixed_kind(self) -> bool:
        """Whether servers allow hardly any change of the workload's kind after creation."""
        return (self.resource.group, self.resource.plural) in FIXED

    @property
    def finished(self) -> bool:
        """Whether the workload is a Job or Pod that has finished."""
        status = self.body.get("status")
        status_body = status if isinstance(status, dict) else {}
        true = [one for one in status_body.get("conditions") or [] if one.get("status") == "True"]
        return bool(_FINISHED & {status_body.get("phase"), *(one.get("type") for one in true)})

    def restore(self) -> None:
        """Undo what handlers changed."""
        self.body = self.original.to_dict()

    def containers(self, names: Collection[str] = ()) -> list[Container]:
        """Return the containers that pass the filter of names, possibly none.

        Raises:
            ProjectionError: the workload has no container, or a path leads to another value.
        """
        containers = list(self._containers())
        # A workload with a secretPath may have no containers.
        if not containers and not self.secret_path:
            raise ProjectionError(self._elsewhere())
        return [item for item in containers if item.passes(names)]

    def _elsewhere(self) -> str:
        """Return a message on a workload without containers, and what to bind or to map."""
        reference = fixedpath.read(self.body, ("spec", "workloadRef"))
        if isinstance(reference, dict) and reference.get("name"):
            named = f"{reference.get('kind', '')} {reference['name']}".strip()
            return (
                f"{self} takes its Pods' template from {named} (.spec.workloadRef): bind that "
                "instead"
            )
        paths = ", ".join(container.expression for container in self.template.containers)
        text = f"no containers found in application resource {self} at {paths}"
        name = mapping_name(self.resource)
        if self.template.mapped:
            return f"{text}: correct the paths of ClusterWorkloadResourceMapping {name}"
        template = next(self._pod_templates(), None)
        if template is None:
            text += ", nor any other: bind the object that its Pods are made from"
            template = ".spec.template"
        mapping: JSON = {
            "apiVersion": CLUSTERWORKLOADRESOURCEMAPPINGS.api_version,
            "kind": CLUSTERWORKLOADRESOURCEMAPPINGS.kind,
            "metadata": {"name": name},
            "spec": {"versions": [msgspec.to_builtins(_paths(template))]},
        }
        return (
            f"{text}; or have an administrator say where they are, with kubectl apply -f -: "
            f"{json.dumps(mapping)}"
        )

    def _pod_templates(self) -> Iterator[str]:
        """Yield the paths of what looks like a template of Pods, the topmost first."""
        parts = {name: self.body[name] for name in self.body.keys() - {"metadata", "status"}}
        level = [(f".{name}", value) for name, value in sorted(parts.items())]
        while level:
            self.effort.spend(len(level))
            below: list[tuple[str, JSON]] = []
            for path, value in level:
                # Others would need quotes in a path.
                if not isinstance(value, dict) or not _PLAIN.fullmatch(path):
                    continue
                containers = fixedpath.read(value, ("spec", "containers"))
                if isinstance(containers, list) and containers:
                    yield path
                below += [(f"{path}.{name}", inner) for name, inner in sorted(value.items())]
            level = below

    def _containers(self) -> Iterator[Container]:
        for template in self.template.containers:
            try:
                yield from containers_of(self.body, template, self.effort)
            except ProjectionError as error:
                raise ProjectionError(f"{self}: {error}") from None

    def volumes(self) -> list[Any]:
        """Return its volumes, created if missing; raises ProjectionError if they are malformed."""
        return fixedpath.ensure_list(self.body, self.template.volumes)

    @property
    def claims(self) -> set[str]:
        """The names of a StatefulSet's volumeClaimTemplates, which become volumes of its pods.

        A template replaces a volume with its name (StatefulSetSpec).
        """
        claims = fixedpath.read_list(self.body, _CLAIMS)
        metadata = [one.get("metadata") for one in claims if isinstance(one, dict)]
        names = [one.get("name") for one in metadata if isinstance(one, dict)]
        return {name for name in names if isinstance(name, str)}

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.original.key}"


def _content(body: JSON) -> JSON:
    return {name: value for name, value in body.items() if name not in {"metadata", "status"}}
