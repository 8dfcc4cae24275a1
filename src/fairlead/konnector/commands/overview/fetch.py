"""Fetches the data of the overview: a few lists on both sides, without any write.

A provider is asked with the credentials that the consumer keeps for it, and only about this
consumer's objects. A failure for one binding is shown in its line; the others do not suffer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    APIServiceBinding,
    APIServiceExport,
    APIServiceNamespace,
    ClusterBinding,
    crd_name,
)
from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.meta import Key, Object, OwnerReference
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, EVENTS, SECRETS, Resource
from fairlead.api.timestamps import moment
from fairlead.client import (
    Client,
    ClientError,
    ClusterConfig,
    ConfigError,
    Forbidden,
    NotFound,
    Timeouts,
)
from fairlead.client.lookups import find, list_all, unknown
from fairlead.konnector.commands.overview.crossing import EventAbout, happened_at
from fairlead.konnector.commands.overview.faults import NotServedThereError, fault_of
from fairlead.konnector.commands.overview.mirrored import MirroredBindings, is_named, name_of
from fairlead.konnector.commands.overview.rows import BoundKind, FetchedBinding, ProviderCopies
from fairlead.konnector.commands.presence import KonnectorStop, absence, read_traces, stop_of
from fairlead.konnector.commands.readiness import untouched
from fairlead.konnector.controllers.apiservicebinding.reconcile import EXPORT_NOT_FOUND, no_export
from fairlead.konnector.crds import has_status
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.isolation import CopyPlace, IsolationStrategy, choose
from fairlead.konnector.secrets import content, provider_config
from fairlead.konnector.servicenamespaces import delay_of, refusal_of


AT_ONCE = 4
"""Requests that are open at a time, to all clusters together."""
PATIENCE = 30.0
"""Seconds for all requests to a provider about one binding."""
TIMEOUTS = Timeouts(connect=5.0, read=15.0)
"""Timeouts in seconds, short because a person waits."""
_AGENT = "fairlead-bindings"


class _Consumed(msgspec.Struct, frozen=True):
    """One bound kind with the consumer's objects of it."""

    resource: Resource
    objects: Sequence[Object]
    status: bool
    versions: Sequence[str] = ()


class UnknownBindingError(ClientError):
    """There is no binding of a name; the text names the existing ones."""


class ProviderNamespaces(msgspec.Struct, frozen=True):
    """Namespaces of copies on a provider, by the consumer's namespace, or the reasons for none."""

    assigned: Mapping[str, str]
    refusals: Mapping[str, str] = {}
    delays: Mapping[str, KubeBindCondition] = {}
    owner: OwnerReference | None = None
    needs_namespace: bool = True

    def place(self, key: Key) -> CopyPlace:
        """Return the same name in the namespace that the provider has assigned."""
        if assigned := self.assigned.get(key.namespace):
            return CopyPlace(Key(assigned, key.name))
        return CopyPlace(None, refusal=self.refusals.get(key.namespace, ""))

    def to_consumer(self, key: Key) -> Key | None:
        """Return None: only the direction to the provider is needed here."""
        return None


class SeenBindings(NamedTuple):
    """Bindings in the order of their lines, and notes on what the caller may not see."""

    bindings: list[FetchedBinding]
    notes: list[str]


