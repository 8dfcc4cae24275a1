"""``fairlead postgres import``: PostgresAccesses for the roles of a server, as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import psycopg

from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.postgresaccess import POSTGRESACCESSES, PostgresAccess, PostgresAccessSpec
from fairlead.api.postgresaccess.connection import Connection, LoginPolicy, ServerRef
from fairlead.api.postgresaccess.server import PostgresServer
from fairlead.client import Forbidden
from fairlead.postgres import bounds
from fairlead.postgres.commands.expressing import (
    attributes_of,
    express,
    grants_problem,
    members_of,
    object_name,
)
from fairlead.postgres.commands.surroundings import Surroundings, list_installed
from fairlead.postgres.controllers.rules.policy import check_membership
from fairlead.postgres.database.connections.failures import explain
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.names import check_username, excluded
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.snapshot import RoleClaim, RoleFacts, ServerSnapshot
from fairlead.postgres.database.reading.catalog import read_around, read_logins, read_snapshot
from fairlead.postgres.database.reading.holdings import HeldObjects, read_holdings
from fairlead.postgres.database.reading.verifiers import Verifiers
from fairlead.postgres.database.work.planning import plan_accesses
from fairlead.postgres.database.work.reserving import reserve
from fairlead.postgres.errors import AccessError


class Imported(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The manifest of one role; ``comments`` name its omissions, and changes by the adoption.

    A ``claimed`` role carries the claim of the manifest's object on the server.
    """

    role: str
    manifest: JSON
    claimed: bool = False
    comments: tuple[str, ...] = ()


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A role that gets no manifest, and why."""

    role: str
    why: str


class ImportReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The manifests of a server's roles."""

    server: str
    accesses: tuple[Imported, ...] = ()
    skipped: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()


async def import_roles(
    around: Surroundings,
    server_name: str,
    namespace: str,
    names: Sequence[str] = (),
    *,
    claiming: bool = True,
) -> ImportReport:
    """Return manifests of a server's login roles; claim the roles for the manifests' objects.

    Args:
        around: the cluster, read with the user's rights.
        server_name: the name of the PostgresServer.
        namespace: the namespace of the manifests.
        names: the names of the roles, none for all that may log in.
        claiming: whether to write the claims; without them nothing is changed.

    Raises:
        AccessError: the server cannot be queried.
        ClientError: the cluster cannot be reached, or refuses.
    """
    server = await around.server(server_name)
    endpoint = await around.sources.server_endpoint(server)
    if claiming:
        await around.make_key()
    sessions = Sessions(endpoint)
    try:
        importing = _Importing(around, server, namespace, sessions)
        await importing.look_around()
        await importing.run(names)
        if claiming:
            await importing.claim()
    finally:
        await sessions.close()
    return importing.report()


