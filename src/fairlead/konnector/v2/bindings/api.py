"""One bound API: its CRD in the consumer's cluster, its objects, and their release.

It runs as a task of its own. It looks again when a binding, a Connection or one of both CRDs has
changed; at rest it asks nothing. All that has to outlast a restart is in the cluster: the marks of
the CRD, and the finalizers of objects that have a copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import structlog

from fairlead.api.definitions import lossless_resource
from fairlead.api.kbind.names import (
    ANNOTATION_SCHEMA_HASH,
    FINALIZER_SYNCER,
    FORBIDDEN,
    FOREIGN_CRD,
    PENDING,
)
from fairlead.api.kbind.types import SchemaPolicy
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client.errors import ApiError, Conflict, Forbidden, NotFound
from fairlead.konnector import bounds
from fairlead.konnector.crds import established
from fairlead.konnector.metrics import connection_label
from fairlead.konnector.supervisor import Supervisor
from fairlead.konnector.v2.bindings.coverage import (
    EVERYWHERE,
    BindingSummary,
    Coverage,
    connection_of,
    coverage,
    in_order,
    is_admitted,
    is_ready,
    places,
    stands_back,
)
from fairlead.konnector.v2.bindings.crds import (
    CRDPlan,
    Fault,
    is_made,
    owner_of,
    plan_crd,
    takes_status,
    unusable,
    usable_resource,
)
from fairlead.konnector.v2.bindings.environment import Environment
from fairlead.konnector.v2.bindings.objects import MirroredObjects, MirrorSpec
from fairlead.konnector.v2.bindings.writes import write_crd
from fairlead.konnector.v2.providers import ConnectedProvider
from fairlead.runtime import Delta, Informer, remove_finalizer


PAUSE_SECONDS = 0.1
"""Shortest time between two looks, in seconds: many events make one look."""
WATCH_SECONDS = 1.0
"""Seconds between looks while copies are awaited: no event tells that a provider is away."""
LATE_SECONDS = 180.0
"""Seconds for which objects are followed in namespaces that bindings of the API have left.

