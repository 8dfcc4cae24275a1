"""Deletes a binding on the consumer, and then the objects that ``fairlead bind`` wrote.

First the binding becomes the owner of these objects, then it is deleted. From then on the
konnector takes it apart in order, copies first, and the garbage collector deletes the others; this
waits for it, and deletes what is left where no collector runs. Objects that others may need stay:
a kubeconfig Secret goes with the last binding that uses it. A repetition goes on waiting.
"""

from __future__ import annotations

import asyncio

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.kubebind import (
    ANNOTATION_DELETION_POLICY,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    DELETION_POLICY_ORPHAN,
    FINALIZER_SYNCER,
    FINALIZER_UNBIND,
    APIServiceBinding,
    crd_name,
)
from fairlead.api.kubebind.conditions import INFORMERS_SYNCED, READY, get_condition, is_true
from fairlead.api.meta import Object
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.client import (
    Client,
    ClientError,
    ClusterConfig,
    Conflict,
    Forbidden,
    NotFound,
    Unauthorized,
)
from fairlead.client.lookups import (
    Unseen,
    find,
    find_custom,
    list_all,
    look_at,
    unknown,
)
from fairlead.konnector.commands.consumer_objects import (
    delete,
    disposable,
    provider_of,
    remove_roles,
    users_of,
)
from fairlead.konnector.commands.estate import Estate
from fairlead.konnector.commands.readiness import PENDING, Deadline, WaitOptions, within
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.controllers.unbind.reconcile import UNBINDING
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.konnector.rights import konnector_role_name


TIMEOUT = 120.0
"""Seconds to wait for the konnector, unless told otherwise."""


_ATTEMPTS = 5
"""Tries to release a binding that the konnector writes to as well."""
_UNTOUCHED = "no konnector has begun to unbind it"


class UnbindError(ClientError):
    """Unbinding did not succeed; the text is for the person who ran the command."""


class Impact(msgspec.Struct, frozen=True):
    """Numbers of objects that go with a binding: the consumer's, and copies on the provider."""

    objects: int = 0
    copies: int = 0
    gone: bool = False
    """True if the binding itself is gone already, and only its rights are left."""


async def impact(client: Client, name: str) -> Impact:
    """Count the objects that are deleted with a binding.

    Raises:
        UnbindError: no binding has that name; the message lists the existing names.
        ClientError: the server refused the look or cannot be reached.
    """
    binding = await _binding(client, name)
    if binding is None:
        if not await find(client, CLUSTERROLES, konnector_role_name(name)):
            raise await _unknown(client, name)
        return Impact(gone=True)
    return await _impact(client, binding)


async def _impact(client: Client, binding: Object) -> Impact:
    objects = copies = 0
    for item in binding.decode(APIServiceBinding).status.bound_schemas:
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, crd_name(item.resource, item.group))
        resource = crd_spec(crd).readable() if crd is not None else None
        if crd is None or resource is None or not crd.meta.owned_by(binding.meta.uid):
            continue
        for instance in await look_at(client, resource):
            objects += 1
            # The konnector sets the finalizer before it makes a copy, and removes it after the
            # copy's end.
            copies += FINALIZER_SYNCER in instance.meta.finalizers
    return Impact(objects, copies)


async def unbind(
    client: Client,
    name: str,
    *,
    bundle: bool = False,
    orphan: bool = False,
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    namespace: str = DEFAULT_NAMESPACE,
) -> None:
    """Delete a binding, wait until it is gone, and remove what binding wrote for it alone.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        name: the name of the APIServiceBinding.
        bundle: the name is that of an APIServiceBindingBundle, which goes with all its bindings.
        orphan: leave the copies on the provider.
        timeout: limit in seconds for the konnector's work.
        progress: called with each step, and with each awaited object.
        namespace: the konnector's, where the kubeconfig is kept.

    Raises:
        UnbindError: there is no such binding, a bundle would make it again, or it is still there;
            the message says why.
        ClientError: the server refused or cannot be reached.
    """
    take = _unbind_bundle if bundle else _unbind
    work = take(WaitOptions(client, Deadline(timeout), progress, namespace), name, orphan=orphan)
    await within(timeout, work, lambda: f"unbinding {name} at {client.config.server}")


async def _unbind(waiting: WaitOptions, name: str, *, orphan: bool) -> None:
    client, progress, namespace = waiting.client, waiting.progress, waiting.namespace
    binding = await _binding(client, name)
    if binding is None:
        if not await remove_roles(client, name, progress):
            raise await _unknown(client, name)
        await _tell_unused_secrets(client, namespace, progress)
        return
    if not binding.meta.deleting:
        await _check_owner(client, binding)
    if orphan:
        await keep_copies(client, binding, progress)
    # Read while the credentials still exist.
    config = await _provider(client, binding)
    estate = Estate(client, progress)
    await estate.bequeath([binding], namespace)
    if not binding.meta.deleting:
        await delete(client, APISERVICEBINDINGS, binding)
        progress(f"deleting APIServiceBinding {name}")
    await await_end(msgspec.structs.replace(waiting, provider=config), binding, estate)
    left = await _left(config, name)
    await estate.remove_secrets()
    await estate.remove_roles(name)
    progress(left)


