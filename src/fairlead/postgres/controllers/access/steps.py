"""The actions of a plan, at the API server and at the access's own server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import FINALIZER, POSTGRESACCESSES
from fairlead.client import AlreadyExists, ApiError, Client, Conflict, NotFound, ServerError
from fairlead.postgres.controllers.access.claims import Claims
from fairlead.postgres.controllers.access.leftovers import LeftoverRoles
from fairlead.postgres.controllers.access.passes import (
    Action,
    ActionsLeft,
    Credentials,
    Observed,
    approval_of,
    plan_on,
)
from fairlead.postgres.controllers.access.publication import Publication
from fairlead.postgres.controllers.access.status import problems
from fairlead.postgres.controllers.rules.desired import Desired, former_of
from fairlead.postgres.controllers.servers.jobs import (
    Answer,
    Drop,
    Job,
    PlanOnly,
    Removal,
    Rotate,
    Sync,
    UnpublishedError,
)
from fairlead.postgres.controllers.servers.sources import EndpointSources
from fairlead.postgres.database.plans.plan import ShownPlan, Synced, WantedState
from fairlead.postgres.database.plans.snapshot import NOT_OURS
from fairlead.postgres.database.work.sync import Check
from fairlead.postgres.errors import PASSWORD_REFUSED, AccessError
from fairlead.runtime import add_finalizer, remove_finalizer


_log = structlog.get_logger(logger_name="fairlead.postgres")


class PassUnderWay(NamedTuple):
    """A pass between two actions: its values, and the ``job`` that its server has yet to answer.

    ``left`` are the actions that are left, the job's first; ``written`` has the credentials of the
    Secret that the job has written.
    """

    desired: Desired
    observed: Observed
    left: ActionsLeft = ()
    job: Job | None = None
    written: Sequence[Credentials] = ()


class Steps:
    """Takes actions, and observes their results.

    ``wrote`` is called with each written access, ``look_at`` with the owner of connections on
    whose servers a role may have been given up.
    """

    def __init__(
        self,
        client: Client,
        sources: EndpointSources,
        claims: Claims,
        publication: Publication,
        leftovers: LeftoverRoles,
        *,
        wrote: Callable[[Object], Object],
        look_at: Callable[[str], None],
    ) -> None:
        self._client = client
        self._sources = sources
        self._claims = claims
        self._publication = publication
        self._leftovers = leftovers
        self._wrote = wrote
        self._look_at = look_at

    async def take(self, under_way: PassUnderWay) -> PassUnderWay | None:
        """Take the first action that is left, or return its job for the server.

        Returns:
            The pass after the action, or with its job; None once the object needs no more.

        Raises:
            ApiError: a conflict or a server error, after which the whole pass is retried.
        """
        desired, observed, action = under_way.desired, under_way.observed, under_way.left[0]
        try:
            after = await self._take(action, desired, observed)
        except (AccessError, ApiError) as error:
            # The object is gone, and the cache is late.
            if action is Action.ADD_FINALIZER and isinstance(error, NotFound):
                return None
            after = PassUnderWay(desired, _failed(observed, action, error))
        if after is None or after.job is not None:
            return after and after._replace(left=under_way.left)
        return after._replace(
            left=plan_on(under_way.left, observed, after.desired, after.observed)
        )

    async def answered(self, under_way: PassUnderWay, answer: Answer) -> PassUnderWay:
        """Return the pass after the server's answer to its job.

        Raises:
            ApiError: a conflict or a server error, after which the whole pass is retried.
        """
        plan, before = under_way.left, under_way.observed
        try:
            after = await self._answered(under_way, answer)
        except (AccessError, ApiError) as error:
            after = PassUnderWay(under_way.desired, _failed(before, plan[0], error))
        return after._replace(left=plan_on(plan, before, after.desired, after.observed))

    async def _take(
        self, action: Action, desired: Desired, observed: Observed
    ) -> PassUnderWay | None:
        job: Job | None = None
        written: list[Credentials] = []
        match action:
            case Action.ADD_FINALIZER:
                desired = desired.stored(self._wrote(await self._add_finalizer(desired)))
            case Action.RESOLVE:
                if desired.unsound is not None:
                    raise desired.unsound
                desired = desired.at(await self._sources.endpoint(desired.access, enforce=True))
                # Its Secret stays unpublished for now: the role may be another access's.
                if observed.keeps_password and await self._publication.has_own(desired):
                    observed = observed.with_secret()
            case Action.PREVIEW:
                login = await self._publication.peek(desired, observed)
                plan = desired.access.status.plan
                parts = () if plan is None else tuple(plan.parts)
                job = PlanOnly(await self.wanted_state(desired, observed, login), parts=parts)
            case Action.CHECK_ROLE:
                # The answer is about now: another access may still take the role before the sync,
                # whose transaction asks once more.
                claim = await self._claims.of(desired.obj.meta)
                job = Check(
                    desired.needed,
                    claim,
                    adopt=desired.adopts,
                    former=desired.former,
                    keeps_password=observed.keeps_password,
                )
            case Action.WRITE_SECRET:
                credentials = await self._publication.write(desired, observed)
                observed = observed.with_login(credentials)
                # Staging has synchronized the database, so that no sync follows to do this.
                if observed.in_sync:
                    await self._publication.remove_former(desired)
            case Action.STAGE_LOGIN:
                login = observed.credentials
                state = await self.wanted_state(desired, observed, login, staged=True)
                job = Sync(state, approved=approval_of(desired, observed.preview))
            case Action.CHANGE_PASSWORD:
                publish = self._publishing(desired, observed, written)
                state = await self.wanted_state(desired, observed, observed.credentials)
                job = Rotate(state, publish, approved=approval_of(desired, observed.preview))
            case Action.SYNC_DATABASE:
                state = await self.wanted_state(desired, observed, observed.credentials)
                # The pass before has made a password, and read the server again a moment ago.
                verified = observed.verified
                if verified is not None and verified.holds(desired.known_place, state):
                    return await self._synced(desired, observed, state, verified.synced)
                job = Sync(state, approved=approval_of(desired, observed.preview))
            case Action.GIVE_UP:
                owner = desired.owner
                # The record comes before the object goes: a claim with neither object nor record
                # is a leftover, whose role is dropped.
                await self._leftovers.record(desired.obj, owner, "Abandon")
                self._look_at(owner)
                observed = observed.without_role()
            case Action.DROP_ROLE:
                return await self._drop(desired, observed)
            case Action.REMOVE_FINALIZER:
                await remove_finalizer(self._client, POSTGRESACCESSES, desired.obj, FINALIZER)
                return None
            case Action.IGNORE | Action.REPORT:
                raise ValueError(f"the controller itself carries out: {action.value}")
        return PassUnderWay(desired, observed, job=job, written=written)

    async def _add_finalizer(self, desired: Desired) -> Object:
        return await add_finalizer(self._client, POSTGRESACCESSES, desired.obj, FINALIZER)

    async def _answered(self, under_way: PassUnderWay, answer: Answer) -> PassUnderWay:
        desired, observed, job = under_way.desired, under_way.observed, under_way.job
        match job:
            case PlanOnly():
                if not isinstance(answer, ShownPlan):
                    raise error_in(answer)
                observed = observed.previewed(desired, answer)
            case Sync() | Rotate() if isinstance(answer, ShownPlan):
                # The server has changed since the approval: its new plan needs another one.
                observed = observed.previewed(desired, answer)
            case Check():
                # An unreachable server gets no first password: its Secret would not work, and
                # would stay behind for a role that was never created. With a Secret, the later
                # actions report why the server cannot be reached.
                if isinstance(answer, AccessError) and await self._is_published(desired, observed):
                    observed = observed.as_published()
                needed = job.former or not observed.published
                if isinstance(answer, AccessError) and (answer.verdict or needed):
                    raise answer
                # Only None says that the role is free: the error of a silent server is no answer.
                observed = observed.checked(answered=answer is None)
            case Rotate():
                observed = _changed(under_way, answer)
            case Sync() if under_way.left[0] is Action.STAGE_LOGIN:
                if not isinstance(answer, Synced):
                    raise error_in(answer)
                # The next login works on the server, so that the Secret may have it.
                observed = observed.staged(answer)
            case Sync():
                return await self._synced(desired, observed, job.state, answer)
            case Drop():
                return await self._dropped(desired, observed, answer, job)
            case _:
                raise error_in(answer)
        return PassUnderWay(desired, observed)

    async def _is_published(self, desired: Desired, observed: Observed) -> bool:
        """Whether the Secret that a former pass has written exists; the cache may lack it."""
        has_written = not observed.published and desired.access.status.secret is not None
        return has_written and await self._publication.has_own(desired)

    async def wanted_state(
        self, desired: Desired, observed: Observed, login: Credentials, *, staged: bool = False
    ) -> WantedState:
        """Return the wanted state of an access; with ``staged`` that of its next login alone."""
        claim = await self._claims.of(desired.obj.meta)
        return desired.wanted_state(
            claim,
            await self._claims.scope(desired.owner) if desired.shares_groups else "",
            login=login.login,
            password=login.password,
            keeps_password=observed.keeps_password,
            iterations=login.iterations,
            staged=staged,
        )

    def _publishing(
        self, desired: Desired, observed: Observed, written: list[Credentials]
    ) -> Callable[[], Awaitable[None]]:
        async def publish() -> None:
            # A retry of the server's transaction writes the Secret once more.
            try:
                written[:] = [await self._publication.write(desired, observed)]
            except Exception as error:
                raise UnpublishedError(error) from error

        return publish

    async def _synced(
        self, desired: Desired, observed: Observed, state: WantedState, answer: Answer
    ) -> PassUnderWay:
        if not isinstance(answer, Synced):
            lost = isinstance(answer, AccessError) and (
                answer.reason in {*NOT_OURS, PASSWORD_REFUSED}
            )
            if lost and not desired.access.status.username:
                # Another owner has created the role since the check, or the server has refused
                # its password: this login does not work.
                await self._publication.withdraw(desired)
            raise error_in(answer)
        self._sources.last.synced(desired.access, desired.known_place.endpoint)
        observed = observed.brought(answer, state)
        if answer.problems:
            error = problems(answer.problems).error
            observed = observed.failed(Action.SYNC_DATABASE, error)
        try:
            # After the database: until now only the old Secret worked.
            await self._publication.remove_former(desired)
        except (AccessError, ApiError) as error:
            observed = _failed(observed, Action.SYNC_DATABASE, error)
        return PassUnderWay(desired, observed)

    async def _drop(self, desired: Desired, observed: Observed) -> PassUnderWay:
        access = desired.access
        # The spec may have been edited since the role was made, or the status: the claim decides.
        username, former = access.spec.username, former_of(access)
        claim = await self._claims.of(desired.obj.meta)
        policy: Removal = access.spec.cleanup_policy
        if desired.expired:
            # The server itself ends the login (VALID UNTIL): the Secret works no more.
            await self._publication.remove(desired)
            # The object stays and keeps its role: a later end gives the login back.
            policy = "Fence" if policy == "Retain" else policy
        try:
            endpoint, lost, going = await self._sources.last_endpoint(access)
            desired = desired.at(endpoint)
            if lost is not None and not going:
                # Credentials that may have been withdrawn end a login, and change no object.
                denied = lost.message if policy in _GIVES_OBJECTS else ""
            else:
                denied = await self._denied(desired)
        except AccessError as error:
            # A role is created after its Secret: without a Secret no server was ever found.
            if not (access.status.username or observed.published):
                return PassUnderWay(desired, observed.without_role())
            return await self._dropped(desired, observed, error)
        # With a refused heir the login still goes, and the role keeps its objects.
        policy = "Restrict" if denied else policy
        databases = tuple(dict.fromkeys(grant.database for grant in access.spec.grants))
        heir = access.spec.orphan_to or ""
        deletion = access.status.deletion
        begun = deletion is not None and deletion.total > 0
        job = Drop(username, claim, policy, heir, denied, databases, lost, begun, former)
        return PassUnderWay(desired, observed, job=job)

    async def _denied(self, desired: Desired) -> str:
        """Return why spec.orphanTo may not receive the role's objects, "" where it may."""
        try:
            await self._sources.check_heir(desired.access)
        except AccessError as error:
            if not error.verdict:
                raise
            return error.message
        return ""

    async def _dropped(
        self, desired: Desired, observed: Observed, answer: Answer, job: Drop | None = None
    ) -> PassUnderWay:
        if isinstance(answer, AccessError) and job is not None:
            if answer.reason == "OwnsObjects" and job.denied:
                answer = AccessError(
                    answer.reason, f"{job.denied}; {answer.message}", blockers=answer.blockers
                )
            elif answer.reason == "AuthenticationFailed" and job.lost is not None:
                # The server takes the credentials that were known last no more.
                answer = job.lost
        if isinstance(answer, Exception):
            if isinstance(answer, AccessError) and _made_nothing(desired, observed, answer):
                self._look_at(desired.owner)
                return PassUnderWay(desired, observed.without_role())
            # A retained role stays anyway: a missing server must not block the deletion.
            retained = desired.deleting and desired.access.spec.cleanup_policy == "Retain"
            if not retained or not isinstance(answer, AccessError):
                raise answer
            _log.warning("the server of a retained role could not be reached", why=answer.reason)
            await self._leftovers.record(desired.obj, desired.owner, "Retain")
            self._look_at(desired.owner)
        await self._publication.remove(desired)
        return PassUnderWay(desired, observed.without_role())


