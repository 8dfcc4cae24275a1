"""Shared state of the controllers: one Consumer, and one Provider for each connection."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Protocol

import msgspec

from fairlead.api import kbind
from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    APIServiceBinding,
    APIServiceExport,
)
from fairlead.api.kubebind.conditions import (
    ANOTHER_KONNECTOR,
    CONSUMER_CLUSTER,
    SEVERAL_KONNECTORS,
    get_condition,
)
from fairlead.api.meta import Object, OwnerReference
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, Resource
from fairlead.client import Forbidden, NotFound, Unauthorized
from fairlead.konnector.files import WatchBudget
from fairlead.konnector.metrics import BindingStates, KbindInformers, Syncs
from fairlead.konnector.options import Options
from fairlead.konnector.policies.copies import is_orphan
from fairlead.konnector.policies.holding import (
    KEEP,
    ClusterHold,
    Holding,
    decision,
    recorded_cluster,
)
from fairlead.konnector.policies.localkeys import LocalMetadataKeys
from fairlead.konnector.policies.work import ConnectionSpec, WorkKey
from fairlead.konnector.reports import Reports, ungranted
from fairlead.konnector.secrets import KubeconfigSecrets
from fairlead.konnector.servicenamespaces import ServiceNamespaces
from fairlead.konnector.statuses import BindingStatuses, with_status
from fairlead.konnector.supervisor import Supervisor
from fairlead.runtime import (
    Cluster,
    Controller,
    Delta,
    Informer,
    Metrics,
    Reconciler,
    Request,
    commit,
)


COMPONENT = "konnector"
"""The source that events name."""


class Claim(Protocol):
    """A permission claim at work."""

    def remaining(self) -> list[str]:
        """Return the copies whose end the binding's deletion awaits; the claim while unknown."""
        ...

    def verdict(self, resource: str, obj: Object, namespace: str) -> bool:
        """Whether the claim selects an object, given the consumer's namespace for it."""
        ...


class Consumer:
    """The consumer's cluster with the informers that every controller reads."""

    def __init__(self, cluster: Cluster, options: Options, metrics: Metrics | None = None) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.options = options
        self.instance = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        """Name of this konnector among several, which it reports to providers."""
        self.crds = cluster.informer(CUSTOMRESOURCEDEFINITIONS)
        self.secrets = KubeconfigSecrets(cluster, options.namespace)
        self.events = cluster.events(COMPONENT)
        self.reports = Reports()
        self.watches = WatchBudget(options.files)
        """Places for watches of single namespaces."""
        self.local_keys = LocalMetadataKeys.of(options.local_keys, options.crossing_keys)
        """Labels and annotations that do not cross."""
        self._metrics = metrics or Metrics()
        self.syncs = Syncs(self._metrics)
        """Metrics of each binding's synchronisation."""
        has_v1, has_v2 = (protocol in options.protocols for protocol in ("v1alpha2", "v2"))
        if has_v1:
            # Controllers begin once all that was leased before is known: what is leased later is
            # empty at first, and a kept copy would then look like a free one.
            _ = (self.bundles, self.namespaces)
        kinds = (kbind.CONNECTIONS, kbind.CLUSTERBINDINGS, kbind.BINDINGS)
        BindingStates(
            self._metrics,
            self.bindings if has_v1 else None,
            KbindInformers(*map(self.kbind_informer, kinds)) if has_v2 else None,
        )

    @cached_property
    def bindings(self) -> Informer:
        """The APIServiceBindings; they are watched if v1alpha2 is served."""
        return self.cluster.informer(APISERVICEBINDINGS)

    @cached_property
    def bundles(self) -> Informer:
        """The APIServiceBindingBundles; they are watched if v1alpha2 is served."""
        return self.cluster.informer(APISERVICEBINDINGBUNDLES)

    @cached_property
    def namespaces(self) -> Informer:
        """The namespaces' metadata; they are watched if v1alpha2 is served."""
        return self.cluster.informer(NAMESPACES, metadata_only=True)

    @cached_property
    def statuses(self) -> BindingStatuses:
        """The writer of APIServiceBindings' status."""
        return BindingStatuses(self.client, self.bindings, self.events)

    @property
    def uid(self) -> str:
        """The uid of the cluster, that is of namespace kube-system; "" while it is unknown."""
        namespace = self.namespaces.get("", "kube-system")
        return namespace.meta.uid if namespace is not None else ""

    def kbind_informer(self, resource: Resource) -> Informer:
        """Lease the informer of a kind of kbind v2.

        Who serves v1alpha2 too is ready without it: after an upgrade of the image alone its CRD
        or the right on it is not there yet.
        """
        return self.cluster.informer(resource, essential="v1alpha2" not in self.options.protocols)

    def controller(self, name: str, reconcile: Reconciler, *, workers: int = 2) -> Controller:
        """Return a controller whose work is counted in the manager's metrics."""
        controller = Controller(name, reconcile, workers=workers)
        self._metrics.instrument(controller)
        return controller