A server may carry out a write of ours later than the engine has ended, and a watch may show it
later still: an API server ends a request after 60 s, and a silent watch is made anew after 120 s.
A shorter time may leave a finalizer that nothing takes away; a longer one keeps an idle watch.
"""
CRD_LEFT = "DeletionRefused"
"""Reason of the Event about a CRD that stays, since this cluster refuses to delete it."""
PROVIDER_GONE = "ProviderGone"
"""Reason of the Event about copies that stay, since their provider cannot be reached."""

_log = structlog.get_logger(logger_name="fairlead.konnector.v2.bindings")


class SyncedAPI:
    """The work on one API.

    Args:
        name: name of the API, PLURAL.GROUP.
        environment: the consumer's cluster and the konnector's parts.
        bindings: returns all bindings, deleted ones included.
        changed: called when what bindings report of the API may have changed.
        tell: records a Warning about a binding, with reason and message.
        recorded: namespaces in which there may be copies by what bindings have recorded, "" for
            all of the cluster.
        owner: the Connection that objects went to by what bindings have recorded, "" if none.
    """

    def __init__(
        self,
        name: str,
        environment: Environment,
        bindings: Callable[[], Iterable[BindingSummary]],
        changed: Callable[[str], None],
        tell: Callable[[BindingSummary, str, str], None],
        recorded: frozenset[str],
        owner: str,
    ) -> None:
        self.name = name
        self.connection = ""
        """Name of the Connection that owns the API, "" if none does."""
        self.crd_hash = ""
        self.settled = False
        """Whether this process knows how the API stands: not before it has met the provider."""
        self.finished = False
        """Whether there is nothing to do any more: no binding lists it, and no copy is left."""
        self._environment = environment
        self._bindings = bindings
        self._changed = changed
        self._tell = tell
        self._fault: Fault | None = Fault(PENDING, f"the konnector has not checked {name} yet")
        self._bound_by = owner
        """Name of the Connection by which the API was bound at last, "" for none."""
        self._obstacles: dict[Key, str] = {}
        self._is_looked_at = False
        """Whether there was a whole look."""
        self._deleted_crd = ""
        self._schema: list[int] = []
        self._dirty = asyncio.Event()
        self._coverage = Coverage()
        self._paused = False
        self._crd: Object | None = None
        self._resource: Resource | None = None
        self._takes_status = True
        self._objects: dict[str, Informer] = {}
        """Informers by place: those of the bindings, and of former places."""
        end = asyncio.get_running_loop().time() + LATE_SECONDS
        self._former = dict.fromkeys(recorded, end)
        """Until when places are followed that no binding has any more."""
        self._left: frozenset[str] = frozenset()
        """Namespaces of objects that no binding covers and that may have copies still."""
        self._had: set[Key] = set()
        """Bindings that list the API, or have listed it while this process ran."""
        self._places: frozenset[str] = frozenset()
        self._engines: Supervisor[str] = Supervisor(f"engine of {name}")
        self._running: tuple[MirrorSpec, ConnectedProvider, MirroredObjects] | None = None
        self._away_since: float | None = None
        self._refusal = ""
        self._refused_since: float | None = None
        self._faulty_looks = 0

    def failed(self, why: str) -> None:
        """Note why the work has failed, before it is begun again; "" once it is."""
        if why:
            self._fault = Fault(PENDING, f"{self.name} is looked at again: {why}")
            self.settled = True

    def poke(self) -> None:
        """Have the API looked at again."""
        self._dirty.set()

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            ClientError: a server refused, or cannot be reached.
        """
        async with asyncio.TaskGroup() as group:
            engines = group.create_task(self._engines.run())
            await self._engines.running()
            try:
                while True:
                    self._dirty.clear()
                    again = await self._advance()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(again):
                            await self._dirty.wait()
                    await asyncio.sleep(PAUSE_SECONDS)
            finally:
                await self._stop()
                await self._unfollow()
                engines.cancel()

    def fault(self, binding: BindingSummary) -> Fault | None:
        """Return why the API is not synchronised for a binding, None if it is."""
        connection = self._environment.connections.get("", binding.connection)
        if not is_admitted(binding, connection):
            return Fault(
                FORBIDDEN,
                f"Connection {binding.connection} does not admit Bindings in namespace "
                f"{binding.key.namespace} (see its annotation fairlead.dev/binding-namespaces)",
            )
        if self.connection and binding.connection != self.connection:
            return Fault(
                FOREIGN_CRD,
                f"Connection {self.connection} already binds {self.name}, and all its objects "
                "go there: bind it with that Connection, or unbind it there first",
            )
        if self._fault is not None:
            return self._fault
        if not binding.whole and self._resource is not None and not self._resource.namespaced:
            return Fault(
                FORBIDDEN,
                f"{self.name} is cluster-scoped, so no Binding covers its objects: bind it "
                "with a ClusterBinding",
            )
        return self._watch_fault(binding)

    def note(self, binding: BindingSummary) -> str:
        """Return what a binding's user should know of an API that is well; "" for nothing."""
        deciding = self._coverage.everywhere
        if not binding.whole and deciding is not None:
            return f"ClusterBinding {deciding.key.name} covers the objects of {self.name}"
        if not self._takes_status:
            return (
                f"the status of {self.name} does not come back, since its "
                "CustomResourceDefinition in this cluster has no status subresource"
            )
        return ""

    def conflicts(self, binding: BindingSummary) -> int | None:
        """Return how many conflicts a binding decides about, None while they are not known."""
        if self._running is None or not self._running[2].settled:
            return None
        conflicts = self._running[2].report.conflicts
        return sum(self._coverage.binding(key.namespace) == binding for key in conflicts)

    def obstacle(self, binding: BindingSummary) -> str:
        """Return why a deleted binding has to stay for this API, "" if it need not.

        It is as the last whole look has it: within one, nothing that is missing proves anything.
        """
        return self._obstacles.get(binding.key, f"the konnector has not checked {self.name} yet")

    def residue(self, binding: BindingSummary, *, reported: bool) -> str:
        """Return why a deleted binding that lists the API no more has to stay, "" if it need not.

        With the last binding its Connection may go, and with this one the record of its copies:
        nothing else would take them away.

        Args:
            binding: the binding.
            reported: whether its status has the API.
        """
        had = reported or binding.key in self._had
        if self.connection not in {"", binding.connection} and not had:
            return ""
        if self._is_left_to_another(binding):
            return ""
        unread = [lease for lease in self._objects.values() if not lease.has_synced]
        if not self._is_looked_at or any(not lease.error for lease in unread):
            return f"the konnector has not checked {self.name} yet"
        # The last look may have been before the binding has left the API.
        connection = self._environment.connections.get("", self.connection)
        listing = [one for one in self._bindings() if self.name in one.apis]
        return self._remainder(binding, coverage(self.connection, listing, connection))

    def _is_left_to_another(self, binding: BindingSummary) -> bool:
        """Whether the API is of another Connection than a binding, and of another konnector."""
        connection = self._environment.connections.get("", self.connection)
        return binding.connection != self.connection and stands_back(connection)

    def _remainder(self, binding: BindingSummary, covering: Coverage) -> str:
        """Return that objects that a binding covers, and now none does, have copies; else ""."""
        for obj in self._listed():
            namespace = obj.meta.namespace
            is_bound = FINALIZER_SYNCER in obj.meta.finalizers and binding.covers(namespace)
            if is_bound and covering.binding(namespace) is None:
                return f"waiting until the copies of {self.name} are gone, which it bound before"
        return ""

    def is_left(self, binding: BindingSummary, *, reported: bool) -> bool:
        """Whether there may be copies by a binding that does not list the API any more.

        Args:
            binding: the binding.
            reported: whether its status has the API, which decides while objects are not known.
        """
        is_known = self._is_looked_at and not self._dirty.is_set() and self._is_listed()
        if not is_known or (self._crd is not None and not established(self._crd)):
            return reported
        had = reported or binding.key in self._had
        if stands_back(self._environment.connections.get("", self.connection)):
            # Another konnector may leave the copies to this one.
            return had
        return had and any(binding.covers(namespace) for namespace in self._left)

    def leaves(self, connection: str) -> bool:
        """Whether copies go, or may have to go, from the provider of a Connection.

        It is for a Connection that no binding names any more: nothing else is at work by it.
        """
        if not self._is_looked_at:
            return owner_of(self._environment.consumer.crds.get("", self.name)) == connection
        if self.connection != connection:
            return False
        # Objects that cannot be listed hold up no Connection for ever.
        unread = any(not lease.has_synced and not lease.error for lease in self._objects.values())
        return unread or self._running is not None or self._has_copies()

    def _obstacle(self, binding: BindingSummary) -> str:
        if binding.connection != self.connection:
            # It may have moved, and with it the record of the copies would go.
            left = self._is_left_to_another(binding)
            return "" if left else self._remainder(binding, self._coverage)
        if self._refusal:
            return self._refusal
        for place, lease in self._objects.items():
            concerned = place in self._places and (not place or binding.covers(place))
            if concerned and not lease.has_synced:
                why = f": {lease.error}" if lease.error else ""
                return f"objects of {self.name} in this cluster are not listed yet{why}"
        count = sum(1 for obj in self._unreleased() if binding.covers(obj.meta.namespace))
        if not count and binding.whole and self._is_leaving_crd():
            return (
                f"waiting until CustomResourceDefinition {self.name} is gone, which stays "
                "until all its objects are gone: finalizers of other programs may hold them"
            )
        if not count:
            return ""
        message = f"waiting until the copies of {count} objects of {self.name} are gone"
        if (failing := self._environment.reports.failing(self.name)) is not None:
            message += f"; {failing.message}"
        if why := self._away():
            patience = self._environment.consumer.options.unbind_timeout
            message += (
                f", and the provider cannot be reached: {why}. After {patience:g} s (the "
                "konnector's --unbind-timeout) the konnector lets the objects go, and their "
                "copies stay there"
            )
        return message

    def check_watches(self) -> None:
        """Count a look at the watches: a fault is reported when several find it in a row."""
        if self._running is not None:
            self._running[2].check_queue()
        problems = self._environment.reports.problems
        self._faulty_looks = self._faulty_looks + 1 if problems.message(self.name) else 0
        missed = any(isinstance(cause, NotFound) for cause in problems.causes(self.name))
        if self._running is not None and missed and self._faulty_looks == 1:
            self._running[1].schemas.miss()

    async def _advance(self) -> float | None:
        """Bring the API a step on; return the seconds until the next look, None for an event."""
        environment = self._environment
        self._crd = environment.consumer.crds.get("", self.name)
        summaries = list(self._bindings())
        bindings = in_order(one for one in summaries if self.name in one.apis)
        self._had.update(binding.key for binding in bindings)
        former, self.connection = self.connection, self._owner(bindings, summaries)
        connection = environment.connections.get("", self.connection)
        provider = environment.providers.of(self.connection) if self.connection else None
        before = (self._coverage, self._places, self._paused)
        self._coverage = coverage(self.connection, bindings, connection)
        leaving = [one for one in bindings if one.deleting and one.connection == self.connection]
        if stands_back(connection):
            await self._stop()
            self._fault = None
            self._is_looked_at = True
            return None
        self._fault = await self._settle_crd(connection, provider)
        self._paused = self._fault is not None
        if self._coverage and not self._paused:
            self._bound_by = self.connection
        await self._follow(summaries)
        await self._unbind_crd(leaving, connection)
        await self._synchronise(provider)
        if former != self.connection:
            environment.consumer.syncs.forget(connection_label(former), self.name)
        if self._running is not None and before != (
            self._coverage,
            self._places,
            self._paused,
        ):
            self._running[2].refresh()
        self._note_schema(provider)
        # A Connection that was ready before this process began is being connected again.
        self.settled = provider is not None or not is_ready(connection)
        again = await self._release(leaving)
        if self._former:
            # No event tells that a right to list is missing, or that the time is over.
            late = min(self._former.values()) - asyncio.get_running_loop().time()
            most = bounds.AGAIN_SECONDS if self._is_listed() else WATCH_SECONDS
            again = _sooner(again, min(late, most))
        if self._fault is not None and self._fault.refused:
            again = _sooner(again, bounds.AGAIN_SECONDS)
        self._obstacles = {one.key: self._obstacle(one) for one in bindings if one.deleting}
        self._is_looked_at = True
        self.finished = False
        again = again if bindings else self._finish(again)
        self._changed(self.name)
        return again

    def _finish(self, again: float | None) -> float | None:
        """Note whether an API that nothing lists is done; return seconds until the next look."""
        if self._running is not None or self._unreleased() or (self._objects and self._former):
            return again
        self.finished = all(_is_known(lease) for lease in self._objects.values())
        return None if self.finished else WATCH_SECONDS

    def _note_schema(self, provider: ConnectedProvider | None) -> None:
        """Have refused objects tried again once either cluster has another schema."""
        offered = provider.schemas.get(self.name) if provider is not None else None
        schema = [one.meta.generation if one is not None else 0 for one in (self._crd, offered)]
        if self._running is not None and schema != self._schema:
            self._running[2].schema_changed()
        self._schema = schema

    def _owner(
        self, bindings: Sequence[BindingSummary], summaries: Sequence[BindingSummary]
    ) -> str:
        """Return the Connection that the API's objects go to, "" if there is none.

        The CRD's annotation decides, as long as its Connection is there and has not been left by
        the last binding and the last copy. Of a CRD without one, such as a user's own, it is the
        Connection that the API was bound by so far.
        """
        connections, noted = self._environment.connections, owner_of(self._crd)
        owner = noted or (self._bound_by if self._crd is not None else "")
        # A Binding that its Connection does not admit must not keep others from the API.
        bindings = [
            binding
            for binding in bindings
            if is_admitted(binding, connections.get("", binding.connection))
        ] or bindings
        # A ClusterBinding comes before Bindings, since its namespace is "".
        ways = [one for one in bindings if not one.deleting] or list(bindings)
        owning = connections.get("", owner) if owner else None
        if owning is not None:
            parsed = connection_of(owning)
            pulls = parsed is None or parsed.spec.schema.pull_policy == "All"
            named = any(one.connection == owner for one in bindings)
            at_work = self._running is not None or not self._has_read(owner, summaries)
            at_work = at_work or self._has_copies()
            if (pulls and noted) or named or not ways or at_work:
                return owner
        there = [one for one in ways if connections.get("", one.connection) is not None]
        if not owner:
            # Nor must a binding of an API that its provider does not offer.
            offered = [binding for binding in there if not self._lacks(binding.connection)]
            there = offered or there
        chosen = next(iter(there or ways), None)
        return chosen.connection if chosen is not None else noted

    def _lacks(self, connection: str) -> bool:
        """Whether the provider of a Connection is known not to offer the API."""
        provider = self._environment.providers.of(connection)
        if provider is None or provider.schemas.apis is None:
            return False
        return provider.schemas.get(self.name) is None

    def _has_read(self, owner: str, summaries: Sequence[BindingSummary]) -> bool:
        """Whether all objects are known that may have copies by the CRD's Connection."""
        crd = self._crd
        if not self._is_listed():
            return False
        # Once the owner has been left, the next one may have less read.
        if crd is None or not established(crd) or self.connection not in {"", owner}:
            return True
        scope = places(self.name, owner, summaries, frozenset())
        scope |= self._former.keys()
        return scope <= self._objects.keys() or "" in self._places

    async def _settle_crd(
        self, connection: Object | None, provider: ConnectedProvider | None
    ) -> Fault | None:
        """Write the CRD if it has to be; return why the API is not bound, None if it is."""
        self.crd_hash = (
            self._crd.meta.annotations.get(ANNOTATION_SCHEMA_HASH, "") if self._crd else ""
        )
        if not self._coverage:
            return None
        if provider is None:
            return Fault(PENDING, self._unready(connection))
        parsed = connection_of(connection)
        policy = parsed.spec.schema if parsed is not None else SchemaPolicy()
        offered = provider.schemas.get(self.name)
        if policy.pull_policy != "None":
            provider.schemas.read(self.name)
        plan = plan_crd(
            self.name,
            self.connection,
            policy,
            offered,
            self._crd,
            left=owner_of(self._crd) != self.connection,
            unread=provider.schemas.fault(self.name),
        )
        if plan.fault is not None:
            return plan.fault
        if plan.action and (fault := await self._write(plan)) is not None:
            return fault
        crd = self._crd
        if crd is None or usable_resource(offered, crd) is None:
            return unusable(self.name, offered, crd)
        self.crd_hash = crd.meta.annotations.get(ANNOTATION_SCHEMA_HASH, "")
        return None

    def _unready(self, connection: Object | None) -> str:
        if connection is None:
            return f"there is no Connection {self.connection}: create it"
        return f"Connection {self.connection} is not ready: see its conditions"

    async def _write(self, plan: CRDPlan) -> Fault | None:
        """Write the CRD; return why this cluster refuses it, None if it does not."""
        written = await write_crd(self._environment.consumer.client, self.name, plan)
        if isinstance(written, Fault):
            return written
        self._crd = written
        return None

    async def _follow(self, summaries: Sequence[BindingSummary]) -> None:
        """Follow the consumer's objects where bindings have them, while their CRD is served."""
        crd = self._crd
        is_served = crd is not None and established(crd)
        resource = lossless_resource(crd)[0] if crd is not None and is_served else None
        if resource is None or any(lease.resource != resource for lease in self._objects.values()):
            await self._stop()
            await self._unfollow()
        former, left = frozenset[str](), self._unreleased()
        if not self._is_listed() or left:
            former = self._places.union(obj.meta.namespace for obj in left)
        scope = places(self.name, self.connection, summaries, former)
        scope = scope if resource is None or resource.namespaced else EVERYWHERE
        if scope != self._places:
            # Another look decides by them: where all is read already, no event brings it.
            self.poke()
        if self._running is None:
            # A cache may be behind what the engine before has written: a new one lists first.
            for place in sorted(self._former.keys() & scope & self._objects.keys()):
                await self._objects.pop(place).close()
        now = asyncio.get_running_loop().time()
        self._former |= dict.fromkeys(self._places - scope, now + LATE_SECONDS)
        self._former = {
            place: end
            for place, end in self._former.items()
            if now < end and not scope & {place, ""} and not self._is_refused(place)
        }
        self._places = scope
        scope |= self._former.keys()
        for place in sorted(self._objects.keys() - scope):
            await self._objects.pop(place).close()
        if resource is None:
            return
        for place in sorted(scope - self._objects.keys()):
            lease = self._environment.consumer.cluster.informer(resource, namespace=place)
            self._objects[place] = lease
            lease.subscribe(self._object_changed)
            lease.listen(self.poke)

    async def _unfollow(self) -> None:
        while self._objects:
            _, lease = self._objects.popitem()
            await lease.close()

    def _listed(self) -> list[Object]:
        listed = [obj for lease in self._objects.values() for obj in lease.list()]
        if "" in self._objects and len(self._objects) > 1:
            return list({obj.key: obj for obj in listed}.values())
        return listed

    def _object_changed(self, delta: Delta) -> None:
        # At rest no change of an object concerns its API.
        if self._coverage.binding(delta.object.meta.namespace) is None or self._is_leaving_crd():
            self.poke()

    def _is_leaving_crd(self) -> bool:
        crd = self._crd
        return crd is not None and (crd.meta.deleting or crd.meta.uid == self._deleted_crd)

    async def _unbind_crd(
        self, leaving: Sequence[BindingSummary], connection: Object | None
    ) -> None:
        """Delete the CRD with its last ClusterBinding, if a konnector has made it."""
        crd, parsed = self._crd, connection_of(connection)
        self._refusal = ""
        if crd is None or self._is_leaving_crd() or self._coverage:
            self._refused_since = None
            return
        if not any(one.whole for one in leaving) or not is_made(crd):
            return
        if owner_of(crd) != self.connection:
            return
        if parsed is not None and parsed.spec.schema.pull_policy == "All":
            return
        try:
            # Only unchanged: a user may remove the marks, to keep the CRD, at this moment.
            await self._environment.consumer.client.delete(
                CUSTOMRESOURCEDEFINITIONS,
                self.name,
                uid=crd.meta.uid,
                resource_version=crd.meta.resource_version,
            )
        except (NotFound, Conflict):
            # The cache is behind: its event brings the next look.
            return
        except ApiError as error:
            now = asyncio.get_running_loop().time()
            self._refused_since = since = self._refused_since or now
            what = f"CustomResourceDefinition {self.name}"
            refusal = f"this cluster refuses to delete {what}: {error.message}"
            patience = self._environment.consumer.options.unbind_timeout
            if now - since < patience:
                end = (
                    f"After {patience:g} s (the konnector's --unbind-timeout) the "
                    "konnector leaves it in place"
                )
                self._refusal = f"{refusal}. {end}"
                return
            for binding in leaving:
                self._tell(
                    binding,
                    CRD_LEFT,
                    f"{refusal}. It stays, and the konnector deletes the copies of its objects",
                )
        else:
            # The cache shows it in a moment.
            self._deleted_crd = crd.meta.uid

    async def _synchronise(self, provider: ConnectedProvider | None) -> None:
        """Run the engine that fits; none without a provider, a CRD or anything to do."""
        spec = self._wanted_spec(provider)
        if self._running is not None and (
            spec is None or provider is not self._running[1] or spec != self._running[0]
        ):
            await self._stop()
        if spec is None or provider is None or self._running is not None:
            return
        work = MirroredObjects(
            self.name,
            spec,
            provider,
            self._environment,
            lambda: self._coverage,
            lambda: self._places,
            lambda: self._paused,
        )
        self._running = (spec, provider, work)
        self._engines.start(self.name, work)

    def _wanted_spec(self, provider: ConnectedProvider | None) -> MirrorSpec | None:
        crd = self._crd
        if provider is None or crd is None:
            return None
        # Where nothing is to be written there may still be copies to take away.
        bound = bool(self._coverage) and not self._paused
        if not (bound or self._unreleased() or self._has_copies()):
            return None
        resource = usable_resource(provider.schemas.get(self.name), crd)
        if resource is None:
            return None
        self._resource = resource
        self._takes_status = takes_status(crd, resource.version)
        return MirrorSpec(self.connection, resource, crd.meta.uid, self._takes_status)

    async def _stop(self) -> None:
        if self._running is not None:
            self._running = None
            await self._engines.stop(self.name)
            # An API that no copy holds any more may go to another Connection.
            self.poke()

    def _has_copies(self) -> bool:
        return any(FINALIZER_SYNCER in obj.meta.finalizers for obj in self._listed())

    def _is_listed(self) -> bool:
        """Whether all objects are known; without a CRD that is served there are none.

        A former place may be of a binding whose rights are gone: that is not waited for.
        """
        return all(
            lease.has_synced or (place not in self._places and self._is_refused(place))
            for place, lease in self._objects.items()
        )

    def _is_refused(self, place: str) -> bool:
        lease = self._objects.get(place)
        return lease is not None and isinstance(lease.cause, Forbidden)

    def _unreleased(self) -> list[Object]:
        """Return the known objects that may have a copy and that no binding covers.

        With a CRD that is being deleted these are all that may have a copy.
        """
        leaving = self._is_leaving_crd()
        return [
            obj
            for obj in self._listed()
            if FINALIZER_SYNCER in obj.meta.finalizers
            and (leaving or self._coverage.binding(obj.meta.namespace) is None)
        ]

    def _away(self) -> str:
        """Return why copies cannot be taken away at the provider, "" if they can."""
        if self._running is None:
            connection = self._environment.connections.get("", self.connection)
            return self._unready(connection)
        return self._running[2].absence()

    async def _release(self, leaving: Sequence[BindingSummary]) -> float | None:
        """Let objects go that no binding covers, without their provider if it stays away.

        Returns the seconds until the next look, None if an event brings it.
        """
        objects, environment = self._unreleased(), self._environment
        self._left = frozenset(obj.meta.namespace for obj in objects)
        if not objects:
            self._away_since = None
            return WATCH_SECONDS if self._refusal else None
        now, why = asyncio.get_running_loop().time(), self._away()
        # What is still bound waits for its provider, also when a user deletes its CRD.
        uncovered = [obj for obj in objects if self._coverage.binding(obj.meta.namespace) is None]
        if not why or not uncovered:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = now
        elif now - self._away_since >= environment.consumer.options.unbind_timeout:
            await self._give_up(uncovered, leaving, why)
        return WATCH_SECONDS

    async def _give_up(
        self, objects: Sequence[Object], leaving: Sequence[BindingSummary], why: str
    ) -> None:
        """Take our finalizer off objects whose provider stays away; their copies stay there."""
        client = self._environment.consumer.client
        await self._stop()
        resources = [lease.resource for lease in self._objects.values()]
        count = 0
        for obj in objects:
            if await remove_finalizer(client, resources[0], obj, FINALIZER_SYNCER):
                count += 1
        _log.warning("copies are left at the provider", api=self.name, count=count, reason=why)
        message = (
            f"the provider of Connection {self.connection} counts as gone: {why}; the copies of "
            f"{count} objects of {self.name} stay there"
        )
        for binding in leaving:
            self._tell(binding, PROVIDER_GONE, message)

    def _watch_fault(self, binding: BindingSummary) -> Fault | None:
        """Return the fault of the watches for a binding, once several looks have found one."""
        if self._faulty_looks < self._environment.consumer.options.health_patience:
            return None
        if not binding.whole and self._running is not None and "" not in self._places:
            # What is missing in the namespace of another Binding is that one's.
            fault = self._running[2].fault(binding.key.namespace)
            message = fault.message if fault is not None else ""
            causes = [fault.cause] if fault is not None else []
        else:
            problems = self._environment.reports.problems
            message, causes = problems.message(self.name), list(problems.causes(self.name))
        if not message:
            return None
        denied = any(isinstance(cause, Forbidden) for cause in causes)
        return Fault(FORBIDDEN if denied else PENDING, message)


def _sooner(again: float | None, seconds: float) -> float:
    return seconds if again is None else min(again, seconds)


def _is_known(lease: Informer) -> bool:
    """Whether an informer shows all that there is, or may show nothing."""
    up_to_date = lease.has_synced and lease.cause is None
    return up_to_date or isinstance(lease.cause, Forbidden | NotFound)
