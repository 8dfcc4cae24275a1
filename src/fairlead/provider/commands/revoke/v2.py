"""Steps that revoke a consumer of kbind v2: its access, its data, its Lease, and its home last.

No controller has a part in it, since none needs to run at a provider of kbind v2. Each step looks
at the cluster, so that the command can be run again wherever it was interrupted: the home has the
record, and the namespaces bear its name until they are let go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from fairlead.api.meta import JSON, Object
from fairlead.api.remains import count, remaining_text
from fairlead.api.resource import (
    CONFIGMAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import (
    AlreadyExists,
    ApiError,
    Client,
    Conflict,
    MethodNotAllowed,
    NotFound,
)
from fairlead.client.lookups import find
from fairlead.provider import bounds
from fairlead.provider.commands.revoke import belonging
from fairlead.provider.commands.revoke.access import AccessRemoval
from fairlead.provider.commands.revoke.inventory import Inventory
from fairlead.provider.commands.revoke.work import ClearingError, RevokeError, overdue
from fairlead.provider.tokens import TOKEN_TYPE
from fairlead.provider.v2.copies import KbindPlaces, count_copies
from fairlead.provider.v2.reading import (
    accounted,
    cluster_uids,
    leases_of,
    record_in,
    recorded,
)
from fairlead.provider.v2.record import (
    ANNOTATION_MADE,
    LABEL_CONSUMER,
    KbindInvitation,
    consumer_of,
    is_home,
    namespaces_of,
    revocation_body,
)
from fairlead.runtime import commit
from fairlead.runtime.removal import Progress, Removal


_OF_ITSELF = {
    (SERVICEACCOUNTS.plural, "default"),
    (CONFIGMAPS.plural, "kube-root-ca.crt"),
    (CONFIGMAPS.plural, "openshift-service-ca.crt"),
}
"""Objects that a cluster puts into each namespace, by plural and name."""


async def kbind_inventory(client: Client, home: Object) -> Inventory:
    """Count the APIs, created namespaces and copies of a consumer.

    Raises:
        InviteError: its record cannot be read.
        ApiError: the server refused.
    """
    name = home.meta.name
    invitation = await recorded(client, name)
    owned = await _owned(client, name)
    places = await _places(client, name, invitation, owned)
    copies = await count_copies(client, {name: invitation.apis}, {name: places})
    created = [namespace for namespace in owned if ANNOTATION_MADE in namespace.meta.annotations]
    number = copies.counts[name]
    return Inventory(
        consumer_of(home), name, len(invitation.apis), len(created), number, copies.unseen
    )


async def lock_out_kbind(client: Client, home: Object, progress: Progress) -> None:
    """Remove a consumer's access, and no data, like the first step of :func:`revoke_kbind`.

    Raises:
        RevokeError: a part of the access could not be removed.
    """
    await _KbindRevocation(Removal(client, progress), home, force=False).lock_out()


async def revoke_kbind(
    client: Client,
    home: Object,
    *,
    keep_data: bool,
    timeout: float,  # noqa: ASYNC109
    progress: Progress,
    force: bool = False,
) -> None:
    """Remove a consumer's access, then its copies, its Lease, its namespaces and its home.

    Args:
        client: with an administrator's rights.
        home: the consumer's home.
        keep_data: leave copies and namespaces, which then have no owner.
        timeout: limit in seconds.
        progress: called with each step.
        force: remove finalizers from copies after some seconds.

    Raises:
        ClearingError: the access is gone, and data is left.
        RevokeError: the access could not be taken away, or not in time.
        InviteError: the record of the invitation cannot be read.
        ApiError: the server refused.
    """
    removal = Removal(client, progress)
    work = _KbindRevocation(removal, home, force=force)
    try:
        async with asyncio.timeout(timeout):
            await work.run(keep_data=keep_data)
    except TimeoutError:
        raise work.unfinished(overdue(removal, timeout, force=force)) from None


class _KbindRevocation:
    def __init__(self, removal: Removal, home: Object, *, force: bool) -> None:
        self._removal = removal
        self._client = removal.client
        self._home = home
        self._name = home.meta.name
        self._force = force
        self._access = AccessRemoval(removal, home, self._created)
        self._locked_out = False

    async def run(self, *, keep_data: bool) -> None:
        await self.lock_out()
        invitation = await recorded(self._client, self._name)
        places = await _places(
            self._client, self._name, invitation, await _owned(self._client, self._name)
        )
        if "secrets/FromConsumer" in invitation.related:
            await self._name_tokens()
        if not keep_data:
            await self._delete_copies(invitation, places)
        await self._leave_namespaces(keep_data=keep_data)
        await self._delete_leases()
        await self._removal.delete(NAMESPACES, [self._home])
        await self._removal.gone(self._left_home)

    def unfinished(self, why: str) -> RevokeError:
        """Return the error that says what is left of the consumer, and why."""
        identity = consumer_of(self._home)
        if not self._locked_out:
            return RevokeError(f"{identity} may still have access, but {why}")
        return ClearingError(f"{identity} no longer has access, but {why}")

    async def lock_out(self) -> None:
        """Remove all access that can be removed, even if a part of it fails."""
        with self._access.noted("the record that it is being revoked"):
            await self._declare()
        await self._access.take()
        if left := self._access.left():
            raise self.unfinished(left)
        self._locked_out = True

    async def _declare(self) -> None:
        """Record that the consumer is being revoked: an invitation gives it no access again."""
        while True:
            record = await record_in(self._client, self._name)
            body = revocation_body(self._name, record)
            with suppress(AlreadyExists, Conflict):
                if record is not None:
                    await commit(self._client, CONFIGMAPS, record, body)
                elif not self._home.meta.deleting:
                    await self._client.create(CONFIGMAPS, body)
                return

    async def _created(self) -> list[Object]:
        """Return the namespaces that were created for this consumer."""
        owned = await _owned(self._client, self._name)
        return [space for space in owned if ANNOTATION_MADE in space.meta.annotations]

    async def _name_tokens(self) -> None:
        """Name the tokens in namespaces that were not created for it, where it could make some."""
        for namespace in await _owned(self._client, self._name):
            if ANNOTATION_MADE in namespace.meta.annotations:
                continue
            name = namespace.meta.name
            tokens = await self._client.list(
                SECRETS, name, fields=f"type={TOKEN_TYPE}", metadata_only=True
            )
            if names := sorted(token.meta.name for token in tokens.items):
                more = f" and {len(names) - bounds.NAMED} more" * (len(names) > bounds.NAMED)
                self._removal.progress(
                    "warning: it could create tokens of the ServiceAccounts in namespace "
                    f"{name}: check these tokens, and delete those that are not yours: "
                    f"{', '.join(names[: bounds.NAMED])}{more}"
                )

    async def _delete_copies(self, invitation: KbindInvitation, places: KbindPlaces) -> None:
        if places.whole_cluster and not places.clusters:
            self._removal.progress(
                "no Lease shows which cluster the consumer used: its copies stay, with "
                "annotation core.kbind.io/consumer-cluster-uid"
            )
            return
        clock = asyncio.get_running_loop().time
        began = clock()
        while copies := await self._copies(invitation, places):
            for kind, objects in copies:
                await self._removal.delete(kind, objects)
                if self._force and clock() - began > bounds.FINALIZER_SECONDS:
                    taken = await self._removal.change(kind, objects, belonging.without_finalizers)
                    if taken:
                        self._removal.progress(
                            f"{count(taken, 'copy', 'copies')} lost their finalizers by force"
                        )
            await self._removal.wait(
                remaining_text([obj for _, objects in copies for obj in objects])
            )
        self._removal.waiting = ""

    async def _copies(
        self, invitation: KbindInvitation, places: KbindPlaces
    ) -> list[tuple[Resource, list[Object]]]:
        """Return all copies that are there.

        Raises:
            ClearingError: a kind cannot be listed.
        """
        kinds: list[Resource] = []
        for namespaced in (True, False):
            kinds += [
                kind
                for kind in await self._removal.kinds(namespaced=namespaced)
                if kind.group_resource in invitation.apis
            ]
        names = {rule.resource for rule in invitation.related_resources}
        kinds += [kind for kind in (CONFIGMAPS, SECRETS) if kind.plural in names]
        copies = []
        for kind in kinds:
            inside = [""] if places.whole_cluster else sorted(places.namespaces)
            for namespace in inside:
                listed = await self._removal.list_objects(kind, namespace)
                if why := self._removal.unseen.get(kind.group_resource):
                    raise self.unfinished(
                        "the command could not list all objects of the consumer "
                        f"({kind.group_resource}: {why}): fix that, for example a conversion "
                        "webhook, and run the command again"
                    )
                if objects := [obj for obj in listed if places.has(obj.meta)]:
                    copies.append((kind, objects))
        return copies

    async def _leave_namespaces(self, *, keep_data: bool) -> None:
        """Delete the namespaces that were created for it and are empty, and let the others go."""
        for namespace in await _owned(self._client, self._name):
            name = namespace.meta.name
            if ANNOTATION_MADE in namespace.meta.annotations and not keep_data:
                if not (left := await self._cleared(name)):
                    await self._removal.delete(NAMESPACES, [namespace])
                    continue
                self._removal.progress(f"namespace/{name} stays, since it has {left}")
            else:
                self._removal.progress(f"namespace/{name} stays and belongs to no consumer")
            await self._removal.change(NAMESPACES, [namespace], _unmarked)
        await self._removal.gone(lambda: _owned(self._client, self._name))

    async def _cleared(self, namespace: str) -> str:
        """Return what a namespace has beside what a cluster puts there, "" for nothing.

        What belongs to copies is awaited for some seconds: the garbage collector takes it away.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + bounds.LEFTOVER_SECONDS
        while (left := await self._leftover(namespace)) and clock() < until:
            await self._removal.wait(f"what else is in namespace {namespace}: {left}")
        self._removal.waiting = ""
        return left

    async def _leftover(self, namespace: str) -> str:
        self._client.discovery.invalidate()
        try:
            resources = await self._client.discovery.resources()
        except ApiError as error:
            return (
                f"perhaps objects of kinds that the server does not serve at the moment: {error}"
            )
        names: list[str] = []
        for resource in resources:
            if not resource.namespaced or resource.plural == EVENTS.plural:
                continue
            try:
                page = await self._client.page(
                    resource, namespace, limit=bounds.REMAINS_PAGE, metadata_only=True
                )
            except (NotFound, MethodNotAllowed):
                # It is no collection, such as a review.
                continue
            except ApiError as error:
                return f"objects of {resource.group_resource} that cannot be listed: {error}"
            kind = resource.kind.lower()
            names += [
                f"{kind}/{obj.meta.name}"
                for obj in page.items
                if (resource.plural, obj.meta.name) not in _OF_ITSELF
            ]
            if len(names) >= bounds.REMAINS:
                break
        more = " and more" if len(names) > bounds.REMAINS else ""
        return ", ".join(names[: bounds.REMAINS]) + more

    async def _delete_leases(self) -> None:
        """Delete its Leases, but for those of a cluster that another consumer's account uses."""
        homes = [one for one in await _marked(self._client) if is_home(one)]
        others = {accounted(home.meta.name) for home in homes if home.meta.name != self._name}
        for lease in await leases_of(self._client, self._name):
            if not others & lease.meta.annotations.keys():
                await self._removal.delete(LEASES, [lease])

    async def _left_home(self) -> list[Object]:
        home = await find(self._client, NAMESPACES, self._name)
        return [home] if home is not None and home.meta.uid == self._home.meta.uid else []


async def _owned(client: Client, home: str) -> list[Object]:
    """Return the namespaces for a consumer's objects."""
    return namespaces_of(await _marked(client), home)


async def _marked(client: Client) -> list[Object]:
    return (await client.list(NAMESPACES, labels=LABEL_CONSUMER)).items


async def _places(
    client: Client, home: str, invitation: KbindInvitation, owned: Iterable[Object]
) -> KbindPlaces:
    clusters = cluster_uids(await leases_of(client, home))
    names = frozenset(namespace.meta.name for namespace in owned)
    return KbindPlaces(names, invitation.whole_cluster, frozenset(clusters))


def _unmarked(namespace: Object) -> JSON:
    body = namespace.to_dict()
    body["metadata"].get("labels", {}).pop(LABEL_CONSUMER, None)
    body["metadata"].get("annotations", {}).pop(ANNOTATION_MADE, None)
    return body
