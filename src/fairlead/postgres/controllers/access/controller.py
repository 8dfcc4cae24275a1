"""The PostgresAccess controller: the way of an access from a watch event to SQL and a status.

The steps of one event, each with the module where to read on:

1. :meth:`AccessController.watch` and ``_is_news`` turn an event into a request, unless it is the
   echo of our own write.
2. :meth:`AccessController.reconcile` begins a pass at its turn (``turns``).
3. ``_begin`` makes its two values: ``Desired`` of the object and the settings (``rules/desired``),
   ``Observed`` of the caches (``passes``). The cache has a stub of a large object (``large``),
   which is read here.
4. ``_go_on`` takes the planned actions (``plan_pass`` in ``passes``) one after the other
   (``steps``); a result that the plan did not foresee asks for another plan. An action at the API
   server, such as the Secret's (``publication``), is done at once.
5. An action at the access's own server is a job (``servers/jobs``). The pass leaves its worker;
   ``servers/work`` does the jobs that wait for one server as a batch (``database/work/sync``), and
   ``_answered`` enqueues the pass with its answer, which goes on at 4.
6. ``_report`` writes the status (``status``). An access that is in sync is kept: looks
   (``servers/looks``) compare it with its server, and one that differs begins at 2.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

import msgspec
import structlog

from fairlead.api.conditions import get_condition
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, READY
from fairlead.api.timestamps import moment, now
from fairlead.client.lookups import find
from fairlead.postgres import bounds
from fairlead.postgres.controllers.access.claims import Claims, InstallationKey
from fairlead.postgres.controllers.access.leftovers import LeftoverRoles
from fairlead.postgres.controllers.access.passes import (
    Action,
    Observed,
    ServerOutcome,
    observed_of,
    plan_pass,
)
from fairlead.postgres.controllers.access.publication import Publication
from fairlead.postgres.controllers.access.status import (
    Outcome,
    access_events,
    approver_of,
    report_of,
    uses_approval,
)
from fairlead.postgres.controllers.access.steps import PassUnderWay, Steps
from fairlead.postgres.controllers.access.turns import LARGE, PassTurns
from fairlead.postgres.controllers.large import cached, is_stub, without_unread
from fairlead.postgres.controllers.rules.desired import Desired, desired_of, owner_named
from fairlead.postgres.controllers.rules.rotation import seconds_left
from fairlead.postgres.controllers.servers.jobs import Answer, WorkCallbacks
from fairlead.postgres.controllers.servers.sources import EndpointSources
from fairlead.postgres.controllers.servers.work import Work
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.watches import AccessWatches, server_of, wanted_otherwise
from fairlead.postgres.database.connections.attempts import Attempts
from fairlead.postgres.database.connections.rooms import SessionRooms
from fairlead.postgres.database.work.drift import Kept
from fairlead.postgres.errors import AccessError
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import (
    BackoffPolicy,
    Cluster,
    Controller,
    Delta,
    Informer,
    Mapper,
    Predicate,
    Request,
    Result,
    StatusWriter,
)
from fairlead.runtime.cache.expectations import Expectations


_log = structlog.get_logger(logger_name="fairlead.postgres")

_WAITS = Result(waiting=True)
"""Result of a pass that is enqueued by what it waits for."""
RETRIES = BackoffPolicy(initial=1.0, maximum=60.0, jitter=bounds.JITTER)
"""Delays between the tries of a failed pass, in seconds."""


class AccessController:
    """Creates, updates and removes the role of every PostgresAccess in its server."""

    def __init__(
        self,
        cluster: Cluster,
        watches: AccessWatches,
        settings: Settings,
        sources: EndpointSources,
        metrics: PostgresMetrics,
        attempts: Attempts,
        rooms: SessionRooms,
    ) -> None:
        self._client = cluster.client
        self._cached = watches.accesses.get
        self._request_of = watches.request_of
        self._written = Expectations()
        self._settings = settings
        self._servers = watches.servers.get
        self._metrics = metrics
        self._outdated: set[Request] = set()
        """Accesses that have changed since their pass began."""
        self._at_server: dict[Request, _AtServer] = {}
        """Passes whose job their server has yet to answer, or has answered."""
        self._verified: dict[Request, ServerOutcome] = {}
        """States that a pass has read back from its server, for the pass that follows at once."""
        self._subjects: dict[Request, _StatusSubject] = {}
        """Specs that the last statuses are about, to tell whether a suspended one has changed."""
        self.controller = Controller(
            "postgresaccess",
            self.reconcile,
            workers=settings.latest.workers,
            stopped=self._stop,
            group=attrgetter("namespace"),
        )
        self._turns = PassTurns(self.controller.enqueue)
        self._statuses = StatusWriter(
            cluster.client, POSTGRESACCESSES, cluster.events("fairlead-postgres"), access_events
        )
        key = InstallationKey(cluster.client, settings.namespace)
        claims = Claims(sources, key)
        self._named_secrets = watches.named_secrets
        self._named_secrets.opened = lambda lease: self.watch(
            lease, self._named_secrets.accesses_of
        )
        self._publication = Publication(
            cluster.client,
            watches,
            key,
            changed=self._has_changed,
        )
        self._leftovers = LeftoverRoles(
            cluster.client, watches, settings, claims, renamed=self._has_changed
        )
        self._work = self._work_with(sources, attempts, rooms)
        self._last = sources.last
        self._steps = Steps(
            cluster.client,
            sources,
            claims,
            self._publication,
            self._leftovers,
            wrote=self._wrote,
            look_at=self._work.look_at,
        )
        self.controller.watch(watches.accesses, predicate=self._is_news, cluster=cluster.name)
        self.watch(
            watches.secrets, watches.accesses_of_secret(), predicate=self._publication.is_news
        )

    def _work_with(
        self, sources: EndpointSources, attempts: Attempts, rooms: SessionRooms
    ) -> Work:
        settings = self._settings
        return Work(
            WorkCallbacks(
                answered=self._answered,
                differs=self._pass_again,
                sweep=self._leftovers.sweep,
                installation=sources.installation,
                interval=lambda: settings.latest.synced_interval,
                metrics=self._metrics,
                connections=lambda: settings.latest.max_connections_per_server,
                check=self._client.check_fence,
                large=asyncio.Semaphore(),
                attempts=attempts,
                rooms=rooms,
            )
        )

    def watch(
        self,
        informer: Informer,
        mapper: Mapper,
        *,
        predicate: Predicate | None = None,
    ) -> None:
        """Enqueue the accesses of each object that changes.

        A pass that is under way may have read the object before the change: another one follows.
        """

        def concerned(delta: Delta) -> Iterator[Request]:
            for request in mapper(delta):
                self._outdated.add(request)
                yield request

        self.controller.watch(informer, concerned, predicate=predicate)

    def _is_news(self, delta: Delta) -> bool:
        """Whether another writer than this process has changed more than the status."""
        echo = delta.new is not None and self._written.echoes(delta.new)
        # The call also forgets our write once the cache has a later version.
        self._newest(delta.object.key)
        return not echo and wanted_otherwise(delta)

    def _has_changed(self, access: Object) -> None:
        self._pass_again(self._request_of(access))

    def _pass_again(self, request: Request) -> None:
        """Enqueue an access, for another pass even if one is under way."""
        self._verified.pop(request, None)
        self._outdated.add(request)
        self.controller.enqueue(request)

    async def reconcile(self, request: Request) -> Result | None:
        """Begin a pass, or go on with one whose server has answered.

        A pass waits without a worker, first for its turn and then for each answer of its server,
        which enqueue it. A change begins no second pass meanwhile: the report of the first one
        sees it, and another one follows.
        """
        at_server = self._at_server.get(request)
        if at_server is not None and not at_server.answers:
            self._work.hurry(at_server.under_way.desired.known_place, request)
            return _WAITS
        if at_server is None and not self._turns.begin(request, self._owner(request)):
            return _WAITS
        try:
            if at_server is None:
                under_way = await self._begin(request)
            else:
                del self._at_server[request]
                under_way = await self._steps.answered(at_server.under_way, at_server.answers[0])
            return await self._go_on(request, under_way)
        finally:
            # A pass whose server is at work keeps its turn until its status is written.
            if request not in self._at_server:
                self._turns.end(request)

    def _owner(self, request: Request) -> str:
        obj = self._newest(Key(request.namespace, request.name))
        if obj is None:
            return ""
        return LARGE if is_stub(obj) else owner_named(server_of(obj), request.namespace)

    async def _begin(self, request: Request) -> PassUnderWay | None:
        """Return a pass before its first action, None where the object is gone."""
        # A change from here on comes too late for this pass: the report finds it here.
        self._outdated.discard(request)
        verified = self._verified.pop(request, None)
        obj = self._newest(Key(request.namespace, request.name))
        if obj is not None and is_stub(obj):
            obj = await find(self._client, POSTGRESACCESSES, request.name, request.namespace)
        if obj is None:
            await self._forget(request, torn_out=True)
            return None
        obj = without_unread(obj)
        try:
            settings: PostgresOptions | AccessError = self._settings.current
        except AccessError as error:
            settings = error
        desired = desired_of(obj, settings, moment())
        if desired.refused is not None:
            observed = observed_of(desired)
            return PassUnderWay(desired, observed, plan_pass(desired, observed))
        await self._named_secrets.follow(obj.key, desired.secrets)
        unchanged = False
        ready = get_condition(desired.access.status.conditions, READY)
        if desired.access.spec.suspend and ready is not None:
            unchanged = self._subjects.get(request) == _StatusSubject.of(
                obj, ready.observed_generation
            )
        observed = observed_of(
            desired,
            **self._publication.observe(desired)._asdict(),
            renamed=self._leftovers.renamed.get(obj.meta.uid, frozenset()),
            unchanged=unchanged,
            verified=verified,
        )
        return PassUnderWay(desired, observed, plan_pass(desired, observed))

    async def _go_on(self, request: Request, under_way: PassUnderWay | None) -> Result | None:
        """Take the actions that are left, up to the status or to a job for the server."""
        for _ in range(bounds.ACTIONS):
            if under_way is None:
                return None
            action = under_way.left[0]
            if action is Action.REPORT:
                return await self._report(request, under_way.desired, under_way.observed)
            under_way = None if action is Action.IGNORE else await self._steps.take(under_way)
            if under_way is None:
                await self._forget(request)
            elif under_way.job is not None:
                # The entry comes before the job, whose answer looks for it.
                self._at_server[request] = _AtServer(under_way, [])
                self._work.submit(under_way.desired.known_place, request, under_way.job)
                return _WAITS
        raise RuntimeError(
            f"the pass did not settle after {bounds.ACTIONS} actions; the last was {action.name}"
        )

    def _answered(self, request: Request, answer: Answer) -> None:
        self._at_server[request].answers.append(answer)
        self.controller.enqueue(request)

    async def _report(
        self, request: Request, desired: Desired, observed: Observed
    ) -> Result | None:
        """Write the status; return when the next pass comes, None for a change alone."""
        obj, synced, failure = desired.obj, observed.synced, observed.failure
        approved_by = await self._approver(obj) if uses_approval(desired, observed) else ""
        status, outcome, refused = report_of(desired, observed, now=now(), approved_by=approved_by)
        self._count(request, desired, observed, outcome.reason if refused else "")
        owner = self._owner_label(desired)
        self._metrics.judged(request, owner, get_condition(status.conditions, READY))
        end = desired.end
        self._metrics.ends(request, None if end is None or end.is_short else end.at)
        body = obj.to_dict()
        body["status"] = msgspec.to_builtins(status)
        self._wrote(await self._statuses.write(obj, body))
        if status.observed_generation == obj.meta.generation:
            self._subjects[request] = _StatusSubject.of(obj, status.observed_generation)
        is_large = is_stub(cached(obj))
        state = None
        if synced is not None and failure is None and outcome.again in {"synced", "at-once"}:
            login = observed.credentials
            state = observed.state or await self._steps.wanted_state(desired, observed, login)
        if synced is not None and state is not None and outcome.again == "synced":
            # No pass looks for drift: the server is compared with all that is kept, at once.
            # The grants of large ones would fill the memory: those get a pass at each look.
            kept_access = None if is_large else Kept.of(state, synced.warnings, synced.left_out)
            self._work.keep(desired.known_place, request, kept_access)
            self._publication.used(desired)
            # Without a watch only a pass finds a Secret of the access changed.
            is_watched = self._named_secrets.are_watched(obj.key)
            result = None if is_watched else self._again(outcome)
        else:
            # Refused credentials: the sessions that are open stay, for looks and for a removal.
            if failure is None or failure.error.reason != "AuthenticationFailed":
                self._work.forget(request)
            result = self._again(outcome)
            if synced is not None and state is not None and not is_large:
                self._verified[request] = ServerOutcome(desired.known_place, state, synced)
        cached_access = self._newest(Key(request.namespace, request.name))
        lost = synced is not None and synced.created and desired.access.status.username
        if desired.place is not None and (cached_access is None or lost):
            # The object was removed without its finalizer while its server may have created the
            # role; or the role was lost, and may exist under another name.
            self._work.look_soon(desired.place)
        changed = cached_access is not None and _asked_for(cached_access) != _asked_for(
            cached(obj)
        )
        if changed or request in self._outdated:
            # The access or a Secret of it has changed while the server was at work.
            return Result(bounds.CHANGED_SECONDS)
        if synced is not None:
            left = seconds_left(
                status.password, moment(), status.logins, planned_at=desired.planned_at
            )
            result = sooner(result, left)
            if observed.credentials.postponed or not self._publication.is_cached(
                desired, observed
            ):
                result = sooner(result, bounds.UNDONE_SECONDS)
        return sooner(result, desired.seconds_to_end(moment()))

    def _count(self, request: Request, desired: Desired, observed: Observed, refused: str) -> None:
        if not refused:
            if desired.owner and _is_locked(observed):
                self._metrics.lock(request, desired.owner)
            else:
                self._metrics.accepted(request)
            return
        self._metrics.refused(request, self._owner_label(desired), refused)

    def _owner_label(self, desired: Desired) -> str:
        reference = desired.access.spec.connection.server_ref
        # An access may name any missing server: such a name must not become a label.
        exists = reference is None or self._servers("", reference.name) is not None
        return desired.owner if exists else ""

    async def _approver(self, obj: Object) -> str:
        """Return the field manager of the approval annotation, read from the API server."""
        # The cache keeps no managedFields.
        live = await self._client.get(POSTGRESACCESSES, obj.meta.name, obj.meta.namespace)
        return approver_of(live.to_dict().get("metadata", {})) or "unknown"

    def _again(self, outcome: Outcome) -> Result | None:
        if outcome.again == "backoff":
            return Result(backoff=RETRIES)
        if outcome.again == "waiting":
            return None
        if outcome.again == "at-once":
            return Result(0.0)
        settings = self._settings.latest
        pending = outcome.again == "pending"
        delay = settings.pending_interval if pending else settings.synced_interval
        return Result(delay * random.uniform(1 - bounds.JITTER, 1 + bounds.JITTER))  # noqa: S311

    async def _forget(self, request: Request, *, torn_out: bool = False) -> None:
        """Forget an access that needs no more.

        Args:
            request: the access.
            torn_out: whether the object was removed without its finalizer, and may leave a role.
        """
        self._metrics.accepted(request)
        self._metrics.judged(request, "", None)
        self._metrics.ends(request, None)
        self._work.forget(request, torn_out=torn_out)
        self._last.forget(request.namespace, request.name)
        self._subjects.pop(request, None)
        await self._named_secrets.follow(Key(request.namespace, request.name), ())

    def _newest(self, key: Key) -> Object | None:
        """Return the object of the cache, or our own later write of it."""
        return self._written.newest(key, self._cached(*key))

    def _wrote(self, stored: Object) -> Object:
        self._written.wrote(cached(stored))
        # The cache may have this version already.
        self._newest(stored.key)
        return without_unread(stored)

    async def _stop(self) -> None:
        """End the work at servers, and enqueue its requests for the controller's next start."""
        requests = await self._work.close()
        waiting = [*self._at_server, *self._turns.clear()]
        self._at_server.clear()
        await self._named_secrets.close()
        for request in dict.fromkeys([*requests, *waiting]):
            self.controller.enqueue(request)


