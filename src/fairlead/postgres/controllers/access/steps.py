"""The steps of a pass: what is asked of the API server and of the access's own server for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import structlog

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import APPROVE_ANNOTATION, FINALIZER, POSTGRESACCESSES
from fairlead.client import AlreadyExists, ApiError, Client, Conflict, NotFound, ServerError
from fairlead.postgres.controllers.access.claims import Claims
from fairlead.postgres.controllers.access.leftovers import Leftovers
from fairlead.postgres.controllers.access.passes import Pass
from fairlead.postgres.controllers.access.publication import Publication
from fairlead.postgres.controllers.access.reconcile import STAGES, AccessStep, Failure
from fairlead.postgres.controllers.access.status import problems
from fairlead.postgres.controllers.rules.rotation import turns_of
from fairlead.postgres.controllers.rules.wishes import (
    check_spec,
    may_adopt,
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
    Rotate,
    Sync,
    UnpublishedError,
    owner_of,
)
from fairlead.postgres.controllers.servers.sources import Sources
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.database.plans.claiming import NOT_OURS
from fairlead.postgres.database.plans.plan import Planned, Synced, Wanted
from fairlead.postgres.errors import AccessError
from fairlead.runtime import add_finalizer, remove_finalizer


_log = structlog.get_logger(logger_name="fairlead.postgres")


class Steps:
    """Performs steps, and learns what came of them.

    ``wrote`` is told of each write to an access, ``look_at`` of owners of connections at whose
    servers a role may have been given up.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        sources: Sources,
        claims: Claims,
        publication: Publication,
        leftovers: Leftovers,
        *,
        wrote: Callable[[Object], Object],
        look_at: Callable[[str], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._sources = sources
        self._claims = claims
        self._publication = publication
        self._leftovers = leftovers
        self._wrote = wrote
        self._look_at = look_at

    async def perform(self, step: AccessStep, current: Pass) -> None:
        """Perform a step, or leave a job to its server.

        Raises:
            ApiError: trying all of it again at once may help.
        """
        await self._learn(step, current, self._perform(step, current))

    async def take(self, step: AccessStep, current: Pass, answer: Answer) -> None:
        """Learn from what the server has answered to the job of a step.

        Raises:
            ApiError: trying all of it again at once may help.
        """
        await self._learn(step, current, self._take(step, current, answer))

    async def _learn(self, step: AccessStep, current: Pass, work: Awaitable[None]) -> None:
        """Wait for the work on a step; a failure is learnt too."""
        try:
            await work
        except AccessError as error:
            current.learn(failure=Failure(STAGES[step], error))
        except (AlreadyExists, Conflict, ServerError):
            raise
        except ApiError as error:
            # The cache has not heard yet that the object is gone.
            if step is AccessStep.ADD_FINALIZER and isinstance(error, NotFound):
                current.gone = True
                return
            current.learn(failure=Failure(STAGES[step], _api_error(error)))

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
                current.ask(step, Look(await self.wanted(current)))
            case AccessStep.CHECK_ROLE:
                claim = await self._claims.of(current.found.meta)
                names, adopt = needed_names(current.decoded), self._adopts(current)
                current.ask(step, Check(names, claim, adopt=adopt))
            case AccessStep.WRITE_SECRET:
                await self._publication.write(current)
                # Staging has brought all of it into the database, so that no sync follows which
                # would do this.
                if current.facts.synced:
                    await self._publication.remove_renamed(current)
            case AccessStep.STAGE_LOGIN:
                current.ask(step, Sync(await self.wanted(current, staged=True)))
            case AccessStep.CHANGE_PASSWORD:
                publish = self._publishing(current)
                current.ask(step, Rotate(await self.wanted(current), publish))
            case AccessStep.SYNC_DATABASE:
                wanted = await self.wanted(current)
                known = current.verified
                if known is not None and known.holds(current.reached, wanted):
                    await self._synced(current, known.synced)
                else:
                    current.ask(step, Sync(wanted))
            case AccessStep.GIVE_UP:
                owner = owner_of(current.access) if current.access else ""
                # It is recorded while the object is there: a claim that has neither an object nor
                # a record is taken for a leftover, and its role is dropped.
                await self._leftovers.record(current.found, owner, "Abandon")
                self._look_at(owner)
                current.learn(given_up=True)
            case AccessStep.DROP_ROLE:
                await self._drop(current)
            case _:
                await remove_finalizer(self._client, POSTGRESACCESSES, current.found, FINALIZER)
                current.learn(finalizer=False)

    async def _take(self, step: AccessStep, current: Pass, answer: Answer) -> None:
        match step:
            case AccessStep.PLAN:
                self._planned(current, answer)
            case AccessStep.CHECK_ROLE:
                # A first password for a server that cannot be asked would log in nowhere, and be a
                # trace of something that was never made. With one that is there, the steps that
                # need the server tell why it cannot be asked.
                if isinstance(answer, AccessError) and (
                    answer.verdict or not current.facts.published
                ):
                    raise answer
                current.learn(checked=True, answers=answer is None)
            case AccessStep.STAGE_LOGIN:
                self._staged(current, answer)
            case AccessStep.CHANGE_PASSWORD:
                self._changed(current, answer)
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

    async def wanted(self, current: Pass, *, staged: bool = False) -> Wanted:
        """All that an access asks for; ``staged``: of its next login alone."""
        owner, endpoint = current.reached.owner, current.reached.endpoint
        shares = shares_groups(current.decoded, endpoint)
        return wanted_of(
            current.decoded,
            await self._claims.of(current.found.meta),
            password=current.password,
            keeps=current.facts.keeping,
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

    def _publishing(self, current: Pass) -> Callable[[], Awaitable[None]]:
        async def publish() -> None:
            # The server's transaction may be tried again, and the Secret with it.
            current.learn(secret="changing")  # noqa: S106
            try:
                await self._publication.write(current)
            except Exception as error:
                raise UnpublishedError(error) from error

        return publish

    def _changed(self, current: Pass, answer: Answer) -> None:
        """The server has the password that is in the Secret now."""
        if isinstance(answer, UnpublishedError):
            cause = answer.cause
            again = isinstance(cause, (AlreadyExists, Conflict, ServerError))
            if isinstance(cause, ApiError) and not again:
                cause = _api_error(cause)
            if not isinstance(cause, AccessError):
                raise cause
            current.learn(failure=Failure(STAGES[AccessStep.WRITE_SECRET], cause))
        elif answer is not None:
            raise answered_otherwise(answer)

    async def _synced(self, current: Pass, answer: Answer) -> None:
        if not isinstance(answer, Synced):
            lost = isinstance(answer, AccessError) and answer.reason in NOT_OURS
            if lost and not current.decoded.status.username:
                # Another one has made the role since it was looked at: this login is nowhere.
                await self._publication.remove(current)
            raise answered_otherwise(answer)
        current.synced = answer
        # After the database: until now the old Secret was the one that works.
        await self._publication.remove_renamed(current)
        if answer.problems:
            current.learn(failure=problems(answer.problems))
        current.learn(synced=True)

    async def _drop(self, current: Pass) -> None:
        access = current.decoded
        # Somebody may have edited the spec since the role was made.
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
            policy = await self._allowed(current, policy)
        except AccessError as error:
            # A role is made after its Secret: without one no server was ever found.
            if not (access.status.username or current.facts.published):
                current.learn(dropped=True)
            else:
                await self._dropped(current, error)
        else:
            current.ask(
                AccessStep.DROP_ROLE,
                Drop(username, claim, policy, access.spec.orphan_to or ""),
            )

    async def _allowed(self, current: Pass, policy: Removal) -> Removal:
        """The same; Restrict where what is owned may not go to spec.orphanTo.

        So the login goes in any case, and nothing that is owned goes to anybody.
        """
        try:
            await self._sources.check_heir(current.decoded)
        except AccessError as error:
            if not error.verdict:
                raise
            current.denied = error.message
            return "Restrict"
        return policy

    async def _dropped(self, current: Pass, answer: Answer) -> None:
        if isinstance(answer, AccessError) and answer.reason == "OwnsObjects" and current.denied:
            answer = AccessError(
                answer.reason, f"{current.denied}; {answer.message}", blockers=answer.blockers
            )
        if isinstance(answer, Exception):
            access = current.decoded
            if isinstance(answer, AccessError) and self._made_nothing(current, answer):
                self._look_at(owner_of(access))
                current.learn(dropped=True)
                return
            # A role that stays anyway must not keep its object from going when the server is
            # gone.
            retained = current.facts.deleting and access.spec.cleanup_policy == "Retain"
            if not retained or not isinstance(answer, AccessError):
                raise answer
            _log.warning("the server of a retained role was out of reach", why=answer.reason)
            await self._leftovers.record(current.found, owner_of(access), "Retain")
            self._look_at(owner_of(access))
        await self._publication.remove(current)
        current.learn(dropped=True)

    def _made_nothing(self, current: Pass, why: AccessError) -> bool:
        """Whether nothing was made for an access whose server does not say that nothing is there.

        That is so of what was refused from the beginning, and of what has no Secret yet because
        its server never answered. A role of ours that is there all the same, as one of two logins
        may be after a crash, is a leftover: looks at its server find it.
        """
        if current.decoded.status.username:
            return False
        facts = current.facts
        silent = why.reason in _SILENT and not (facts.published or facts.keeping)
        return why.verdict or silent


_SILENT = {"ConnectionFailed", "AuthenticationFailed", "TLSFailed", "RoleIsFull", "TimedOut"}
"""Reasons of servers that nothing can be learnt from."""


def answered_otherwise(answer: Answer) -> Exception:
    """The failure that an answer is, which is not what was asked for."""
    if isinstance(answer, Exception):
        return answer
    return AccessError("Conflict", "the server has not been asked")


def _api_error(error: ApiError) -> AccessError:
    return AccessError(error.reason or "ApiError", error.message)
