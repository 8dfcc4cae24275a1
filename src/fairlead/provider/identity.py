"""The cluster namespace of a consumer, found or created by the consumer's identity."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_IDENTITY,
    ANNOTATION_LEGACY_IDENTITY,
    cluster_namespace,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import AlreadyExists, Client
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import commit


GROUP_AUTHOR = "group:"
"""Prefix of an author that is a group, whose members own an identity together."""
ANNOTATION_REQUESTED_IN = "fairlead.dev/requested-in"
"""Annotation of a cluster namespace: only requests in this namespace get the credentials."""


def title_of(identity: str, pretty_name: str) -> str:
    """Return the pretty name followed by the identity, or the identity alone if they are equal.

    Pretty names are not unique: all clusters of one person may have the same.
    """
    return identity if pretty_name in {"", identity} else f"{pretty_name} ({identity})"


class InviteError(Exception):
    """An invitation is refused; the text gives the reason and the remedy."""


class OtherAuthorError(InviteError):
    """The identity belongs to another author or namespace, or a group asks for a new one."""


class TooManyConsumersError(InviteError):
    """The author has reached the limit of consumers."""


async def ensure_cluster_namespace(
    client: Client,
    *,
    identity: str,
    author: str,
    prefix: str,
    requested_in: str = "",
    most: int | None = None,
) -> Object:
    """Return the namespace whose annotation has the identity, or a new one named by its hash.

    An author with ``most`` consumers gets no new one. Consumers are counted by a list of the API
    server: two that are created at the same moment do not count each other.

    A request states its author itself: the right to create requests in some namespace would be
    enough to act as any author. So an identity is bound to the namespace of its first request,
    ``requested_in``. It is "" for an administrator's invitation, which this never refuses.

    Raises:
        TooManyConsumersError: the author would have more than ``most`` consumers.
        OtherAuthorError: the identity is another author's, requests in another namespace are
            answered with it, or the author is a group and it is new.
        InviteError: its namespace cannot be used.
        ApiError: the server refused.
    """
    namespaces = (await client.list(NAMESPACES)).items
    namespace = _of(namespaces, identity)
    if namespace is None:
        if author.startswith(GROUP_AUTHOR):
            # A quota counts the consumers of persons: a group's name must not bypass it.
            raise OtherAuthorError(
                f"identity {identity} has no consumer, and {author} cannot create one: a "
                "person has to bind it first, and `fairlead provider hand-over` gives it to "
                "the group"
            )
        if most is not None and _number(namespaces, author) >= most:
            raise TooManyConsumersError(
                f"{_named(author)} already has {most} consumers, the allowed number: revoke an "
                "unused one with `fairlead provider revoke`"
            )
        namespace = await _create(client, identity, author, prefix, requested_in)
    # This also holds for a namespace that another invitation has just made.
    owner = namespace.meta.annotations.get(ANNOTATION_AUTHOR, "")
    if owner != author:
        raise OtherAuthorError(
            f"identity {identity} belongs to {_named(owner)}, not to {_named(author)}: choose "
            "another identity, or invite it as that author"
        )
    known_in = namespace.meta.annotations.get(ANNOTATION_REQUESTED_IN, "")
    if requested_in and known_in not in {"", requested_in}:
        raise OtherAuthorError(
            f"only requests in namespace {known_in} get identity {identity}, not those in "
            f"{requested_in}: `fairlead provider hand-over` changes that"
        )
    if namespace.meta.deleting:
        raise InviteError(
            f"namespace {namespace.meta.name} of {identity} is being deleted: try again when it "
            "is gone"
        )
    return await _migrated(client, namespace, identity, requested_in)


def _of(namespaces: Iterable[Object], identity: str) -> Object | None:
    # The name is no proof: the namespace may have been made with another prefix.
    matching = [namespace for namespace in namespaces if identity_of(namespace) == identity]
    if len(matching) > 1:
        names = ", ".join(sorted(namespace.meta.name for namespace in matching))
        raise InviteError(
            f"identity {identity} has several namespaces ({names}): delete all but one"
        )
    return matching[0] if matching else None


def _number(namespaces: Iterable[Object], author: str) -> int:
    return sum(
        bool(identity_of(namespace))
        and namespace.meta.annotations.get(ANNOTATION_AUTHOR, "") == author
        for namespace in namespaces
    )


async def _create(
    client: Client, identity: str, author: str, prefix: str, requested_in: str
) -> Object:
    name = cluster_namespace(identity, prefix)
    annotations = {ANNOTATION_IDENTITY: identity}
    if author:
        annotations[ANNOTATION_AUTHOR] = author
    if requested_in:
        annotations[ANNOTATION_REQUESTED_IN] = requested_in
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "annotations": annotations},
    }
    try:
        return await client.create(NAMESPACES, body)
    except AlreadyExists:
        # Either another invitation is making the same identity, or the name belongs to another
        # namespace.
        namespace = await client.get(NAMESPACES, name)
    if identity_of(namespace) != identity:
        raise InviteError(
            f"namespace {name} exists and was not made for identity {identity}: choose another "
            "identity or another namespace prefix"
        )
    return namespace


async def _migrated(client: Client, namespace: Object, identity: str, requested_in: str) -> Object:
    """Return the namespace with today's annotations in place of those of earlier versions."""
    body = namespace.to_dict()
    annotations: JSON = body["metadata"].setdefault("annotations", {})
    annotations[ANNOTATION_IDENTITY] = identity
    annotations.pop(ANNOTATION_LEGACY_IDENTITY, None)
    if requested_in:
        annotations[ANNOTATION_REQUESTED_IN] = requested_in
    return await commit(client, NAMESPACES, namespace, body)


def _named(author: str) -> str:
    return f"author {author}" if author else "no author"
