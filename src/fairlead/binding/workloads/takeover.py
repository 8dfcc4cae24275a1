"""Projections without a record: from before records, or by Service Binding Operator.

A client that replaces a workload may lose a record too. An item counts as the binding's only if
that is certain: by the binding's own Secret in its status, or for another Secret by the form of
the whole projection. Other items are left.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from fairlead.binding.expressions import fixedpath
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.workloads.holdings import (
    Holding,
    name_of,
    secret_of_source,
    secret_of_variable,
    secret_of_volume,
)
from fairlead.binding.workloads.projection import ProjectionOwner
from fairlead.binding.workloads.records import BindingRecord, BoundContainer, ContainerPath
from fairlead.binding.workloads.workload import Container, TooMuchEffortError, Workload


class Former(msgspec.Struct, frozen=True):
    """The former projection of a binding, by its status and spec.

    ``secret`` is the Secret in its status, ``directory`` the one below the binding root,
    ``variables`` are pairs of name and entry, and ``env_from`` says whether the whole Secret
    was projected.
    """

    owner: ProjectionOwner
    secret: str
    volume: str
    directory: str
    variables: Sequence[tuple[str, str]] = ()
    env_from: bool = False

    @property
    def generated(self) -> bool:
        """Whether the Secret is the binding's own, so that references to it are, too."""
        # The form of services.items.secret_name, which is Service Binding Operator's, too.
        return bool(re.fullmatch(re.escape(self.owner.name) + "-[0-9a-f]{8}", self.secret))


def infer(
    workload: Workload, former: Former, others: Collection[BindingRecord]
) -> BindingRecord | None:
    """Infer the record of a projection without one."""
    # Without a Secret in the status nothing was ever projected.
    if not former.secret:
        return None
    taken = [Holding(workload.body, record, effort=workload.effort) for record in others]
    volumes = fixedpath.read_list(workload.body, workload.template.volumes)
    volume = next((name_of(item) for item in volumes if _certain(item, former, taken)), None) or ""
    places: dict[int, ContainerPath] = {}
    mounted = False
    for container in _containers(workload):
        bound = BoundContainer(mount=_mount(container, volume, former))
        mounted = mounted or bool(bound.mount)
        places.setdefault(id(container.template), _place(container)).bound[container.key] = bound
    # Variables of any writer may refer to a Secret that the binding does not own; but a mount of
    # it at the binding's directory is the binding's.
    certain = former.generated or mounted
    for container in _containers(workload):
        bound = places[id(container.template)].bound[container.key]
        bound.env = _variables(container, former, taken, certain=certain)
        bound.env_from = (former.generated or former.env_from) and any(
            secret_of_source(item) == former.secret
            and not any(other.is_source(container, item) for other in taken)
            for item in container.env_from(create=False)
        )
    for place in places.values():
        place.bound = {key: bound for key, bound in place.bound.items() if bound}
    found = [place for place in places.values() if place.bound]
    own_volume = bool(volume) and certain
    if not found and not own_volume:
        return None
    owner = former.owner
    return BindingRecord(
        group=owner.group,
        name=owner.name,
        created=owner.created,
        secret=former.secret,
        volume=volume,
        volumes=workload.template.volumes if own_volume else (),
        containers=found,
    )


def _certain(item: Any, former: Former, taken: Collection[Holding]) -> bool:
    return (
        secret_of_volume(item) == former.secret
        and (former.generated or name_of(item) == former.volume)
        and not any(other.is_volume(item) for other in taken)
    )


def _mount(container: Container, volume: str, former: Former) -> str:
    for item in container.volume_mounts(create=False) if volume else ():
        path = item.get("mountPath") if isinstance(item, dict) else None
        if not isinstance(path, str) or name_of(item) != volume:
            continue
        if former.generated or posixpath.basename(path) == former.directory:
            return path
    return ""


def _variables(
    container: Container, former: Former, taken: Collection[Holding], *, certain: bool
) -> list[str]:
    """Return the variables of a generated Secret; of another one those in the spec."""
    return [
        str(name_of(item))
        for item in (container.env(create=False) if certain else ())
        if secret_of_variable(item) == former.secret
        and not any(other.is_variable(container, item) for other in taken)
        and (
            former.generated
            or (name_of(item), item["valueFrom"]["secretKeyRef"].get("key")) in former.variables
        )
    ]


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
