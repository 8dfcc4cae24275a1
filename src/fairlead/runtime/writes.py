"""Writing what changed, and nothing when nothing did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairlead.api.meta import JSON, Object
from fairlead.api.patch import create_merge_patch
from fairlead.api.resource import Resource


if TYPE_CHECKING:
    from fairlead.client import Client


_FIXED = (
    *("name", "namespace", "generateName"),
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "managedFields", "selfLink"),
)


async def commit(
    client: Client, resource: Resource, old: Object, new: JSON, *, subresource: str = ""
) -> Object:
    """Make ``old`` on the server like ``new``, unless somebody changed it since it was read.

    Sends the difference as a merge patch that carries uid and resourceVersion; returns ``old``
    and sends nothing when there is none. With ``subresource="status"`` only the status is
    compared, else all but the status. Members that are null count as absent.

    Raises:
        ValueError: ``new`` has another name or namespace.
        Conflict: the object was changed meanwhile.
        NotFound: the object is gone.
    """
    patch = difference(old, new, subresource=subresource)
    if not patch:
        return old
    metadata = patch.setdefault("metadata", {})
    metadata["uid"] = old.meta.uid
    metadata["resourceVersion"] = old.meta.resource_version
    return await client.merge_patch(
        resource, old.meta.name, old.meta.namespace, patch, subresource=subresource
    )


def difference(old: Object, new: JSON, *, subresource: str = "") -> JSON:
    """The merge patch that :func:`commit` would send, without its preconditions.

    Raises:
        ValueError: ``new`` has another name or namespace.
    """
    for field in ("name", "namespace"):
        value = new.get("metadata", {}).get(field, getattr(old.meta, field))
        if value != getattr(old.meta, field):
            raise ValueError(
                f"{old.kind} {old.key}: metadata.{field} cannot become {value}; create another"
            )
    before = old.to_dict()
    if subresource == "status":
        return create_merge_patch(
            {"status": _without_null(before.get("status", {}))},
            {"status": _without_null(new.get("status", {}))},
        )
    return create_merge_patch(_writable(before), _writable(new))


def _writable(body: JSON) -> JSON:
    kept: JSON = {
        name: _without_null(value)
        for name, value in body.items()
        if name not in {"status", "metadata", "apiVersion", "kind"} and value is not None
    }
    metadata = {
        name: _without_null(value)
        for name, value in body.get("metadata", {}).items()
        # {} and [] are what the server leaves out.
        if name not in _FIXED and value
    }
    return {**kept, "metadata": metadata}


def _without_null(value: Any) -> Any:
    """Merge patches cannot say null, and servers drop it: comparing it would never end."""
    if isinstance(value, dict):
        return {name: _without_null(item) for name, item in value.items() if item is not None}
    return value
