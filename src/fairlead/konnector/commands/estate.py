"""Has the garbage collector delete rights and Secrets with their bindings.

Bindings become the owners of their ClusterRoles, and of a Secret that only they use, before they
are deleted. From then on the konnector and the cluster's garbage collector finish the work, even
if the command is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CLUSTERROLES, SECRETS, Resource
from fairlead.client import AlreadyExists, Client, Conflict, Forbidden, NotFound
from fairlead.client.lookups import find
from fairlead.konnector.commands.consumer_objects import (
    delete,
    disown,
    disposable,
    remove_secret,
    roles_of,
    users_of,
)
from fairlead.konnector.commands.request import Progress
from fairlead.konnector.policies.estate import secret_key, unowned


class Estate:
    """The ClusterRoles of bindings that are deleted, and their Secrets."""

    def __init__(self, client: Client, progress: Progress) -> None:
        self._client = client
        self._progress = progress
        self._roles: dict[str, list[Object]] = {}
        self._secrets: dict[Key, Object] = {}

    async def bequeath(self, leaving: Sequence[Object], namespace: str = "") -> None:
        """Make these bindings own their ClusterRoles, and their Secrets unless others use these.

        Args:
            leaving: bindings and bundles that are to be deleted.
            namespace: the one whose Secrets may go, "" for any.

        Raises:
            ClientError: the server refused a look or cannot be reached.
        """
        for binding in leaving:
            if binding.kind == APISERVICEBINDINGS.kind:
                roles = await roles_of(self._client, binding.meta.name)
                self._roles[binding.meta.name] = roles
                for role in roles:
                    await self._own(CLUSTERROLES, role, [binding])
        uids = {one.meta.uid for one in leaving}
        for key in sorted({secret_key(one) for one in leaving}):
            if namespace not in {"", key.namespace}:
                continue
            secret = await find(self._client, SECRETS, key.name, key.namespace)
            if secret is None or not disposable(secret):
                continue
            self._secrets[key] = secret
            users = await users_of(self._client, key)
            # A binding that is going needs the Secret until then, and is no reason to keep it.
            if all(one.meta.deleting or one.meta.uid in uids for one in users):
                await self._own(SECRETS, secret, users)

    def has(self, secret: Object) -> bool:
        """Whether a Secret is to be deleted with the bindings."""
        return secret.key in self._secrets

    async def remove_roles(self, binding: str) -> None:
        """Delete the ClusterRoles of a deleted binding that the garbage collector has left."""
        for role in self._roles.get(binding, ()):
            await delete(self._client, CLUSTERROLES, role)
            self._progress(f"deleted ClusterRole {role.meta.name}")

    async def remove_secrets(self) -> None:
        """Delete the Secrets of the estate that no binding uses any more."""
        for secret in self._secrets.values():
            await remove_secret(self._client, secret, self._progress)

    async def give_back(self, binding: str) -> None:
        """Restore ClusterRoles and Secrets for a binding of that name that was made anew."""
        places = [(CLUSTERROLES, one) for one in self._roles.get(binding, ())]
        places += [(SECRETS, one) for one in self._secrets.values()]
        for resource, before in places:
            body = unowned(before.to_dict())
            # API servers refuse to create an object with a resourceVersion.
            for name in ("uid", "resourceVersion"):
                body["metadata"].pop(name, None)
            try:
                await self._client.create(resource, body, before.meta.namespace)
            except AlreadyExists:
                meta = before.meta
                obj = await find(self._client, resource, meta.name, meta.namespace)
                await disown(self._client, resource, obj)

    async def _own(self, resource: Resource, obj: Object, owners: Iterable[Object]) -> None:
        """Add owner references to an object."""
        meta = obj.meta
        references = [msgspec.to_builtins(one) for one in meta.owner_references]
        new = [one for one in owners if not meta.owned_by(one.meta.uid)]
        # An object may have several owners, but one controller only; it goes with the last of
        # them.
        references += [msgspec.to_builtins(one.owner_reference(controller=False)) for one in new]
        if not new:
            return
        # A uid in a patch is a precondition: an object that was made anew under the name is a
        # Conflict.
        body = {"metadata": {"uid": meta.uid, "ownerReferences": references}}
        try:
            await self._client.merge_patch(resource, meta.name, meta.namespace, body)
        except (NotFound, Conflict):
            # The object is gone or was made anew, and a new one is not the binding's.
            return
        except Forbidden as error:
            self._progress(f"{obj.kind} {obj.key} is removed only at the end: {error}")
