"""Unbinding, from the consumer's side: a binding goes, and then what ``fairlead bind`` wrote.

The konnector takes a binding apart in order, copies first; this waits for it. What others may
need stays: a kubeconfig Secret goes with the last binding that uses it. Doing it again goes on
where it was interrupted.
"""

from __future__ import annotations

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_DELETION_POLICY,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    DELETION_POLICY_ORPHAN,
    FINALIZER_SYNCER,
    LABEL_AGGREGATE_TO_KONNECTOR,
    LABEL_PROVIDER_KUBECONFIG,
    APIServiceBinding,
    crd_name,
)
from fairlead.api.kubebind.conditions import READY, get_condition
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, SECRETS, Resource
from fairlead.client import Client, ClientError, NotFound
from fairlead.client.lookups import WaitTimeout, find, list_all, wait_for
from fairlead.konnector.commands.consumer_objects import written_by_bind
from fairlead.konnector.commands.request import Progress
from fairlead.konnector.controllers.unbind.reconcile import UNBINDING
from fairlead.konnector.crds import served_resource
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.konnector.rights import LABEL_SERVICE_BINDING, konnector_role_name, reader_role_name


TIMEOUT = 120.0
"""Seconds to wait for the konnector, unless told otherwise."""


class UnbindError(ClientError):
    """Unbinding did not succeed; the text is for the person who wanted it."""


class Impact(msgspec.Struct, frozen=True):
    """How many objects go with a binding: the consumer's, and copies on the provider."""

    objects: int = 0
    copies: int = 0


async def impact(client: Client, name: str) -> Impact:
    """What deleting a binding deletes as well; nothing when there is none of that name.

    Raises:
        UnbindError: the cluster has no bindings at all.
        ClientError: the server refused the look or cannot be reached.
    """
    found = await _binding(client, name)
    if found is None:
        return Impact()
    objects = copies = 0
    for item in found.decode(APIServiceBinding).status.bound_schemas:
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, crd_name(item.resource, item.group))
        resource = served_resource(crd) if crd is not None else None
        if crd is None or resource is None or not crd.meta.owned_by(found.meta.uid):
            continue
        for instance in (await client.list(resource, metadata_only=True)).items:
            objects += 1
            copies += FINALIZER_SYNCER in instance.meta.finalizers
    return Impact(objects, copies)


async def unbind(
    client: Client,
    name: str,
    *,
    orphan: bool = False,
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    namespace: str = DEFAULT_NAMESPACE,
) -> None:
    """Delete a binding, wait until it is gone, and remove what binding wrote for it alone.

    Args:
        client: of the consumer's cluster, with an administrator's rights.
        name: of the APIServiceBinding.
        orphan: leave the copies on the provider.
        timeout: in seconds, for the konnector to take the binding apart.
        progress: told of each step, and of what is waited for.
        namespace: the konnector's, where the kubeconfig is kept.

    Raises:
        UnbindError: there is no such binding, a bundle would make it again, or it is still there;
            the message says why.
        ClientError: the server refused or cannot be reached.
    """
    found = await _binding(client, name)
    if found is None:
        if not await _remove_roles(client, name, progress):
            raise UnbindError(await _unknown(client, name))
        await _tell_unused_secrets(client, namespace, progress)
        return
    if not found.meta.deleting:
        await _check_owner(client, found)
    if orphan:
        await _orphan(client, found, progress)
    if not found.meta.deleting:
        await _delete(client, APISERVICEBINDINGS, found)
        progress(f"deleting APIServiceBinding {name}")
    await _await_gone(client, found, timeout, progress)
    await _remove_secret(client, found, namespace, progress)
    await _remove_roles(client, name, progress)
    progress(
        f"the provider's APIServiceExport {name} is its administrator's to delete; as long as it "
        "is there, `fairlead bind` takes it up again under this name"
    )


async def _binding(client: Client, name: str) -> Object | None:
    try:
        return await find(client, APISERVICEBINDINGS, name)
    except NotFound:
        if await find(client, CUSTOMRESOURCEDEFINITIONS, APISERVICEBINDINGS.group_resource):
            raise
    raise UnbindError(
        f"APIServiceBinding {name} does not exist: kube-bind is not installed in this cluster"
    )


async def _check_owner(client: Client, binding: Object) -> None:
    """A bundle would bind again at once, when all objects are deleted already."""
    owner = binding.meta.controller()
    if owner is None or owner.kind != APISERVICEBINDINGBUNDLES.kind:
        return
    bundle = await find(client, APISERVICEBINDINGBUNDLES, owner.name)
    if bundle is not None and bundle.meta.uid == owner.uid and not bundle.meta.deleting:
        raise UnbindError(
            f"{owner.kind} {owner.name} has made APIServiceBinding {binding.meta.name} and would "
            "make it again: delete that, and all that it has bound goes"
        )