async def _provider(client: Client, binding: Object) -> ClusterConfig | None:
    """Return the way to a binding's provider, None where there is none."""
    ref = binding.decode(APIServiceBinding).spec.kubeconfig_secret_ref
    try:
        return await provider_of(client, ref)
    except ClientError:
        return None


async def _left(config: ClusterConfig | None, name: str) -> str:
    """Describe the rest of a binding on the provider, and how to bind again."""
    revoked = (
        f"the provider does not accept these credentials any more: to bind {name} again, ask "
        "its team for a new invitation"
    )
    there = (
        f"only the provider's administrator deletes the provider's APIServiceExport {name}; "
        "while it exists, `fairlead bind` uses it again under this name"
    )
    if config is None:
        return there
    try:
        async with asyncio.timeout(_LEFT_SECONDS), Client(config) as provider:
            if not await find(provider, APISERVICEEXPORTS, name, config.namespace):
                return (
                    f"the provider has no APIServiceExport {name} any more: `fairlead bind` with "
                    "an invitation requests it anew"
                )
    except (Unauthorized, Forbidden):
        return revoked
    except (ClientError, TimeoutError):
        # A provider that is away may well have it still.
        pass
    return there


_LEFT_SECONDS = 5.0
"""Seconds that a provider may take to tell what is left there."""


async def _unbind_bundle(waiting: WaitOptions, name: str, *, orphan: bool) -> None:
    client, progress = waiting.client, waiting.progress
    bundle = await _bundle(client, name)
    owned = await bindings_of(client, bundle)
    if orphan:
        for binding in owned:
            await keep_copies(client, binding, progress)
    estate = Estate(client, progress)
    await estate.bequeath([bundle, *owned], waiting.namespace)
    # The bundle first, for it would make its bindings again.
    await delete(client, APISERVICEBINDINGBUNDLES, bundle)
    progress(f"deleting {bundle.kind} {name}")
    for binding in owned:
        await delete(client, APISERVICEBINDINGS, binding)
    for binding in owned:
        provider = await _provider(client, binding)
        await await_end(msgspec.structs.replace(waiting, provider=provider), binding, estate)
        await estate.remove_roles(binding.meta.name)
    await estate.remove_secrets()


async def bindings_of(client: Client, bundle: Object) -> list[Object]:
    """Return the bindings that a bundle has made."""
    bindings = await list_all(client, APISERVICEBINDINGS)
    return [binding for binding in bindings if binding.meta.owned_by(bundle.meta.uid)]


async def bundle_impact(client: Client, name: str) -> Impact:
    """Count the objects that are deleted with the bindings of a bundle.

    Raises:
        UnbindError: no bundle has that name; the message lists the existing names.
        ClientError: the server refused the look or cannot be reached.
    """
    owned = await bindings_of(client, await _bundle(client, name))
    counts = [await impact(client, binding.meta.name) for binding in owned]
    return Impact(sum(one.objects for one in counts), sum(one.copies for one in counts))


async def _bundle(client: Client, name: str) -> Object:
    bundle = await find_custom(client, APISERVICEBINDINGBUNDLES, name)
    if bundle is None:
        names = [item.meta.name for item in await list_all(client, APISERVICEBINDINGBUNDLES)]
        raise UnbindError(unknown(APISERVICEBINDINGBUNDLES.kind, name, names))
    return bundle


async def _check_owner(client: Client, binding: Object) -> None:
    """Raise if a bundle owns the binding, which it would bind again after all is deleted."""
    owner = binding.meta.controller()
    if owner is None or owner.kind != APISERVICEBINDINGBUNDLES.kind:
        return
    bundle = await find(client, APISERVICEBINDINGBUNDLES, owner.name)
    if bundle is not None and bundle.meta.uid == owner.uid and not bundle.meta.deleting:
        raise UnbindError(
            f"{owner.kind} {owner.name} created APIServiceBinding {binding.meta.name} and "
            f"would create it again: `fairlead unbind --bundle {owner.name}` removes the "
            "bundle with all its bindings"
        )


async def _binding(client: Client, name: str) -> Object | None:
    binding = await find_custom(client, APISERVICEBINDINGS, name)
    crd = APISERVICEBINDINGS.group_resource
    if binding is None and await find(client, CUSTOMRESOURCEDEFINITIONS, crd) is None:
        raise UnbindError(
            f"APIServiceBinding {name} does not exist: kube-bind is not installed in this cluster"
        )
    return binding


