"""Search for a consumer of a provider's cluster by its identity or cluster namespace."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.client.lookups import unknown
from fairlead.provider.namespaces import identity_of
from fairlead.provider.presence import check_provider


class UnknownConsumerError(Exception):
    """No consumer has this name, or more than one; the text names the existing ones."""


async def find_consumer(client: Client, name: str) -> Object:
    """Return the cluster namespace of the consumer with this identity, or of this very name.

    Raises:
        UnknownConsumerError: no consumer has the name, or several have.
        NoProviderError: the cluster has no consumers, for it is no provider's.
        ApiError: the server refused.
    """
    namespaces = (await client.list(NAMESPACES)).items
    if not any(map(identity_of, namespaces)):
        await check_provider(client)
    return choose(namespaces, name)


def choose(namespaces: Sequence[Object], name: str) -> Object:
    """Return the cluster namespace with this identity or this name.

    Raises:
        UnknownConsumerError: no consumer has the name, or several have.
    """
    known = [namespace for namespace in namespaces if identity_of(namespace)]
    found = [one for one in known if name in {identity_of(one), one.meta.name}]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(sorted(one.meta.name for one in found))
        raise UnknownConsumerError(
            f"{name} means several consumers: give the cluster namespace, one of {names}"
        )
    raise UnknownConsumerError(unknown("consumer", name, map(identity_of, known)))
