"""The konnector's duties: bindings, whose objects it alone releases, and their credentials.

A binding is deleted in order only while a konnector runs that reaches its provider. Without a
konnector, bound objects keep the finalizer ``kubebind.io/syncer``: they, their namespaces and CRDs
stay in deletion, and their copies can only be deleted on the provider.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from fairlead.api.kbind.names import CONNECTIONS, FINALIZER_CLEANUP, KBIND_KINDS
from fairlead.api.kbind.names import FINALIZER_SYNCER as KBIND_FINALIZER_SYNCER
from fairlead.api.kubebind import (
    ANNOTATION_DELETION_POLICY,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    DELETION_POLICY_ORPHAN,
    FINALIZER_SYNCER,
    FINALIZER_UNBIND,
    LABEL_AGGREGATE_TO_KONNECTOR,
    APIServiceBinding,
)
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.api.reasons.verdict import remedy_of, verdict_of
from fairlead.api.remains import count, named
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    SECRETS,
    Resource,
    split_api_version,
)
from fairlead.client import ClientError, ConfigError
from fairlead.client.lookups import list_all
from fairlead.konnector.commands.consumer_objects import (
    disposable,
    provider_of,
    remove_roles,
    remove_secret,
)
from fairlead.konnector.commands.presence import START
from fairlead.konnector.rights import konnector_role_name
from fairlead.uninstall.duties.base import (
    Duties,
    having,
    judged,
    remedy_for,
    standing,
)
from fairlead.uninstall.findings import Use


_AGAIN = f", as soon as a konnector runs again ({START})"

Kinds = dict[Resource, list[Object]]
"""Bound objects whose deletion waits for a konnector, by kind."""


class KonnectorDuties(Duties):
    """Bindings and bundles, bound objects, kubeconfigs."""

    async def uses(self) -> list[Use]:
        """Return bundles, bindings with their objects, and objects without a binding."""
        bundles = await list_all(self._client, APISERVICEBINDINGBUNDLES)
        bindings = await list_all(self._client, APISERVICEBINDINGS)
        by_kind = await self._objects()
        kbind = [use for kind in KBIND_KINDS for use in await self._kbind_uses(kind)]
        if not (bundles or bindings or by_kind or kbind):
            return []
        again = await self._again(_AGAIN)
        going = await self._removal.going()
        uses = [self._bundle_use(one, again) for one in bundles]
        owners = {one.meta.uid for one in bundles}
        # Kinds that no binding takes out of ``by_kind`` have lost theirs, and are reported as
        # stranded.
        for binding in bindings:
            mine = await self._of(binding, by_kind)
            controller = binding.meta.controller()
            bundle = controller.name if controller and controller.uid in owners else ""
            uses.append(await self._binding_use(binding, mine, going, again, bundle))
            for kind in mine:
                by_kind.pop(kind)
        stranded = (self._stranded_use(kind, objs, going) for kind, objs in by_kind.items())
        return [*uses, *stranded, *kbind]

    async def notes(self) -> list[str]:
        """Return a note for each kubeconfig Secret that is deleted too."""
        secrets = (await self._client.list(SECRETS, self._footprint.namespace)).items
        return [
            f"Secret {secret.key} goes too: `fairlead bind` has made it, and only bindings use it"
            for secret in secrets
            if disposable(secret)
        ]

    async def orphan(self) -> None:
        """Release bound objects and bindings without a konnector; copies stay on the providers."""
        await self._orphan_kbind()
        # Bundles first: a konnector that still runs elsewhere would make their bindings again.
        await self._removal.delete(
            APISERVICEBINDINGBUNDLES, await list_all(self._client, APISERVICEBINDINGBUNDLES)
        )
        bindings = await list_all(self._client, APISERVICEBINDINGS)
        # Before the deletion: a konnector that still runs elsewhere then deletes no copy.
        await self._removal.change(APISERVICEBINDINGS, bindings, _orphaned)
        if await self._removal.delete(APISERVICEBINDINGS, bindings):
            self._removal.progress(f"deleting {named(bindings)}")
        crds = await self._crds()
        if await self._removal.delete(CUSTOMRESOURCEDEFINITIONS, crds):
            self._removal.progress(f"deleting {named(crds)}, with the objects here")
        # A CRD stays until its last object is gone, and an object until it has no finalizer. A
        # konnector that still runs elsewhere may give one to further objects meanwhile.
        while True:
            for kind, objects in (await self._objects()).items():
                number = await self._removal.let_go(kind, objects, FINALIZER_SYNCER)
                copies = count(number, "copy stays", "copies stay")
                self._removal.progress(f"let go {named(objects)}: {copies} at the provider")
            if not (left := await self._crds()):
                break
            await self._removal.wait(named(left))
        self._removal.waiting = ""
        # The bindings go last: a second run finds by them what an interrupted one has left.
        await self._removal.let_go(APISERVICEBINDINGS, bindings, FINALIZER_UNBIND)
        await self._removal.gone(lambda: list_all(self._client, APISERVICEBINDINGS))

    async def _kbind_uses(self, kind: Resource) -> list[Use]:
        """Return the objects of a kind of kbind v2, which a konnector alone takes apart."""
        left = "copies stay at the provider, and objects keep no finalizer"
        if kind is CONNECTIONS:
            left = "its Secret keeps no finalizer"
        return [
            Use(
                what=f"{kind.kind} {obj.key} of {kind.group}{judged(verdict_of(obj))}",
                remedy=f"`kubectl delete {kind.group_resource}{_place(obj)}` takes it apart while"
                " a konnector runs; bindings go before their Connection",
                option="orphan",
                breaks=f"{kind.kind} {obj.key} is deleted; {left}",
            )
            for obj in await list_all(self._client, kind)
        ]

    async def _orphan_kbind(self) -> None:
        """Release what kbind v2 has bound without a konnector; copies stay on the providers."""
        there = {kind: await list_all(self._client, kind) for kind in KBIND_KINDS}
        if not any(there.values()):
            return
        for kind, objects in there.items():
            if await self._removal.delete(kind, objects):
                self._removal.progress(f"deleting {named(objects)}")
        for namespaced in (True, False):
            for kind in await self._removal.kinds(namespaced=namespaced):
                objects = having(await self._removal.list_objects(kind), KBIND_FINALIZER_SYNCER)
                await self._removal.let_go(kind, objects, KBIND_FINALIZER_SYNCER)
        for kind, objects in there.items():
            await self._removal.let_go(kind, objects, FINALIZER_CLEANUP)
        secrets = (await self._client.list(SECRETS, self._footprint.namespace)).items
        await self._removal.let_go(SECRETS, having(secrets, FINALIZER_CLEANUP), FINALIZER_CLEANUP)

    async def clear(self) -> None:
        """Delete the roles of deleted bindings, and unused kubeconfigs."""
        names = {one.meta.name for one in await list_all(self._client, APISERVICEBINDINGS)}
        selector = f"{LABEL_AGGREGATE_TO_KONNECTOR}=true"
        prefix = konnector_role_name("")
        for role in (await self._client.list(CLUSTERROLES, labels=selector)).items:
            binding = role.meta.name.removeprefix(prefix)
            if role.meta.name.startswith(prefix) and binding not in names:
                await remove_roles(self._client, binding, self._removal.progress)
        for secret in (await self._client.list(SECRETS, self._footprint.namespace)).items:
            await remove_secret(self._client, secret, self._removal.progress)

    async def _objects(self) -> Kinds:
        """Return all objects with the konnector's finalizer, by kind."""
        kinds: Kinds = {}
        for namespaced in (True, False):
            for kind in await self._removal.kinds(namespaced=namespaced):
                if objects := having(await self._removal.list_objects(kind), FINALIZER_SYNCER):
                    kinds[kind] = objects
        return kinds

    async def _crds(self) -> list[Object]:
        """Return the CRDs that bindings have made, whether these bindings exist or not."""
        return [
            crd
            for crd in (await self._client.list(CUSTOMRESOURCEDEFINITIONS)).items
            if any(map(_is_binding, crd.meta.owner_references))
        ]

    async def _of(self, binding: Object, kinds: Kinds) -> Kinds:
        """Return the held objects whose CRD the binding owns."""
        owned = {
            crd.meta.name for crd in await self._crds() if crd.meta.owned_by(binding.meta.uid)
        }
        return {kind: objects for kind, objects in kinds.items() if kind.group_resource in owned}

    def _bundle_use(self, bundle: Object, again: str) -> Use:
        name = bundle.meta.name
        return Use(
            what=f"APIServiceBindingBundle {name} binds what its provider offers"
            f"{judged(verdict_of(bundle))}",
            remedy=f"`fairlead unbind --bundle {shlex.quote(name)}` takes it back{again}",
            option="orphan",
            breaks=f"APIServiceBindingBundle {name} is deleted with all its bindings",
        )

    async def _binding_use(
        self, binding: Object, mine: Kinds, going: set[str], again: str, bundle: str
    ) -> Use:
        name = binding.meta.name
        objects = [one for objects_of_kind in mine.values() for one in objects_of_kind]
        what = f"APIServiceBinding {name} has {count(len(objects), 'object')} with a copy"
        what += standing(binding, "a konnector to take it apart")
        command = f"--bundle {shlex.quote(bundle)}" if bundle else shlex.quote(name)
        lost = await self._lost(binding)
        copies = count(len(objects), "copy stays", "copies stay")
        breaks = f"APIServiceBinding {name} and its objects here are deleted"
        if objects:
            breaks += f"; {copies} at {self._where}, of {named(objects)}"
        claims = sorted(
            {
                claim.resource
                for claim in binding.decode(APIServiceBinding).status.permission_claims
            }
        )
        if claims:
            breaks += f"; copies of claimed {', '.join(claims)} stay too"
        return Use(
            what=what + _stuck(objects, going),
            remedy=remedy_for(binding, f"`fairlead unbind {command}` takes it back{again}{lost}"),
            option="orphan",
            breaks=breaks,
        )

    async def _lost(self, binding: Object) -> str:
        """Return the remedy for unusable credentials, "" if they are usable; note the provider.

        The provider's address goes into the text about copies that stay there.
        """
        view = binding.decode(APIServiceBinding)
        self._where = view.status.provider_pretty_name or "the provider"
        try:
            config = await provider_of(self._client, view.spec.kubeconfig_secret_ref)
        except ConfigError as error:
            remedy = remedy_of("KubeconfigSecretInvalid", place="consumer")
            return f"; {error}: {remedy}"
        except ClientError:
            # A server that does not answer says nothing about the credentials.
            return ""
        self._where = f"{config.server}, below cluster namespace {config.namespace}"
        return ""

    def _stranded_use(self, kind: Resource, objects: list[Object], going: set[str]) -> Use:
        copies = count(len(objects), "copy stays", "copies stay")
        return Use(
            what=(
                f"{named(objects)} {'has' if len(objects) == 1 else 'have'} the finalizer "
                f"{FINALIZER_SYNCER}, and no APIServiceBinding is left for "
                f"{kind.group_resource}{_stuck(objects, going)}"
            ),
            remedy="no konnector can take it off any more: let go of it",
            option="orphan",
            breaks=f"{copies} at the provider without an original, of {named(objects)}",
        )

    _where = "the provider"