def _failed(observed: Observed, action: Action, error: AccessError | ApiError) -> Observed:
    """Return the observed state after a failed action.

    Raises:
        ApiError: a conflict or a server error, after which the whole pass is retried.
    """
    if isinstance(error, (AlreadyExists, Conflict, ServerError)):
        raise error
    return observed.failed(action, error if isinstance(error, AccessError) else _api_error(error))


def _changed(under_way: PassUnderWay, answer: Answer) -> Observed:
    """Return the observed state after a change of the password in server and Secret."""
    if isinstance(answer, UnpublishedError):
        cause = answer.cause
        if not isinstance(cause, (AccessError, ApiError)):
            raise cause
        return _failed(under_way.observed, Action.WRITE_SECRET, cause)
    if answer is not None or not under_way.written:
        raise error_in(answer)
    return under_way.observed.with_login(under_way.written[-1])


def _made_nothing(desired: Desired, observed: Observed, why: AccessError) -> bool:
    """Whether an access has no role on its server, though the server cannot confirm that.

    An access that was refused from the start has none, nor has one without a Secret whose server
    never answered. A role that exists all the same, such as one of two logins after a crash, is a
    leftover, and a sweep of its server finds it.
    """
    if desired.access.status.username:
        return False
    silent = why.reason in _SILENT and not (observed.published or observed.keeps_password)
    return why.verdict or silent


_GIVES_OBJECTS = {"Cascade", "Orphan"}
"""Policies that drop the objects of a role, or give them away."""
_SILENT = {"ConnectionFailed", "AuthenticationFailed", "TLSFailed", "RoleIsFull", "TimedOut"}
"""Reasons of errors by servers that give no answer about their roles."""


def error_in(answer: Answer) -> Exception:
    """Return the error that an answer is, or a Conflict for an answer to another job."""
    if isinstance(answer, Exception):
        return answer
    return AccessError("Conflict", "the operator has not asked the server yet")


def _api_error(error: ApiError) -> AccessError:
    return AccessError(error.reason or "ApiError", error.message)
