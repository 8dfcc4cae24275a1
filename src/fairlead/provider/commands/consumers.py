"""Search for a consumer of a provider's cluster by its identity or cluster namespace."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.client.lookups import unknown
from fairlead.provider.namespaces import identity_of
from fairlead.provider.presence import check_provider
from fairlead.provider.v2.record import consumer_of, is_home


class UnknownConsumerError(Exception):
    """No consumer has this name, or more than one; the text names the existing ones."""


async def find_consumer(client: Client, name: str) -> Object:
    """Return the cluster namespace of the consumer with this identity, or of this very name.

    That of a consumer of kbind v2 is its home.

    Raises:
        UnknownConsumerError: no consumer has the name, or several have.
        NoProviderError: the cluster has no consumers, for it is no provider's.
        ApiError: the server refused.
    """
    return choose(await _list(client), name)


async def find_consumers(client: Client, names: Sequence[str]) -> list[Object]:
    """Return the cluster namespaces of several consumers of v1alpha2, each once.

    Raises:
        UnknownConsumerError: no consumer has one of the names, or several have.
        NoProviderError: the cluster has no consumers, for it is no provider's.
        ApiError: the server refused.
    """
    namespaces = [one for one in await _list(client) if not is_home(one)]
    chosen = [choose(namespaces, name) for name in names]
    return list({namespace.meta.name: namespace for namespace in chosen}.values())


async def find_owned(client: Client, author: str) -> list[Object]:
    """Return the cluster namespaces of all consumers of an author, ordered by name.

    Raises:
        UnknownConsumerError: the author has no consumer; the text names similar authors.
        NoProviderError: the cluster has no consumers, for it is no provider's.
        ApiError: the server refused.
    """
    owners = {
        namespace.meta.name: (namespace, namespace.meta.annotations.get(ANNOTATION_AUTHOR, ""))
        for namespace in await _list(client)
        if identity_of(namespace)
    }
    owned = [namespace for _, (namespace, owner) in sorted(owners.items()) if owner == author]
    if not owned:
        authors = {owner for _, owner in owners.values() if owner}
        raise UnknownConsumerError(unknown("author", author, authors))
    return owned


async def _list(client: Client) -> Sequence[Object]:
    namespaces = (await client.list(NAMESPACES)).items
    if not any(map(_named, namespaces)):
        await check_provider(client)
    return namespaces


def choose(namespaces: Sequence[Object], name: str) -> Object:
    """Return the cluster namespace with this identity or this name.

    Raises:
        UnknownConsumerError: no consumer has the name, or several have.
    """
    named = [namespace for namespace in namespaces if _named(namespace)]
    matching = [one for one in named if name in {_named(one), one.meta.name}]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(sorted(one.meta.name for one in matching))
        raise UnknownConsumerError(
            f"{name} means several consumers: give the cluster namespace, one of {names}"
        )
    raise UnknownConsumerError(unknown("consumer", name, map(_named, named)))


def _named(namespace: Object) -> str:
    """Return the identity of a consumer of v1alpha2, or the name of a consumer of kbind v2."""
    return identity_of(namespace) or consumer_of(namespace)
