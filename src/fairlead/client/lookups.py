"""Looks for objects and waits for them; a missing object differs from a missing answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from difflib import get_close_matches

import msgspec

from fairlead.api.kbind.names import ANNOTATION_CONNECTION, CONNECTIONS
from fairlead.api.kubebind import APISERVICEBINDINGS, binding_of_crd
from fairlead.api.meta import Key, Object
from fairlead.api.resource import (
    CUSTOMRESOURCEDEFINITIONS,
    SELFSUBJECTACCESSREVIEWS,
    Resource,
)
from fairlead.client import limits
from fairlead.client.client import Client
from fairlead.client.errors import (
    ApiError,
    ClientError,
    ConnectionFailed,
    Forbidden,
    Gone,
    NotFound,
    Unauthorized,
)


async def find(
    client: Client, resource: Resource, name: str, namespace: str = ""
) -> Object | None:
    """Return the object, or None if the server itself says that there is none.

    Raises:
        NotFound: the server does not serve the kind, and so says nothing about the object.
        ClientError: the server refused the look or cannot be reached.
    """
    try:
        return await client.get(resource, name, namespace)
    except NotFound as error:
        # A 404 that names no object comes from a proxy, or from a server whose CRD is not there
        # yet.
        if not error.concerns(name):
            raise
        return None


async def find_custom(client: Client, resource: Resource, name: str) -> Object | None:
    """Return the custom resource, or None if it does not exist, or its CRD is not installed.

    Raises:
        ClientError: the server refused the look or cannot be reached.
    """
    try:
        return await find(client, resource, name)
    except NotFound:
        if await find(client, CUSTOMRESOURCEDEFINITIONS, resource.group_resource) is not None:
            raise
        return None


async def binding_of(client: Client, resource: Resource) -> str | None:
    """Return kind and name of the object that brings a kind to this cluster, "" if none does.

    It is an APIServiceBinding, or a Connection of kbind v2. With one, the cluster is a consumer's,
    where its provider serves the objects. None if the caller may not read CRDs.

    Raises:
        ClientError: the server cannot be reached.
    """
    try:
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, resource.group_resource)
    except Forbidden:
        return None
    if crd is None:
        return ""
    if binding := binding_of_crd(crd.meta):
        return f"{APISERVICEBINDINGS.kind} {binding}"
    connection = crd.meta.annotations.get(ANNOTATION_CONNECTION)
    return f"{CONNECTIONS.kind} {connection}" if connection else ""


async def list_all(client: Client, resource: Resource) -> list[Object]:
    """List all objects of a custom resource; none if its CRD is not installed.

    A CRD may be written and not yet established: then no object can have been stored. After that
    a server needs a moment to serve the kind, and the list is repeated.

    Raises:
        NotFound: the CRD is established, and the server still does not serve the kind.
        ClientError: the server refused the look or cannot be reached.
    """
    for _ in range(limits.SERVED_LOOKS):
        try:
            return (await client.list(resource)).items
        except NotFound:
            crd = await find(client, CUSTOMRESOURCEDEFINITIONS, resource.group_resource)
            if crd is None or not _established(crd):
                return []
        await asyncio.sleep(limits.LOOK_PAUSE_SECONDS)
    return (await client.list(resource)).items


class Unseen(ClientError):  # noqa: N818
    """The objects of a kind could not be listed; ``why`` is the server's message."""

    def __init__(self, resource: Resource, why: str) -> None:
        super().__init__(f"{resource.group_resource} cannot be listed: {why}")
        self.why = why


