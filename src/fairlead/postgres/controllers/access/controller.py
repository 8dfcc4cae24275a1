"""The PostgresAccess controller: takes accesses over the flowchart and reports on them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec
import structlog

from fairlead.api.conditions import get_condition
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    FINALIZER,
    POSTGRESACCESSES,
    READY,
    Plan,
    PostgresAccessSpec,
    PostgresAccessStatus,
)
from fairlead.api.timestamps import moment, now, parse_time
from fairlead.postgres.controllers.access.claims import Claims
from fairlead.postgres.controllers.access.leftovers import Leftovers
from fairlead.postgres.controllers.access.passes import Pass, Verified, login_of, outcome_of
from fairlead.postgres.controllers.access.publication import Publication
from fairlead.postgres.controllers.access.reconcile import (
    STAGES,
    AccessStep,
    Facts,
    Failure,
    next_step,
)
from fairlead.postgres.controllers.access.status import (
    Outcome,
    access_events,
    approver_of,
    new_status,
    plan_of,
)
from fairlead.postgres.controllers.access.steps import Steps
from fairlead.postgres.controllers.access.turns import Turns
from fairlead.postgres.controllers.keys import InstallationKey
from fairlead.postgres.controllers.rules.rotation import keeps_password, password_defaults
from fairlead.postgres.controllers.rules.wishes import (
    expires_at,
    names_of,
)
from fairlead.postgres.controllers.servers.jobs import (
    Answer,
    owner_named,
    owner_of,
)
from fairlead.postgres.controllers.servers.sources import Sources, decode_access
from fairlead.postgres.controllers.servers.work import JITTER, Work, WorkCallbacks
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.watches import AccessWatches, server_of, wanted_otherwise
from fairlead.postgres.database.plans.names import excluded
from fairlead.postgres.database.work.drift import Kept
from fairlead.postgres.errors import AccessError
from fairlead.postgres.metrics import PostgresMetrics
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
    step_by_step,
)
from fairlead.runtime.cache.expectations import Expectations


_log = structlog.get_logger(logger_name="fairlead.postgres")

_AT_ONCE_SECONDS = 0.05
"""Until the pass after one while which something has changed."""
_UNDONE_SECONDS = 10.0
"""Until the pass after one that left a password to be made, or a Secret that no watch has told."""
RETRIES = BackoffPolicy(initial=1.0, maximum=60.0, jitter=JITTER)
"""Between tries at what failed, in seconds."""


class AccessController:
    """Brings the role of every PostgresAccess into its server."""

    def __init__(
        self,
        cluster: Cluster,
        watches: AccessWatches,
        settings: Settings,
        sources: Sources,
        metrics: PostgresMetrics,
    ) -> None:
        self._client = cluster.client
        self._known = watches.accesses.get
        self._written = Expectations()
        self._settings = settings
        self._servers = watches.servers.get
        self._metrics = metrics
        self._outdated: set[Request] = set()
        self._waiting: dict[Request, _Waiting] = {}
        self._verified: dict[Request, Verified] = {}
        """What the last pass has left behind, for the one that comes at once."""
        self._told: dict[Request, _Told] = {}
        self.controller = Controller(
            "postgresaccess",
            self.reconcile,
            workers=settings.latest.workers,
            stopped=self._stop,
        )
        self._turns = Turns(self.controller.enqueue)
        self._statuses = StatusWriter(
            cluster.client, POSTGRESACCESSES, cluster.events("fairlead-postgres"), access_events
        )
        key = InstallationKey(cluster.client, settings.namespace)
        claims = Claims(sources, key)
        self._publication = self._make_publication(cluster, watches, key)
        self._leftovers = self._make_leftovers(cluster, watches, claims)
        self._work = self._make_work(cluster, sources)
        self._steps = Steps(
            cluster.client,
            settings,
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

    def _make_publication(
        self, cluster: Cluster, watches: AccessWatches, key: InstallationKey
    ) -> Publication:
        return Publication(
            cluster.client,
            watches,
            key,
            opened=lambda lease: self.watch(lease, watches.accesses_of_password),
            changed=lambda access: self._look_again(watches.request_of(access)),
            defaults=lambda: password_defaults(self._settings.latest.passwords),
        )

    def _make_leftovers(
        self, cluster: Cluster, watches: AccessWatches, claims: Claims
    ) -> Leftovers:
        return Leftovers(
            cluster.client,
            watches,
            self._settings,
            claims,
            renamed=lambda access: self._look_again(watches.request_of(access)),
        )

    def _make_work(self, cluster: Cluster, sources: Sources) -> Work:
        return Work(
            WorkCallbacks(
                answered=self._answered,
                differs=self._look_again,
                sweep=self._leftovers.sweep,
                installation=sources.installation,
                interval=lambda: self._settings.latest.synced_interval,
                metrics=self._metrics,
                connections=lambda: self._settings.latest.max_connections_per_server,
                check=cluster.client.check_fence,
            )
        )

    def watch(
        self,
        informer: Informer,
        mapper: Mapper,
        *,
        predicate: Predicate | None = None,
    ) -> None:
        """Look at accesses again when this changes.

        A pass that is under way has perhaps read what was there before: another follows it.
        """

        def concerned(delta: Delta) -> Iterator[Request]:
            for request in mapper(delta):
                self._outdated.add(request)
                yield request

        self.controller.watch(informer, concerned, predicate=predicate)

    def _is_news(self, delta: Delta) -> bool:
        """Whether somebody wants something else; our own writes come back to us as well."""
        echo = delta.new is not None and self._written.echoes(delta.new)
        # It also forgets what was written here once the cache has something later.
        self._newest(delta.object.key)
        return not echo and wanted_otherwise(delta)

    def _newest(self, key: Key) -> Object | None:
        """The object as the cache has it, or as we have written it since."""
        return self._written.newest(key, self._known(*key))

    def _wrote(self, stored: Object) -> Object:
        self._written.wrote(stored)
        # The cache may have told of it already.
        self._newest(stored.key)
        return stored

    async def _stop(self) -> None:
        """End what servers are at; whoever runs this controller next takes it up."""
        kept = await self._work.close()
        waiting = [*self._waiting, *self._turns.clear()]
        self._waiting.clear()
        for request in dict.fromkeys([*kept, *waiting]):
            self.controller.enqueue(request)

    def _look_again(self, request: Request) -> None:
        """Look at an access, also after a pass that is under way."""
        self._verified.pop(request, None)
        self._outdated.add(request)
        self.controller.enqueue(request)

    def _answered(self, request: Request, answer: Answer) -> None:
        self._waiting[request].answers.append(answer)
        self.controller.enqueue(request)

    async def reconcile(self, request: Request) -> Result | None:
        """A pass over the flowchart, or the rest of one when its server has answered."""
        begins = request not in self._waiting
        if begins and not self._turns.begin(request, self._owner(request)):
            return Result(waiting=True)
        try:
            return await self._go_on(request)
        finally:
            # A pass whose server is at work keeps its turn until it has been reported on.
            if request not in self._waiting:
                self._turns.end(request)

    def _owner(self, request: Request) -> str:
        found = self._newest(Key(request.namespace, request.name))
        return owner_named(server_of(found), request.namespace) if found is not None else ""

    async def _go_on(self, request: Request) -> Result | None:
        waiting = self._waiting.get(request)
        if waiting is None:
            current = await self._begin(request)
        elif waiting.answers:
            del self._waiting[request]
            current = await self._resume(waiting.current, waiting.answers[0])
        else:
            # What has changed meanwhile is seen in the report, and another pass follows.
            return Result(waiting=True)
        if current is None:
            self._metrics.accepted(request)
            self._work.forget(request, torn_out=True)
            self._told.pop(request, None)
            return None
        settled = await step_by_step(current, decide=_decide, perform=self._attempt, last=_is_last)
        if current.job is not None:
            self._waiting[request] = _Waiting(current, [])
            self._work.submit(current.reached, request, current.job)
            return Result(waiting=True)
        if settled.step is not AccessStep.REPORT:
            self._metrics.accepted(request)
            self._work.forget(request)
            return None
        return await self._report(request, current)

    async def _attempt(self, step: AccessStep, current: Pass) -> Pass | None:
        """Perform a step; None where its server must answer first, or the object is gone."""
        await self._steps.perform(step, current)
        if current.job is not None or current.gone:
            return None
        return current

    async def _resume(self, current: Pass, answer: Answer) -> Pass:
        """Learn what the server has answered."""
        step, current.step, current.job = current.step, None, None
        if step is not None:
            await self._steps.take(step, current, answer)
        return current

    async def _begin(self, request: Request) -> Pass | None:
        self._outdated.discard(request)
        verified = self._verified.pop(request, None)
        found = self._newest(Key(request.namespace, request.name))
        if found is None:
            return None
        facts = Facts(
            deleting=found.meta.deleting,
            finalizer=FINALIZER in found.meta.finalizers,
            abandoned=found.meta.annotations.get(ABANDON_ANNOTATION) == "true",
        )
        current = Pass(found=found, access=None, facts=facts, verified=verified)
        try:
            access = current.access = decode_access(found)
            settings = self._settings.current
        except AccessError as error:
            # An object that nobody can decode can still be let go of.
            if not facts.abandoned:
                stage = STAGES[AccessStep.DROP_ROLE if facts.deleting else AccessStep.RESOLVE]
                current.learn(failure=Failure(stage, error))
            return current
        current.expires_at, expired = self._expiry(current)
        status = access.status
        current.renamed = self._leftovers.renamed.get(found.meta.uid, frozenset())
        ready = get_condition(status.conditions, READY)
        told = ready is not None and ready.reason == "Expired"
        published = self._publication.exists(current)
        if access.spec.suspend and ready is not None:
            asked = _Told.of(found, ready.observed_generation)
            current.unchanged = self._told.get(request) == asked
        current.learn(
            suspended=access.spec.suspend,
            expired=expired,
            ended=expired and told and status.secret is None,
            planning=planning_of(access.spec),
            excluded=any(
                excluded(name, settings.excluded_users, settings.excluded_user_patterns)
                for name in names_of(access)
            ),
            published=published,
            keeping=keeps_password(access, published=published),
            rotating=self._publication.may_rotate(current),
        )
        return current

    def _expiry(self, current: Pass) -> tuple[str, bool]:
        """When the access ends, "" for never, and whether it has."""
        try:
            ends = expires_at(current.decoded)
        except AccessError as error:
            current.learn(failure=Failure(STAGES[AccessStep.RESOLVE], error))
            return "", False
        return ends, bool(ends) and parse_time(ends) <= moment()

    async def _report(self, request: Request, current: Pass) -> Result | None:
        outcome = outcome_of(current)
        old = former_status(current)
        failure = current.facts.failure
        # What of it was refused takes nothing from a login that works.
        verdict = failure is not None and failure.error.verdict and current.synced is None
        refused = current.facts.excluded or current.facts.expired or verdict
        status = new_status(
            msgspec.structs.replace(old, plan=await self._plan(current, old.plan)),
            outcome,
            generation=current.found.meta.generation,
            now=now(),
            login=login_of(current),
            refused=refused,
        )
        is_refusal = refused and not current.facts.expired
        self._count(request, current, outcome.reason if is_refusal else "")
        body = current.found.to_dict()
        body["status"] = msgspec.to_builtins(status)
        self._wrote(await self._statuses.write(current.found, body))
        if status.observed_generation == current.found.meta.generation:
            self._told[request] = _Told.of(current.found, status.observed_generation)
        if outcome.again == "synced" and current.synced is not None and failure is None:
            kept = Kept.of(await self._steps.wanted(current), current.synced.warnings)
            self._work.keep(current.reached, request, kept)
            self._publication.used(current)
            result = None
        else:
            self._work.forget(request)
            result = self._again(outcome)
        if outcome.again == "at-once" and current.synced is not None:
            self._verified[request] = Verified(
                current.reached, await self._steps.wanted(current), current.synced
            )
        known = self._newest(Key(request.namespace, request.name))
        lost = current.synced is not None and current.synced.created and old.username
        if current.place is not None and (known is None or lost):
            # Torn out while its server was at work, which may have made the role meanwhile; or the
            # role was lost, and may be there under another name.
            self._work.look_soon(current.place)
        changed = known is not None and _asked_for(known) != _asked_for(current.found)
        if changed or request in self._outdated:
            # Something has changed while the server was at work: the access, or a Secret of it.
            return Result(_AT_ONCE_SECONDS)
        if current.synced is not None:
            result = sooner(result, self._publication.rotates_in(status))
            if current.postponed or not self._publication.seen(current):
                result = sooner(result, _UNDONE_SECONDS)
        return sooner(result, seconds_until(current))

    def _count(self, request: Request, current: Pass, refused: str) -> None:
        access = current.access
        if not refused:
            if access is not None and _is_locked(current):
                self._metrics.held(request, owner_of(access))
            else:
                self._metrics.accepted(request)
            return
        reference = access.spec.connection.server_ref if access else None
        # Anybody may name servers that there are not, and as many as there are names.
        exists = reference is None or self._servers("", reference.name) is not None
        self._metrics.refused(request, owner_of(access) if access and exists else "", refused)

    async def _plan(self, current: Pass, old: Plan | None) -> Plan | None:
        """What the status says of the plan, and of the approval before."""
        facts, plan = current.facts, current.plan
        if plan is None:
            nothing_said = facts.suspended or facts.expired or facts.failure is not None
            return old if nothing_said else plan_of(None, old)
        approved_by = ""
        # Once it was carried out whole: until then the same approval holds for another try.
        if facts.approved and facts.synced and facts.failure is None and plan.statements:
            approved_by = await self._approver(current.found)
        return plan_of(plan, old, approved_by)

    async def _approver(self, found: Object) -> str:
        """Who has written the approval, by the API server's word: the manager of the field."""
        # The cache keeps no managedFields.
        live = await self._client.get(POSTGRESACCESSES, found.meta.name, found.meta.namespace)
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
        return Result(delay * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311


class _Waiting(NamedTuple):
    """A pass whose server has been asked, and the answer when it is there."""

    current: Pass
    answers: list[Answer]


class _Told(NamedTuple):
    """What a status is about: an object's generation, and all that this one asked for.

    A generation alone does not tell whether ``suspend`` is all that has changed since. After a
    restart this is not known of what was changed meanwhile, which then counts as changed.
    """

    uid: str
    generation: int
    spec: bytes

    @classmethod
    def of(cls, access: Object, generation: int) -> _Told:
        """What an object asks for, as if it had this generation."""
        spec = {**access.to_dict().get("spec", {}), "suspend": None}
        encoded = msgspec.json.encode(spec, order="deterministic")
        return cls(access.meta.uid, generation, hashlib.sha256(encoded).digest())


def _asked_for(access: Object) -> tuple[object, ...]:
    meta = access.meta
    return meta.uid, meta.generation, meta.deletion_timestamp, meta.annotations


def sooner(result: Result | None, seconds: float | None) -> Result | None:
    """The same, but not later than in so many seconds; a back-off stays what it is."""
    if seconds is None:
        return result
    seconds = max(seconds, _AT_ONCE_SECONDS)
    if result is None:
        return Result(seconds)
    if result.requeue_after is None:
        return result
    return Result(min(result.requeue_after, seconds))


def former_status(current: Pass) -> PostgresAccessStatus:
    """The status so far, without what has gone meanwhile."""
    old = current.access.status if current.access else PostgresAccessStatus()
    facts = current.facts
    if facts.expired and facts.dropped:
        old = msgspec.structs.replace(
            old, secret=None, password=None, applied_grants=[], logins=[], group=""
        )
    if current.expires_at or facts.synced:
        # Until the server knows otherwise it is to end when it was told.
        old = msgspec.structs.replace(old, expires_at=current.expires_at)
    return old


def seconds_until(current: Pass) -> float | None:
    """Seconds until the access ends; None when it does not, or has."""
    if not current.expires_at or current.facts.expired:
        return None
    return (parse_time(current.expires_at) - moment()).total_seconds()


def planning_of(spec: PostgresAccessSpec) -> Literal["", "Observe", "Manual"]:
    """Why nothing is done at once, if so."""
    if spec.mode == "Observe":
        return "Observe"
    return "Manual" if spec.approval == "Manual" else ""


def _is_locked(current: Pass) -> bool:
    """Whether another session keeps the server from what a pass has asked for."""
    failure, synced = current.facts.failure, current.synced
    errors = [failure.error] if failure is not None else []
    errors += synced.problems if synced is not None else ()
    return any(error.reason == "Locked" for error in errors)


def _decide(current: Pass) -> AccessStep:
    return next_step(current.facts)


def _is_last(step: AccessStep) -> bool:
    return step in {AccessStep.REPORT, AccessStep.IGNORE}
