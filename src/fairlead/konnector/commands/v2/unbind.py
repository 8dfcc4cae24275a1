"""Deletes bindings and Connections of kbind v2, and then what ``fairlead bind`` wrote for them.

Bindings become the owners of their roles, and a Connection that goes too that of its Secret, so
that the garbage collector goes on where a run is killed. The Connection is deleted first, since it
waits for its bindings. The konnector takes these apart, copies first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.kbind import Connection
from fairlead.api.kbind.bindfile import secret_key
from fairlead.api.kbind.names import (
    ANNOTATION_DELETION_POLICY,
    ANNOTATION_RELATED_PLACES,
    CONNECTIONS,
    DELETION_POLICY_ORPHAN,
    FINALIZER_CLEANUP,
    FINALIZER_SYNCER,
)
from fairlead.api.kbind.rights import role_name
from fairlead.api.meta import Object
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    SECRETS,
    Resource,
)
from fairlead.client import Client, Conflict, Forbidden, NotFound
from fairlead.client.lookups import Unseen, find, list_all, look_at, may, unknown
from fairlead.konnector.commands.consumer_objects import delete
from fairlead.konnector.commands.readiness import Deadline, WaitOptions, within
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.commands.unbind import TIMEOUT, UnbindError
from fairlead.konnector.commands.v2.estate import (
    KbindImpact,
    all_bindings,
    apis_of,
    connection_name,
    impact,
    naming,
    remove_roles,
    remove_secret,
    role_keys,
    users_of,
    written_by_bind,
)
from fairlead.konnector.commands.v2.targets import KbindTarget, target_of
from fairlead.konnector.commands.v2.waiting import until_gone
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.konnector.v2.bindings.crds import is_made, owner_of


_ATTEMPTS = 5
"""Tries to release a binding that the konnector writes to as well."""


class UnbindPreview(msgspec.Struct, frozen=True):
    """The bindings that go with a target, and the objects that go with them.

    ``impact`` is None where they cannot be counted. ``gone`` says that the target itself is not
    there any more, and only its roles are.
    """

    bindings: Sequence[str] = ()
    impact: KbindImpact | None = KbindImpact()
    gone: bool = False


async def preview(client: Client, target: KbindTarget) -> UnbindPreview:
    """Return what goes with a target.

    Raises:
        UnbindError: there is no such object; the message lists those that there are.
        ClientError: the server refused the look or cannot be reached.
    """
    obj = await find_target(client, target)
    if obj is None:
        if not await _has_roles(client, target):
            raise await _unknown(client, target)
        return UnbindPreview(gone=True)
    bindings = await _bindings_of(client, target, obj)
    try:
        count = await impact(client, bindings)
    except (Forbidden, Unseen):
        # Who may not count may unbind all the same.
        count = None
    names = [target_of(binding).text for binding in bindings]
    return UnbindPreview(names if target.resource == CONNECTIONS else (), count)


async def find_target(client: Client, target: KbindTarget) -> Object | None:
    """Return a target, None if it is not there.

    Raises:
        UnbindError: this cluster does not serve its kind.
        ClientError: the server refused the look or cannot be reached.
    """
    try:
        return await find(client, target.resource, target.key.name, target.key.namespace)
    except NotFound:
        raise UnbindError(
            f"{target.title} does not exist: kbind v2 is not installed in this cluster"
        ) from None


async def unbind_kbind(
    client: Client,
    target: KbindTarget,
    *,
    orphan: bool = False,
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    namespace: str = DEFAULT_NAMESPACE,
) -> None:
    """Delete a binding, or a Connection with all its bindings, and wait until they are gone.

    The Connection of a binding goes with it if ``fairlead bind`` has made it, and no other binding
    names it. Doing it again goes on.

    Args:
        client: a client of the consumer's cluster; roles that it may not delete are named.
        target: ClusterBinding, Binding or Connection.
        orphan: leave the copies on the provider.
        timeout: limit in seconds for the konnector's work.
        progress: called with each step, and with what is waited for.
        namespace: the konnector's.

    Raises:
        UnbindError: there is no such object, a Connection would make it again, or it is still
            there; the message says why.
        ClientError: the server refused or cannot be reached.
    """
    waiting = WaitOptions(client, Deadline(timeout), progress, namespace)
    work = _Unbind(waiting, target).run(orphan=orphan)
    try:
        await within(timeout, work, lambda: f"unbinding {target.title} at {client.config.server}")
    except UnbindError:
        raise
    except BindError as error:
        again = f"run `fairlead unbind {target.text}` again to go on waiting"
        raise UnbindError(f"{error}; {again}") from None


class _Unbind:
    """One run: the bindings that go, and the Connection if it goes too."""

    def __init__(self, waiting: WaitOptions, target: KbindTarget) -> None:
        self._waiting = waiting
        self._client = waiting.client
        self._progress = waiting.progress
        self._target = target

    async def run(self, *, orphan: bool) -> None:
        client, target = self._client, self._target
        obj = await find_target(client, target)
        if obj is None:
            if not await remove_roles(client, target, self._progress):
                raise await _unknown(client, target)
            return
        bindings = await _bindings_of(client, target, obj)
        await self._check_owner(obj)
        await self._check_rights(bindings)
        if orphan:
            await self._orphan(bindings)
        connection = await self._leaving_connection(obj, bindings)
        secret = None
        if connection is not None:
            secret = await self._leaving_secret(connection)
        for leaving in (*bindings, *([connection] if connection is not None else ())):
            await self._bequeath_roles(leaving, connection)
        if connection is not None:
            await self._delete(connection)
        for binding in bindings:
            await self._delete(binding)
        for binding in bindings:
            await self._await_end(binding)
        if connection is not None:
            await until_gone(self._waiting, target_of(connection), connection.meta.uid)
        if secret is not None:
            await remove_secret(client, secret, self._progress)
        for leaving in (*bindings, *([connection] if connection is not None else ())):
            await remove_roles(client, target_of(leaving), self._progress)
        await self._tell_rest(bindings, connection)

    async def _check_owner(self, obj: Object) -> None:
        """Raise if a Connection has made the binding, and would make it again."""
        owner = obj.meta.controller()
        if obj.meta.deleting or owner is None or owner.kind != CONNECTIONS.kind:
            return
        connection = await find(self._client, CONNECTIONS, owner.name)
        if connection is None or connection.meta.uid != owner.uid or connection.meta.deleting:
            return
        if connection.decode(Connection).spec.auto_bind:
            raise UnbindError(
                f"Connection {owner.name} created {self._target.title} (autoBind) and would "
                f"create it again: `fairlead unbind connection/{owner.name}` removes the "
                "Connection with all its bindings"
            )

    async def _check_rights(self, bindings: Sequence[Object]) -> None:
        """Raise before the first write if a binding may not be deleted."""
        for binding in bindings:
            target = target_of(binding)
            if not await may(self._client, target.resource, "delete", target.key):
                where = f" in namespace {target.key.namespace}" if target.key.namespace else ""
                raise UnbindError(
                    f"you may not delete {target.resource.group_resource}{where}, so "
                    f"{target.title} stays: ask an administrator for that right"
                )

    async def _orphan(self, bindings: Sequence[Object]) -> None:
        """Mark all objects that bindings cover, so that their copies stay."""
        client, count = self._client, 0
        for binding in bindings:
            for api in apis_of(binding):
                crd = await find(client, CUSTOMRESOURCEDEFINITIONS, api)
                resource = crd_spec(crd).readable() if crd is not None else None
                if resource is None:
                    continue
                for obj in await look_at(client, resource, binding.meta.namespace):
                    annotations = obj.meta.annotations
                    if annotations.get(ANNOTATION_DELETION_POLICY) == DELETION_POLICY_ORPHAN:
                        continue
                    if FINALIZER_SYNCER not in obj.meta.finalizers:
                        continue
                    marks = {ANNOTATION_DELETION_POLICY: DELETION_POLICY_ORPHAN}
                    patch = {"metadata": {"uid": obj.meta.uid, "annotations": marks}}
                    try:
                        await client.merge_patch(
                            resource, obj.meta.name, obj.meta.namespace, patch
                        )
                    except (NotFound, Conflict):
                        continue
                    count += 1
        copies = (
            "1 object leaves its copy" if count == 1 else f"{count} objects leave their copies"
        )
        self._progress(f"{copies} on the provider")

    async def _leaving_connection(self, obj: Object, bindings: Sequence[Object]) -> Object | None:
        """Return the Connection that goes too, None if it stays."""
        if self._target.resource == CONNECTIONS:
            return obj
        name = connection_name(obj)
        try:
            connection = await find(self._client, CONNECTIONS, name)
            others = await naming(self._client, [name])
        except Forbidden:
            return None
        leaving = {binding.meta.uid for binding in bindings}
        others = [other for other in others if other.meta.uid not in leaving]
        if connection is None:
            return None
        if others:
            named = ", ".join(target_of(other).title for other in others[:3])
            self._progress(f"kept Connection {name}, which {named} names")
            return None
        if connection.meta.deleting:
            return connection
        if not written_by_bind(connection):
            self._progress(f"kept Connection {name}, which `fairlead bind` did not create")
            return None
        if not await may(self._client, CONNECTIONS, "delete", connection.key):
            self._progress(f"kept Connection {name}: you may not delete connections")
            return None
        return connection

    async def _leaving_secret(self, connection: Object) -> Object | None:
        """Return the Secret that goes with a Connection, None if it stays.

        The Connection becomes its owner, so that it goes even if this run is killed.
        """
        key = secret_key(connection.to_dict())
        users = await users_of(self._client, key)
        others = [user.meta.name for user in users if user.meta.uid != connection.meta.uid]
        secret = await find(self._client, SECRETS, key.name, key.namespace)
        if secret is None:
            return None
        if others or not written_by_bind(secret):
            used = f"Connection {', '.join(others)} uses"
            self._progress(
                f"kept Secret {key}, which {used if others else '`fairlead bind` has not made'}"
            )
            return None
        await self._own(SECRETS, secret, connection)
        return secret

    async def _bequeath_roles(self, leaving: Object, connection: Object | None) -> None:
        """Have the roles of what is deleted go after it, even if this run is killed.

        An object of a namespace owns none of the cluster: there the Connection does, if it goes.
        """
        for resource, key in role_keys(target_of(leaving)):
            is_owner = not leaving.meta.namespace or key.namespace == leaving.meta.namespace
            owner = leaving if is_owner else connection
            try:
                role = await find(self._client, resource, key.name, key.namespace)
                if role is not None and owner is not None:
                    await self._own(resource, role, owner)
            except Forbidden:
                # Who may not change roles is told of them at the end.
                continue

    async def _own(self, resource: Resource, obj: Object, owner: Object) -> None:
        """Add an owner reference to an object."""
        meta = obj.meta
        if meta.owned_by(owner.meta.uid):
            return
        owners = [msgspec.to_builtins(reference) for reference in meta.owner_references]
        owners.append(msgspec.to_builtins(owner.owner_reference(controller=False)))
        # A uid in a patch is a precondition: an object made anew is not the owner's.
        body = {"metadata": {"uid": meta.uid, "ownerReferences": owners}}
        with suppress(NotFound, Conflict):
            await self._client.merge_patch(resource, meta.name, meta.namespace, body)

    async def _delete(self, obj: Object) -> None:
        if not obj.meta.deleting:
            target = target_of(obj)
            await delete(self._client, target.resource, obj)
            self._progress(f"deleting {target.title}")

    async def _await_end(self, binding: Object) -> None:
        target = target_of(binding)
        await self._let_go(binding)
        await until_gone(self._waiting, target, binding.meta.uid)

    async def _let_go(self, binding: Object) -> None:
        """Release a binding that was never accepted; the konnector may not take it apart.

        Without roles nothing was synchronised, and no object has a copy.
        """
        client, target = self._client, target_of(binding)
        place, name = target.key
        for _ in range(_ATTEMPTS):
            current = await find(client, target.resource, name, place)
            if current is None or FINALIZER_CLEANUP not in current.meta.finalizers:
                return
            if not await self._is_unaccepted(current):
                return
            # With the version as precondition: what was just looked at may have changed.
            metadata = {
                "uid": current.meta.uid,
                "resourceVersion": current.meta.resource_version,
                "finalizers": current.meta.without_finalizer(FINALIZER_CLEANUP),
            }
            try:
                await client.merge_patch(target.resource, name, place, {"metadata": metadata})
            except Conflict:
                continue
            except NotFound:
                return
            self._progress(
                f"{target.title} was never accepted: it is deleted without the konnector"
            )
            await self._delete_crds(current)
            return

    async def _is_unaccepted(self, binding: Object) -> bool:
        if ANNOTATION_RELATED_PLACES in binding.meta.annotations:
            return False
        try:
            role = role_name(binding.meta.name, binding.meta.namespace)
            if await find(self._client, CLUSTERROLES, role) is not None:
                return False
            return not (await impact(self._client, [binding])).copies
        except (Forbidden, Unseen):
            return False

    async def _delete_crds(self, binding: Object) -> None:
        """Delete the CRDs that the konnector has made for a ClusterBinding, without objects."""
        client = self._client
        if binding.meta.namespace:
            return
        others = [one for one in await all_bindings(client) if one.meta.uid != binding.meta.uid]
        listed = {api for other in others for api in apis_of(other)}
        for api in apis_of(binding):
            crd = await find(client, CUSTOMRESOURCEDEFINITIONS, api)
            if crd is None or not is_made(crd) or owner_of(crd) != connection_name(binding):
                continue
            resource = crd_spec(crd).readable()
            if api in listed or resource is None or await look_at(client, resource):
                continue
            await delete(client, CUSTOMRESOURCEDEFINITIONS, crd)
            self._progress(f"deleted CustomResourceDefinition {api}")

    async def _tell_rest(self, bindings: Sequence[Object], connection: Object | None) -> None:
        """Say what stays in both clusters."""
        try:
            staying = await all_bindings(self._client)
        except Forbidden:
            staying = []
        bound = {api for binding in staying for api in apis_of(binding)}
        for binding in bindings:
            left = [api for api in apis_of(binding) if api not in bound]
            if binding.meta.namespace and left:
                names = ", ".join(left)
                self._progress(
                    f"objects of {names} in namespace {binding.meta.namespace} stay here, and so "
                    "does the CustomResourceDefinition: delete it if no other team needs it"
                )
        if connection is not None:
            uid = connection.decode(Connection).status.local_cluster_uid
            lease = f", and so does Lease kbind/consumer-{uid}" if uid else ""
            self._progress(
                f"namespaces that the konnector created at the provider stay there{lease}: the "
                "provider's team can delete them"
            )


async def _bindings_of(client: Client, target: KbindTarget, obj: Object) -> list[Object]:
    if target.resource != CONNECTIONS:
        return [obj]
    return await naming(client, [target.key.name])


async def _has_roles(client: Client, target: KbindTarget) -> bool:
    for resource, key in role_keys(target):
        try:
            if await find(client, resource, key.name, key.namespace) is not None:
                return True
        except Forbidden:
            continue
    return False


async def _unknown(client: Client, target: KbindTarget) -> UnbindError:
    objects = await list_all(client, target.resource)
    text = unknown(target.resource.kind, str(target.key), _names(objects))
    return UnbindError(text)


def _names(objects: Iterable[Object]) -> list[str]:
    return [str(obj.key) for obj in objects]