async def look_at(client: Client, resource: Resource, namespace: str = "") -> list[Object]:
    """Return the metadata of all objects of a kind; [] if the kind is not served any more.

    A single kind may fail, for example if its conversion webhook is down. The list fails after
    ``LOOK_SECONDS`` without an answer.

    Raises:
        Unseen: the server did not say what there is of this kind.
        Unauthorized: the server does not know the user, which concerns all kinds.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(limits.LOOK_SECONDS) as limit:
            # Each page restarts the time: the limit is on silence, not on the length of the list.
            listed = await client.list(
                resource,
                namespace,
                metadata_only=True,
                arrived=lambda _page: limit.reschedule(loop.time() + limits.LOOK_SECONDS),
            )
    except NotFound:
        return []
    except Unauthorized:
        raise
    except (ApiError, ConnectionFailed) as error:
        raise Unseen(resource, " ".join(str(error).split())) from error
    except TimeoutError:
        raise Unseen(
            resource, f"the server has not answered for {limits.LOOK_SECONDS:g} s"
        ) from None
    return listed.items


def _established(crd: Object) -> bool:
    status = crd.to_dict().get("status") or {}
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


Until = Callable[[Object | None], str]
"""Takes the object or None; returns "" if it is in the wanted state, else the missing part."""


class WaitTimeout(ClientError):  # noqa: N818
    """The object did not reach the wanted state in time; the text names the missing part."""


async def wait_for(
    client: Client,
    resource: Resource,
    name: str,
    namespace: str = "",
    *,
    until: Until,
    timeout: float,  # noqa: ASYNC109
) -> Object | None:
    """Watch one object until the condition holds; return the object in that state.

    A resource that the server does not serve yet counts as an absent object. ``timeout`` is in
    seconds; however short it is, a server that answers within ``ANSWER_SECONDS`` more is
    looked at once.

    Raises:
        WaitTimeout: the condition did not hold in time.
        ApiError: the server refuses the look, for example Forbidden.
    """
    missing = ""
    end = asyncio.get_running_loop().time() + timeout
    limit = asyncio.timeout_at(end + limits.ANSWER_SECONDS)

    def check(object_: Object | None) -> bool:
        nonlocal missing
        missing = until(object_)
        # The server has answered: from here on the caller's time counts.
        if missing:
            limit.reschedule(end)
        return not missing

    try:
        async with limit:
            while True:
                try:
                    return await _watch(client, resource, name, namespace, check)
                except (ConnectionFailed, Gone) as error:
                    missing = missing or str(error)
                    limit.reschedule(end)
                except NotFound:
                    if check(None):
                        return None
                await asyncio.sleep(limits.LOOK_PAUSE_SECONDS)
    except TimeoutError:
        where = f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"
        said = missing or "the server has not answered"
        raise WaitTimeout(f"{where}: {said} (waited {timeout:.3g} s)") from None


async def _watch(
    client: Client,
    resource: Resource,
    name: str,
    namespace: str,
    check: Callable[[Object | None], bool],
) -> Object | None:
    fields = f"metadata.name={name}"
    version = ""
    while True:
        if not version:
            listed = await client.list(resource, namespace, fields=fields)
            current = listed.items[0] if listed.items else None
            if check(current):
                return current
            version = listed.resource_version
        async for event in client.watch(
            resource, namespace, resource_version=version, fields=fields
        ):
            version = event.object.meta.resource_version
            if event.type == "BOOKMARK":
                continue
            current = None if event.type == "DELETED" else event.object
            if check(current):
                return current


def unknown(what: str, name: str, names_known: Iterable[str]) -> str:
    """Return the message about a missing name: the closest known name, and the known names.

    Args:
        what: the text before the name, such as a kind.
        name: the missing name.
        names_known: the names that there are.
    """
    names = sorted(names_known)
    close = get_close_matches(name, names, n=1) or [
        candidate for candidate in names if candidate.lower() == name.lower()
    ]
    if close and len(names) == 1:
        return f"{what} {name} does not exist; did you mean {close[0]}?"
    more = f" and {len(names) - limits.NAMED} more" if len(names) > limits.NAMED else ""
    there = f"there are: {', '.join(names[: limits.NAMED])}{more}" if names else "there are none"
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{what} {name} does not exist; {meant}{there}"


_EVERY = Key("", "")
"""Key in place of an object's, for all objects of a kind."""


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


async def may(client: Client, resource: Resource, verb: str, key: Key = _EVERY) -> bool:
    """Whether the client's user may apply ``verb`` to an object, or to all of a kind.

    Raises:
        ClientError: the API server refused or is unavailable.
    """
    attributes = {
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "verb": verb,
        "namespace": key.namespace,
        "name": key.name,
    }
    body = {
        "apiVersion": SELFSUBJECTACCESSREVIEWS.api_version,
        "kind": SELFSUBJECTACCESSREVIEWS.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    status = (await client.create(SELFSUBJECTACCESSREVIEWS, body)).decode(_Review).status
    # The API never sets both. If a server does, the denial counts.
    return status.allowed and not status.denied
