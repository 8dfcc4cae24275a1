"""Sets up an engine for one API: both ends, equal keys, and the policy that mirrors objects."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.kbind.names import FINALIZER_SYNCER, FORBIDDEN
from fairlead.api.meta import OwnerReference
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.konnector.policies.mirror import Mirrored, MirroredFields, MirrorPolicy
from fairlead.konnector.sync.ends import EVERYWHERE, BothEnds, WatchedCollection
from fairlead.konnector.sync.engine import Engine
from fairlead.konnector.sync.passes import EngineContext
from fairlead.konnector.v2.bindings.coverage import Coverage
from fairlead.konnector.v2.bindings.environment import Environment
from fairlead.konnector.v2.providers import ConnectedProvider


class MirrorSpec(msgspec.Struct, frozen=True):
    """Order to synchronise the objects of one API; another one starts the engine anew.

    ``crd_uid`` is of the consumer's CRD: the objects of another one are other objects.
    """

    connection: str
    resource: Resource
    crd_uid: str
    takes_status: bool


class SameNamespaces:
    """The assignment of each namespace to the one of the same name, which nothing changes."""

    has_synced = True

    async def synced(self) -> None:
        """Return at once."""

    def provider(self, namespace: str) -> str:
        """Return the same namespace."""
        return namespace

    def consumer(self, namespace: str) -> str:
        """Return the same namespace."""
        return namespace

    def listen(self, listener: Callable[[str, str], None]) -> None:
        """Call the listener never: no assignment changes."""

    def unlisten(self, listener: Callable[[str, str], None]) -> None:
        """Do nothing."""

    async def ask(self, namespace: str, export: OwnerReference) -> None:
        """Do nothing: a namespace is created with its first copy."""

    async def gone(self, namespace: str) -> bool:
        """Whether a namespace has no counterpart: it always has."""
        return False


class MirroredObjects:
    """Synchronises the objects of one API with a provider.

    ``coverage`` returns the bindings that decide about the objects, ``paused`` whether only
    deletions go on. Both may change while it runs: :meth:`refresh` has all objects looked at.
    """

    def __init__(
        self,
        api: str,
        spec: MirrorSpec,
        provider: ConnectedProvider,
        environment: Environment,
        coverage: Callable[[], Coverage],
        paused: Callable[[], bool],
    ) -> None:
        resource, konnector = spec.resource, environment.consumer
        self._coverage = coverage
        self._consumer = WatchedCollection(
            "consumer", konnector.cluster, resource, lambda: EVERYWHERE
        )
        self._provider = WatchedCollection(
            "provider", provider.cluster, resource, self._namespaces, konnector.watches
        )
        policy = MirrorPolicy(
            cluster_uid=provider.local_uid,
            covered=lambda namespace: coverage().policy(namespace),
            status=spec.takes_status,
            paused=paused,
        )
        ends = BothEnds(
            consumer=self._consumer,
            provider=self._provider,
            strategy=Mirrored(),
            namespaces=SameNamespaces(),
            export=OwnerReference(
                CUSTOMRESOURCEDEFINITIONS.api_version,
                CUSTOMRESOURCEDEFINITIONS.kind,
                api,
                spec.crd_uid,
            ),
        )
        self.report = environment.reports.of(api, "", resource.kind)
        self.settled = False
        """Whether all objects have been looked at, so that conflicts are known."""
        self._idle_looks = 0
        name = f"sync-{api}"
        self._metrics = konnector.syncs.of(spec.connection, api, name)
        context = EngineContext(
            name=name,
            binding=spec.connection,
            report=self.report,
            metrics=self._metrics,
            events=environment.events,
            controller=konnector.controller,
            workers=konnector.options.workers,
            interval=konnector.options.health_interval,
            denied=FORBIDDEN,
            fields=MirroredFields(),
        )
        self._engine = Engine(ends, policy, context)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._engine.run()

    def refresh(self) -> None:
        """Look at all objects again: other bindings cover them, or none does."""
        self._provider.mark()
        self._engine.look_again()

    def check_queue(self) -> None:
        """Count a look at the queue: the objects are known when two in a row find it empty."""
        listed = self._consumer.all_listed() and self._provider.all_listed()
        is_idle = listed and self._metrics.works and not self._metrics.depth
        self._idle_looks = self._idle_looks + 1 if is_idle else 0
        self.settled = self.settled or self._idle_looks > 1

    def schema_changed(self) -> None:
        """Try refused objects again: they may be valid by the new schema."""
        self._engine.schema_changed()

    def absence(self) -> str:
        """Return why the provider's objects cannot be watched, "" if they can."""
        return "; ".join(dict.fromkeys(fault.message for fault in self._provider.faults()))

    def refresh_namespaces(self) -> None:
        """Watch the provider's namespaces in which there are copies by now."""
        self._provider.mark()

    def _namespaces(self) -> frozenset[str]:
        """Return the provider's namespaces to watch.

        Bindings ask for rights in their own namespaces alone. A namespace stays watched as long as
        an object in it has a copy, which may have to be taken away.
        """
        coverage = self._coverage()
        if coverage.everywhere is not None or not self._provider.resource.namespaced:
            return EVERYWHERE
        synced = (
            obj.meta.namespace
            for obj in self._consumer.objects()
            if FINALIZER_SYNCER in obj.meta.finalizers
        )
        return frozenset([*coverage.namespaces, *synced])
