"""Roles, Secrets and objects that go with bindings and Connections of kbind v2."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.kbind import ClusterBinding, Connection
from fairlead.api.kbind.bindfile import secret_key
from fairlead.api.kbind.names import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, FINALIZER_SYNCER
from fairlead.api.kbind.rights import connection_role_name, role_name, user_role_names
from fairlead.api.meta import Key, Object
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    Resource,
)
from fairlead.client import Client, Forbidden
from fairlead.client.lookups import find, list_all, look_at
from fairlead.konnector.commands.consumer_objects import MANAGED_BY, MANAGER, delete
from fairlead.konnector.commands.request import Progress
from fairlead.konnector.commands.v2.targets import KbindTarget
from fairlead.konnector.v2.bindings.crds import is_made, owner_of


class KbindImpact(msgspec.Struct, frozen=True):
    """Numbers of objects of this cluster that go with bindings, and of copies at the provider."""

    objects: int = 0
    copies: int = 0


def apis_of(binding: Object) -> list[str]:
    """Return the names of the APIs that a binding lists; none of one that cannot be read."""
    parsed = binding.try_decode(ClusterBinding)
    return [] if parsed is None else list(dict.fromkeys(api.name for api in parsed.spec.apis))


async def impact(client: Client, bindings: Sequence[Object]) -> KbindImpact:
    """Count what goes with bindings, as far as no other binding keeps it.

    Raises:
        Unseen: objects of a kind cannot be counted.
        ClientError: the server refused a look or cannot be reached.
    """
    leaving = {binding.meta.uid for binding in bindings}
    staying = [
        binding
        for binding in await all_bindings(client)
        if binding.meta.uid not in leaving and not binding.meta.deleting
    ]
    objects = copies = 0
    for api in sorted({api for binding in bindings for api in apis_of(binding)}):
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, api)
        resource = crd_spec(crd).readable() if crd is not None else None
        if crd is None or resource is None:
            continue
        ours = _places(bindings, api)
        others = _places(staying, api)
        # The CRD goes with the last ClusterBinding, and takes all objects with it.
        whole = "" in ours and "" not in others and is_made(crd)
        for obj in await look_at(client, resource):
            goes = _covers(ours, obj) and not _covers(others, obj)
            objects += whole
            copies += goes and FINALIZER_SYNCER in obj.meta.finalizers
    return KbindImpact(objects, copies)


async def has_crds(client: Client, binding: Object) -> bool:
    """Whether the Connection of a binding owns the CRD of one of its APIs.

    Raises:
        ClientError: the server refused a look or cannot be reached.
    """
    crds = [await find(client, CUSTOMRESOURCEDEFINITIONS, api) for api in apis_of(binding)]
    return any(crd is not None and owner_of(crd) == connection_name(binding) for crd in crds)


def _places(bindings: Sequence[Object], api: str) -> set[str]:
    return {binding.meta.namespace for binding in bindings if api in apis_of(binding)}


def _covers(places: Collection[str], obj: Object) -> bool:
    return "" in places or obj.meta.namespace in places


async def all_bindings(client: Client) -> list[Object]:
    """Return all ClusterBindings and Bindings.

    Raises:
        ClientError: the server refused a look or cannot be reached.
    """
    return [
        obj for resource in (CLUSTERBINDINGS, BINDINGS) for obj in await list_all(client, resource)
    ]


async def naming(client: Client, connections: Collection[str]) -> list[Object]:
    """Return the bindings that name one of these Connections."""
    bindings = await all_bindings(client)
    return [binding for binding in bindings if connection_name(binding) in connections]


def connection_name(binding: Object) -> str:
    """Return the Connection that a binding names; "" of one that cannot be read."""
    parsed = binding.try_decode(ClusterBinding)
    return "" if parsed is None else parsed.spec.connection_ref.name


async def users_of(client: Client, secret: Key) -> list[Object]:
    """Return the Connections that refer to a Secret."""
    return [
        obj
        for obj in await list_all(client, CONNECTIONS)
        if obj.try_decode(Connection) is not None and secret_key(obj.to_dict()) == secret
    ]


def written_by_bind(obj: Object) -> bool:
    """Whether ``fairlead bind`` has made an object."""
    return obj.meta.labels.get(MANAGED_BY) == MANAGER


async def remove_secret(client: Client, secret: Object, progress: Progress) -> None:
    """Delete a Secret that ``fairlead bind`` has made."""
    if written_by_bind(secret):
        await delete(client, SECRETS, secret)
        progress(f"deleted Secret {secret.key}")


def role_keys(target: KbindTarget) -> list[tuple[Resource, Key]]:
    """Return the roles that belong to a binding or a Connection, those of people first."""
    place, name = target.key
    if target.resource == CONNECTIONS:
        return [(CLUSTERROLES, Key("", connection_role_name(name)))]
    keys = [*user_role_keys(target), (CLUSTERROLES, Key("", role_name(name, place)))]
    if place:
        keys += [(kind, Key(place, role_name(name, place))) for kind in (ROLEBINDINGS, ROLES)]
    return keys


def user_role_keys(target: KbindTarget) -> list[tuple[Resource, Key]]:
    """Return the roles of people that belong to a binding."""
    people = user_role_names(target.key.name, target.key.namespace)
    return [(CLUSTERROLES, Key("", role)) for role in people]


async def remove_roles(
    client: Client,
    target: KbindTarget,
    progress: Progress,
    keys: Sequence[tuple[Resource, Key]] | None = None,
) -> bool:
    """Delete the roles of a binding or a Connection; return whether there was any.

    Those that the caller may not delete are named.

    Raises:
        ClientError: the server refused otherwise, or cannot be reached.
    """
    removed = False
    for resource, key in role_keys(target) if keys is None else keys:
        try:
            role = await find(client, resource, key.name, key.namespace)
            if role is None:
                continue
            await delete(client, resource, role)
        except Forbidden as error:
            progress(f"{resource.kind} {key} may be left behind: {error}")
            continue
        removed = True
        progress(f"deleted {resource.kind} {key}")
    return removed
