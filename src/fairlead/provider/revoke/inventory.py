"""What revoking a consumer is about, for whoever has to confirm it."""

from __future__ import annotations

import msgspec

from fairlead.api.kubebind import APISERVICEEXPORTS
from fairlead.api.meta import Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.provider.consumers.census import served
from fairlead.provider.identity import identity_of
from fairlead.provider.revoke.belonging import count, is_copy, provider_namespaces


class Inventory(msgspec.Struct, frozen=True):
    """A consumer in numbers; ``objects`` counts its copies of exported kinds."""

    identity: str
    namespace: str
    exports: int
    namespaces: int
    objects: int

    def text(self, *, keep_data: bool) -> str:
        """One sentence that says what will happen."""
        copies, namespaces = count(self.objects, "object"), count(self.namespaces, "namespace")
        data = f"{copies} and {namespaces}"
        end = f"{data} stay, and are nobody's" if keep_data else f"{data} are deleted for ever"
        return (
            f"{self.identity} ({self.namespace}) loses its access and "
            f"{count(self.exports, 'export')}; {end}"
        )


async def inventory(client: Client, consumer: Object) -> Inventory:
    """What a consumer has.

    Raises:
        ApiError: the server refused.
    """
    name = consumer.meta.name
    exports = (await client.list(APISERVICEEXPORTS, name)).items
    objects = 0
    for resource in await served(client, exports):
        listed = await client.list(resource, metadata_only=True)
        objects += sum(1 for obj in listed.items if is_copy(obj, name))
    owned = provider_namespaces((await client.list(NAMESPACES)).items, name)
    return Inventory(identity_of(consumer), name, len(exports), len(owned), objects)