class KubeBindInformers:
    """A provider's kube-bind objects for this consumer, as every controller reads them."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.exports = cluster.informer(APISERVICEEXPORTS, namespace=namespace)
        self.requests = cluster.informer(APISERVICEEXPORTREQUESTS, namespace=namespace)
        self.schemas = cluster.informer(BOUNDSCHEMAS, namespace=namespace)
        self.cluster_bindings = cluster.informer(CLUSTERBINDINGS, namespace=namespace)

    def all(self) -> tuple[Informer, ...]:
        """Return all informers."""
        return (self.exports, self.requests, self.schemas, self.cluster_bindings)


class Provider:
    """One provider connection: its cluster, its bindings, and the work that runs on it."""

    def __init__(
        self,
        identity: str,
        cluster: Cluster,
        namespace: str,
        consumer: Consumer,
        spec: ConnectionSpec,
    ) -> None:
        self.identity = identity
        self.cluster = cluster
        self.client = cluster.client
        self.namespace = namespace
        self.consumer = consumer
        self.spec = spec
        self.kubebind = KubeBindInformers(cluster, namespace)
        self.service_namespaces = ServiceNamespaces(
            cluster.client,
            cluster.informer(APISERVICENAMESPACES, namespace=namespace),
            namespace,
        )
        self.syncers = Supervisor[WorkKey]("syncers")
        self.claims: dict[WorkKey, Claim] = {}
        """The claims at work."""
        self.leftovers: dict[WorkKey, Callable[[], list[str] | None]] = {}
        """Per piece of work that holds or keeps copies: returns those without an object here.

        The result is None while they are not known.
        """
        self.retained: dict[WorkKey, Callable[[], str]] = {}
        """Per bound kind: says which deleted object others keep in the consumer's cluster."""
        self.sync_versions: dict[WorkKey, str] = {}
        """The versions in which objects of bound kinds are written at the moment."""
        self._owner: OwnerReference | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def bindings(self) -> frozenset[str]:
        """The names of the bindings that use this connection."""
        return self.spec.bindings

    @property
    def has_synced(self) -> bool:
        """Whether all kube-bind objects of the provider are known."""
        return all(informer.has_synced for informer in self._informers())

    async def synced(self) -> None:
        """Wait until all kube-bind objects of the provider are known."""
        for informer in self._informers():
            await informer.synced()

    def error(self) -> str:
        """Return why kube-bind objects of the provider cannot be watched, "" if they can."""
        return next((one.error for one in self._informers() if one.error), "")

    def cause(self) -> Exception | None:
        """Return the exception that keeps kube-bind objects of the provider from being watched."""
        causes = [one.cause for one in self._informers() if one.cause is not None]
        refused = (one for one in causes if isinstance(one, Unauthorized))
        return next(refused, causes[0] if causes else None)

    def problem(self, binding: str, *, said: Exception | None = None) -> str:
        """Return why a binding's objects are not synchronised, "" if they are.

        Args:
            binding: the binding's name.
            said: an exception that was reported already; faults that it caused are left out.
        """
        message = self.consumer.reports.problems.message(binding, said=said)
        lacking = ungranted(self.kubebind.exports.get(self.namespace, binding))
        return "; ".join(part for part in (message, lacking) if part)

    def hold(self, name: str) -> ClusterHold:
        """Return the clusters of an export's copies, and the decision about these copies."""
        export = self.kubebind.exports.get(self.namespace, name)
        binding = self._binding(name)
        bundles = self.consumer.bundles
        owners = [] if binding is None else binding.meta.owner_references
        bundle = next(
            (bundles.get("", one.name) for one in owners if one.kind == bundles.resource.kind),
            None,
        )
        # A binding that is deleted and leaves its copies behind counts as a decision, too.
        leaving = binding is not None and binding.meta.deleting and is_orphan(binding.meta)
        return ClusterHold(
            recorded=recorded_cluster(export),
            cluster=self.consumer.uid,
            decision=KEEP if leaving else decision(binding, bundle),
            rival=not leaving and _has_rival(binding),
        )

    def holding_of_claims(self) -> Holding:
        """Return the holding of copies of claimed objects.

        A copy does not tell its binding, so that one binding that holds its copies holds them all.
        """
        policies = {self.hold(found.meta.name).holding for found in self._bindings()}
        strictest: tuple[Holding, ...] = ("Wait", "Hold", "Keep")
        return next((one for one in strictest if one in policies), "")

    def holding_of_namespaces(self) -> Holding:
        """Return the holding of APIServiceNamespaces without a namespace here.

        An export that is not bound here yet has copies in them as well.
        """
        exports = self.kubebind.exports.list(self.namespace)
        holds = [self.hold(export.meta.name) for export in exports]
        if any(one.holding == "Wait" for one in holds):
            return "Hold"
        if any(one.holding == "Keep" for one in holds):
            return "Keep"
        return "Hold" if any(one.foreign for one in holds) else ""

    def waiting(self, binding: str) -> list[str] | None:
        """Return the held or kept copies of a binding; None while they are not all known."""
        texts: list[str] = []
        looks = [leftover for key, leftover in self.leftovers.items() if key.binding == binding]
        for leftover in looks:
            names = leftover()
            if names is None:
                return None
            texts += names
        return texts if looks else None

    async def forget_cluster(self, name: str) -> None:
        """Remove the record of this cluster from an export whose copies have all ended.

        The next cluster that binds it then needs no decision.
        """
        own_export = self.kubebind.exports.get(self.namespace, name)
        if (
            own_export is None
            or not self.consumer.uid
            or recorded_cluster(own_export) != self.consumer.uid
        ):
            return
        if (export := own_export.try_decode(APIServiceExport)) is None:
            return
        status = export.status
        left = [one for one in status.conditions if one.type != CONSUMER_CLUSTER]
        body = with_status(own_export, msgspec.structs.replace(status, conditions=left))
        with suppress(NotFound, Forbidden):
            await commit(self.client, APISERVICEEXPORTS, own_export, body, subresource="status")

    def _binding(self, name: str) -> Object | None:
        return self.consumer.bindings.get("", name) if name in self.bindings else None

    async def end_objects(self, binding: str) -> None:
        """End the work on the objects of a binding; afterwards none of them is written."""
        for key in list(self.syncers.keys):
            if (key.binding, key.kind) == (binding, "objects"):
                await self.syncers.stop(key)

    def claimed(self, binding: APIServiceBinding) -> list[str]:
        """Return the claimed objects of a binding with a copy; [] once the export is gone."""
        name = binding.metadata.name
        # Without the export there are no rights on its copies, so that their end cannot be
        # watched.
        if (
            self.kubebind.exports.has_synced
            and self.kubebind.exports.get(self.namespace, name) is None
        ):
            return []
        result: list[str] = []
        for claim in binding.status.permission_claims:
            at_work = self.claims.get(WorkKey(name, "claim", claim.name))
            result += at_work.remaining() if at_work else [f"claimed {claim.resource}"]
        return result

    def claims_pending(self, resource: str) -> bool:
        """Whether any binding has a claim on a resource that is not at work yet."""
        return any(
            claim.resource == resource
            and WorkKey(obj.meta.name, "claim", claim.name) not in self.claims
            for obj in self._bindings()
            if (binding := obj.try_decode(APIServiceBinding)) is not None
            for claim in binding.status.permission_claims
        )

    def binding_uids(self) -> frozenset[str]:
        """Return the uids of the bindings that use this connection."""
        return frozenset(found.meta.uid for found in self._bindings())

    def _bindings(self) -> list[Object]:
        cached = (self.consumer.bindings.get("", name) for name in sorted(self.bindings))
        return [found for found in cached if found is not None]

    def join(self, spec: ConnectionSpec) -> None:
        """Replace the wanted state of the connection: other bindings use it now."""
        self.spec = spec
        for listener in self._listeners:
            listener()

    def on_join(self, listener: Callable[[], None]) -> None:
        """Call the listener when other bindings use this connection."""
        self._listeners.append(listener)

    def _informers(self) -> tuple[Informer, ...]:
        return (*self.kubebind.all(), self.service_namespaces.informer)

    async def owner(self) -> OwnerReference:
        """Return a reference to the consumer's cluster namespace, which is read once.

        Raises:
            ClientError: the namespace cannot be read.
        """
        if self._owner is None:
            namespace = await self.client.get(NAMESPACES, self.namespace)
            self._owner = namespace.owner_reference(controller=False)
        return self._owner


def _has_rival(binding: Object | None) -> bool:
    """Whether a binding reports that another konnector of ours works with its connection."""
    parsed = binding.try_decode(APIServiceBinding) if binding is not None else None
    if parsed is None:
        return False
    condition = get_condition(parsed.status.conditions, ANOTHER_KONNECTOR)
    return condition is not None and condition.reason == SEVERAL_KONNECTORS


def binding_itself(delta: Delta) -> list[Request]:
    """Return the request of a changed APIServiceBinding."""
    return [Request("", "", delta.object.meta.name)]


def owning_bindings(delta: Delta) -> list[Request]:
    """Return the requests of the APIServiceBindings that own a changed object, or owned it."""
    return [Request("", "", name) for name in sorted(owning_names(delta))]


def owning_names(delta: Delta) -> set[str]:
    """Return the names of the APIServiceBindings that own a changed object, or owned it.

    One that has lost its CRD has to stop its work on the objects.
    """
    return {
        owner.name
        for obj in (delta.old, delta.new)
        if obj is not None
        for owner in obj.meta.owner_references
        if owner.kind == APISERVICEBINDINGS.kind
    }
