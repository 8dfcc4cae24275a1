"""Survey of a program's users and objects, and its removal in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fairlead.api.definitions import crd_spec
from fairlead.api.kubebind import binding_of_crd
from fairlead.api.meta import Object
from fairlead.api.remains import count
from fairlead.api.resource import (
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    Resource,
)
from fairlead.api.traces import ready_pods
from fairlead.client import Client, ClientError
from fairlead.client.lookups import find, list_all
from fairlead.runtime.removal import Progress, Removal
from fairlead.uninstall.contents import why_kept
from fairlead.uninstall.duties.base import Duties
from fairlead.uninstall.duties.binding import BindingDuties
from fairlead.uninstall.duties.konnector import KonnectorDuties
from fairlead.uninstall.duties.postgres import PostgresDuties
from fairlead.uninstall.duties.provider import ProviderDuties
from fairlead.uninstall.duties.serve import ServeDuties
from fairlead.uninstall.findings import Choices, FoundObject, Survey, UninstallError, refusal
from fairlead.uninstall.footprints import (
    ACCOUNTS,
    LABELLED,
    ORDER,
    RIGHTS,
    WEBHOOKS,
    WORKLOADS,
    Footprint,
    Program,
    footprint,
    is_ours,
)
from fairlead.uninstall.presence import holder


_DUTIES: dict[Program, Callable[[Removal, Footprint], Duties]] = {
    "binding": BindingDuties,
    "konnector": KonnectorDuties,
    "postgres": PostgresDuties,
    "provider": ProviderDuties,
    "serve": ServeDuties,
}
_HELM = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")


async def survey(client: Client, program: Program, *, namespace: str = "") -> Survey:
    """Return the users of a program, and its existing objects.

    Args:
        client: with an administrator's rights.
        program: the program's name.
        namespace: the namespace of its installation, "" for its default.

    Raises:
        ClientError: the server refused the look or cannot be reached.
    """
    return await _Uninstallation(Removal(client, lambda _: None), program, namespace).survey()


async def uninstall(
    client: Client,
    program: Program,
    *,
    namespace: str = "",
    choices: Choices | None = None,
    timeout: float,  # noqa: ASYNC109
    progress: Progress,
) -> None:
    """Remove a program in order, unless it is in use; a second call continues an interrupted one.

    Args:
        client: with an administrator's rights.
        program: the program's name.
        namespace: the namespace of its installation, "" for its default.
        choices: a person's choices.
        timeout: limit in seconds for all of it.
        progress: called with each step.

    Raises:
        UninstallError: the program is in use, or the time is up; the text names the obstacle.
        ClientError: the server refused or cannot be reached.
    """
    removal = Removal(client, progress)
    work = _Uninstallation(removal, program, namespace)
    try:
        async with asyncio.timeout(timeout):
            await work.run(choices or Choices())
    except TimeoutError:
        waits = f" for {removal.waiting}" if removal.waiting else ""
        waits += "".join(f"; {kind}: {why}" for kind, why in sorted(removal.unseen.items()))
        raise UninstallError(
            f"uninstalling {program} still waits{waits} after {timeout:g} s: remove what holds "
            "it, and run the command again to continue"
        ) from None


class _Uninstallation:
    def __init__(self, removal: Removal, program: Program, namespace: str) -> None:
        self._removal = removal
        self._client = removal.client
        self._footprint = footprint(program, namespace)
        self._duties = _DUTIES[program](removal, self._footprint)

    async def survey(self) -> Survey:
        others = await self._others()
        installed = await self._installed(others)
        notes = [*await self._duties.notes(), *map(_another, others), *_helm(installed)]
        crds = [
            crd.meta.name
            for crd in (await self._client.list(CUSTOMRESOURCEDEFINITIONS)).items
            if crd.meta.name in self._footprint.crds and not binding_of_crd(crd.meta)
        ]
        return Survey(
            program=self._footprint.program,
            namespace=self._footprint.namespace,
            uses=[] if self._is_done_elsewhere(others) else await self._duties.uses(),
            installed=installed,
            crds=crds,
            notes=notes,
        )

    async def run(self, choices: Choices) -> None:
        survey = await self.survey()
        if blocking := survey.blocking(choices):
            raise UninstallError(refusal(survey, blocking))
        # Webhooks first: a write from now on must not wait for a server that is gone.
        await self._remove(WEBHOOKS)
        if not choices.prepare:
            await self._remove(WORKLOADS)
            await self._stopped()
        others = await self._others()
        # Not while the program runs, which would add its finalizers again: the command refuses
        # --orphan with --prepare, which leaves it running.
        if choices.orphan and not self._is_done_elsewhere(others):
            await self._duties.orphan()
        await self._duties.clear()
        if choices.prepare:
            return
        # Not before the program has stopped: at its end it finishes its writes and releases its
        # Lease.
        await self._remove(RIGHTS)
        await self._remove(ACCOUNTS)
        await self._remove_namespace()
        if choices.crds and not others:
            await self._remove_crds()

    async def _installed(self, others: Sequence[Object]) -> list[FoundObject]:
        """Return the existing objects in the order of deletion, without those of ``others``."""
        by_uid: dict[str, FoundObject] = {}
        for resource, key, by_name in self._footprint.places():
            obj = await find(self._client, resource, key.name, key.namespace)
            # Other programs use the same names, as kube-bind does for its konnector.
            # A namespace counts by its name alone, since why_kept decides about it at the end.
            if obj is not None and (by_name or is_ours(obj) or resource is NAMESPACES):
                by_uid[obj.meta.uid] = FoundObject(resource, obj)
        for resource in LABELLED:
            labelled = await self._client.list(resource, labels=self._footprint.selector)
            for obj in labelled.items:
                by_uid.setdefault(obj.meta.uid, FoundObject(resource, obj))
        # Cluster-scoped objects have the same names in all installations: the other one needs
        # them.
        if others:
            by_uid = {
                uid: obj
                for uid, obj in by_uid.items()
                if obj.resource.namespaced or obj.resource is NAMESPACES
            }
        ranks = {resource: rank for rank, stage in enumerate(ORDER) for resource in stage}
        return sorted(by_uid.values(), key=lambda obj: (ranks[obj.resource], str(obj)))

    async def _others(self) -> list[Object]:
        """Return the program's Deployments in other namespaces, which share its ClusterRoles."""
        labelled = await self._client.list(DEPLOYMENTS, labels=self._footprint.selector)
        return [one for one in labelled.items if one.meta.namespace != self._footprint.namespace]

    def _is_done_elsewhere(self, others: Sequence[Object]) -> bool:
        """Whether another Deployment of the program runs, which serves the same users."""
        # A program without a Lease serves only its own clients.
        return bool(self._footprint.lease) and any(map(ready_pods, others))

    async def _remove(self, kinds: Sequence[Resource]) -> None:
        for obj in await self._installed(await self._others()):
            if obj.resource in kinds and await self._removal.delete(obj.resource, [obj.object]):
                self._removal.progress(f"deleted {obj}")

    async def _stopped(self) -> None:
        """Wait until no Pod of the program runs and no process holds its Lease."""
        where = self._footprint

        async def pods() -> list[Object]:
            return (await self._client.list(PODS, where.namespace, labels=where.selector)).items

        await self._removal.gone(pods)
        while name := await holder(self._client, where):
            lease = f"Lease {where.namespace}/{where.lease}"
            await self._removal.wait(f"{name}, which holds {lease}: stop it where it runs")
        self._removal.waiting = ""

    async def _remove_namespace(self) -> None:
        name = self._footprint.namespace
        namespace = await find(self._client, NAMESPACES, name)
        if why := await why_kept(self._client, self._footprint, namespace):
            self._removal.progress(f"kept Namespace {name}: {why}")
            return
        if namespace is None:
            return
        if await self._removal.delete(NAMESPACES, [namespace]):
            self._removal.progress(f"deleted Namespace {name}")

        async def there() -> list[Object]:
            obj = await find(self._client, NAMESPACES, name)
            # Another namespace of this name may have been created meanwhile.
            return [obj] if obj and obj.meta.uid == namespace.meta.uid else []

        await self._removal.gone(there)

    async def _remove_crds(self) -> None:
        for crd in (await self._client.list(CUSTOMRESOURCEDEFINITIONS)).items:
            if crd.meta.name not in self._footprint.crds:
                continue
            if why := await self._why_crd_kept(crd):
                self._removal.progress(f"kept {crd.kind} {crd.meta.name}: {why}")
            elif await self._removal.delete(CUSTOMRESOURCEDEFINITIONS, [crd]):
                self._removal.progress(f"deleted {crd.kind} {crd.meta.name}")

    async def _why_crd_kept(self, crd: Object) -> str:
        """Return the reason why a CRD has to stay, "" if it may be deleted."""
        if binding := binding_of_crd(crd.meta):
            return f"APIServiceBinding {binding} brings it; `fairlead unbind {binding}` ends that"
        if crd.meta.name in self._footprint.own:
            return ""
        # Objects of a version that is not served stay stored, and their list answers 404: an
        # answer that must not count as no object, since the CRD's deletion deletes them.
        resource = crd_spec(crd).readable()
        if resource is None:
            return (
                "its objects cannot be counted: no version of it is served: set served of a "
                "version in spec.versions to true, and run the command again"
            )
        try:
            number = len(await list_all(self._client, resource))
        except ClientError as error:
            why = " ".join(str(error).split())
            return (
                f"its objects cannot be counted: {why}: run the command again once "
                f"`kubectl get {resource.group_resource} -A` works"
            )
        return f"{count(number, 'object is', 'objects are')} left" if number else ""


def _another(deployment: Object) -> str:
    where = deployment.meta
    return (
        f"Deployment {where.key} is another: --namespace {where.namespace} is for that;"
        " ClusterRoles, webhooks and CustomResourceDefinitions stay for it"
    )


def _helm(installed: Sequence[FoundObject]) -> list[str]:
    """Return a note for each release of Helm that has installed these objects."""
    releases = {
        tuple(obj.object.meta.annotations.get(name, "") for name in _HELM) for obj in installed
    }
    return [
        f"Helm has installed it: `helm uninstall {name} -n {namespace}` takes away the release too"
        for name, namespace in sorted(releases)
        if name
    ]
