"""Transfer of a consumer's identity to another person or to a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import ApiError, Client
from fairlead.provider.identity import ANNOTATION_REQUESTED_IN, GROUP_AUTHOR
from fairlead.runtime import commit


_ISSUERS = ("https://", "http://")


def check_author(text: str) -> str:
    """Check the author name of a person or a group, and return it.

    Raises:
        ValueError: the text is no author name; the message gives an example.
    """
    group = text.startswith(GROUP_AUTHOR) and text != GROUP_AUTHOR
    person = text.startswith(_ISSUERS) and "/" in text.partition("://")[2].strip("/")
    if not (group or person) or not text.isprintable() or text != text.strip():
        raise ValueError(
            f"{text!r} names neither a person nor a group: give ISSUER/SUB, such as "
            "https://login.example.org/ada, or group:NAME, such as group:oidc:team-a"
        )
    return text


async def hand_over(client: Client, namespace: Object, author: str) -> str:
    """Make an author the owner of a consumer, and return the former owner.

    The write applies to the namespace as it was read: the faster of two hand-overs wins. The first
    request after it, in any namespace, gets the credentials and fixes that namespace.

    Raises:
        ApiError: the server refused, or the namespace was changed meanwhile.
    """
    body = namespace.to_dict()
    annotations = body["metadata"].setdefault("annotations", {})
    former: str = annotations.get(ANNOTATION_AUTHOR, "")
    annotations[ANNOTATION_AUTHOR] = author
    # The new owner may bind it at another front door.
    annotations.pop(ANNOTATION_REQUESTED_IN, None)
    await commit(client, NAMESPACES, namespace, body)
    return former


async def hand_over_each(
    client: Client,
    namespaces: Sequence[Object],
    author: str,
    progress: Callable[[Object, str], None],
) -> list[str]:
    """Make an author the owner of several consumers, and return why some keep their owner.

    A refusal for one consumer does not hold up the others.

    Args:
        client: a client of the provider's cluster.
        namespaces: the consumers' cluster namespaces, as they were read.
        author: the new owner.
        progress: called with each namespace that was handed over, and its former owner.
    """
    failures = []
    for namespace in namespaces:
        try:
            former = await hand_over(client, namespace, author)
        except ApiError as error:
            failures.append(f"namespace/{namespace.meta.name} keeps its owner: {error}")
        else:
            progress(namespace, former)
    return failures