class _Importing:
    def __init__(
        self, around: Surroundings, server: PostgresServer, namespace: str, sessions: Sessions
    ) -> None:
        self._around = around
        self._server = server
        self._namespace = namespace
        self._sessions = sessions
        self._held_objects: dict[str, Sequence[HeldObjects]] = {}
        self._accesses: dict[str, PostgresAccess] = {}
        self._comments: dict[str, list[str]] = {}
        self._skipped: list[LeftOut] = []
        self._names: set[str] = set()
        self._objects: set[str] | None = set()
        self._refused: set[str] = set()
        self._carried: dict[str, RoleClaim] = {}
        self._claimed: set[str] = set()

    async def look_around(self) -> None:
        """Read the existing accesses; a manifest takes neither their names nor their roles."""
        try:
            objects = await list_installed(self._around.client, POSTGRESACCESSES)
        except Forbidden:
            self._objects = None
            self._around.notes.append(
                "you may not list the PostgresAccesses of all namespaces: the command takes"
                " roles that an import claimed before for theirs, and a manifest may get the"
                " name of an existing one"
            )
            return
        self._objects = {self._around.claim(one.meta).object for one in objects}
        self._names |= {one.meta.name for one in objects if one.meta.namespace == self._namespace}

    async def run(self, names: Sequence[str]) -> None:
        """Read the roles, compose their manifests, and plan these against the server."""
        async with self._sessions.working("read the catalogs") as session:
            logins, more = await read_logins(session)
            if more and not names:
                self._around.notes.append(f"the command checks only the first {len(logins)} roles")
            snapshot = await read_snapshot(session, names or logins, "")
            # The first snapshot tells which of our groups the roles are in; the second one holds
            # the privileges of these groups, which are the roles' too.
            if snapshot.groups:
                shared = frozenset(snapshot.groups)
                snapshot = await read_snapshot(session, names or logins, "", groups=shared)
            groups = {name for one in snapshot.roles.values() for name in one.groups}
            around = await read_around(session, groups)
        for name in names:
            if name not in snapshot.roles:
                self._skip(name, "there is no such role")
        roles = [
            role
            for _, role in sorted(snapshot.roles.items())
            if role.group is None and self._is_welcome(role, snapshot)
        ]
        await self._read(roles, snapshot)
        powerful = {name for name, one in around.groups.items() if one.powerful}
        for role in roles:
            self._compose(role, snapshot, powerful)
        await self._hold()

    def _skip(self, role: str, why: str) -> None:
        self._skipped.append(LeftOut(role=role, why=why))

    def _is_welcome(self, role: RoleFacts, snapshot: ServerSnapshot) -> bool:
        settings = self._around.settings
        why = ""
        try:
            check_username(role.name)
        except AccessError as error:
            why = error.message.removeprefix("spec.username ")
        if role.name == snapshot.server.admin:
            why = "it is the administrator itself"
        elif role.powers:
            why = f"it has {', '.join(sorted(role.powers))}"
        elif not role.login:
            why = "it may not log in"
        elif role.claim is not None and role.claim.installation != self._around.installation:
            why = "another installation of Fairlead claims it"
        elif role.claim is not None and not self._is_free(role.claim):
            why = "a PostgresAccess of this cluster claims it already"
        elif excluded(role.name, settings.excluded_users, settings.excluded_user_patterns):
            why = "it is one of the operator's excluded users"
        if why:
            self._skip(role.name, why)
        return not why

    def _is_free(self, claim: RoleClaim) -> bool:
        """Whether the claim is from an earlier import, and its object does not exist."""
        is_known = self._around.knows_claims and self._objects is not None
        return claim.is_imported and is_known and claim.object not in (self._objects or ())

    async def _read(self, roles: Iterable[RoleFacts], snapshot: ServerSnapshot) -> None:
        """Read the privileges of the roles, each database once."""
        of_database: dict[str, list[int]] = {}
        for source in (source for role in roles for source in _sources(role, snapshot)):
            for name in snapshot.dependents.get(source.oid, ()):
                of_database.setdefault(name, []).append(source.oid)
        for name, oids in sorted(of_database.items()):
            if not snapshot.databases[name].connectable:
                self._around.notes.append(
                    f"database {name} takes no connections, so the command does not read it"
                )
                continue
            try:
                async with self._sessions.use(name) as session:
                    # More names than this spec.grants does not take.
                    holdings = await read_holdings(session, roles=oids, names=bounds.GRANT_OBJECTS)
            except (AccessError, psycopg.Error) as error:
                raise explain(
                    error, f"read the catalogs of database {name}", snapshot.server.admin
                ) from None
            # With a part of the grants in the manifest, the operator would revoke the rest.
            if holdings.cut:
                raise AccessError("AnswerTooLarge", f"database {name} has too many ACLs to read")
            self._held_objects[name] = holdings.rows

    def _compose(self, role: RoleFacts, snapshot: ServerSnapshot, powerful: set[str]) -> None:
        comments: list[str] = []
        sources = _sources(role, snapshot)
        grants, left = [], []
        for source in sources:
            databases = snapshot.dependents.get(source.oid, frozenset())
            privileges = snapshot.privileges.get(source.oid, {})
            for name in sorted(databases | privileges.keys()):
                expressed = express(
                    source.oid, name, privileges.get(name, {}), self._held_objects.get(name, ())
                )
                grants += expressed.grants
                left += [f"{one} of database {name}" for one in expressed.left]
        problem = grants_problem(grants)
        if problem:
            self._skip(role.name, problem)
            return
        if left:
            comments += [
                "spec.grants cannot express the following; grantsPolicy Additive keeps it:"
            ]
            comments += [f"  {one}" for one in left]
        attributes, why = attributes_of(role)
        if why:
            comments.append(f"Attributes are left as they are: {why}")
        shared = {one.name for one in sources}
        # memberOf refuses the names of our own groups: the role gets what they have by its grants.
        members = [one for one in members_of(role) if one.role not in shared]
        denied = self._denied([one.role for one in members], powerful)
        if denied:
            comments.append(f"Groups are left as they are: {denied}")
        name = object_name(role.name, self._names)
        spec = PostgresAccessSpec(
            connection=Connection(server_ref=ServerRef(name=self._server.metadata.name)),
            username=role.name,
            generated_secret=f"{name}-login",
            adoption_policy="IfUnclaimed",
            # The role's clients go on with the password that they have.
            password_policy=LoginPolicy(on_adoption="Keep"),
            grants=grants,
            # An Authoritative access would revoke what its grants cannot say.
            grants_policy="Additive" if left else "Authoritative",
            attributes=attributes,
            member_of=members if members and not denied else None,
        )
        if role.claim is not None:
            self._carried[role.name] = role.claim
        meta = ObjectMeta(name=name, namespace=self._namespace)
        self._accesses[role.name] = PostgresAccess(metadata=meta, spec=spec)
        self._comments[role.name] = comments

    def _denied(self, groups: Iterable[str], powerful: set[str]) -> str:
        for group in groups:
            if group in powerful:
                return f"{group} is a superuser, or has powers over roles"
            try:
                check_membership(group, self._namespace, self._server, self._around.settings)
            except AccessError as error:
                return error.message
        return ""

    async def _hold(self) -> None:
        """Plan the manifests; each statement of the adoption becomes a comment."""
        states = [self._state(access) for access in self._accesses.values()]
        if not states:
            return
        planned = await plan_accesses(self._sessions, states, Verifiers())
        for statement in planned.statements:
            # The import itself writes the claim.
            if statement.text.startswith("COMMENT ON ROLE "):
                continue
            for name in statement.usernames:
                self._comments[name].append(f"Adoption would also run: {statement.text}")
        self._refuse(planned.refused)

    def _refuse(self, refused: Mapping[str, Sequence[AccessError]]) -> None:
        for name, errors in refused.items():
            self._refused.add(name)
            self._comments[name] += [f"Adoption would fail: {one.message}" for one in errors]

    def _state(self, access: PostgresAccess) -> WantedState:
        desired = self._around.desired(access).at(self._sessions.endpoint)
        # A role with the claim of an earlier import is planned with that claim.
        claim = self._carried.get(access.spec.username) or self._claim(access)
        state = desired.wanted_state(
            claim,
            self._around.scope(desired),
            login=access.spec.username,
            password="",
            keeps_password=True,
        )
        return msgspec.structs.replace(state, adopt=True)

    def _claim(self, access: PostgresAccess) -> RoleClaim:
        # The object is yet to be applied, and gets its uid then.
        return msgspec.structs.replace(
            self._around.claim(access.metadata), uid="", namespace="", name=""
        )

    async def claim(self) -> None:
        """Claim the roles that can be adopted for the objects of their manifests."""
        claims = {
            name: self._claim(access)
            for name, access in self._accesses.items()
            if name not in self._refused
        }
        if not claims:
            return
        failed = await reserve(self._sessions, claims)
        self._refuse({name: [error] for name, error in failed.items()})
        self._around.notes += [f"not claimed: {error.message}" for error in failed.values()]
        self._claimed = claims.keys() - failed.keys()

    def report(self) -> ImportReport:
        """Return the manifests, with a note where the operator does not adopt roles yet."""
        if self._accesses.keys() - self._claimed and not self._around.settings.allow_adoption:
            self._around.notes.append(
                "the operator adopts no role without a claim unless its Controller has"
                " spec.settings.postgres.allowAdoption: true"
            )
        return ImportReport(
            server=self._server.metadata.name,
            accesses=tuple(
                Imported(
                    role=name,
                    manifest=manifest(access),
                    claimed=name in self._claimed,
                    comments=tuple(self._comments[name]),
                )
                for name, access in self._accesses.items()
            ),
            skipped=tuple(self._skipped),
            notes=tuple(dict.fromkeys(self._around.notes)),
        )


def _sources(role: RoleFacts, snapshot: ServerSnapshot) -> list[RoleFacts]:
    """Return the role, and our groups that give it privileges."""
    names = snapshot.groups.keys() & role.groups.keys() & snapshot.roles.keys()
    return [role, *(snapshot.roles[name] for name in sorted(names))]


def manifest(access: PostgresAccess) -> JSON:
    """Return the object as a manifest, without fields of no interest to its reader."""
    spec = msgspec.to_builtins(access.spec)
    spec.setdefault("grants", [])
    for grant in spec["grants"]:
        if grant.get("on") != "Database":
            grant.setdefault("schema", "public")
    order: Mapping[str, object] = {name: spec[name] for name in _ORDER if name in spec}
    return {
        "apiVersion": POSTGRESACCESSES.api_version,
        "kind": POSTGRESACCESSES.kind,
        "metadata": {"name": access.metadata.name, "namespace": access.metadata.namespace},
        "spec": dict(order),
    }


_ORDER = (
    *("connection", "username", "generatedSecret", "adoptionPolicy", "passwordPolicy"),
    *("attributes", "memberOf", "groups", "grantsPolicy", "grants"),
)