def _place(obj: Object) -> str:
    """Return the words of a kubectl command that name an object."""
    namespace = f" -n {shlex.quote(obj.meta.namespace)}" if obj.meta.namespace else ""
    return f" {shlex.quote(obj.meta.name)}{namespace}"


def _is_binding(owner: OwnerReference) -> bool:
    """Whether an owner is an APIServiceBinding; other groups may have a kind of this name."""
    group, _ = split_api_version(owner.api_version)
    return (group, owner.kind) == (APISERVICEBINDINGS.group, APISERVICEBINDINGS.kind)


def _stuck(objects: Sequence[Object], going: set[str]) -> str:
    """Return the end of a sentence about namespaces that stay in Terminating for these objects."""
    names = sorted({one.meta.namespace for one in objects} & going)
    if not names:
        return ""
    verb = "stays" if len(names) == 1 else "stay"
    return (
        f"; for {'it' if len(objects) == 1 else 'them'} {', '.join(names)} {verb} in Terminating"
    )


def _orphaned(binding: Object) -> JSON | None:
    body = binding.to_dict()
    annotations = body["metadata"].setdefault("annotations", {})
    if annotations.get(ANNOTATION_DELETION_POLICY) == DELETION_POLICY_ORPHAN:
        return None
    annotations[ANNOTATION_DELETION_POLICY] = DELETION_POLICY_ORPHAN
    return body