class Overview:
    """Looks at a consumer's bindings, again and again; keeps its connections meanwhile.

    Args:
        consumer: a client of the consumer's cluster, with a person's rights.
    """

    def __init__(self, consumer: Client) -> None:
        self._consumer = consumer
        # By kubeconfig, as the konnector's own connections: several Secrets may hold the same.
        self._providers: dict[bytes, Client] = {}
        self._servers: dict[str, str] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._mirrored = MirroredBindings(consumer, self._slots, self._connect, PATIENCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for client in self._providers.values():
            await client.close()

    async def fetch_all(self, name: str = "") -> SeenBindings:
        """Return the bindings of both protocols, or those of a name.

        A binding of kbind v2 is also named with its kind, and with its namespace:
        ``clusterbinding/all`` or ``binding/shop/all``.

        Raises:
            UnknownBindingError: no binding has this name.
            ClientError: neither protocol's bindings can be listed.
        """
        refused: Forbidden | None = None
        listed: list[Object] = []
        try:
            listed = await list_all(self._consumer, APISERVICEBINDINGS)
        except Forbidden as error:
            refused = error
        mirrored = await self._mirrored.listed()
        shown = mirrored.shown()
        if refused is not None and not shown:
            raise refused
        bindings = [
            binding for binding in listed if name in {"", binding.meta.name, name_of(binding)}
        ]
        if name and not bindings and not any(is_named(one, name) for one in shown):
            names = [*(binding.meta.name for binding in listed), *map(name_of, shown)]
            kind = "binding" if shown else APISERVICEBINDINGS.kind
            raise UnknownBindingError(unknown(kind, name, names))
        notes = list(mirrored.notes)
        if refused is not None:
            notes.append(
                f"you may not list {APISERVICEBINDINGS.group_resource}: they are left out"
            )
        async with asyncio.TaskGroup() as group:
            named = (one for one in shown if not name or is_named(one, name))
            theirs = group.create_task(self._mirrored.fetch(mirrored, named))
            ours = group.create_task(self._look_at_all(bindings))
        return SeenBindings([*ours.result(), *theirs.result()], notes)

    async def fetch_mirrored(self) -> SeenBindings:
        """Return the bindings of kbind v2, and Connections that no binding names.

        Raises:
            ClientError: the cluster is unavailable.
        """
        listed = await self._mirrored.listed()
        return SeenBindings(await self._mirrored.fetch(listed, listed.shown()), list(listed.notes))

    async def look_at_mirrored(self, obj: Object) -> FetchedBinding:
        """Look at a binding or a Connection of kbind v2.

        Raises:
            ClientError: the cluster is unavailable.
        """
        (bound,) = await self._mirrored.fetch(await self._mirrored.listed(), [obj])
        return bound

    async def mirrored_apis(self, namespace: str) -> list[str]:
        """Return the names of the APIs that bindings of kbind v2 list.

        Args:
            namespace: the one whose Bindings count if the caller may not list all.

        Raises:
            ClientError: the cluster is unavailable.
        """
        listed = await self._mirrored.listed(namespace)
        parts = listed.summaries.values()
        return sorted({api for part in parts for api in part.apis})

    async def is_uncovered(self, resource: Resource, obj: Object) -> bool:
        """Whether bindings of kbind v2 bring an object's kind, and none covers the object.

        Raises:
            ClientError: the cluster is unavailable.
        """
        return await self._mirrored.is_uncovered(resource, obj)

    async def fetch(self, name: str = "") -> list[FetchedBinding]:
        """Return all bindings of v1alpha2 by name, or the one of this name.

        Raises:
            UnknownBindingError: no binding has this name.
            ClientError: the consumer's bindings cannot be listed.
        """
        bindings = await list_all(self._consumer, APISERVICEBINDINGS)
        if name:
            names = [binding.meta.name for binding in bindings]
            bindings = [binding for binding in bindings if binding.meta.name == name]
            if not bindings:
                raise UnknownBindingError(unknown(APISERVICEBINDINGS.kind, name, names))
        return await self._look_at_all(bindings)

    async def _look_at_all(self, bindings: Iterable[Object]) -> list[FetchedBinding]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._look_at(binding)) for binding in bindings]
        return sorted((task.result() for task in tasks), key=lambda bound: bound.binding.meta.name)

    async def look_at_object(self, resource: Resource, obj: Object) -> FetchedBinding | None:
        """Look at the binding of an object's kind, with this object alone; None if none binds it.

        Raises:
            ClientError: the consumer's bindings cannot be listed.
        """
        try:
            listed = await list_all(self._consumer, APISERVICEBINDINGS)
        except Forbidden:
            # Who may not list these may still see that the other protocol binds the object.
            if (bound := await self._mirrored.look_at_object(resource, obj)) is not None:
                return bound
            raise
        for binding in listed:
            status = binding.decode(APIServiceBinding).status
            names = {crd_name(item.resource, item.group) for item in status.bound_schemas}
            if resource.group_resource in names:
                return await self._fetched_with_access(binding, (resource, obj))
        return await self._mirrored.look_at_object(resource, obj)

    async def warnings(self, objects: Iterable[Object]) -> dict[str, Object]:
        """Return the last Warning about each of these objects, by the object's uid.

        Without the right to list Events there is none.
        """
        # Events about cluster-scoped objects are in namespace default.
        places = {(obj.meta.namespace or "default", obj.kind) for obj in objects}
        warnings: dict[str, Object] = {}
        for namespace, kind in sorted(places):
            fields = f"type=Warning,involvedObject.kind={kind}"
            with suppress(ClientError):
                async with self._slots:
                    listed = await self._consumer.list(EVENTS, namespace, fields=fields)
                for event in sorted(listed.items, key=happened_at):
                    warnings[event.decode(EventAbout).involved_object.uid] = event
        return warnings

    async def events(self, bound: FetchedBinding, copy: Object) -> list[Object]:
        """List Events about a copy on the provider, with the consumer's credentials there.

        Raises:
            ClientError: listing Events is not allowed, or the provider cannot be reached.
        """
        client = await (
            self._mirrored.client_of(bound) if bound.is_kbind else self._provider(bound.binding)
        )
        fields = f"involvedObject.kind={copy.kind},involvedObject.name={copy.meta.name}"
        async with self._slots:
            listed = await client.list(EVENTS, copy.meta.namespace or "default", fields=fields)
        return listed.items

    async def _look_at(self, binding: Object) -> FetchedBinding:
        bound = await self._fetched_with_access(binding)
        if bound.problem or not untouched(binding):
            return bound
        # The konnector runs where it keeps kubeconfigs, unless one was moved.
        namespace = binding.decode(APIServiceBinding).spec.kubeconfig_secret_ref.namespace
        provider = None
        with suppress(ClientError):
            provider = (await self._provider(binding)).config
        why = await absence(self._consumer, namespace, provider)
        return msgspec.structs.replace(bound, absence=why)

    async def _fetched_with_access(
        self, binding: Object, alone: tuple[Resource, Object] | None = None
    ) -> FetchedBinding:
        fetched = await self._fetched(binding, alone)
        stop = await self._stop(binding, fetched.cluster_binding)
        server = self._servers.get(binding.meta.uid, "")
        return msgspec.structs.replace(fetched, server=server, stop=stop)

    async def _stop(
        self, binding: Object, heartbeat: ClusterBinding | None
    ) -> KonnectorStop | None:
        """Return the konnector's stop, as the namespace of the kubeconfig shows it."""
        try:
            namespace = binding.decode(APIServiceBinding).spec.kubeconfig_secret_ref.namespace
        except msgspec.ValidationError:
            return None
        async with self._slots:
            traces = await read_traces(self._consumer, namespace)
        return stop_of(msgspec.structs.replace(traces, heartbeat=heartbeat), moment())

    async def _fetched(
        self, binding: Object, alone: tuple[Resource, Object] | None
    ) -> FetchedBinding:
        try:
            consumed = await self._consumed(binding, alone)
        except (ClientError, msgspec.MsgspecError) as error:
            return FetchedBinding(binding, problem=str(error))
        here = [
            BoundKind(kind.objects, resource=kind.resource, versions=kind.versions)
            for kind in consumed
        ]
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._provided(binding, consumed)
        # An isolation that this version does not know is a ValueError.
        except (TimeoutError, ClientError, msgspec.MsgspecError, ValueError) as error:
            problem, reason = fault_of(error, PATIENCE)
            return FetchedBinding(binding, here, problem=problem, reason=reason)

    async def _consumed(
        self, binding: Object, alone: tuple[Resource, Object] | None
    ) -> list[_Consumed]:
        consumed = []
        for item in binding.decode(APIServiceBinding).status.bound_schemas:
            name = crd_name(item.resource, item.group)
            if alone is not None and name != alone[0].group_resource:
                continue
            async with self._slots:
                crd = await find(self._consumer, CUSTOMRESOURCEDEFINITIONS, name)
            if crd is None:
                continue
            spec = crd_spec(crd)
            resource = spec.readable()
            if resource is None:
                continue
            objects = [alone[1]] if alone else await self._list(self._consumer, resource)
            has = has_status(crd, resource.version)
            consumed.append(_Consumed(resource, objects, has, spec.served))
        return consumed

    async def _provided(self, binding: Object, consumed: Sequence[_Consumed]) -> FetchedBinding:
        client = await self._provider(binding)
        namespace = client.config.namespace
        async with self._slots:
            cluster = await find(client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, namespace)
        parsed = cluster.decode(ClusterBinding) if cluster is not None else None
        async with self._slots:
            export = await find(client, APISERVICEEXPORTS, binding.meta.name, namespace)
        if export is None:
            here = [
                BoundKind(kind.objects, resource=kind.resource, versions=kind.versions)
                for kind in consumed
            ]
            problem = no_export(binding.decode(APIServiceBinding))
            return FetchedBinding(binding, here, parsed, problem=problem, reason=EXPORT_NOT_FOUND)
        isolation = export.decode(APIServiceExport).spec.isolation
        places = await self._places(client)
        kinds = []
        for kind in consumed:
            strategy = choose(
                scope="Namespaced" if kind.resource.namespaced else "Cluster",
                isolation=isolation,
                # Without its uid, which only a new copy needs for its owner.
                cluster_namespace=OwnerReference("v1", "Namespace", namespace, ""),
                namespaces=places,
            )
            copies = await self._copies(client, kind, strategy, flipped=isolation == "Namespaced")
            if kind.resource.namespaced:
                copies = msgspec.structs.replace(copies, delays=places.delays)
            kinds.append(BoundKind(kind.objects, copies, kind.resource, kind.versions))
        return FetchedBinding(binding, kinds, parsed, reached=True)

    async def _provider(self, binding: Object) -> Client:
        """Return a client with the consumer's credentials; one for all bindings that share them.

        Raises:
            ConfigError: the credentials are not there or cannot be used.
        """
        ref = binding.decode(APIServiceBinding).spec.kubeconfig_secret_ref
        async with self._slots:
            secret = await find(self._consumer, SECRETS, ref.name, ref.namespace)
        where = f"Secret {ref.namespace}/{ref.name}"
        if secret is None:
            raise ConfigError(f"{where} with the provider's kubeconfig does not exist")
        kubeconfig = content(secret, ref.key)
        try:
            config = provider_config(kubeconfig)
        except ConfigError as error:
            raise ConfigError(f"{where}, key {ref.key}: {error}") from None
        client = self._connect(kubeconfig, config)
        self._servers[binding.meta.uid] = urlsplit(client.config.server).netloc
        return client

    def _connect(self, kubeconfig: bytes, config: ClusterConfig) -> Client:
        """Return the client of a kubeconfig, made once."""
        if kubeconfig not in self._providers:
            client = Client(config, user_agent=_AGENT, timeouts=TIMEOUTS)
            self._providers[kubeconfig] = client
        return self._providers[kubeconfig]

    async def _places(self, client: Client) -> ProviderNamespaces:
        items = await self._list(client, APISERVICENAMESPACES, client.config.namespace)
        statuses = {item.meta.name: item.decode(APIServiceNamespace).status for item in items}
        return ProviderNamespaces(
            {name: status.namespace for name, status in statuses.items() if status.namespace},
            {item.meta.name: refused for item in items if (refused := refusal_of(item))},
            {item.meta.name: delay for item in items if (delay := delay_of(item)) is not None},
        )

    async def _copies(
        self, client: Client, kind: _Consumed, strategy: IsolationStrategy, *, flipped: bool
    ) -> ProviderCopies:
        """List the objects in the places of the consumer's copies."""
        targets = {strategy.place(obj.key).target for obj in kind.objects}
        namespaces = sorted({target.namespace for target in targets if target is not None})
        # Under isolation Namespaced the copies of cluster-scoped objects are in a namespace.
        namespaced = kind.resource.namespaced or flipped
        resource = msgspec.structs.replace(kind.resource, namespaced=namespaced)
        copies: dict[Key, Object] = {}
        # A list for each namespace: the consumer's rights may end at these.
        for place in namespaces:
            try:
                listed = await self._list(client, resource, place)
            except NotFound:
                text = f"the provider does not serve {resource.group_resource} any more"
                raise NotServedThereError(f"{text}: its CRD does not exist") from None
            copies |= {item.key: item for item in listed}
        namespace = client.config.namespace
        policy = BoundPolicy(cluster_namespace=namespace, status=kind.status)
        return ProviderCopies(policy, strategy, copies)

    async def _list(self, client: Client, resource: Resource, namespace: str = "") -> list[Object]:
        async with self._slots:
            return (await client.list(resource, namespace)).items