class _AtServer(NamedTuple):
    """A pass with a job at its server; ``answers`` holds the answer once it has come."""

    under_way: PassUnderWay
    answers: list[Answer]


class _StatusSubject(NamedTuple):
    """The spec that a status is about: uid, generation, and a hash without ``suspend``.

    A generation alone does not tell whether only ``suspend`` has changed since. After a restart
    the hash of an earlier generation is unknown, and the spec counts as changed.
    """

    uid: str
    generation: int
    spec: bytes

    @classmethod
    def of(cls, access: Object, generation: int) -> _StatusSubject:
        """Return the spec of an object, as of the generation that its status is about."""
        spec = {**access.to_dict().get("spec", {}), "suspend": None}
        encoded = msgspec.json.encode(spec, order="deterministic")
        return cls(access.meta.uid, generation, hashlib.sha256(encoded).digest())


def _asked_for(access: Object) -> tuple[object, ...]:
    meta = access.meta
    return meta.uid, meta.generation, meta.deletion_timestamp, meta.annotations


def sooner(result: Result | None, seconds: float | None) -> Result | None:
    """Return the result with at most this delay in seconds; a back-off stays unchanged."""
    if seconds is None:
        return result
    seconds = max(seconds, bounds.CHANGED_SECONDS)
    if result is None:
        return Result(seconds)
    if result.requeue_after is None:
        return result
    return Result(min(result.requeue_after, seconds))


def _is_locked(observed: Observed) -> bool:
    """Whether a lock of another session has blocked the work of a pass."""
    failure, synced = observed.failure, observed.synced
    errors = [failure.error] if failure is not None else []
    errors += synced.problems if synced is not None else ()
    return any(error.reason == "Locked" for error in errors)
