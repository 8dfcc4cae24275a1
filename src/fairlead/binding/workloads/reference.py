"""Projections of the reference runtime of servicebinding.io.

Their names contain the uid of the binding, so their owner is certain: a projected volume
``servicebinding-<uid>``, its mounts, annotations of the pods with the Secret and with the type and
provider that the binding overrides, and an annotation of the workload with the used mapping. Of
the variables that refer to the Secret only those in the binding's spec are the binding's: others
may be the workload's own, and stay, as does SERVICE_BINDING_ROOT.

Source: https://github.com/servicebinding/runtime, ``projector/binding.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.servicebinding.mapping import MappingSpec
from fairlead.binding import bounds
from fairlead.binding.expressions import fixedpath
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.workloads.holdings import name_of, secret_of_variable
from fairlead.binding.workloads.operations import MappingError
from fairlead.binding.workloads.records import reference_key
from fairlead.binding.workloads.workload import (
    Container,
    TooMuchEffortError,
    Workload,
    WorkloadTemplate,
    build_template,
    containers_of,
)


_GROUP = "projector.servicebinding.io"


Taken = Callable[[Container, Any], bool]
"""Predicate: whether a variable is another binding's, by its record."""


class ReferenceProjection:
    """The runtime's projection of the binding with a uid onto a workload.

    ``variables`` are the pairs of name and entry in the binding's spec.
    """

    def __init__(
        self, workload: Workload, uid: str, variables: Collection[tuple[str, str]], taken: Taken
    ) -> None:
        self._body = workload.body
        self._effort = workload.effort
        self._key = reference_key(uid)
        self._template = _template(workload, self._key)
        self._volume = f"servicebinding-{uid}"
        self._notes = [f"{_GROUP}/{kind}-{uid}" for kind in ("secret", "type", "provider")]
        self._variables = variables
        self._taken = taken

    @property
    def there(self) -> bool:
        """Whether the workload has a part of the projection."""
        return (
            self._key in _object(self._body, ("metadata", "annotations"))
            or bool(self._pod_annotations.keys() & set(self._notes))
            or any(map(self._is_volume, self._volumes))
        )

    def remove(self) -> None:
        """Remove the projection; empty lists stay."""
        secret = self._pod_annotations.get(self._notes[0])
        self._volumes[:] = [item for item in self._volumes if not self._is_volume(item)]
        # Another writer may have replaced the volume under its name, with mounts of its own.
        theirs = any(name_of(item) == self._volume for item in self._volumes)
        for container in self._containers():
            mounts, env = container.volume_mounts(create=False), container.env(create=False)
            mounts[:] = [item for item in mounts if theirs or name_of(item) != self._volume]
            env[:] = [item for item in env if not self._is_variable(container, item, secret)]
        for note in self._notes:
            self._pod_annotations.pop(note, None)
        _object(self._body, ("metadata", "annotations")).pop(self._key, None)

    @property
    def _volumes(self) -> list[Any]:
        return fixedpath.read_list(self._body, self._template.volumes)

    @property
    def _pod_annotations(self) -> JSON:
        return _object(self._body, self._template.annotations)

    def _is_volume(self, item: Any) -> bool:
        # The runtime writes projected volumes only: another form is another writer's.
        return name_of(item) == self._volume and isinstance(item.get("projected"), dict)

    def _is_variable(self, container: Container, item: Any, secret: Any) -> bool:
        source = item.get("valueFrom") if isinstance(item, dict) else None
        field = source.get("fieldRef") if isinstance(source, dict) else None
        path = field.get("fieldPath") if isinstance(field, dict) else None
        # The overridden type and provider reach the container through the pods' annotations.
        if path in [f"metadata.annotations['{note}']" for note in self._notes[1:]]:
            return True
        if secret is None or secret_of_variable(item) != secret or self._taken(container, item):
            return False
        return (name_of(item), item["valueFrom"]["secretKeyRef"].get("key")) in self._variables

    def _containers(self) -> list[Container]:
        containers: list[Container] = []
        for template in self._template.containers:
            try:
                containers += containers_of(self._body, template, self._effort)
            # A ProjectionError too, which must not pass for a path that leads nowhere.
            except TooMuchEffortError:
                raise
            # The path no longer leads to containers: there is nothing to remove.
            except ProjectionError:
                continue
        return containers


def _template(workload: Workload, key: str) -> WorkloadTemplate:
    """Return the template of the mapping that the runtime noted; else the cluster's."""
    noted = workload.original.meta.annotations.get(key, "")
    try:
        mapping = msgspec.json.decode(noted, type=MappingSpec)
        template = build_template(mapping, workload.resource.version)
    # It is malformed, or from a version of the runtime without the annotation.
    except (msgspec.DecodeError, RecursionError, MappingError):
        return workload.template
    # An editor of the workload may have noted a mapping that is expensive to evaluate.
    return template if len(template.containers) <= bounds.CONTAINER_PATHS else workload.template


def _object(body: JSON, path: fixedpath.FixedPath) -> JSON:
    value = fixedpath.read(body, path)
    return value if isinstance(value, dict) else {}
