"""Numbers of the objects that revoking a consumer deletes or leaves, and their sentence."""

from __future__ import annotations

import msgspec

from fairlead.api.kubebind import APISERVICEEXPORTS
from fairlead.api.meta import Object
from fairlead.api.remains import count
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.provider import bounds
from fairlead.provider.commands.revoke.belonging import provider_namespaces
from fairlead.provider.copies import count_copies, places
from fairlead.provider.namespaces import identity_of


class Inventory(msgspec.Struct, frozen=True):
    """Numbers of a consumer's objects; ``objects`` counts its copies of exported kinds.

    ``unseen`` gives the reason why kinds are not counted, by plural and group.
    """

    identity: str
    namespace: str
    exports: int
    namespaces: int
    objects: int
    unseen: dict[str, str] = {}

    def text(self, *, keep_data: bool, force: bool = False) -> str:
        """Return one sentence about the effect of revoking."""
        copies, namespaces = count(self.objects, "object"), count(self.namespaces, "namespace")
        data = f"{copies} and {namespaces}"
        end = (
            f"{data} stay and belong to no consumer"
            if keep_data
            else f"{data} are deleted permanently"
        )
        forced = (
            f"; finalizers that are still on its objects after {bounds.FINALIZER_SECONDS:g} s "
            "are removed, and what their owners would have cleaned up stays behind"
        )
        unseen = (f"; {kind} is not counted: {why}" for kind, why in sorted(self.unseen.items()))
        return (
            f"{self.identity} ({self.namespace}) loses its access and "
            f"{count(self.exports, 'export')}; {end}{''.join(unseen)}{forced if force else ''}"
        )


async def inventory(client: Client, consumer: Object) -> Inventory:
    """Count the exports, namespaces and copies of a consumer, without kinds that cannot be listed.

    Raises:
        ApiError: the server refused.
    """
    name = consumer.meta.name
    exports = (await client.list(APISERVICEEXPORTS, name)).items
    namespaces = (await client.list(NAMESPACES)).items
    copies = await count_copies(client, exports, places(namespaces, exports))
    owned = provider_namespaces(namespaces, name)
    number = copies.counts[name]
    identity = identity_of(consumer)
    return Inventory(identity, name, len(exports), len(owned), number, copies.unseen)
