"""Objects as a backup has them, and their return into another control plane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Literal

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import AlreadyExists, Client


Style = Literal["stripped", "verbatim"]
"""What is kept: names, labels, annotations and finalizers, as Velero does, or owners too, as what
`kubectl get -o yaml` prints and `kubectl create` takes."""

_SERVERS_OWN = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)


async def dump(
    admin: Client, *resources: Resource, only: Callable[[JSON], Any] = lambda _: True
) -> list[JSON]:
    """All objects of these resources, with their statuses."""
    return [
        {**one.to_dict(), "apiVersion": resource.api_version, "kind": resource.kind}
        for resource in resources
        for one in (await admin.list(resource)).items
        if only(one.to_dict())
    ]


async def restore(
    admin: Client, bodies: Iterable[JSON], style: Style, *, seed: int | None = None
) -> None:
    """Create what is not there; with a ``seed`` in an order of chance."""
    ordered: Sequence[JSON] = list(bodies)
    if seed is not None:
        ordered = Random(seed).sample(ordered, len(ordered))
    dropped = {*_SERVERS_OWN, *(() if style == "verbatim" else ("ownerReferences",))}
    for body in ordered:
        metadata = {name: one for name, one in body["metadata"].items() if name not in dropped}
        resource = await admin.discovery.resource_for(body["apiVersion"], body["kind"])
        try:
            await admin.create(
                resource, {**body, "metadata": metadata}, metadata.get("namespace", "")
            )
        except AlreadyExists:
            continue
