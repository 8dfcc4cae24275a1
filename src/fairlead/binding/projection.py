"""Putting a binding onto a workload and taking it away, in place and without duplicates."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

from fairlead.api.servicebinding.common import DEFAULT_ROOT, ROOT_VARIABLE
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.fixedpath import ProjectionError
from fairlead.binding.workload import Container, Workload


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


def mount_path(container: Container, binding_name: str) -> str:
    """Where the binding is mounted; SERVICE_BINDING_ROOT is set when it is not.

    Raises:
        ProjectionError: the root is not known, since the variable takes it from elsewhere.
    """
    env = container.env()
    root = next((item for item in env if item.get("name") == ROOT_VARIABLE), None)
    if root is None:
        env.append({"name": ROOT_VARIABLE, "value": DEFAULT_ROOT})
        return f"{DEFAULT_ROOT}/{binding_name}"
    if root.get("valueFrom") is not None:
        raise ProjectionError(
            f"container {container.name or '(unnamed)'} sets {ROOT_VARIABLE} with valueFrom, so "
            "where to mount the binding is unknown; give the variable a literal value"
        )
    path = posixpath.normpath(posixpath.join(str(root.get("value") or ""), binding_name))
    return f"/{path.lstrip('/')}" if path.startswith("/") else path


def unproject(context: Context, workload: Workload) -> None:
    """Remove the binding's volume, mounts, environment sources and variables.

    Lists that become empty stay, as does SERVICE_BINDING_ROOT: others may mount below it.
    """
    traces, name = context.traces, context.volume_name
    stale = {
        item.get("name")
        for item in _dicts(workload.volumes(create=False))
        if traces.is_volume(item)
    } | {name}
    remove(workload.volumes(create=False), lambda item: _name(item) in stale)
    variables = [variable(item, context.former_secret) for item in context.env_bindings]
    for container in workload.any_containers():
        remove(container.volume_mounts(create=False), lambda item: _name(item) in stale)
        remove(
            container.env(create=False),
            lambda item: item in variables or traces.is_env(item),
        )
        remove(
            container.env_from(create=False),
            lambda item: (
                item == {"secretRef": {"name": context.former_secret}} or traces.is_env_from(item)
            ),
        )


def variable(binding: tuple[str, str], secret: str) -> dict[str, Any]:
    """A variable with the value of an entry of a Secret."""
    name, key = binding
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _dicts(items: list[Any]) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)]


def _name(item: Any) -> Any:
    return item.get("name") if isinstance(item, dict) else None
