"""The PostgresAccess controller: performs the steps of the flowchart and reports them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable

import msgspec
import structlog

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    FINALIZER,
    POSTGRESACCESSES,
    PostgresAccessStatus,
)
from fairlead.api.timestamps import now
from fairlead.client import AlreadyExists, ApiError, Conflict, NotFound, ServerError
from fairlead.postgres.controllers.budgets import SLOW_SECONDS, Budgets, budgets_of
from fairlead.postgres.controllers.leftovers import Leftovers
from fairlead.postgres.controllers.passes import Pass, login_of, outcome_of
from fairlead.postgres.controllers.publication import Publication
from fairlead.postgres.controllers.reconcile import STAGES, AccessStep, Facts, Failure, next_step
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.sources import Sources, decode_access
from fairlead.postgres.controllers.status import Outcome, access_events, new_status, problems
from fairlead.postgres.controllers.watches import Watches, wanted_otherwise
from fairlead.postgres.database.cleanup import cleanup
from fairlead.postgres.database.grants import check_grants
from fairlead.postgres.database.names import check_username, excluded
from fairlead.postgres.database.plan import Wanted
from fairlead.postgres.database.snapshot import Claim
from fairlead.postgres.database.sync import check_claim, sync
from fairlead.postgres.errors import AccessError, refusal
from fairlead.runtime import (
    BackoffPolicy,
    Cluster,
    Controller,
    Request,
    Result,
    StatusWriter,
    add_finalizer,
    remove_finalizer,
    step_by_step,
)


_log = structlog.get_logger(logger_name="fairlead.postgres")

_AT_ONCE_SECONDS = 0.2
"""Until the pass after the one that made a password, as the flowchart wants."""
JITTER = 0.1
"""The part of an interval by which looks come sooner or later, so that they spread."""
PASS_SECONDS = 100.0
"""That a server may take for all statements of one step, be its single answers quick."""
RETRIES = BackoffPolicy(initial=1.0, maximum=60.0, jitter=JITTER)
"""Between tries at what failed, in seconds."""


class AccessController:
    """Brings the role of every PostgresAccess into its server."""

    def __init__(
        self, cluster: Cluster, watches: Watches, settings: Settings, sources: Sources
    ) -> None:
        self._client = cluster.client
        self._known = watches.accesses.get
        self._settings = settings
        self._sources = sources
        self._publication = Publication(cluster.client, watches)
        self._leftovers = Leftovers(cluster.client, watches, settings)
        self._statuses = StatusWriter(
            cluster.client, POSTGRESACCESSES, cluster.events("fairlead-postgres"), access_events
        )
        workers = settings.latest.workers
        self.controller = Controller("postgresaccess", self.reconcile, workers=workers)
        self._budgets = Budgets(self.controller.enqueue)
        self.controller.watch(watches.accesses, predicate=wanted_otherwise, cluster=cluster.name)
        self.controller.watch(watches.secrets, watches.accesses_of_secret())

    async def reconcile(self, request: Request) -> Result | None:
        """One pass over the flowchart, when its server has a place for it."""
        budgets = budgets_of(self._known(request.namespace, request.name))
        if not self._budgets.enter(request, budgets):
            return None
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            return await self._pass(request)
        finally:
            self._budgets.leave(request, slow=loop.time() - begun > SLOW_SECONDS)

    async def _pass(self, request: Request) -> Result | None:
        found = await self._get(request)
        if found is None:
            return None
        settled = await step_by_step(found, decide=_decide, perform=self._attempt, last=_is_last)
        return await self._report(settled.state) if settled.step is AccessStep.REPORT else None

    async def _attempt(self, step: AccessStep, current: Pass) -> Pass | None:
        """Perform a step, and learn what came of it, a failure too; None where the object is gone.

        Raises:
            ApiError: trying all of it again at once may help.
        """
        try:
            await self._perform(step, current)
        except AccessError as error:
            current.learn(failure=Failure(STAGES[step], error))
        except (AlreadyExists, Conflict, ServerError):
            raise
        except ApiError as error:
            if step is AccessStep.ADD_FINALIZER and isinstance(error, NotFound):
                return None
            current.learn(failure=Failure(STAGES[step], _api_error(error)))
        return current

    async def _get(self, request: Request) -> Pass | None:
        try:
            found = await self._client.get(POSTGRESACCESSES, request.name, request.namespace)
        except NotFound as error:
            if error.about(request.name) or self._known(request.namespace, request.name) is None:
                return None
            raise
        facts = Facts(
            deleting=found.meta.deleting,
            finalizer=FINALIZER in found.meta.finalizers,
            abandoned=found.meta.annotations.get(ABANDON_ANNOTATION) == "true",
        )
        current = Pass(found=found, access=None, facts=facts)
        try:
            access = current.access = decode_access(found)
            settings = self._settings.current
        except AccessError as error:
            if not facts.abandoned:
                stage = STAGES[AccessStep.DROP_ROLE if facts.deleting else AccessStep.RESOLVE]
                current.learn(failure=Failure(stage, error))
            return current
        current.learn(
            excluded=excluded(
                access.spec.username, settings.excluded_users, settings.excluded_user_patterns
            ),
            published=self._publication.exists(current),
        )
        return current

    async def _perform(self, step: AccessStep, current: Pass) -> None:
        match step:
            case AccessStep.ADD_FINALIZER:
                current.found = await add_finalizer(
                    self._client, POSTGRESACCESSES, current.found, FINALIZER
                )
                current.learn(finalizer=True)
            case AccessStep.RESOLVE:
                await self._resolve(current)
            case AccessStep.CHECK_ROLE:
                await self._check_role(current)
            case AccessStep.WRITE_SECRET:
                await self._publication.write(current)
            case AccessStep.SYNC_DATABASE:
                await _in_time(self._sync(current))
            case AccessStep.GIVE_UP:
                await self._leftovers.record(current.found, "Abandon")
                current.learn(given_up=True)
            case AccessStep.DROP_ROLE:
                await _in_time(self._drop(current))
            case _:
                await remove_finalizer(self._client, POSTGRESACCESSES, current.found, FINALIZER)
                current.learn(finalizer=False)

    async def _resolve(self, current: Pass) -> None:
        access = current.decoded
        check_username(access.spec.username)
        check_grants(access.spec.grants)
        known = access.status.username
        if known and known != access.spec.username:
            raise refusal(
                "UsernameChanged",
                f"spec.username was {known} and cannot be changed; set it back, or create another"
                " PostgresAccess",
            )
        current.endpoint = await self._sources.endpoint(access, enforce=True)
        current.learn(resolved=True)

    async def _check_role(self, current: Pass) -> None:
        """Refuse; why the server cannot be asked is told by the steps that need it."""
        username, claim = current.decoded.spec.username, await self._claim(current.found)
        try:
            await _in_time(check_claim(current.reached, username, claim))
        except AccessError as error:
            if error.verdict:
                raise
        current.learn(checked=True)

    async def _sync(self, current: Pass) -> None:
        access, endpoint = current.decoded, current.reached
        wanted = Wanted(
            username=access.spec.username,
            password=current.password,
            claim=await self._claim(current.found),
            grants=tuple(access.spec.grants),
        )
        current.synced = await sync(endpoint, wanted)
        # After the database: until now the old Secret was the one that works.
        await self._publication.remove_renamed(current)
        await self._leftovers.sweep(endpoint, current.synced.claimed)
        if current.synced.problems:
            current.learn(failure=problems(current.synced.problems))
        current.learn(synced=True)

    async def _claim(self, found: Object) -> Claim:
        return Claim(
            installation=await self._sources.installation(),
            namespace=found.meta.namespace,
            name=found.meta.name,
            uid=found.meta.uid,
        )

    async def _drop(self, current: Pass) -> None:
        access = current.decoded
        username = access.status.username or access.spec.username
        policy = access.spec.cleanup_policy
        claim = await self._claim(current.found)
        try:
            endpoint = await self._sources.endpoint(access, enforce=False)
            await cleanup(endpoint, username, claim, policy)
        except AccessError as error:
            # A role that stays anyway must not keep its object from going when the server is gone.
            if policy != "Retain" and not (error.verdict and not access.status.username):
                raise
            if policy != "Retain":
                # Never anything was made for what was refused from the beginning.
                current.learn(dropped=True)
                return
            _log.warning("the server of a retained role could not be reached", role=username)
            await self._leftovers.record(current.found, "Retain")
        await self._publication.remove(current)
        current.learn(dropped=True)

    async def _report(self, current: Pass) -> Result:
        outcome = outcome_of(current)
        old = current.access.status if current.access else PostgresAccessStatus()
        failure = current.facts.failure
        refused = current.facts.excluded or (failure is not None and failure.error.verdict)
        status = new_status(
            old,
            outcome,
            generation=current.found.meta.generation,
            now=now(),
            login=login_of(current),
            refused=refused,
        )
        body = current.found.to_dict()
        body["status"] = msgspec.to_builtins(status)
        await self._statuses.write(current.found, body)
        return self._again(outcome)

    def _again(self, outcome: Outcome) -> Result:
        if outcome.again == "backoff":
            return Result(backoff=RETRIES)
        if outcome.again == "at-once":
            return Result(_AT_ONCE_SECONDS)
        settings = self._settings.latest
        pending = outcome.again == "pending"
        delay = settings.pending_interval if pending else settings.synced_interval
        return Result(delay * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311


async def _in_time(work: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(PASS_SECONDS):
            await work
    except TimeoutError:
        raise AccessError(
            "TimedOut", f"the server has not done it all in {PASS_SECONDS:g} s; trying again"
        ) from None


def _decide(current: Pass) -> AccessStep:
    return next_step(current.facts)


def _is_last(step: AccessStep) -> bool:
    return step in {AccessStep.REPORT, AccessStep.IGNORE}


def _api_error(error: ApiError) -> AccessError:
    return AccessError(error.reason or "ApiError", error.message)
