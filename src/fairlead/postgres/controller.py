"""The PostgresAccess controller: performs the steps of the flowchart and reports them."""

from __future__ import annotations

import random

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
from fairlead.postgres.claim import Claim
from fairlead.postgres.cleanup import cleanup
from fairlead.postgres.errors import AccessError, refusal
from fairlead.postgres.grants import check_grants
from fairlead.postgres.names import check_username, excluded
from fairlead.postgres.options import PostgresOptions
from fairlead.postgres.passes import Pass, login_of, outcome_of
from fairlead.postgres.plan import Wanted
from fairlead.postgres.publication import Publication
from fairlead.postgres.reconcile import STAGES, Facts, Failure, Step, next_step
from fairlead.postgres.sources import Sources, decode_access
from fairlead.postgres.status import (
    Outcome,
    event,
    new_status,
    problems,
)
from fairlead.postgres.strays import Strays
from fairlead.postgres.sync import sync
from fairlead.postgres.watches import Watches, wanted_otherwise
from fairlead.runtime import Cluster, Controller, Request, Result, commit


_log = structlog.get_logger(logger_name="fairlead.postgres")

_AT_ONCE_SECONDS = 0.2
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0
_JITTER = 0.1


class AccessController:
    """Brings every PostgresAccess into its server."""

    def __init__(
        self, cluster: Cluster, watches: Watches, options: PostgresOptions, sources: Sources
    ) -> None:
        self._client = cluster.client
        self._events = cluster.events("fairlead-postgres")
        self._known = watches.accesses.get
        self._options = options
        self._sources = sources
        self._publication = Publication(cluster.client, watches)
        self._strays = Strays(cluster.client, watches, options)
        self._attempts: dict[Request, int] = {}
        self.controller = Controller("postgresaccess", self.reconcile, workers=options.workers)
        self.controller.watch(watches.accesses, predicate=wanted_otherwise, cluster=cluster.name)
        self.controller.watch(watches.secrets, watches.accesses_of_secret())

    async def reconcile(self, request: Request) -> Result | None:
        """One pass over the flowchart."""
        current = await self._get(request)
        if current is None:
            self._attempts.pop(request, None)
            return None
        while (step := next_step(current.facts)) not in {Step.REPORT, Step.IGNORE}:
            try:
                await self._perform(step, current)
            except AccessError as error:
                current.learn(failure=Failure(STAGES[step], error))
            except (AlreadyExists, Conflict, ServerError):
                raise
            except NotFound as error:
                if step in {Step.ADD_FINALIZER, Step.REMOVE_FINALIZER}:
                    return None
                current.learn(failure=Failure(STAGES[step], _api_error(error)))
            except ApiError as error:
                current.learn(failure=Failure(STAGES[step], _api_error(error)))
        if step is Step.IGNORE:
            self._attempts.pop(request, None)
            return None
        return await self._report(request, current)

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
        except AccessError as error:
            if not facts.abandoned:
                stage = STAGES[Step.DROP_ROLE if facts.deleting else Step.RESOLVE]
                current.learn(failure=Failure(stage, error))
            return current
        current.learn(excluded=excluded(access.spec.username, self._options.excluded_users))
        return current

    async def _perform(self, step: Step, current: Pass) -> None:
        match step:
            case Step.ADD_FINALIZER:
                await self._set_finalizer(current, present=True)
                current.learn(finalizer=True)
            case Step.RESOLVE:
                await self._resolve(current)
            case Step.WRITE_SECRET:
                await self._publication.write(current)
            case Step.SYNC_DATABASE:
                await self._sync(current)
            case Step.DROP_ROLE:
                await self._drop(current)
            case _:
                await self._set_finalizer(current, present=False)
                current.learn(finalizer=False)

    async def _set_finalizer(self, current: Pass, *, present: bool) -> None:
        body = current.found.to_dict()
        others = [one for one in current.found.meta.finalizers if one != FINALIZER]
        body["metadata"]["finalizers"] = [*others, FINALIZER] if present else others
        current.found = await commit(self._client, POSTGRESACCESSES, current.found, body)

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

    async def _sync(self, current: Pass) -> None:
        access, endpoint = current.decoded, current.reached
        wanted = Wanted(
            username=access.spec.username,
            password=current.password,
            claim=await self._claim(current.found),
            grants=tuple(access.spec.grants),
        )
        current.synced = await sync(endpoint, wanted)
        await self._publication.remove_renamed(current)
        await self._strays.sweep(endpoint, current.synced.claimed)
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
        except AccessError:
            if policy != "Retain":
                raise
            _log.warning("the server of a retained role could not be reached", role=username)
        await self._publication.remove(current)
        current.learn(dropped=True)

    async def _report(self, request: Request, current: Pass) -> Result:
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
        stored = await commit(
            self._client, POSTGRESACCESSES, current.found, body, subresource="status"
        )
        told = event(old, status)
        if told is not None:
            self._events.event(stored, *told)
        return Result(requeue_after=self._again(request, outcome))

    def _again(self, request: Request, outcome: Outcome) -> float:
        if outcome.again == "at-once":
            return _AT_ONCE_SECONDS
        if outcome.again == "backoff":
            attempt = self._attempts.get(request, 0)
            self._attempts[request] = attempt + 1
            delay = min(_FIRST_RETRY_SECONDS * 2.0 ** min(attempt, 10), _LAST_RETRY_SECONDS)
        else:
            self._attempts.pop(request, None)
            pending = outcome.again == "pending"
            delay = self._options.pending_interval if pending else self._options.synced_interval
        return delay * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311


def _api_error(error: ApiError) -> AccessError:
    return AccessError(error.reason or "ApiError", error.message)
