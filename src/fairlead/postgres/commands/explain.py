"""``fairlead postgres explain``: the steps of an access, its obstacles, and the next step.

The command queries the server where the user may read its credentials; else it reads the status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.links import Link, worst
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    APPROVE_ANNOTATION,
    POSTGRESACCESSES,
    READY,
    PostgresAccess,
)
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.reasons.model import State
from fairlead.api.reasons.postgres import POSTGRES, StepName, step_of
from fairlead.api.reasons.verdict import place_of, remedy_of
from fairlead.api.resource import SECRETS
from fairlead.client import ApiError, Client, ClientError, Forbidden
from fairlead.client.lookups import find
from fairlead.postgres.commands.accesses import given_of
from fairlead.postgres.commands.links import (
    NO_HEIR,
    STEPS,
    from_status,
    provided_role_link,
    readiness,
    role_by_status,
)
from fairlead.postgres.commands.plan import DatabasePlan, by_database, idle, with_claims
from fairlead.postgres.commands.surroundings import (
    ConsumerClusterError,
    Surroundings,
    get_access,
    is_provided,
    list_installed,
    same_server,
)
from fairlead.postgres.controllers.rules.desired import (
    needed_names,
)
from fairlead.postgres.controllers.servers.sources import decode_server
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.session import Session
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.logins import family
from fairlead.postgres.database.plans.names import excluded
from fairlead.postgres.database.plans.plan import ShownPlan
from fairlead.postgres.database.plans.snapshot import RoleFacts, ServerSnapshot
from fairlead.postgres.database.plans.statements import AccessStatement
from fairlead.postgres.database.reading.catalog import read_server, read_snapshot
from fairlead.postgres.database.reading.dependencies import read_dependencies, read_owned
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.rights import Lack, read_lacks
from fairlead.postgres.errors import AccessError


_SAID_BY_STATUS = {"ApprovalPending", "AttributeInvalid", "Observed"}
"""Reasons of the object's step that the operator finds on the server, not in the spec."""


