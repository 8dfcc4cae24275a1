"""Hands a consumer over to another person, or to a group: its identity is theirs from then on."""

from __future__ import annotations

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.provider.identity import ANNOTATION_REQUESTED_IN, GROUP_AUTHOR
from fairlead.runtime import commit


_ISSUERS = ("https://", "http://")


def check_author(text: str) -> str:
    """The author name of a person or a group, if it is one.

    Raises:
        ValueError: it is none; the text says what one looks like.
    """
    group = text.startswith(GROUP_AUTHOR) and text != GROUP_AUTHOR
    person = text.startswith(_ISSUERS) and "/" in text.partition("://")[2].strip("/")
    if not (group or person) or not text.isprintable() or text != text.strip():
        raise ValueError(
            f"{text!r} is neither a person nor a group: say ISSUER/SUB, such as "
            "https://login.example.org/ada, or group:NAME, such as group:oidc:team-a"
        )
    return text


async def hand_over(client: Client, namespace: Object, author: str) -> str:
    """Write whose the consumer of a cluster namespace is, and tell whose it was.

    It holds for the namespace as it was read: who is faster with it wins. Requests in whichever
    namespace are answered with it, until there is the first one.

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
