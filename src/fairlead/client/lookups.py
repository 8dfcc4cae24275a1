"""Looks at a cluster that tell "it is not there" from "nobody says so"."""

from __future__ import annotations

from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import Client, NotFound


async def find(
    client: Client, resource: Resource, name: str, namespace: str = ""
) -> Object | None:
    """The object, or None when the server itself says that there is none.

    Raises:
        NotFound: the server does not serve the kind, and so says nothing about the object.
        ClientError: the server refused the look or cannot be reached.
    """
    try:
        return await client.get(resource, name, namespace)
    except NotFound as error:
        if not error.about(name):
            raise
        return None


async def list_all(client: Client, resource: Resource) -> list[Object]:
    """All objects of a custom resource; one whose CRD is not installed has none.

    Raises:
        ClientError: the server refused the look or cannot be reached.
    """
    try:
        return (await client.list(resource)).items
    except NotFound:
        if await find(client, CUSTOMRESOURCEDEFINITIONS, resource.group_resource) is not None:
            raise
        return []
