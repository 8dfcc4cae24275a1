"""Fetches the bindings of kbind v2 for the overview, with the caller's rights and no write.

A Connection is reached once for all its bindings, and only if the caller may read the Secret of
its kubeconfig. What a caller may not read becomes a note, and the rest is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from urllib.parse import urlsplit

import msgspec

from fairlead.api.conditions import get_condition, is_true
from fairlead.api.definitions import crd_spec
from fairlead.api.durations import rough_duration
from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, Connection, lease_name
from fairlead.api.kbind.names import (
    ANOTHER_KONNECTOR,
    API_NOT_EXPORTED,
    CLUSTER_IDENTITY_CHANGED,
    CONNECTED,
    FINALIZER_SYNCER,
    LEASE_NAMESPACE,
    READY,
    SECRET_NOT_FOUND,
    SECRET_VALID,
)
from fairlead.api.meta import Key, Object
from fairlead.api.reasons.verdict import conditions_of
from fairlead.api.resource import (
    CUSTOMRESOURCEDEFINITIONS,
    LEASES,
    SECRETS,
    Resource,
)
from fairlead.api.timestamps import format_time, moment, parse_time
from fairlead.api.traces import renewal
from fairlead.client import (
    ApiError,
    Client,
    ClientError,
    ClusterConfig,
    ConfigError,
    Forbidden,
    NotFound,
    NotServed,
    parse_kubeconfig,
)
from fairlead.client.lookups import find
from fairlead.konnector.commands.overview.faults import fault_of
from fairlead.konnector.commands.overview.rows import BoundKind, FetchedBinding, ProviderCopies
from fairlead.konnector.commands.presence import (
    STALE,
    KonnectorStop,
    absence,
    read_traces,
    stop_of,
)
from fairlead.konnector.policies.mirror import Mirrored, MirrorPolicy
from fairlead.konnector.secrets import content
from fairlead.konnector.v2.bindings.coverage import BindingSummary, Coverage, coverage, summary
from fairlead.konnector.v2.bindings.crds import owner_of, takes_status
from fairlead.konnector.v2.identity import cluster_uid


LISTED_PLACES = 8
"""Namespaces of a kind's copies that are listed one by one; more of them are listed at once."""
PROTOCOLS_HINT = "the konnector's flag --protocols says whether it serves kbind v2"
"""Words about a konnector that may run without the protocol."""


class MirroredList(msgspec.Struct, frozen=True):
    """The objects of kbind v2 as far as the caller may list them.

    ``connections`` is None if they may not be listed; ``summaries`` belong to ``bindings``, and
    lack those that cannot be read.
    """

    connections: Mapping[str, Object] | None = None
    bindings: Sequence[Object] = ()
    summaries: Mapping[Key, BindingSummary] = {}
    notes: Sequence[str] = ()

    def shown(self) -> list[Object]:
        """Return the bindings, and the Connections that none of them names."""
        named = {part.connection for part in self.summaries.values()}
        ways = (self.connections or {}).values()
        return [*self.bindings, *(way for way in ways if way.meta.name not in named)]

    def coverage(self, api: str, connection: str) -> Coverage:
        """Return the coverage of an API that goes to a Connection."""
        listing = [part for part in self.summaries.values() if api in part.apis]
        return coverage(connection, listing, (self.connections or {}).get(connection))


class ReachedProvider(msgspec.Struct, frozen=True):
    """The way to a Connection's provider; ``client`` is None if it was not reached.

    ``problem`` tells of a failed request, ``reason`` is its reason. ``unseen`` is the caller's
    right that is missing. ``server`` is its host and port.
    """

    client: Client | None = None
    local_uid: str = ""
    server: str = ""
    renewed: str = ""
    problem: str = ""
    reason: str = "NotReached"
    unseen: str = ""


