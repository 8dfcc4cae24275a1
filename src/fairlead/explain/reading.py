"""Reads for one explanation, with the caller's rights; nothing is written."""

from __future__ import annotations

from fairlead.api.links import Link
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import Resource
from fairlead.binding.commands.links import SeenObject, read_object
from fairlead.client import ApiError, Client, ClientError, Forbidden
from fairlead.client.lookups import find
from fairlead.konnector.commands.overview.links import origin_of
from fairlead.postgres.commands.explain import role_link
from fairlead.postgres.commands.links import provided_role_link


class ChainReading:
    """Reads objects and the links behind them; ``notes`` name those that could not be read.

    Args:
        client: a client of the target's cluster, with the caller's rights.
        operator_namespace: namespace of the PostgresAccess operator's settings.
    """

    def __init__(self, client: Client, operator_namespace: str) -> None:
        self.client = client
        self.notes: list[str] = []
        self._operator_namespace = operator_namespace

    async def read(self, resource: Resource, key: Key) -> SeenObject:
        """Read an object; one without a name is not there."""
        text = f"{resource.kind} {key}"
        try:
            obj = await find(self.client, resource, key.name, key.namespace) if key.name else None
        except Forbidden:
            return SeenObject(text=text, sight="Forbidden", key=key, problem="you may not read it")
        except ApiError as error:
            return SeenObject(text=text, sight="Error", key=key, problem=str(error))
        if obj is None:
            return SeenObject(text=text, sight="NotFound", key=key)
        return read_object(text, obj)

    async def beyond(self, resource: Resource, service: Object) -> list[Link]:
        """Return the links behind a service: the provider's object, then the role."""
        try:
            origin = await origin_of(self.client, resource, service)
        except ClientError as error:
            # A caller who may not list the bindings still gets the rest of the chain.
            text = f"{service.kind} {service.key}"
            self.notes.append(f"whether a provider brings {text} is not known: {error}")
            origin = None
        links = list(origin.links) if origin is not None else []
        # Only a PostgresAccess has a role behind it: any other service ends at the provider's
        # object.
        if resource.group_resource != POSTGRESACCESSES.group_resource:
            return links
        if origin is not None:
            return [*links, provided_role_link(service, origin.copy, is_seen=origin.is_read)]
        role, notes = await role_link(self.client, service, self._operator_namespace)
        self.notes += notes
        return [*links, role]
