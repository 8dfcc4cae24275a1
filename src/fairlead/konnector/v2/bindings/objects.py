"""Sets up an engine for one API: both ends, equal keys, and the policy that mirrors objects."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.kbind.names import FORBIDDEN
from fairlead.api.meta import OwnerReference
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.konnector.metrics import connection_label
from fairlead.konnector.policies.mirror import Mirrored, MirroredFields, MirrorPolicy
from fairlead.konnector.reports import SyncFault
from fairlead.konnector.sync.ends import BothEnds, WatchedCollection
from fairlead.konnector.sync.engine import Engine
from fairlead.konnector.sync.passes import EngineContext
from fairlead.konnector.v2.bindings.coverage import Coverage
from fairlead.konnector.v2.bindings.environment import Environment
from fairlead.konnector.v2.bindings.status import MISSING_RIGHT
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

    ``coverage`` returns the bindings that decide about the objects, ``places`` the namespaces in
    which they are, and ``paused`` whether only deletions go on. All of them may change while it
    runs: :meth:`refresh` has all objects looked at.
    """

    def __init__(
        self,
        api: str,
        spec: MirrorSpec,
        provider: ConnectedProvider,
        environment: Environment,
        coverage: Callable[[], Coverage],
        places: Callable[[], frozenset[str]],
        paused: Callable[[], bool],
    ) -> None:
        resource, konnector = spec.resource, environment.consumer
        self._consumer = WatchedCollection(
            "consumer", konnector.cluster, resource, places, konnector.watches
        )
        self._provider = WatchedCollection(
            "provider", provider.cluster, resource, places, konnector.watches
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
        self._metrics = konnector.syncs.of(connection_label(spec.connection), api, name)
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
            remedy=MISSING_RIGHT,
            fields=MirroredFields(),
        )
        self._engine = Engine(ends, policy, context)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._engine.run()

    def refresh(self) -> None:
        """Look at all objects again: other bindings cover them, or none does."""
        self._consumer.mark()
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

    def fault(self, namespace: str) -> SyncFault | None:
        """Return the fault of a watch of one namespace's objects, None if all work."""
        if (here := self._consumer.fault(namespace)) is not None:
            return SyncFault(f"{here.message}. {MISSING_RIGHT}", here.cause)
        there = self._provider.fault(namespace)
        return there and SyncFault(f"on the provider: {there.message}", there.cause)

    def absence(self) -> str:
        """Return why the provider's objects cannot be watched, "" if they can."""
        return "; ".join(dict.fromkeys(fault.message for fault in self._provider.faults()))