async def _unknown(client: Client, name: str) -> UnbindError:
    names = [item.meta.name for item in await list_all(client, APISERVICEBINDINGS)]
    return UnbindError(unknown(APISERVICEBINDINGS.kind, name, names))


async def keep_copies(client: Client, binding: Object, progress: Progress) -> None:
    """Mark the binding's copies to stay; before the deletion, for the konnector acts on that."""
    if binding.meta.annotations.get(ANNOTATION_DELETION_POLICY) == DELETION_POLICY_ORPHAN:
        return
    annotations = {ANNOTATION_DELETION_POLICY: DELETION_POLICY_ORPHAN}
    patch = {"metadata": {"uid": binding.meta.uid, "annotations": annotations}}
    await client.merge_patch(APISERVICEBINDINGS, binding.meta.name, "", patch)
    progress(f"APIServiceBinding {binding.meta.name} leaves its copies on the provider")


async def _let_go(client: Client, name: str, progress: Progress) -> None:
    """Release a binding that was never accepted; the konnector has no right to take it apart.

    Without its ClusterRole nothing was synchronised, and no object has a copy. So its CRDs may go
    with it, by the garbage collector, as they would after the konnector's ``--unbind-timeout``.
    """
    for _ in range(_ATTEMPTS):
        binding = await find(client, APISERVICEBINDINGS, name)
        if binding is None or FINALIZER_UNBIND not in binding.meta.finalizers:
            return
        conditions = binding.decode(APIServiceBinding).status.conditions
        accepted = await find(client, CLUSTERROLES, konnector_role_name(name)) is not None
        if accepted or is_true(conditions, INFORMERS_SYNCED) or await _has_copies(client, binding):
            return
        # With the version as precondition: what was just looked at may have changed.
        metadata = {
            "uid": binding.meta.uid,
            "resourceVersion": binding.meta.resource_version,
            "finalizers": binding.meta.without_finalizer(FINALIZER_UNBIND),
        }
        try:
            await client.merge_patch(APISERVICEBINDINGS, name, "", {"metadata": metadata})
        except Conflict:
            # Meanwhile the konnector reports in the conditions what it waits for.
            continue
        except NotFound:
            return
        progress(f"APIServiceBinding {name} was never accepted: its CRDs are deleted with it")
        return


async def _has_copies(client: Client, binding: Object) -> bool:
    """Whether objects of a binding have copies; one that cannot be counted may have some."""
    try:
        return (await _impact(client, binding)).copies > 0
    except Unseen:
        return True


async def await_end(waiting: WaitOptions, binding: Object, estate: Estate) -> None:
    """Wait until a deleted binding is gone.

    Raises:
        UnbindError: it is there after the time, or another one of its name is.
        ClientError: the server refused or cannot be reached.
    """
    name, uid = binding.meta.name, binding.meta.uid

    def obstacle(obj: Object | None) -> str:
        return "" if obj is None or obj.meta.uid != uid else waits_for(obj)

    described = waiting.reporting(obstacle)
    try:
        await waiting.begun(APISERVICEBINDINGS, name, described, _UNTOUCHED)
        await _let_go(waiting.client, name, waiting.progress)
        await waiting.done(APISERVICEBINDINGS, name, described, _UNTOUCHED)
    except BindError as error:
        raise UnbindError(
            f"{error}; run `fairlead unbind {name}` again to go on waiting"
        ) from None
    # A watch may lose sight of an object; only the server's own answer counts.
    again = await find(waiting.client, APISERVICEBINDINGS, name)
    if again is not None and again.meta.uid == uid:
        raise UnbindError(f"APIServiceBinding {name} still exists: try again")
    if again is not None:
        await estate.give_back(name)
        raise UnbindError(f"APIServiceBinding {name} exists again: it was bound again meanwhile")
    waiting.progress(f"APIServiceBinding {name} is gone")


def waits_for(binding: Object) -> str:
    """Return why a binding is not deleted yet, as its conditions tell it."""
    conditions = binding.decode(APIServiceBinding).status.conditions
    unbinding = next((one for one in conditions if one.reason == UNBINDING), None)
    condition = unbinding or get_condition(conditions, READY)
    if (
        condition is None
        or condition.status == "True"
        or not condition.message
        or condition.reason == PENDING
    ):
        return _UNTOUCHED
    return (
        condition.message if condition is unbinding else f"{condition.reason}: {condition.message}"
    )


async def _tell_unused_secrets(client: Client, namespace: str, progress: Progress) -> None:
    """List the Secrets without a binding, since it is not known which was this binding's."""
    for secret in (await client.list(SECRETS, namespace)).items:
        if disposable(secret) and not await users_of(client, secret.key):
            progress(f"no binding uses Secret {secret.key}: delete it if it is not needed")