class InTheWay(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An object that blocks an access, and how it does so."""

    kind: str
    name: str
    how: str


class Blocking(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The objects of a role in a database, which block its removal."""

    database: str
    objects: tuple[str, ...]


class AccessExplanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of an access; ``rights`` are statements that the administrator's rights need."""

    access: str
    ready: bool
    reason: str
    message: str
    steps: tuple[Link, ...]
    in_the_way: tuple[InTheWay, ...] = ()
    blockers: tuple[Blocking, ...] = ()
    rights: tuple[DatabasePlan, ...] = ()
    next_step: str = ""
    notes: tuple[str, ...] = ()


async def explain(around: Surroundings, name: str, namespace: str) -> AccessExplanation:
    """Return the state of one access and of the objects that it depends on.

    Raises:
        AccessError: there is no access of this name.
        ClientError: the cluster cannot be reached, or refuses the object itself.
    """
    obj = await get_access(around.client, name, namespace)
    if obj is None:
        raise AccessError("NotFound", f"PostgresAccess {Key(namespace, name)} does not exist")
    given = given_of(obj)
    if given.access is None:
        problem = given.problem or AccessError("InvalidSpec", "it cannot be decoded")
        return AccessExplanation(
            access=given.name,
            ready=False,
            reason=problem.reason,
            message=problem.message,
            steps=(_failed("object", problem),),
            next_step=remedy_of(problem.reason, place=place_of(obj)),
        )
    explaining = _Explaining(around, obj, given.access)
    await explaining.run()
    return explaining.result()


def _failed(name: StepName, error: AccessError) -> Link:
    return Link(name=name, state="failed", reason=error.reason, about=error.message)


class _Explaining:
    def __init__(self, around: Surroundings, obj: Object, access: PostgresAccess) -> None:
        self._around = around
        self._obj = obj
        self._access = access
        self._desired = around.desired(access)
        self._steps = from_status(access)
        self._in_the_way: list[InTheWay] = []
        self._blockers: list[Blocking] = []
        self._rights: tuple[DatabasePlan, ...] = ()
        self._endpoint: Endpoint | None = None

    async def run(self) -> None:
        """Check the steps one after the other, as far as the user's rights reach."""
        deletion = self._access.status.deletion
        for blocker in deletion.blockers if deletion is not None else ():
            self._blockers.append(
                Blocking(database=blocker.database, objects=tuple(blocker.objects))
            )
        self._object()
        await self._policy()
        await self._secret()
        # A refused spec is not planned, so there is nothing to compare the server with.
        if self._endpoint is not None and self._steps["object"].state != "failed":
            sessions = Sessions(self._endpoint)
            try:
                await self._server(sessions)
            except AccessError as error:
                self._learn(_failed("server", error))
            finally:
                await sessions.close()
        if any(step.reason == "UsernameConflict" for step in self._steps.values()):
            await self._rivals()

    def _learn(self, step: Link) -> None:
        self._steps[step.name] = step

    def _say(self, name: StepName, state: State, message: str, reason: str = "") -> None:
        self._learn(Link(name=name, state=state, about=message, reason=reason))

    def _object(self) -> None:
        access = self._access
        wrong = self._desired.unsound or self._desired.refused
        if wrong is not None:
            self._learn(_failed("object", wrong))
            return
        why = idle(self._desired)
        if why:
            self._say("object", "waiting", why)
        elif self._steps["object"].reason in _SAID_BY_STATUS:
            return
        elif readiness(access)[1] == "Unseen":
            _, reason, message = readiness(access)
            self._say("object", "waiting", message, reason)
        else:
            self._say("object", "ok", "the operator has processed it")

    async def _policy(self) -> None:
        """Check the access against the settings and the profile of its server."""
        access, settings = self._access, self._around.settings
        users, patterns = settings.excluded_users, settings.excluded_user_patterns
        # Before the Secret and the server, as in a pass: an access to an excluded role gets
        # neither.
        for username in self._desired.names if self._desired.excluded else ():
            if not excluded(username, users, patterns):
                continue
            self._say(
                "policy",
                "failed",
                f"role {username} is one of the operator's excluded users",
                "UserExcluded",
            )
            return
        await self._profile()
        # A profile that has come to forbid the access must not keep it from being removed.
        enforce = not access.metadata.deleting
        try:
            self._endpoint = await self._around.sources.endpoint(access, enforce=enforce)
        except AccessError as error:
            if error.reason == "ConnectionSecretForbidden":
                self._around.notes.append(
                    f"{error.message}: what follows about the server comes from the status only"
                )
                return
            self._learn(_failed(step_of(error.reason), error))
            return
        except ApiError as error:
            self._around.notes.append(f"{error.message}: what follows comes from the status only")
            return
        self._say("policy", "ok", "the settings and the server's profile allow it")

    async def _profile(self) -> None:
        """Record the PostgresServer's Ready condition as the step "server"."""
        reference = self._access.spec.connection.server_ref
        if reference is None:
            return
        try:
            server_object = await find(self._around.client, POSTGRESSERVERS, reference.name)
            server = decode_server(server_object) if server_object is not None else None
        # The endpoint is read from the same object next, and reports the same error.
        except (ApiError, AccessError):
            return
        ready = get_condition(server.status.conditions, READY) if server is not None else None
        if ready is not None and ready.status != "True":
            self._say("server", "failed", ready.message, ready.reason)
        elif ready is not None:
            self._say("server", "ok", f"PostgresServer {reference.name} is Ready")

    async def _secret(self) -> None:
        access = self._access
        try:
            login = await self._around.login(self._desired)
        except AccessError as error:
            if error.reason == "SecretForbidden":
                self._around.notes.append(error.message)
                return
            self._learn(_failed("Secret", error))
            if error.reason == "SecretConflict":
                await self._owner_of_secret()
            return
        except ApiError as error:
            self._around.notes.append(error.message)
            return
        name = access.spec.generated_secret
        if login.keeps_password:
            self._say(
                "Secret",
                "ok",
                "there is none, because the role keeps a password that cannot be read",
            )
        elif not login.there:
            self._say("Secret", "waiting", f"Secret {name} is not there yet")
        else:
            self._say("Secret", "ok", f"Secret {name} has a password")

    async def _owner_of_secret(self) -> None:
        meta, name = self._access.metadata, self._access.spec.generated_secret
        try:
            secret = await find(self._around.client, SECRETS, name, meta.namespace)
        # The conflict is a step already; the owner's name is only an extra.
        except ClientError:
            return
        owner = secret.meta.controller() if secret is not None else None
        if owner is not None:
            how = f"controls Secret {name}"
            self._in_the_way.append(InTheWay(kind=owner.kind, name=owner.name, how=how))
        elif secret is not None:
            how = "was not made by Fairlead: it has no controller"
            self._in_the_way.append(InTheWay(kind="Secret", name=name, how=how))

    async def _server(self, sessions: Sessions) -> None:
        """Check the role and its grants on the server itself."""
        access = self._access
        remedies: list[AccessStatement] = []
        async with sessions.working("read the catalogs") as session:
            server = await read_server(session)
            self._say(
                "server", "ok", f"{sessions.endpoint} answers, PostgreSQL {server.version_text}"
            )
            username = access.status.username or access.spec.username
            snapshot = await read_snapshot(session, family(username), "")
            role = snapshot.roles.get(username)
            lacks = await self._lacks(session, sessions.endpoint.maintenance, snapshot)
        if access.metadata.deleting:
            uid = access.metadata.uid
            # By the uid alone, because the user may lack the right to read the key of the hashes.
            logins = [
                facts
                for name, facts in snapshot.roles.items()
                if name != username and facts.claim is not None and facts.claim.uid == uid
            ]
            await self._removal(sessions, role, logins)
        else:
            planned = await self._planned(sessions)
            self._role(planned, role)
            self._grants(planned)
            remedies += planned.remedies
        if lacks and self._steps["role"].state != "failed":
            self._learn(_failed("role", lacks[0].problem))
        texts = {one.text for one in remedies}
        remedies += [one.remedy for one in lacks if one.remedy.text not in texts]
        name = str(self._obj.key)
        self._rights = by_database((one, (name,)) for one in remedies)

    async def _lacks(
        self, session: Session, maintenance: str, snapshot: ServerSnapshot
    ) -> list[Lack]:
        """Return the rights on the roles that the operator was refused, [] where it was not.

        What it was refused may be in no plan: a new password, or a removal.
        """
        if readiness(self._access)[1] != "InsufficientPrivilege":
            return []
        uid = self._access.metadata.uid
        ours = {
            name: role
            for name, role in snapshot.roles.items()
            if role.claim is not None and role.claim.uid == uid
        }
        return await read_lacks(session, maintenance, snapshot.server, ours, {}, ())

    async def _planned(self, sessions: Sessions) -> ShownPlan:
        desired = self._desired.at(sessions.endpoint)
        # Errors of the Secret are told by its own step, and the role is compared without it.
        state = await self._around.wanted_state(desired, blind={"*"})
        (state,) = await with_claims(self._around, sessions, [state])
        return await plan_accesses(sessions, [state], Verifiers(), rights=True)

    def _role(self, planned: ShownPlan, role: RoleFacts | None) -> None:
        username = self._access.spec.username
        refused = [one for one in _errors(planned.refused) if step_of(one.reason) == "role"]
        if refused:
            self._learn(_failed("role", refused[0]))
            return
        open_ = [one for one in planned.statements if not one.on]
        if role is None:
            message = f"role {username} is not there yet"
        elif open_:
            message = f"role {username} differs: {_count(len(open_), 'statement')} to run"
        else:
            message = f"role {username} matches the spec"
        differs = role is None or bool(open_)
        self._say("role", "waiting" if differs else "ok", message)

    def _grants(self, planned: ShownPlan) -> None:
        problems = [one for one in _errors(planned.refused) if step_of(one.reason) == "grants"]
        if problems:
            message = "; ".join(dict.fromkeys(one.message for one in problems))
            reason = problems[0].reason
            self._say("grants", "failed", message, reason)
            return
        if self._steps["role"].state == "failed":
            self._say("grants", "unknown", "not reached")
            return
        missing = [one for one in planned.statements if one.on]
        if missing:
            databases = ", ".join(sorted({one.database for one in missing}))
            self._say(
                "grants", "waiting", f"{_count(len(missing), 'statement')} to run in {databases}"
            )
        else:
            self._say("grants", "ok", "all are there, and no others")

    async def _removal(
        self, sessions: Sessions, role: RoleFacts | None, logins: Sequence[RoleFacts]
    ) -> None:
        """Record the objects on the server that block the removal of a role and its logins."""
        username = self._access.status.username or self._access.spec.username
        self._say("grants", "ok", "go with the role")
        if role is None:
            # Those of the status are from before the role was dropped.
            self._blockers = []
            self._say("role", "ok", f"role {username} is gone")
            return
        blockers = [one for owner in (role, *logins) for one in await _owned(sessions, owner)]
        self._blockers = blockers
        able = any(one.login for one in (role, *logins))
        fenced = "may still log in" if able else "may not log in any more"
        message = f"role {username} {fenced}"
        # Cascade drops them, and Retain leaves them with the role.
        if blockers and self._access.spec.cleanup_policy in {"Restrict", "Orphan"}:
            self._say("role", "failed", f"{message}, and owns what is listed below", "OwnsObjects")
        else:
            self._say("role", "waiting", f"{message}, and is being removed")

    async def _rivals(self) -> None:
        """Record the accesses that ask for the same role, among those that the user may list."""
        namespace = self._access.metadata.namespace
        try:
            objects = await list_installed(self._around.client, POSTGRESACCESSES)
        except Forbidden:
            self._around.notes.append(
                "you may not list the PostgresAccesses of all namespaces: others than those of"
                f" {namespace} may hold the username"
            )
            try:
                objects = await list_installed(self._around.client, POSTGRESACCESSES, namespace)
            except Forbidden:
                return
        for obj in objects:
            other = given_of(obj).access
            if other is None or other.metadata.uid == self._access.metadata.uid:
                continue
            mine, theirs = self._desired.needed, needed_names(other)
            common = sorted({*mine} & {*theirs})
            if common and same_server(self._access, other):
                ready, reason, _ = readiness(other)
                what = "the username" if mine[0] == theirs[0] else f"role {common[0]}"
                how = f"holds {what}" if ready else f"asks for {what} too ({reason})"
                self._in_the_way.append(
                    InTheWay(kind=POSTGRESACCESSES.kind, name=str(obj.key), how=how)
                )

    def result(self) -> AccessExplanation:
        """Return the state of the access, with the steps in their order."""
        ready, reason, message = readiness(self._access)
        steps = tuple(self._steps[name] for name in STEPS)
        first = worst(steps)
        # The status is as old as the last pass, and the steps were looked at just now.
        if ready and first is not None:
            ready, reason, message = False, first.reason or "Drifted", first.message
        failure = first if first is not None and first.state == "failed" else None
        return AccessExplanation(
            access=str(self._obj.key),
            ready=ready,
            reason=reason,
            message=message,
            steps=steps,
            in_the_way=tuple(self._in_the_way),
            blockers=tuple(self._blockers),
            rights=self._rights,
            next_step="" if ready else self._next(failure, reason),
            notes=tuple(dict.fromkeys(self._around.notes)),
        )

    def _next(self, failure: Link | None, reason: str) -> str:
        access = self._access
        if access.metadata.deleting and failure is None:
            return "wait: the operator removes the role, and then the object goes"
        if access.metadata.deleting and failure is not None and failure.name == "server":
            name = f"postgresaccess {access.metadata.name} -n {access.metadata.namespace}"
            return (
                "make the server reachable; or give up the role, which then stays: kubectl"
                f" annotate {name} {ABANDON_ANNOTATION}=true"
            )
        if reason == "ApprovalPending" and access.status.plan is not None:
            name = f"postgresaccess {access.metadata.name} -n {access.metadata.namespace}"
            return (
                f"look at status.plan, and approve it: kubectl annotate --overwrite {name}"
                f" {APPROVE_ANNOTATION}={access.status.plan.digest}"
            )
        # A pass reports an exclusion even of a suspended access.
        if access.spec.suspend and reason != "UserExcluded":
            return remedy_of("Suspended", place=place_of(self._obj))
        if failure is not None and failure.reason == "InsufficientPrivilege" and not self._rights:
            return "give the administrator the right that the message names"
        orphans = access.spec.cleanup_policy == "Orphan"
        if failure is not None and failure.reason == "OwnsObjects" and orphans:
            return NO_HEIR
        if failure is not None:
            return remedy_of(failure.reason, place=place_of(self._obj))
        if reason not in POSTGRES:
            return "wait: the operator goes on by itself"
        return remedy_of(reason, place=place_of(self._obj))


async def _owned(sessions: Sessions, role: RoleFacts) -> list[Blocking]:
    """Return the objects that a role owns, by database."""
    async with sessions.working("read what the role owns") as session:
        dependencies = await read_dependencies(session, role.oid)
    # A database or a tablespace is in no database.
    blockers = [Blocking(database="", objects=dependencies.shared)] if dependencies.shared else []
    for database in dependencies.databases:
        if not database.owned:
            continue
        if not database.connectable:
            objects: Sequence[str] = [f"{_count(database.owned, 'object')}, and it is closed"]
        else:
            async with sessions.use(database.database) as session:
                objects = await read_owned(session, role.oid)
        blockers.append(Blocking(database=database.database, objects=tuple(objects)))
    return blockers


def _errors(refusals: Mapping[str, Sequence[AccessError]]) -> list[AccessError]:
    return [error for errors in refusals.values() for error in errors]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


async def role_link(
    client: Client, obj: Object, operator_namespace: str
) -> tuple[Link, Sequence[str]]:
    """Return the link of an access's role, with notes on objects that cannot be read.

    The link is by the status alone where the server cannot be queried, or is a provider's.
    """
    if is_provided(obj.meta):
        return provided_role_link(obj, None), []
    try:
        around = await Surroundings.of(client, operator_namespace)
        explained = await explain(around, obj.meta.name, obj.meta.namespace)
    except ConsumerClusterError as error:
        return provided_role_link(obj, None), [str(error)]
    except (AccessError, ClientError) as error:
        note = f"what follows about {obj.kind} {obj.key} comes from its status only: {error}"
        return role_by_status(obj), [note]
    state: State = "failed" if any(one.state == "failed" for one in explained.steps) else "waiting"
    # ``explain`` has read the object anew, and ``obj`` may be older.
    link = msgspec.structs.replace(
        role_by_status(obj),
        state="ok" if explained.ready else state,
        about="logs in, with all its grants" if explained.ready else explained.message,
        reason="" if explained.ready else explained.reason,
        remedy=explained.next_step,
    )
    return link, explained.notes
