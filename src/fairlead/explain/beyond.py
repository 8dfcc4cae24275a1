"""Where a service comes from: the provider's object, and the role."""

from __future__ import annotations

from fairlead.api.links import Link
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import Resource
from fairlead.client import Client, ClientError
from fairlead.konnector.commands.overview.origin import origin_of
from fairlead.postgres.commands.links import role_by_status, role_link


class Beyond:
    """Finds the links behind a service; ``notes`` tell what could not be seen.

    Args:
        client: of the cluster of the service, with the rights of the person who asks.
        operator_namespace: where the PostgresAccess operator's settings are.
    """

    def __init__(self, client: Client, operator_namespace: str) -> None:
        self.notes: list[str] = []
        self._client = client
        self._operator_namespace = operator_namespace

    async def __call__(self, resource: Resource, service: Object) -> list[Link]:
        """The links that are known of, the nearest first."""
        origin = await self._origin(resource, service)
        links = [origin] if origin is not None else []
        if resource.group_resource != POSTGRESACCESSES.group_resource:
            return links
        if origin is not None:
            # The server is the provider's: what its operator says has come with the status.
            return [*links, role_by_status(service)]
        role, notes = await role_link(self._client, service, self._operator_namespace)
        self.notes += notes
        return [*links, role]

    async def _origin(self, resource: Resource, service: Object) -> Link | None:
        try:
            return await origin_of(self._client, resource, service)
        except ClientError as error:
            text = f"{service.kind} {service.key}"
            self.notes.append(f"whether a provider brings {text} is not known: {error}")
            return None
