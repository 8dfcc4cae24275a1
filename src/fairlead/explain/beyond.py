"""The links behind a service: the provider's object, and the role."""

from __future__ import annotations

from fairlead.api.links import Link
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import Resource
from fairlead.client import Client, ClientError
from fairlead.konnector.commands.overview.origin import ObjectOrigin, origin_of
from fairlead.postgres.commands.links import provided_role_link, role_link


class Beyond:
    """Finds the links behind a service; ``notes`` name the objects that could not be read.

    Args:
        client: a client of the service's cluster, with the caller's rights.
        operator_namespace: namespace of the PostgresAccess operator's settings.
    """

    def __init__(self, client: Client, operator_namespace: str) -> None:
        self.notes: list[str] = []
        self._client = client
        self._operator_namespace = operator_namespace

    async def __call__(self, resource: Resource, service: Object) -> list[Link]:
        """Return the known links behind a service, the nearest first."""
        origin = await self._origin(resource, service)
        links = [origin.link] if origin is not None else []
        # Only a PostgresAccess has a role behind it: any other service ends at the provider's
        # object.
        if resource.group_resource != POSTGRESACCESSES.group_resource:
            return links
        if origin is not None:
            return [*links, provided_role_link(service, origin.copy, is_seen=origin.is_read)]
        role, notes = await role_link(self._client, service, self._operator_namespace)
        self.notes += notes
        return [*links, role]

    async def _origin(self, resource: Resource, service: Object) -> ObjectOrigin | None:
        try:
            return await origin_of(self._client, resource, service)
        except ClientError as error:
            # A caller who may not list the bindings still gets the rest of the chain.
            text = f"{service.kind} {service.key}"
            self.notes.append(f"whether a provider brings {text} is not known: {error}")
            return None
