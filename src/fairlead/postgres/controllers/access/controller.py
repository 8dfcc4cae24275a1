"""The PostgresAccess controller: performs the steps of the flowchart and reports them."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec
import structlog

from fairlead.api.conditions import get_condition
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    APPROVE_ANNOTATION,
    FINALIZER,
    POSTGRESACCESSES,
    READY,
    Plan,
    PostgresAccessSpec,
    PostgresAccessStatus,
)
from fairlead.api.timestamps import now, parse_time
from fairlead.client import AlreadyExists, ApiError, Conflict, NotFound, ServerError
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
    problems,
)
from fairlead.postgres.controllers.access.turns import Turns
from fairlead.postgres.controllers.keys import InstallationKey
from fairlead.postgres.controllers.rules.rotation import password_defaults, turns_of
from fairlead.postgres.controllers.rules.wishes import (
    check_spec,
    expires_at,
    may_adopt,
    names_of,
    needed_names,
    shares_groups,
    wanted_of,
)
from fairlead.postgres.controllers.servers.jobs import (
    Answer,
    Check,
    Drop,
    Look,
    Place,
    Removal,
    Sync,
    owner_named,
    owner_of,
)
from fairlead.postgres.controllers.servers.sources import Sources, decode_access
from fairlead.postgres.controllers.servers.work import JITTER, Surroundings, Work
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.watches import Watches, server_of, wanted_otherwise
from fairlead.postgres.database.plans.names import excluded
from fairlead.postgres.database.plans.plan import Planned, Synced, Wanted
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
    add_finalizer,
    remove_finalizer,
    step_by_step,
)
from fairlead.runtime.expectations import Expectations


_log = structlog.get_logger(logger_name="fairlead.postgres")

_AT_ONCE_SECONDS = 0.05
"""Until the pass after one while which something has changed."""
RETRIES = BackoffPolicy(initial=1.0, maximum=60.0, jitter=JITTER)
"""Between tries at what failed, in seconds."""


class AccessController:
    """Brings the role of every PostgresAccess into its server."""

    def __init__(
        self,
        cluster: Cluster,
        watches: Watches,
        settings: Settings,
        sources: Sources,
        metrics: PostgresMetrics,
    ) -> None:
        self._client = cluster.client
        self._known = watches.accesses.get
        self._written = Expectations()
        self._settings = settings
        self._sources = sources
        self._servers = watches.servers.get
        self._metrics = metrics
        key = InstallationKey(cluster.client, settings.namespace)
        self._claims = Claims(sources, key)
        self._publication = Publication(
            cluster.client,
            watches,
            key,
            opened=lambda lease: self.watch(lease, watches.accesses_of_password),
            defaults=lambda: password_defaults(settings.latest.passwords),
        )
        self._leftovers = Leftovers(
            cluster.client,
            watches,
            settings,
            self._claims,
            renamed=lambda access: self._look_again(
                Request(cluster.name, access.meta.namespace, access.meta.name)
            ),
        )
        self._statuses = StatusWriter(
            cluster.client, POSTGRESACCESSES, cluster.events("fairlead-postgres"), access_events
        )
        self._work = Work(
            Surroundings(
                answered=self._answered,
                differs=self._look_again,
                sweep=self._leftovers.sweep,
                installation=sources.installation,
                interval=lambda: settings.latest.synced_interval,
                metrics=metrics,
                connections=lambda: settings.latest.max_connections_per_server,
            )
        )
        self.controller = Controller(
            "postgresaccess",
            self.reconcile,
            workers=settings.latest.workers,
            stopped=self._stop,
        )
        self.controller.watch(watches.accesses, predicate=self._is_news, cluster=cluster.name)
        self.watch(
            watches.secrets, watches.accesses_of_secret(), predicate=self._publication.is_news
        )
        self._waiting: dict[Request, _Waiting] = {}
        self._turns = Turns(self.controller.enqueue)
        self._outdated: set[Request] = set()
        self._verified: dict[Request, Verified] = {}
        """What the last pass has left behind, for the one that comes at once."""

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
        for request in {*kept, *waiting}:
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
            return Result(waiting=True)
        if current is None:
            self._metrics.accepted(request)
            self._work.forget(request, torn_out=True)
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
        await self._learn(step, current, self._perform(step, current))
        if current.job is not None or current.gone:
            return None
        return current

    async def _resume(self, current: Pass, answer: Answer) -> Pass:
        """Learn what the server has answered."""
        step, current.step, current.job = current.step, None, None
        if step is not None:
            await self._learn(step, current, self._take(step, current, answer))
        return current

    async def _learn(self, step: AccessStep, current: Pass, work: Awaitable[None]) -> None:
        """Wait for the work on a step, and learn what came of it, a failure too.

        Raises:
            ApiError: trying all of it again at once may help.
        """
        try:
            await work
        except AccessError as error:
            current.learn(failure=Failure(STAGES[step], error))
        except (AlreadyExists, Conflict, ServerError):
            raise
        except ApiError as error:
            if step is AccessStep.ADD_FINALIZER and isinstance(error, NotFound):
                current.gone = True
                return
            current.learn(failure=Failure(STAGES[step], _api_error(error)))

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
            if not facts.abandoned:
                stage = STAGES[AccessStep.DROP_ROLE if facts.deleting else AccessStep.RESOLVE]
                current.learn(failure=Failure(stage, error))
            return current
        current.expires_at, expired = self._expiry(current)
        status = access.status
        current.renamed = self._leftovers.renamed.get(found.meta.uid, frozenset())
        ready = get_condition(status.conditions, READY)
        told = ready is not None and ready.reason == "Expired"
        current.learn(
            suspended=access.spec.suspend,
            expired=expired,
            ended=expired and told and status.secret is None,
            planning=planning_of(access.spec),
            excluded=any(
                excluded(name, settings.excluded_users, settings.excluded_user_patterns)
                for name in names_of(access)
            ),
            published=self._publication.exists(current),
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
        return ends, bool(ends) and parse_time(ends) <= datetime.now(UTC)

    async def _perform(self, step: AccessStep, current: Pass) -> None:
        match step:
            case AccessStep.ADD_FINALIZER:
                current.found = self._wrote(
                    await add_finalizer(self._client, POSTGRESACCESSES, current.found, FINALIZER)
                )
                current.learn(finalizer=True)
            case AccessStep.RESOLVE:
                await self._resolve(current)
            case AccessStep.PLAN:
                current.password = await self._publication.password_of(current)
                current.ask(step, Look(await self._wanted(current)))
            case AccessStep.CHECK_ROLE:
                claim = await self._claims.of(current.found.meta)
                names, adopt = needed_names(current.decoded), self._adopts(current)
                current.ask(step, Check(names, claim, adopt=adopt))
            case AccessStep.WRITE_SECRET:
                await self._publication.write(current)
                if current.facts.synced:
                    await self._publication.remove_renamed(current)
            case AccessStep.STAGE_LOGIN:
                current.ask(step, Sync(await self._wanted(current, staged=True)))
            case AccessStep.SYNC_DATABASE:
                wanted = await self._wanted(current)
                known = current.verified
                if known is not None and known.holds(current.reached, wanted):
                    await self._synced(current, known.synced)
                else:
                    current.ask(step, Sync(wanted))
            case AccessStep.GIVE_UP:
                owner = owner_of(current.access) if current.access else ""
                await self._leftovers.record(current.found, owner, "Abandon")
                self._work.look_at(owner)
                current.learn(given_up=True)
            case AccessStep.DROP_ROLE:
                await self._drop(current)
            case _:
                await remove_finalizer(self._client, POSTGRESACCESSES, current.found, FINALIZER)
                current.learn(finalizer=False)

    async def _take(self, step: AccessStep, current: Pass, answer: Answer) -> None:
        """Learn from what the server has answered to the job of a step."""
        match step:
            case AccessStep.PLAN:
                self._planned(current, answer)
            case AccessStep.CHECK_ROLE:
                # Why a server cannot be asked is told by the steps that need it.
                if isinstance(answer, AccessError) and answer.verdict:
                    raise answer
                current.learn(checked=True, answers=answer is None)
            case AccessStep.STAGE_LOGIN:
                self._staged(current, answer)
            case AccessStep.SYNC_DATABASE:
                await self._synced(current, answer)
            case _:
                await self._dropped(current, answer)

    async def _resolve(self, current: Pass) -> None:
        access = current.decoded
        check_spec(access)
        endpoint = await self._sources.endpoint(access, enforce=True)
        current.place = Place.of(access, endpoint)
        current.learn(resolved=True)

    async def _wanted(self, current: Pass, *, staged: bool = False) -> Wanted:
        owner, endpoint = current.reached.owner, current.reached.endpoint
        shares = shares_groups(current.decoded, endpoint)
        return wanted_of(
            current.decoded,
            await self._claims.of(current.found.meta),
            password=current.password,
            ends=current.expires_at,
            turns=turns_of(current.decoded, current.login, staged=staged),
            iterations=current.iterations,
            adopt=self._adopts(current),
            scope=await self._claims.scope(owner) if shares else "",
        )

    def _adopts(self, current: Pass) -> bool:
        """Whether the access may take over a role that nobody has claimed."""
        return may_adopt(current.decoded, self._settings.current)

    def _planned(self, current: Pass, answer: Answer) -> None:
        if not isinstance(answer, Planned):
            raise answered_otherwise(answer)
        before = current.decoded.status.plan
        after = before.approved_digest if before is not None else ""
        plan = current.plan = msgspec.structs.replace(answer, after=after)
        asked = current.found.meta.annotations.get(APPROVE_ANNOTATION, "")
        # What cannot be had keeps nobody from approving the rest.
        agreed = asked == plan.digest() if plan.statements else not plan.refused
        current.learn(planned=True, approved=agreed and current.facts.planning == "Manual")

    def _staged(self, current: Pass, answer: Answer) -> None:
        """The server lets the next login in, so that the Secret may have it."""
        if not isinstance(answer, Synced):
            raise answered_otherwise(answer)
        current.learn(secret="staged")  # noqa: S106
        if answer.is_settled and not answer.problems:
            current.synced = answer
            current.learn(synced=True)

    async def _synced(self, current: Pass, answer: Answer) -> None:
        if not isinstance(answer, Synced):
            raise answered_otherwise(answer)
        current.synced = answer
        # After the database: until now the old Secret was the one that works.
        await self._publication.remove_renamed(current)
        if answer.problems:
            current.learn(failure=problems(answer.problems))
        current.learn(synced=True)

    async def _drop(self, current: Pass) -> None:
        access = current.decoded
        username = access.status.username or access.spec.username
        claim = await self._claims.of(current.found.meta)
        policy: Removal = access.spec.cleanup_policy
        if current.facts.expired:
            # The server knows the end itself (VALID UNTIL), so that this logs in nowhere any more.
            await self._publication.remove(current)
            # The object stays, and the role its own: raised, the end gives back the login.
            policy = "Fence" if policy == "Retain" else policy
        try:
            current.place = Place.of(access, await self._sources.endpoint(access, enforce=False))
        except AccessError as error:
            if error.verdict and not access.status.username:
                # It was refused from the beginning, so that nothing was ever made for it.
                current.learn(dropped=True)
            else:
                await self._dropped(current, error)
        else:
            current.ask(
                AccessStep.DROP_ROLE,
                Drop(username, claim, policy, access.spec.orphan_to or ""),
            )

    async def _dropped(self, current: Pass, answer: Answer) -> None:
        if isinstance(answer, Exception):
            access = current.decoded
            verdict = isinstance(answer, AccessError) and answer.verdict
            if verdict and not access.status.username:
                # Never anything was made for what was refused from the beginning.
                current.learn(dropped=True)
                return
            # A role that stays anyway must not keep its object from going when the server is
            # gone.
            retained = current.facts.deleting and access.spec.cleanup_policy == "Retain"
            if not retained or not isinstance(answer, AccessError):
                raise answer
            _log.warning("the server of a retained role was out of reach", why=answer.reason)
            await self._leftovers.record(current.found, owner_of(access), "Retain")
            self._work.look_at(owner_of(access))
        await self._publication.remove(current)
        current.learn(dropped=True)

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
        if outcome.again == "synced" and current.synced is not None and failure is None:
            kept = Kept.of(await self._wanted(current), current.synced.warnings)
            self._work.keep(current.reached, request, kept)
            result = None
        else:
            self._work.forget(request)
            result = self._again(outcome)
        if outcome.again == "at-once" and current.synced is not None:
            self._verified[request] = Verified(
                current.reached, await self._wanted(current), current.synced
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
        return sooner(result, seconds_until(current))

    def _count(self, request: Request, current: Pass, refused: str) -> None:
        if not refused:
            self._metrics.accepted(request)
            return
        access = current.access
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
    return (parse_time(current.expires_at) - datetime.now(UTC)).total_seconds()


def answered_otherwise(answer: Answer) -> Exception:
    """The failure that an answer is, which is not what was asked for."""
    if isinstance(answer, Exception):
        return answer
    return AccessError("Conflict", "the server has not been asked")


def planning_of(spec: PostgresAccessSpec) -> Literal["", "Observe", "Manual"]:
    """Why nothing is done at once, if so."""
    if spec.mode == "Observe":
        return "Observe"
    return "Manual" if spec.approval == "Manual" else ""


def _decide(current: Pass) -> AccessStep:
    return next_step(current.facts)


def _is_last(step: AccessStep) -> bool:
    return step in {AccessStep.REPORT, AccessStep.IGNORE}


def _api_error(error: ApiError) -> AccessError:
    return AccessError(error.reason or "ApiError", error.message)
