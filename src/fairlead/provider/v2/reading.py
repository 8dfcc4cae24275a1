"""Readers of what a provider's cluster says about its consumers of kbind v2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.kbind.names import (
    CONSUMER_CLUSTER_UID,
    LEASE_ACCOUNT_PREFIX,
    LEASE_NAMESPACE,
    lease_name,
)
from fairlead.api.meta import Object
from fairlead.api.resource import CONFIGMAPS, LEASES
from fairlead.client import Client, Forbidden, NotFound
from fairlead.client.lookups import find
from fairlead.provider.identity import InviteError
from fairlead.provider.v2.copies import KbindPlaces
from fairlead.provider.v2.record import (
    RECORD_NAME,
    KbindInvitation,
    consumer_of,
    invitation_of,
    is_home,
    namespaces_of,
)


class KbindConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer that was invited by kbind v2; ``warnings`` are faults that need a person."""

    name: str
    home: str
    invitation: KbindInvitation
    places: KbindPlaces
    deleting: bool = False
    warnings: tuple[str, ...] = ()


async def read_consumers(client: Client, namespaces: Sequence[Object]) -> list[KbindConsumer]:
    """Return all consumers of kbind v2, by all namespaces of the cluster.

    Raises:
        ApiError: the server refused.
    """
    named = f"metadata.name={RECORD_NAME}"
    records = {
        record.meta.namespace: record
        for record in (await client.list(CONFIGMAPS, fields=named)).items
    }
    leases = await list_leases(client)
    consumers = []
    for home in filter(is_home, namespaces):
        name, invitation, warning = home.meta.name, KbindInvitation(), ""
        try:
            invitation = read_record(records.get(name), name)
        except InviteError as error:
            warning = str(error)
        clusters = cluster_uids(_of(leases, name))
        owned = frozenset(space.meta.name for space in namespaces_of(namespaces, name))
        consumers.append(
            KbindConsumer(
                name=consumer_of(home),
                home=name,
                invitation=invitation,
                places=KbindPlaces(owned, invitation.whole_cluster, frozenset(clusters)),
                deleting=home.meta.deleting,
                warnings=(warning,) if warning else (),
            )
        )
    return consumers


async def list_leases(client: Client) -> list[Object]:
    """Return the Leases of all konnectors of kbind v2; none for a reader who may not list them.

    Raises:
        ApiError: the server refused otherwise.
    """
    try:
        return (await client.list(LEASES, LEASE_NAMESPACE)).items
    except (NotFound, Forbidden):
        return []


def renewals(leases: Iterable[Object]) -> dict[str, str]:
    """Return the time of the last renewal of each cluster's Lease, by the cluster's uid."""
    times = {}
    for lease in leases:
        renewed = lease.decode(_Lease).spec.renew_time
        for uid in cluster_uids([lease]):
            if renewed:
                times[uid] = renewed
    return times


async def record_in(client: Client, home: str) -> Object | None:
    """Return the ConfigMap that records an invitation, None if there is none.

    Raises:
        ApiError: the server refused.
    """
    return await find(client, CONFIGMAPS, RECORD_NAME, home)


async def recorded(client: Client, home: str) -> KbindInvitation:
    """Return the recorded invitation; an empty one without a record.

    Raises:
        InviteError: the record was edited, and cannot be read.
        ApiError: the server refused.
    """
    return read_record(await record_in(client, home), home)


def read_record(record: Object | None, home: str) -> KbindInvitation:
    """Return the invitation in the ConfigMap of a home.

    Raises:
        InviteError: it was edited, and cannot be read.
    """
    try:
        return invitation_of(record)
    except msgspec.ValidationError as error:
        raise InviteError(
            f"ConfigMap {home}/{RECORD_NAME} is not valid: {field_message(error)}. Delete it, and "
            "invite the consumer again with all its APIs and namespaces"
        ) from None


async def leases_of(client: Client, home: str) -> list[Object]:
    """Return the Leases of konnectors that use the account of this home, by their annotation.

    A consumer writes its Lease, and could have its own claim another one's account.

    Raises:
        ApiError: the server refused.
    """
    return _of(await list_leases(client), home)


def _of(leases: Iterable[Object], home: str) -> list[Object]:
    return [lease for lease in leases if accounted(home) in lease.meta.annotations]


def accounted(home: str) -> str:
    """Return the annotation of a Lease that is written by the account of a home."""
    return f"{LEASE_ACCOUNT_PREFIX}{home}"


def cluster_uids(leases: Iterable[Object]) -> set[str]:
    """Return the uids of the consumers' clusters that Leases are of.

    A Lease of another name says nothing: its writer need not know the uid.
    """
    return {
        uid
        for lease in leases
        if (uid := lease.meta.annotations.get(CONSUMER_CLUSTER_UID, ""))
        and lease.meta.name == lease_name(uid)
    }


class _LeaseSpec(msgspec.Struct, rename="camel", frozen=True):
    renew_time: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _LeaseSpec = _LeaseSpec()
