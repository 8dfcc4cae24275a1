"""Steps that revoke a consumer: its access first; its data is declared to go, and watched."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    FINALIZER_NAMESPACE,
    KUBECONFIG_NAME,
)
from fairlead.api.kubebind.conditions import (
    CLEARED,
    OBJECTS_UNKNOWN,
    get_condition,
    stored_conditions,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.remains import count, remaining_text
from fairlead.api.resource import (
    CONFIGMAPS,
    NAMESPACES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import (
    AlreadyExists,
    Client,
    Conflict,
    Forbidden,
    NotFound,
)
from fairlead.client.lookups import find
from fairlead.provider import bounds
from fairlead.provider.commands.revoke import belonging
from fairlead.provider.commands.revoke.access import AccessRemoval
from fairlead.provider.copies import exported, places
from fairlead.provider.namespaces import identity_of
from fairlead.runtime import commit
from fairlead.runtime.removal import Progress, Removal


_BY_THEMSELVES = (
    "then the controllers continue by themselves; to wait for them, run this command again"
)
_TO_BEGIN = "the provider's controllers to begin"
_CLAIMABLE = (CONFIGMAPS, SECRETS, SERVICEACCOUNTS)
_OWN_KINDS = (APISERVICEEXPORTREQUESTS, APISERVICENAMESPACES)
"""Kinds that every consumer may write in its cluster namespace."""


class RevokeError(Exception):
    """Revoking is unfinished; the text names the obstacle and how to go on."""


class ClearingError(RevokeError):
    """The access is removed, and data remains."""


async def lock_out(client: Client, consumer: Object, progress: Progress) -> None:
    """Remove a consumer's access, and no data, like the first step of :func:`revoke`.

    Raises:
        RevokeError: a part of the access could not be removed.
    """
    await _Revocation(Removal(client, progress), consumer, force=False).lock_out()


async def revoke(
    client: Client,
    consumer: Object,
    *,
    keep_data: bool,
    timeout: float,  # noqa: ASYNC109
    progress: Progress,
    force: bool = False,
) -> None:
    """Remove a consumer's access, declare that its data goes, and wait for the controllers.

    They go on if this is interrupted, and a second call waits again.

    Args:
        client: with an administrator's rights.
        consumer: its cluster namespace.
        keep_data: leave provider namespaces and copies, which then have no owner.
        timeout: limit in seconds.
        progress: called with each step.
        force: remove finalizers from objects of the kinds that the consumer could write, after
            some seconds; a consumer can add any number of finalizers to its objects.

    Raises:
        ClearingError: the access is gone, and data is left: the time is up, no controller acts on
            the declaration, or objects are of kinds that cannot be listed.
        RevokeError: the access could not be taken away, or not in time.
        ApiError: the server refused.
    """
    removal = Removal(client, progress)
    work = _Revocation(removal, consumer, force=force)
    try:
        async with asyncio.timeout(timeout):
            await work.run(keep_data=keep_data)
    except TimeoutError:
        if removal.waiting == _TO_BEGIN:
            raise work.unfinished(_absence(timeout)) from None
        raise work.unfinished(overdue(removal, timeout, force=force)) from None


def overdue(removal: Removal, seconds: float, *, force: bool) -> str:
    """Return what a revocation still waits for when its time is up, and how to go on."""
    waits = f"waits for {removal.waiting}" if removal.waiting else "is not finished"
    hint = "" if force else "; --force takes finalizers off the consumer's objects"
    return (
        f"revoking still {waits} after {seconds:g} s: remove what blocks it, and run the "
        f"command again to go on waiting{hint}"
    )


class _Revocation:
    def __init__(self, removal: Removal, consumer: Object, *, force: bool) -> None:
        self._force = force
        self._removal = removal
        self._client = removal.client
        self._consumer = consumer
        self._name = consumer.meta.name
        self._access = AccessRemoval(removal, consumer, self._owned)
        self._locked_out = False

    async def run(self, *, keep_data: bool) -> None:
        await self.lock_out()
        exports = await self._exports()
        if keep_data and await self._release(exports):
            return
        await self._ask_anew()
        # From here on the controllers delete every object of the consumer.
        await self._declare(clearing=True)
        await self._watch(exports)

    def unfinished(self, why: str) -> RevokeError:
        """Return the error that says what is left of the consumer, and why."""
        identity = identity_of(self._consumer)
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

    async def _declare(self, *, clearing: bool | None = None) -> None:
        """Record for the controllers that the consumer is being revoked, and if its objects go.

        Controllers and invitations grant it no access again.
        """
        while True:
            stored = await self._binding()
            consumer = await self._cluster_namespace()
            # Another command, or the controllers, may be at work at the same moment.
            with suppress(AlreadyExists, Conflict, NotFound):
                body = belonging.declared(self._name, stored, clearing=clearing)
                if stored is not None:
                    await commit(self._client, CLUSTERBINDINGS, stored, body)
                elif consumer is None or not (clearing or await self._exports()):
                    # The controllers have nothing to give to it again.
                    return
                elif not consumer.meta.deleting:
                    await self._client.create(CLUSTERBINDINGS, body)
                elif clearing:
                    # It was deleted by hand, and takes no declaration any more. The controllers
                    # only delete provider namespaces without copies then.
                    await self._removal.delete(NAMESPACES, await self._owned())
                return

    async def _ask_anew(self) -> None:
        """Take the condition Cleared away: controllers at work write it again.

        That of controllers which have stopped since, or a consumer's own, would be believed else.
        """
        while (binding := await self._binding()) is not None:
            conditions = stored_conditions(binding)
            others = [condition for condition in conditions if condition.type != CLEARED]
            if len(others) == len(conditions):
                return
            body = binding.to_dict()
            body["status"]["conditions"] = msgspec.to_builtins(others)
            # Who may not write it waits for what it says.
            with suppress(Conflict, NotFound):
                with suppress(Forbidden):
                    await commit(
                        self._client, CLUSTERBINDINGS, binding, body, subresource="status"
                    )
                return

    async def _watch(self, exports: Sequence[Object]) -> None:
        """Wait until the cluster namespace is gone, and show what the controllers wait for."""
        clock = asyncio.get_running_loop().time
        began = idle = listed = clock()
        self._removal.progress("waiting for the provider's controllers to finish")
        while (consumer := await self._cluster_namespace()) is not None:
            binding = await self._binding()
            conditions = stored_conditions(binding) if binding is not None else ()
            condition = get_condition(conditions, CLEARED)
            text, is_idle = _TO_BEGIN, condition is None
            if condition is not None:
                text = condition.message
            if consumer.meta.deleting:
                owned = await self._owned()
                text = remaining_text([*owned, consumer])
                # The controllers also let go of the last objects.
                is_idle = not owned and FINALIZER_NAMESPACE in text
            if not is_idle or (
                clock() - idle > bounds.UNTOUCHED_SECONDS and await self._is_touched()
            ):
                idle = clock()
            if condition is None or condition.reason != OBJECTS_UNKNOWN:
                listed = clock()
            if clock() - idle > bounds.UNTOUCHED_SECONDS:
                raise self.unfinished(_absence(bounds.UNTOUCHED_SECONDS))
            if clock() - listed > bounds.UNLISTED_SECONDS:
                raise self.unfinished(
                    f"the command could not list all objects of the consumer ({text}): fix "
                    f"that, for example a conversion webhook; {_BY_THEMSELVES}"
                )
            if self._force and clock() - began > bounds.FINALIZER_SECONDS:
                await self._take_finalizers(exports)
            await self._removal.wait(text)

    async def _is_touched(self) -> bool:
        """Whether provider namespaces are being deleted; older controllers do it silently."""
        return any(namespace.meta.deleting for namespace in await self._owned())

    async def _take_finalizers(self, exports: Sequence[Object]) -> None:
        """Remove others' finalizers from objects in deletion that the consumer could write."""
        names = set[str]().union(*map(exported, exports))
        owned = await self._owned()
        where = places([self._consumer, *owned], exports)
        inside = [self._name, *(namespace.meta.name for namespace in owned)]
        every = [await self._removal.kinds(namespaced=namespaced) for namespaced in (True, False)]
        kinds = [kind for part in every for kind in part if kind.group_resource in names]
        for kind in (*kinds, *belonging.claimed(exports), *_OWN_KINDS):
            for namespace in inside if kind.namespaced else [""]:
                objects = [
                    obj
                    for obj in await self._removal.list_objects(kind, namespace)
                    if belonging.without_finalizers(obj)
                    and where.whose(kind, obj.meta) == self._name
                ]
                if objects:
                    self._say(f"taking finalizers off by force: {remaining_text(objects)}")
                    await self._removal.change(kind, objects, belonging.without_finalizers)

    async def _release(self, exports: Sequence[Object]) -> bool:
        """Take the consumer's marks off all that stays, the namespaces' after those of copies.

        Returns whether that is all, since the cluster namespace stays too.
        """
        schemas = (await self._client.list(BOUNDSCHEMAS, self._name, metadata_only=True)).items
        names = {schema.meta.name for schema in schemas}.union(*map(exported, exports))
        owned = await self._owned()
        where = places([self._consumer, *owned], exports)
        copies: list[tuple[Resource, list[Object]]] = []
        here = 0
        for namespaced in (False, True):
            kinds = await self._removal.kinds(namespaced=namespaced)
            for kind in (*kinds, *_CLAIMABLE) if namespaced else kinds:
                objects = [
                    obj
                    for obj in await self._removal.list_objects(kind)
                    if belonging.is_copy(obj, self._name)
                    and where.whose(kind, obj.meta) == self._name
                ]
                # Those in the cluster namespace keep their mark, by which a repetition finds them.
                marked = [obj for obj in objects if obj.meta.namespace != self._name]
                here += len(objects) - len(marked)
                if marked:
                    copies.append((kind, marked))
        # Copies that keep their mark would be deleted with the namespaces that lose theirs.
        if unseen := [name for name in self._removal.unseen if name in names]:
            reasons = "; ".join(f"{kind}: {self._removal.unseen[kind]}" for kind in sorted(unseen))
            raise self.unfinished(
                f"the command could not list all objects of the consumer ({reasons}): fix "
                "that, for example a conversion webhook, and run the command again to continue"
            )
        if owned or copies or here:
            # The controllers delete every object that has an owner.
            await self._declare(clearing=False)
        for kind, objects in copies:
            await self._removal.change(kind, objects, self._released)
        # A repetition finds the namespaces by this annotation.
        await self._removal.change(NAMESPACES, owned, belonging.without_owner)
        if owned or copies:
            stay = count(sum(len(objects) for _, objects in copies), "copy", "copies")
            places_left = ", ".join(sorted(one.meta.name for one in owned)) or "no namespace"
            self._say(f"left behind: {stay} in {places_left}")
        if here:
            await self._leave_namespace(here)
        return bool(here)

    def _released(self, copy: Object) -> JSON:
        return belonging.released(copy, self._consumer)

    async def _leave_namespace(self, copies: int) -> None:
        """Take all of kube-bind's out of the cluster namespace, which stays for copies in it."""
        secrets = await self._removal.list(SECRETS, self._name)
        kubeconfigs = [secret for secret in secrets if secret.meta.name == KUBECONFIG_NAME]
        await self._removal.delete(SECRETS, kubeconfigs)
        # Without exports no ClusterBinding is made again.
        for resource in (*_OWN_KINDS, APISERVICEEXPORTS, BOUNDSCHEMAS, CLUSTERBINDINGS):

            async def left(resource: Resource = resource) -> list[Object]:
                objects = await self._removal.list(resource, self._name)
                await self._removal.delete(resource, objects)
                leaving = [one for one in objects if FINALIZER_NAMESPACE in one.meta.finalizers]
                await self._removal.let_go(resource, leaving, FINALIZER_NAMESPACE)
                return objects

            await self._removal.gone(left)
        # The identity goes last: it is how a repetition finds the consumer.
        await self._removal.change(NAMESPACES, [self._consumer], belonging.without_identity)
        self._say(
            f"cluster namespace {self._name} stays, since it holds "
            f"{count(copies, 'copy', 'copies')}"
        )

    async def _exports(self) -> list[Object]:
        return (await self._client.list(APISERVICEEXPORTS, self._name)).items

    async def _owned(self) -> list[Object]:
        listed = (await self._client.list(NAMESPACES)).items
        return belonging.provider_namespaces(listed, self._name)

    async def _binding(self) -> Object | None:
        return await find(self._client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._name)

    async def _cluster_namespace(self) -> Object | None:
        """Return the cluster namespace; another consumer may have one of its name by now."""
        namespace = await find(self._client, NAMESPACES, self._name)
        is_same = namespace is not None and namespace.meta.uid == self._consumer.meta.uid
        return namespace if is_same else None

    def _say(self, line: str) -> None:
        self._removal.progress(line)


def _absence(seconds: float) -> str:
    return (
        f"within {seconds:g} s no provider's controllers of this version have begun to delete "
        "the rest of its data: check whether they run (`kubectl get pods -A -l "
        "app.kubernetes.io/name=fairlead-provider`), or start them (`fairlead provider run`, "
        f"or apply `fairlead manifests provider`); {_BY_THEMSELVES}"
    )