async def _unknown(client: Client, name: str) -> str:
    known = ", ".join(item.meta.name for item in await list_all(client, APISERVICEBINDINGS))
    return f"APIServiceBinding {name} does not exist; " + (
        f"there are: {known}" if known else "there are none"
    )


async def _orphan(client: Client, found: Object, progress: Progress) -> None:
    """Before the deletion, for the konnector acts on that."""
    if found.meta.annotations.get(ANNOTATION_DELETION_POLICY) == DELETION_POLICY_ORPHAN:
        return
    annotations = {ANNOTATION_DELETION_POLICY: DELETION_POLICY_ORPHAN}
    patch = {"metadata": {"uid": found.meta.uid, "annotations": annotations}}
    await client.merge_patch(APISERVICEBINDINGS, found.meta.name, "", patch)
    progress(f"APIServiceBinding {found.meta.name} leaves its copies on the provider")


async def _await_gone(client: Client, binding: Object, timeout: float, progress: Progress) -> None:  # noqa: ASYNC109
    name, uid, told = binding.meta.name, binding.meta.uid, ""

    def waiting(found: Object | None) -> str:
        nonlocal told
        if found is None or found.meta.uid != uid:
            return ""
        text = waits_for(found)
        if text != told:
            told = text
            progress(text)
        return text

    try:
        await wait_for(client, APISERVICEBINDINGS, name, until=waiting, timeout=timeout)
    except WaitTimeout as error:
        raise UnbindError(f"{error}; `fairlead unbind {name}` again goes on waiting") from None
    # A watch may lose sight of an object; only the server's own word is believed.
    again = await find(client, APISERVICEBINDINGS, name)
    if again is not None:
        raise UnbindError(
            f"APIServiceBinding {name} is there again: somebody has bound it meanwhile"
            if again.meta.uid != uid
            else f"APIServiceBinding {name} is still there: try again"
        )
    progress(f"APIServiceBinding {name} is gone")


def waits_for(binding: Object) -> str:
    """What a binding that is being deleted waits for, as its conditions tell it."""
    conditions = binding.decode(APIServiceBinding).status.conditions
    unbinding = next((one for one in conditions if one.reason == UNBINDING), None)
    told = unbinding or get_condition(conditions, READY)
    if told is None or told.status == "True" or not told.message:
        return "waiting for the konnector to take it apart: is one running?"
    return told.message if told is unbinding else f"{told.reason}: {told.message}"


async def _remove_roles(client: Client, binding: str, progress: Progress) -> bool:
    """Remove both ClusterRoles of a binding; whether there was any."""
    labels = {
        konnector_role_name(binding): LABEL_AGGREGATE_TO_KONNECTOR,
        reader_role_name(binding): LABEL_SERVICE_BINDING,
    }
    any_found = False
    for name, label in labels.items():
        role = await find(client, CLUSTERROLES, name)
        if role is None or role.meta.labels.get(label) != "true":
            continue
        any_found = True
        await _delete(client, CLUSTERROLES, role)
        progress(f"deleted ClusterRole {name}")
    return any_found


async def _remove_secret(
    client: Client, binding: Object, namespace: str, progress: Progress
) -> None:
    """Remove the kubeconfig Secret, unless it is used or is not by ``fairlead bind``."""
    key = _secret_of(binding)
    if key.namespace != namespace:
        return
    secret = await find(client, SECRETS, key.name, key.namespace)
    if secret is None or not _disposable(secret):
        return
    users = sorted(await _users(client, key))
    if users:
        progress(f"kept Secret {key}, which {', '.join(users)} uses")
        return
    await _delete(client, SECRETS, secret)
    progress(f"deleted Secret {key}")


async def _tell_unused_secrets(client: Client, namespace: str, progress: Progress) -> None:
    """Which of them was the binding's is not known any more: a person has to tell."""
    for secret in (await client.list(SECRETS, namespace)).items:
        if _disposable(secret) and not await _users(client, secret.key):
            progress(f"Secret {secret.key} is used by no binding: delete it if nobody needs it")


def _disposable(secret: Object) -> bool:
    return written_by_bind(secret) and secret.meta.labels.get(LABEL_PROVIDER_KUBECONFIG) != "true"


async def _users(client: Client, secret: Key) -> list[str]:
    """Bindings and bundles that refer to a Secret."""
    return [
        f"{found.kind} {found.meta.name}"
        for resource in (APISERVICEBINDINGS, APISERVICEBINDINGBUNDLES)
        for found in await list_all(client, resource)
        if _secret_of(found) == secret
    ]


def _secret_of(binding: Object) -> Key:
    """Of a binding or a bundle: their specs are alike."""
    ref = binding.decode(APIServiceBinding).spec.kubeconfig_secret_ref
    return Key(ref.namespace, ref.name)


async def _delete(client: Client, resource: Resource, found: Object) -> None:
    """Delete this very object; one that is gone already is as good."""
    try:
        await client.delete(resource, found.meta.name, found.meta.namespace, uid=found.meta.uid)
    except NotFound:
        return
