"""Projects the binding as a directory of files below SERVICE_BINDING_ROOT."""

from __future__ import annotations

from typing import Any

from fairlead.binding.contexts.protocol import Context
from fairlead.binding.fixedpath import ProjectionError
from fairlead.binding.handlers.failing import projection_failed
from fairlead.binding.projection import mount_path, put_by_name, remove
from fairlead.binding.workload import Container, Workload


def bindings_as_files(context: Context) -> None:
    """A Secret volume per workload, and a mount per container."""
    for workload in context.workloads():
        try:
            _clean(context, workload)
            if context.bind_as_files:
                _project(context, workload)
        except ProjectionError as error:
            projection_failed(context, error)
            return


def _clean(context: Context, workload: Workload) -> None:
    """Take away volumes of former names or modes, and mounts in containers not bound any more."""
    name = context.volume_name
    stale = {
        volume["name"]
        for volume in workload.volumes(create=False)
        if context.traces.is_volume(volume)
        and (volume["name"] != name or not context.bind_as_files)
    }
    remove(workload.volumes(create=False), lambda item: _name(item) in stale)
    for container in workload.any_containers():
        bound = container.wanted(context.container_names)
        gone = stale if bound else stale | {name}
        if gone and (stale or _has_volume(context, workload)):
            _unmount(container, gone)


def _has_volume(context: Context, workload: Workload) -> bool:
    return any(context.traces.is_volume(item) for item in workload.volumes(create=False))


def _project(context: Context, workload: Workload) -> None:
    name = context.volume_name
    containers = workload.bound_containers(context.container_names)
    if not containers:
        return
    volumes = workload.volumes()
    put_by_name(volumes, {"name": name, "secret": _source(volumes, name, context.secret)})
    for container in containers:
        path = mount_path(container, context.binding_name)
        put_by_name(container.volume_mounts(), {"name": name, "mountPath": path})


def _source(volumes: list[Any], name: str, secret: str) -> dict[str, Any]:
    """The Secret, with the mode of the volume that is there: API servers add one by default."""
    source = {"secretName": secret}
    there = next((item.get("secret") for item in volumes if _name(item) == name), None)
    if isinstance(there, dict) and "defaultMode" in there:
        source["defaultMode"] = there["defaultMode"]
    return source


def _unmount(container: Container, names: set[str]) -> None:
    remove(container.volume_mounts(create=False), lambda item: _name(item) in names)


def _name(item: Any) -> Any:
    return item.get("name") if isinstance(item, dict) else None