class MirroredBindings:
    """Looks at the bindings of kbind v2 in a consumer's cluster.

    Args:
        consumer: a client of the consumer's cluster, with a person's rights.
        slots: limits the requests that are open at a time.
        connect: returns the client of a provider, kept for the next look.
        patience: seconds for all requests to a provider about one binding.
    """

    def __init__(
        self,
        consumer: Client,
        slots: asyncio.Semaphore,
        connect: Callable[[bytes, ClusterConfig], Client],
        patience: float,
    ) -> None:
        self._consumer = consumer
        self._slots = slots
        self._connect = connect
        self._patience = patience

    async def fetch(self, listed: MirroredList, objs: Iterable[Object]) -> list[FetchedBinding]:
        """Look at bindings and Connections; ``listed`` has the others that decide with them."""
        reaches: dict[str, asyncio.Task[ReachedProvider]] = {}
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._look_at(obj, listed, reaches, group)) for obj in objs]
        return [task.result() for task in tasks]

    async def look_at_object(self, resource: Resource, obj: Object) -> FetchedBinding | None:
        """Look at the binding that decides about an object, with this object alone.

        None if no binding of kbind v2 does, as far as the caller may list them.

        Raises:
            ClientError: the cluster is unavailable.
        """
        api, namespace = resource.group_resource, obj.meta.namespace
        listed = await self.listed(namespace)
        listing = [part for part in listed.summaries.values() if api in part.apis]
        if not listing:
            return None
        owner = await self._owner(api)
        for name in [owner] if owner else sorted({part.connection for part in listing}):
            deciding = listed.coverage(api, name).binding(namespace)
            if deciding is not None:
                break
        else:
            # What holds an object that no binding covers is the end of one; else it may be one
            # that its Connection, or the CRD's owner, refuses.
            is_held = FINALIZER_SYNCER in obj.meta.finalizers
            near = [part for part in listing if part.covers(namespace)]
            deciding = min(near, key=lambda part: part.deleting is not is_held, default=None)
        if deciding is None:
            return None
        binding = next(part for part in listed.bindings if part.key == deciding.key)
        async with asyncio.TaskGroup() as group:
            return await self._look_at(binding, listed, {}, group, (resource, obj))

    async def client_of(self, bound: FetchedBinding) -> Client:
        """Return a client of a binding's provider.

        Raises:
            ConfigError: the kubeconfig cannot be used.
            ClientError: it cannot be read.
        """
        connection = bound.connection
        parsed = connection.try_decode(Connection) if connection is not None else None
        if parsed is None:
            raise ConfigError(f"the Connection of {bound.title} is not known")
        ref = parsed.spec.kubeconfig_secret_ref
        async with self._slots:
            secret = await find(self._consumer, SECRETS, ref.name, ref.namespace)
        kubeconfig = content(secret, ref.key)
        return self._connect(kubeconfig, parse_kubeconfig(kubeconfig))

    async def listed(self, namespace: str = "") -> MirroredList:
        """List the objects of kbind v2; none where its kinds are not served.

        Args:
            namespace: the one whose Bindings are listed if the caller may not list all; "" for the
                context's.

        Raises:
            ClientError: the cluster is unavailable.
        """
        notes: list[str] = []
        try:
            connections = await self._list(CONNECTIONS, notes, namespace)
        except NotFound:
            return MirroredList()
        bindings: list[Object] = []
        for resource in (CLUSTERBINDINGS, BINDINGS):
            with suppress(NotFound):
                bindings += await self._list(resource, notes, namespace) or []
        if connections is None and not bindings and not await self._is_served():
            # A server refuses a kind that it lacks, too, to who has no right on it.
            return MirroredList()
        summaries = {obj.key: part for obj in bindings if (part := summary(obj)) is not None}
        by_name = None
        if connections is not None:
            by_name = {connection.meta.name: connection for connection in connections}
        return MirroredList(by_name, bindings, summaries, notes)

    async def _list(
        self, resource: Resource, notes: list[str], namespace: str
    ) -> list[Object] | None:
        """List a kind; None with a note if the caller may not.

        Raises:
            NotFound: the kind is not served.
        """
        name = resource.group_resource
        try:
            async with self._slots:
                return (await self._consumer.list(resource)).items
        except Forbidden:
            pass
        except NotFound:
            raise
        except ApiError as error:
            notes.append(f"{name} cannot be listed: {error}")
            return None
        there = namespace or self._consumer.config.namespace or "default"
        if resource.namespaced:
            with suppress(Forbidden):
                async with self._slots:
                    items = (await self._consumer.list(resource, there)).items
                notes.append(
                    f"you may not list {name} in all namespaces: only those of {there} are shown"
                )
                return items
        notes.append(f"you may not list {name}: they are left out")
        return None

    async def _is_served(self) -> bool:
        try:
            await self._consumer.discovery.resource_by_plural(
                CONNECTIONS.group, CONNECTIONS.plural
            )
        except NotServed:
            return False
        return True

    async def is_uncovered(self, resource: Resource, obj: Object) -> bool:
        """Whether bindings of kbind v2 bring an object's kind, and none covers the object.

        Raises:
            ClientError: the cluster is unavailable.
        """
        listed = await self.listed()
        if listed.notes:
            # One that the caller does not see may cover it.
            return False
        api = resource.group_resource
        listing = any(api in part.apis for part in listed.summaries.values())
        return listing or FINALIZER_SYNCER in obj.meta.finalizers

    async def _owner(self, api: str) -> str:
        """Return the Connection that owns an API's CRD, "" if none does or it is not seen."""
        try:
            async with self._slots:
                return owner_of(await find(self._consumer, CUSTOMRESOURCEDEFINITIONS, api))
        except ApiError:
            return ""

    async def _look_at(
        self,
        binding: Object,
        listed: MirroredList,
        reaches: dict[str, asyncio.Task[ReachedProvider]],
        group: asyncio.TaskGroup,
        alone: tuple[Resource, Object] | None = None,
    ) -> FetchedBinding:
        part: BindingSummary | None = None
        connection: Object | None = binding
        if binding.kind != CONNECTIONS.kind:
            part = listed.summaries.get(binding.key) or summary(binding)
            if part is None:
                return FetchedBinding(binding)
            try:
                connection = await self._connection(part.connection, listed)
            except ApiError as error:
                why = "you may not read" if isinstance(error, Forbidden) else f"{error}:"
                return FetchedBinding(binding, unseen=f"{why} Connection {part.connection}")
        name = part.connection if part is not None else binding.meta.name
        if name not in reaches:
            reaches[name] = group.create_task(self._reach(connection))
        reached = await reaches[name]
        bound = FetchedBinding(
            binding,
            kinds=(),
            problem=reached.problem,
            reason=reached.reason,
            reached=reached.client is not None,
            server=reached.server,
            connection=connection,
            renewed=reached.renewed,
            unseen=reached.unseen,
        )
        if part is not None:
            bound = await self._with_kinds(bound, part, listed, reached, alone)
        return await self._with_konnector(bound)

    async def _connection(self, name: str, listed: MirroredList) -> Object | None:
        """Return a Connection, None without one.

        Raises:
            ApiError: the caller may not read it.
        """
        if listed.connections is not None:
            return listed.connections.get(name)
        async with self._slots:
            return await find(self._consumer, CONNECTIONS, name)

    async def _with_konnector(self, bound: FetchedBinding) -> FetchedBinding:
        """Return a binding with what its cluster shows of the konnector.

        It runs in the namespace of its Connections' Secrets.
        """
        parsed = bound.connection.try_decode(Connection) if bound.connection is not None else None
        if parsed is None:
            return bound
        namespace = parsed.spec.kubeconfig_secret_ref.namespace
        if get_condition(conditions_of(bound.binding), READY) is None:
            if is_true(parsed.status.conditions, ANOTHER_KONNECTOR):
                # It is the other one that has not looked at it.
                return bound
            why = await absence(self._consumer, namespace)
            return msgspec.structs.replace(bound, absence=f"{why}; {PROTOCOLS_HINT}")
        async with self._slots:
            traces = await read_traces(self._consumer, namespace)
        beat = parse_time(bound.renewed) if bound.renewed else None
        now = moment()
        stop = stop_of(traces, now, beat)
        if beat is not None and stop is None:
            stop = _silence(parsed, beat, now)
        return msgspec.structs.replace(bound, stop=stop)

    async def _reach(self, connection: Object | None) -> ReachedProvider:
        """Reach the provider of a Connection, unless the Connection says that it is not."""
        parsed = connection.try_decode(Connection) if connection is not None else None
        if connection is None or parsed is None:
            return ReachedProvider()
        ref = parsed.spec.kubeconfig_secret_ref
        where = f"Secret {ref.namespace}/{ref.name}"
        valid = get_condition(parsed.status.conditions, SECRET_VALID)
        if valid is None or valid.status != "True":
            # Who makes a Connection may not lead its readers to a Secret that the konnector
            # refuses.
            return ReachedProvider()
        try:
            async with self._slots:
                secret = await find(self._consumer, SECRETS, ref.name, ref.namespace)
        except Forbidden:
            return ReachedProvider(unseen=f"you may not read {where}")
        except ClientError as error:
            return ReachedProvider(problem=str(error))
        kubeconfig = content(secret, ref.key)
        if not kubeconfig:
            fault = f"has no kubeconfig under key {ref.key}" if secret else "does not exist"
            return ReachedProvider(problem=f"{where} {fault}", reason=SECRET_NOT_FOUND)
        try:
            client = self._connect(kubeconfig, parse_kubeconfig(kubeconfig))
        except ConfigError as error:
            problem = f"{where}, key {ref.key}: {error}"
            return ReachedProvider(problem=problem, reason=SECRET_NOT_FOUND)
        server = urlsplit(client.config.server).netloc
        connected = get_condition(parsed.status.conditions, CONNECTED)
        if connected is None or connected.status != "True":
            return ReachedProvider(server=server)
        return await self._identified(client, parsed, server)

    async def _identified(
        self, client: Client, connection: Connection, server: str
    ) -> ReachedProvider:
        """Return the provider, if it is the cluster that was connected first."""
        status = connection.status
        try:
            async with asyncio.timeout(self._patience):
                uid = status.remote_cluster_uid
                with suppress(Forbidden):
                    uid = await cluster_uid(client)
                lease = None
                with suppress(ApiError):
                    name = lease_name(status.local_cluster_uid)
                    lease = await find(client, LEASES, name, LEASE_NAMESPACE)
        except (TimeoutError, ClientError) as error:
            problem, reason = fault_of(error, self._patience)
            return ReachedProvider(server=server, problem=problem, reason=reason)
        if uid != status.remote_cluster_uid:
            problem = (
                f"cluster {uid} answers at {server}, but the Connection first connected to "
                f"cluster {status.remote_cluster_uid}"
            )
            return ReachedProvider(server=server, problem=problem, reason=CLUSTER_IDENTITY_CHANGED)
        _, renewed, _ = renewal(lease)
        return ReachedProvider(
            client,
            status.local_cluster_uid,
            server,
            format_time(renewed) if renewed is not None else "",
        )

    async def _with_kinds(
        self,
        bound: FetchedBinding,
        binding: BindingSummary,
        listed: MirroredList,
        reached: ReachedProvider,
        alone: tuple[Resource, Object] | None,
    ) -> FetchedBinding:
        """Return a binding with the objects that it decides about, and their copies."""
        here: list[BoundKind] = []
        covers: list[tuple[Coverage, bool]] = []
        try:
            for api in binding.apis:
                if alone is not None and api != alone[0].group_resource:
                    continue
                cover = listed.coverage(api, binding.connection)
                kind = await self._consumed(api, binding, cover, alone)
                if kind is not None:
                    here.append(kind[0])
                    covers.append((cover, kind[1]))
        except Forbidden:
            unseen = f"you may not list {', '.join(binding.apis)}"
            return msgspec.structs.replace(bound, kinds=None, reached=False, unseen=unseen)
        except (ClientError, msgspec.MsgspecError) as error:
            return msgspec.structs.replace(bound, kinds=None, reached=False, problem=str(error))
        bound = msgspec.structs.replace(bound, kinds=here)
        client = reached.client
        if client is None:
            return bound
        try:
            async with asyncio.timeout(self._patience):
                kinds = [
                    await self._with_copies(client, kind, reached.local_uid, cover, status=status)
                    for kind, (cover, status) in zip(here, covers, strict=True)
                ]
        except NotFound as error:
            problem = f"the provider no longer serves a bound API: {error}"
            return msgspec.structs.replace(
                bound, problem=problem, reason=API_NOT_EXPORTED, reached=False
            )
        except (TimeoutError, ClientError) as error:
            problem, reason = fault_of(error, self._patience)
            return msgspec.structs.replace(bound, problem=problem, reason=reason, reached=False)
        return msgspec.structs.replace(bound, kinds=kinds)

    async def _consumed(
        self,
        api: str,
        binding: BindingSummary,
        cover: Coverage,
        alone: tuple[Resource, Object] | None,
    ) -> tuple[BoundKind, bool] | None:
        """Return the objects that a binding decides about, and whether they take a status.

        None if the kind is not served here, or goes to another Connection.
        """
        versions: Sequence[str] = ()
        status = True
        try:
            async with self._slots:
                crd = await find(self._consumer, CUSTOMRESOURCEDEFINITIONS, api)
        except Forbidden:
            # Who may read no CRDs may still read the objects.
            plural, _, group = api.partition(".")
            try:
                resource = await self._consumer.discovery.resource_by_plural(group, plural)
            except NotServed:
                return None
        else:
            if crd is None or owner_of(crd) not in {"", binding.connection}:
                return None
            spec = crd_spec(crd)
            served = spec.readable()
            if served is None:
                return None
            resource, versions = served, spec.served
            status = takes_status(crd, resource.version)
        if alone is not None:
            return BoundKind([alone[1]], resource=resource, versions=versions), status
        if not resource.namespaced and not binding.whole:
            return BoundKind([], resource=resource, versions=versions), status
        async with self._slots:
            objects = (await self._consumer.list(resource, binding.key.namespace)).items
        decided = [obj for obj in objects if _is_decided(obj, binding, cover)]
        return BoundKind(decided, resource=resource, versions=versions), status

    async def _with_copies(
        self, client: Client, kind: BoundKind, local_uid: str, cover: Coverage, *, status: bool
    ) -> BoundKind:
        """Return a kind with the objects in the places of copies."""
        if kind.resource is None:
            return kind
        copies: dict[Key, Object] = {}
        # A list for each namespace: a Binding's rights may end there, and others' objects are of
        # no interest. A ClusterBinding has rights in the whole cluster.
        places = sorted({obj.meta.namespace for obj in kind.objects})
        for place in places if len(places) <= LISTED_PLACES else [""]:
            async with self._slots:
                listed = await client.list(kind.resource, place)
            copies |= {item.key: item for item in listed.items}
        policy = MirrorPolicy(cluster_uid=local_uid, covered=cover.policy, status=status)
        return msgspec.structs.replace(kind, copies=ProviderCopies(policy, Mirrored(), copies))


