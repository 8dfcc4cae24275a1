"""Projecting: the binding's Secret onto workloads, in place and without duplicates.

The stages in their order: decide the Secret and find the workloads; write the Secret's name where
a workload asks for it; environment variables; files; and say that it is done.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

from fairlead.api.servicebinding.common import (
    APPLICATION_NOT_FOUND,
    APPLICATION_UPDATED,
    COLLECTION_READY,
    DATA_COLLECTED,
    DEFAULT_ROOT,
    EMPTY_APPLICATION,
    ERROR,
    ERROR_PERSISTING_SECRET,
    INJECTION_READY,
    NO_BINDING_DATA,
    REQUIRED_BINDING_NOT_FOUND,
    ROOT_VARIABLE,
)
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.expressions.fixedpath import ProjectionError, write
from fairlead.binding.reads import ReadError
from fairlead.binding.workload import Container, MappingError, Workload


def project_preflight(*mandatory: str) -> Callable[[Context], None]:
    """The handler, for an API that demands these entries.

    The Secret comes first, so that it exists even without any workload.
    """

    def handler(context: Context) -> None:
        try:
            context.persist_secret()
        except ValueError as error:
            context.flow.fail(str(error))
            context.flow.stop_processing()
            context.set_condition(COLLECTION_READY, "False", ERROR_PERSISTING_SECRET, str(error))
            return
        context.set_condition(COLLECTION_READY, "True", DATA_COLLECTED)
        if _workloads_found(context):
            _check_items(context, mandatory)

    return handler


def _workloads_found(context: Context) -> bool:
    try:
        found = context.workloads()
    except (ReadError, MappingError) as error:
        if isinstance(error, ReadError) and error.missing:
            context.flow.wait_for_change(str(error))
        else:
            transient = isinstance(error, ReadError) and error.transient
            context.flow.retry_processing(str(error), transient=transient)
        context.set_condition(INJECTION_READY, "False", APPLICATION_NOT_FOUND, str(error))
        return False
    if not found:
        context.set_condition(INJECTION_READY, "False", EMPTY_APPLICATION)
        context.flow.stop_processing()
        return False
    return True


def _check_items(context: Context, mandatory: tuple[str, ...]) -> None:
    names = {item.name for item in context.items()}
    if not names:
        text = "no binding data to project"
        context.flow.wait_for_change(text)
        context.set_condition(INJECTION_READY, "False", NO_BINDING_DATA, text)
        return
    for name in mandatory:
        if name not in names:
            text = (
                f"Mandatory binding '{name}' not found: add the entry to the service's Secret, or "
                f"set it in the binding's spec"
            )
            context.flow.fail(text)
            context.flow.stop_processing()
            context.set_condition(INJECTION_READY, "False", REQUIRED_BINDING_NOT_FOUND, text)


def inject_secret_ref(context: Context) -> None:
    """Set the dotted ``secretPath`` of each workload that has one."""
    for workload in context.workloads():
        if not workload.secret_path:
            continue
        try:
            write(workload.body, tuple(workload.secret_path.split(".")), context.secret)
        except ProjectionError as error:
            projection_failed(context, error)
            return


def bindings_as_env(context: Context) -> None:
    """The whole Secret with envFrom where files are not wanted, and single entries."""
    for workload in context.workloads():
        try:
            _clean_env(context, workload)
            if not context.bind_as_files or context.env_bindings:
                _project_env(context, workload)
        except ProjectionError as error:
            projection_failed(context, error)
            return


def _clean_env(context: Context, workload: Workload) -> None:
    """Take away what the binding put there with a spec or a Secret that it has no more."""
    wanted = [variable(binding, context.secret) for binding in context.env_bindings]
    source = {"secretRef": {"name": context.secret}}
    for container in workload.any_containers():
        remove(
            container.env(create=False),
            lambda item: context.traces.is_env(item) and item not in wanted,
        )
        remove(
            container.env_from(create=False),
            lambda item: (
                context.traces.is_env_from(item) and (context.bind_as_files or item != source)
            ),
        )


def _project_env(context: Context, workload: Workload) -> None:
    for container in workload.bound_containers(context.container_names):
        if not context.bind_as_files:
            _whole(container, context.secret)
        for binding in context.env_bindings:
            put_variable(container.env(), variable(binding, context.secret))


def _whole(container: Container, secret: str) -> None:
    wanted = {"secretRef": {"name": secret}}
    sources = container.env_from()
    if wanted not in sources:
        remove(sources, lambda item: (item.get("secretRef") or {}).get("name") == secret)
        sources.append(wanted)


def bindings_as_files(context: Context) -> None:
    """A Secret volume per workload, and a mount per container."""
    for workload in context.workloads():
        try:
            _clean_files(context, workload)
            if context.bind_as_files:
                _project_files(context, workload)
        except ProjectionError as error:
            projection_failed(context, error)
            return


def _clean_files(context: Context, workload: Workload) -> None:
    """Take away volumes of former names or modes, and mounts in containers not bound any more."""
    name = context.volume_name
    leftover = {
        volume["name"]
        for volume in workload.volumes(create=False)
        if context.traces.is_volume(volume)
        and (volume["name"] != name or not context.bind_as_files)
    }
    remove(workload.volumes(create=False), lambda item: name_of(item) in leftover)
    for container in workload.any_containers():
        bound = container.wanted(context.container_names)
        gone = leftover if bound else leftover | {name}
        if gone and (leftover or _has_volume(context, workload)):
            _unmount(container, gone)


def _has_volume(context: Context, workload: Workload) -> bool:
    return any(context.traces.is_volume(item) for item in workload.volumes(create=False))


def _project_files(context: Context, workload: Workload) -> None:
    name = context.volume_name
    containers = workload.bound_containers(context.container_names)
    if not containers:
        return
    volumes = workload.volumes()
    put_by_name(volumes, {"name": name, "secret": _source(volumes, name, context.secret)})
    for container in containers:
        path = mount_path(container, context.binding_name)
        put_by_name(container.volume_mounts(), {"name": name, "mountPath": path})


def mount_path(container: Container, binding_name: str) -> str:
    """Where the binding is mounted; SERVICE_BINDING_ROOT is set when it is not.

    Raises:
        ProjectionError: the root is not known, since the variable takes it from elsewhere.
    """
    env = container.env()
    root = next((item for item in env if item.get("name") == ROOT_VARIABLE), None)
    if root is None:
        # The specification's default; apps find their bindings by this variable alone.
        env.append({"name": ROOT_VARIABLE, "value": DEFAULT_ROOT})
        return f"{DEFAULT_ROOT}/{binding_name}"
    if root.get("valueFrom") is not None:
        raise ProjectionError(
            f"container {container.name or '(unnamed)'} sets {ROOT_VARIABLE} with valueFrom, so "
            "where to mount the binding is unknown; give the variable a literal value"
        )
    path = posixpath.normpath(posixpath.join(str(root.get("value") or ""), binding_name))
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


def _source(volumes: list[Any], name: str, secret: str) -> dict[str, Any]:
    """The Secret, with the mode of the volume that is there: API servers add one by default."""
    source = {"secretName": secret}
    there = next((item.get("secret") for item in volumes if name_of(item) == name), None)
    if isinstance(there, dict) and "defaultMode" in there:
        source["defaultMode"] = there["defaultMode"]
    return source


def _unmount(container: Container, names: set[str]) -> None:
    remove(container.volume_mounts(create=False), lambda item: name_of(item) in names)


def postflight(context: Context) -> None:
    """Say that the projection is done: InjectionReady is True."""
    context.set_condition(INJECTION_READY, "True", APPLICATION_UPDATED)


def projection_failed(context: Context, error: ProjectionError) -> None:
    """Stop, so that no workload is written: one that fails must not leave others half bound."""
    context.flow.fail(str(error))
    context.flow.stop_processing()
    context.set_condition(INJECTION_READY, "False", ERROR, str(error))


def put_by_name(items: list[Any], wanted: dict[str, Any]) -> None:
    """Have an item in a list whose items have names; one of its name is replaced in place."""
    for position, item in enumerate(items):
        if item.get("name") == wanted["name"]:
            items[position] = wanted
            return
    items.append(wanted)


def put_variable(env: list[Any], wanted: dict[str, Any]) -> None:
    """Have a variable; one that says something else is replaced by one at the end."""
    if wanted in env:
        return
    for position, item in enumerate(env):
        if item.get("name") == wanted["name"]:
            del env[position]
            break
    env.append(wanted)


def remove(items: list[Any], unwanted: Callable[[Any], bool]) -> None:
    """Take the unwanted items out of a list, which stays the same list."""
    items[:] = [item for item in items if not unwanted(item)]


def variable(binding: tuple[str, str], secret: str) -> dict[str, Any]:
    """A variable with the value of an entry of a Secret."""
    name, key = binding
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def name_of(item: Any) -> Any:
    """The name of an item of a list that others may have written anything into."""
    return item.get("name") if isinstance(item, dict) else None