def _silence(connection: Connection, beat: datetime, now: datetime) -> KonnectorStop | None:
    """Return the stop of the konnector, as the Lease at a Connection's provider shows it.

    A konnector that may not write the Lease any more says so in the Connection.
    """
    name = f"{LEASE_NAMESPACE}/{lease_name(connection.status.local_cluster_uid)}"
    connected = get_condition(connection.status.conditions, CONNECTED)
    if now - beat <= STALE or (connected is not None and f"Lease {name} is" in connected.message):
        return None
    age = rough_duration(now - beat)
    text = f"no konnector has renewed Lease {name} at the provider for {age}"
    return KonnectorStop(text, format_time(beat))


def _is_decided(obj: Object, binding: BindingSummary, cover: Coverage) -> bool:
    """Whether a binding decides about an object; a deleted one about what it has not let go."""
    deciding = cover.binding(obj.meta.namespace)
    if deciding is not None or not binding.deleting:
        return deciding is not None and deciding.key == binding.key
    return FINALIZER_SYNCER in obj.meta.finalizers and binding.covers(obj.meta.namespace)


def name_of(obj: Object) -> str:
    """Return the whole name of a binding of either protocol, as ``binding/shop/all``."""
    return f"{obj.kind.lower()}/{obj.key}"


def is_named(obj: Object, name: str) -> bool:
    """Whether an object of kbind v2 has this name, with or without kind and namespace."""
    return name in {obj.meta.name, str(obj.key), name_of(obj)}
