"""What an access asks for beside grants: suspension, plans, approvals, an end; and GitOps.

Each test runs on the sandbox and, where there is one, on a real control plane.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest
from msgspec.structs import replace
from tests.support.kubectl import MISSING, Result, Shell, kubectls
from tests.support.planes import ControlPlane
from tests.support.postgres import access, prepare, running
from tests.support.standby import ColdCopy
from tests.support.switch import Switch
from tests.support.team import Administrator, Team
from tests.support.waiting import condition, eventually, failed_with, gone, idle, is_ready

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import APPROVE_ANNOTATION, POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import SECRETS
from fairlead.api.timestamps import parse_time
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.app import controllers
from fairlead.postgres.commands.audit import audit
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.controllers.rules.login_secret import MANAGED_BY, MANAGED_BY_LABEL
from fairlead.postgres.controllers.servers import work
from fairlead.postgres.database.plans.plan import ShownPlan
from fairlead.postgres.database.reading import comparison
from fairlead.postgres.database.work import planning, privileges, sync
from fairlead.postgres.manifests import NAME
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions
from fairlead.runtime import Cluster


OPTIONS = PostgresOptions(
    excluded_users=("excluded",), pending_interval=0.2, synced_interval=0.5, server_interval=1.0
)


class Alone(Team):
    """A team whose operator comes and goes."""

    @classmethod
    def of(cls, client: Client, postgres: EmbeddedPostgres) -> Alone:
        administrator = Administrator(postgres.username, postgres.password, superuser=True)
        return cls(client, postgres, administrator)

    async def annotate(self, name: str, annotation: str, value: str) -> None:
        body = {"metadata": {"annotations": {annotation: value}}}
        await self.client.merge_patch(POSTGRESACCESSES, name, self.namespace, body)

    async def approve(self, name: str, digest: str) -> None:
        await self.annotate(name, APPROVE_ANNOTATION, digest)

    async def name_in_status(self, name: str, username: str) -> None:
        body = {"status": {"username": username}}
        await self.client.merge_patch(
            POSTGRESACCESSES, name, self.namespace, body, subresource="status"
        )

    async def body(self, name: str) -> JSON:
        return (await self.client.get(POSTGRESACCESSES, name, self.namespace)).to_dict()

    async def reason(self, name: str, reason: str) -> JSON:
        """The object, once Ready says so of the spec as it is."""

        def until(body: JSON) -> bool:
            told = condition(body, "Ready")
            current = body.get("status", {}).get("observedGeneration")
            return told.get("reason") == reason and current == body["metadata"]["generation"]

        return await self.wait(name, until)

    async def no_secret(self, name: str) -> bool:
        return f"{name}-login" not in await self.secrets()


@pytest.fixture
async def team(control_plane: ControlPlane, postgres: EmbeddedPostgres) -> AsyncIterator[Alone]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as admin:
        await prepare(admin)
        made = Alone.of(admin, postgres)
        await made.arrive()
        await made.build("CREATE TABLE t (id int)")
        yield made
        async with running(admin, OPTIONS):
            await made.leave()


async def test_a_suspended_access_is_left_alone_until_it_is_deleted(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(grants=[team.grant("CONNECT")])
        await team.ready(name)
        await team.patch(name, suspend=True, grants=[team.grant("CONNECT", "SELECT")])
        applied = "nothing after generation 1 is applied"
        await team.wait(name, lambda body: applied in body["status"].get("lastLog", ""))
        await team.sql("ALTER ROLE {r} NOLOGIN", r=name)
        other = await team.create("other")
        await team.ready(other)
        before = (await team.roles(), await team.secret(name), await team.privileges(name))
        await team.poke()
        assert await idle(1.5)
        await team.removed(other)
        assert (await team.secret(name), await team.privileges(name)) == before[1:]
        assert [row for row in await team.roles() if row[0] == name] == [
            row for row in before[0] if row[0] == name
        ]
        await team.removed(name)


async def test_a_suspended_access_is_ready_for_no_spec_but_the_one_that_was_applied(
    team: Alone,
) -> None:
    """Of a change that came with ``suspend``, before it or after it nothing is done."""
    grants, more = [team.grant("CONNECT")], [team.grant("CONNECT", "SELECT")]

    def is_of(generation: int) -> Callable[[JSON], bool]:
        def until(body: JSON) -> bool:
            status = body["status"]
            found = {one["observedGeneration"] for one in status["conditions"]}
            found.add(status["observedGeneration"])
            applied = body["metadata"]["generation"] == generation
            said = f"after generation {generation} is applied" in status["lastLog"]
            return found == {generation} and said != applied

        return until

    async with running(team.client, OPTIONS):
        name = await team.create(grants=grants)
        other = await team.create("other")
        await team.ready(name)
        before = await team.privileges(name)
        await team.patch(name, suspend=True, grants=more)
        await team.wait(name, is_of(1))
        await team.patch(name, grants=grants)
        await team.wait(name, is_of(3))
        await team.patch(name, grants=more)
        await team.wait(name, is_of(3))
        assert await team.privileges(name) == before
        await team.ready(other)
    # Whoever comes next does not know it better.
    async with running(team.client, OPTIONS):
        await team.ready(other)
        await team.wait(name, is_of(3))
        await team.patch(name, suspend=False)
        await team.ready(name)
        assert await team.privileges(name) != before
        await team.patch(name, suspend=True)
        await team.wait(name, is_of(6))
        await team.ready(other)


async def test_who_loses_a_race_for_a_name_keeps_no_secret(team: Alone) -> None:
    """All of them have seen that the role is not there, before the first has made it."""
    shared = team.name("shared")
    names = [await team.create(f"racer{number}", username=shared) for number in range(30)]
    other = await team.create("other")

    def is_over(body: JSON) -> bool:
        return is_ready(body) or failed_with("UsernameConflict")(body)

    async with running(team.client, OPTIONS):
        bodies = [await team.wait(name, is_over) for name in names]
        winners = [name for name, body in zip(names, bodies, strict=True) if is_ready(body)]
        assert len(winners) == 1
        await team.ready(other)

        # The late event of a Secret that a loser has deleted may start one more pass of it.
        async def only_roles_have_secrets() -> bool:
            return set(await team.secrets()) == {f"{winners[0]}-login", f"{other}-login"}

        await eventually(only_roles_have_secrets)
        assert await team.can_login(shared, (await team.secret(winners[0]))["password"])
        losers = [name for name in names if name not in winners]
        for name in losers:
            await team.delete(name)
        for name in losers:
            await team.gone(name)
        await team.ready(winners[0])
        # What a former version left behind goes as well.
        late = await team.create("late", suspend=True, username=shared)
        body = await team.reason(late, "Suspended")
        owner = {"kind": body["kind"], "apiVersion": body["apiVersion"], "controller": True}
        meta = body["metadata"]
        owners = [{**owner, "name": late, "uid": meta["uid"]}]
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"{late}-login",
                "labels": {MANAGED_BY_LABEL: MANAGED_BY},
                "ownerReferences": owners,
            },
            "stringData": {"username": shared, "password": "of-nobody"},
        }
        await team.client.create(SECRETS, secret, team.namespace)
        await team.patch(late, suspend=False)
        await team.reason(late, "UsernameConflict")
        # At once, or as soon as the operator has heard of the Secret.
        await gone(team.client, SECRETS, f"{late}-login", team.namespace)
        await team.delete(late)
        await team.gone(late)


async def test_a_refused_access_is_looked_at_as_often_as_pending_ones(team: Alone) -> None:
    """What somebody has done in the server about it is told by nothing else."""
    await team.sql("CREATE ROLE {r}", r=team.name("refused"))
    async with running(team.client, replace(OPTIONS, synced_interval=3600.0)):
        name, other = await team.create("refused"), await team.create("other")
        await team.reason(name, "AdoptionRefused")
        before = await team.ready(other)
        assert condition(await team.body(name), "Stalled")["status"] == "True"
        await team.sql("DROP ROLE {r}", r=name)
        await team.ready(name)
        assert (await team.body(other))["metadata"] == before["metadata"]


@pytest.mark.parametrize("hangs", [False, True], ids=["nothing-listens", "hangs"])
@pytest.mark.parametrize("rotation", ["InPlace", "TwoLogins"])
async def test_for_a_server_that_never_answered_nothing_is_made(
    team: Alone, monkeypatch: pytest.MonkeyPatch, rotation: str, hangs: bool
) -> None:
    monkeypatch.setattr(bounds, "CONNECT_SECONDS", 2)
    listening: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, w: listening.append(w), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    if not hangs:
        silent.close()
    policy = {"rotation": rotation, **({"rotateEvery": "1h"} if rotation == "TwoLogins" else {})}
    name = await team.create(connection=team.directly(port=port), passwordPolicy=policy)
    other = await team.create("other")
    async with running(team.client, OPTIONS):
        await team.wait(name, failed_with("ConnectionFailed"))
        await team.ready(other)
        assert set(await team.secrets()) == {f"{other}-login"}
        assert "binding" not in (await team.body(name))["status"]
        await team.delete(name)
        await team.gone(name)
        assert set(await team.secrets()) == {f"{other}-login"}
    silent.close()
    for writer in listening:
        writer.close()


async def test_an_access_suspended_from_the_beginning_makes_nothing(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(suspend=True)
        await team.reason(name, "Suspended")
        assert await team.no_secret(name)
        assert not await team.role_exists(name)
        await team.patch(name, suspend=False)
        await team.ready(name)


async def test_who_observes_changes_nothing(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(mode="Observe", grants=[team.grant("CONNECT", "SELECT")])
        body = await team.reason(name, "Observed")
        assert not await team.role_exists(name)
        plan = body["status"]["plan"]
        text = "\n".join(plan["statements"])
        assert "CREATE ROLE" in text
        assert "PASSWORD '***'" in text
        assert f"{team.database}: GRANT SELECT ON" in text
        assert plan["total"] == len(plan["statements"]) > 3
        assert "SCRAM" not in json.dumps(body)
        # What another test has left behind is swept meanwhile.
        assert await idle(1.0)
        before = (await team.roles(), await team.xid())
        await team.poke()
        assert await idle(1.5)
        # Salts and made-up passwords change no digest.
        assert (await team.body(name))["status"]["plan"] == plan
        assert (await team.roles(), await team.xid()) == before
        assert await team.no_secret(name)
        await team.patch(name, mode="Enforce")
        body = await team.ready(name)
        assert "plan" not in body["status"]
        assert await team.can_login(name, (await team.secret(name))["password"])


async def test_who_observes_what_was_enforced_leaves_it_as_it_is(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(grants=[team.grant("CONNECT")])
        await team.ready(name)
        await team.patch(name, mode="Observe")
        body = await team.ready(name)
        assert "the operator would change nothing" in body["status"]["lastLog"]
        assert body["status"]["binding"] == {"name": f"{name}-login"}
        secret, before = await team.secret(name), await team.roles()
        await team.sql("REVOKE CONNECT ON DATABASE {d} FROM {r}", d=team.database, r=name)
        body = await team.wait(name, lambda body: condition(body, "Ready")["status"] == "False")
        (statement,) = body["status"]["plan"]["statements"]
        assert "GRANT CONNECT ON DATABASE" in statement
        assert (await team.secret(name), await team.roles()) == (secret, before)
        assert await team.privileges(name) == set()
        await team.removed(name)


@pytest.mark.edge
async def test_a_plan_is_carried_out_once_it_is_approved_and_only_that(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(approval="Manual", grants=[team.grant("CONNECT", "SELECT")])
        body = await team.reason(name, "ApprovalPending")
        digest = body["status"]["plan"]["digest"]
        assert digest in body["status"]["lastLog"]
        assert await idle(1.0)
        before = (await team.roles(), await team.xid())
        await team.approve(name, "0" * 32)
        assert await idle(1.0)
        assert (await team.roles(), await team.xid()) == before
        assert await team.no_secret(name)
        await team.approve(name, digest)
        body = await team.ready(name)
        plan = body["status"]["plan"]
        assert plan["approvedDigest"] == digest
        # The manager of fields is the client's User-Agent, up to its first slash.
        assert plan["approvedBy"].startswith("fairlead")
        assert ("t", "SELECT") in await team.privileges(name)
        assert await idle(1.0)
        assert (await team.body(name))["status"]["plan"] == plan


async def test_each_drift_needs_an_approval_of_its_own(team: Alone) -> None:
    """Also when the same statement has been approved before."""
    async with running(team.client, OPTIONS):
        name = await team.create(grants=[team.grant("CONNECT")])
        await team.ready(name)
        await team.patch(name, approval="Manual")
        await team.ready(name)
        digests = []
        for _ in range(2):
            await team.sql("REVOKE CONNECT ON DATABASE {d} FROM {r}", d=team.database, r=name)
            body = await team.reason(name, "ApprovalPending")
            assert await team.privileges(name) == set()
            assert body["status"]["plan"]["total"] == 1
            digests.append(body["status"]["plan"]["digest"])
            await team.approve(name, digests[-1])
            await team.ready(name)
            assert (f"database {team.database}", "CONNECT") in await team.privileges(name)
        assert len(set(digests)) == 2


async def test_drift_right_after_the_plan_needs_an_approval_too(
    team: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, drifts = planning.plan_accesses, [False]

    async def plan_accesses(*args: Any, **options: Any) -> ShownPlan:
        planned = await original(*args, **options)
        if drifts.pop():
            await team.sql("REVOKE CONNECT ON DATABASE {d} FROM {r}", d=team.database, r=name)
        drifts.append(False)
        return planned

    async with running(team.client, OPTIONS):
        name = await team.create(grants=[team.grant("CONNECT")])
        await team.ready(name)
        await team.patch(name, approval="Manual", grants=[team.grant("CONNECT", "SELECT")])
        approved = (await team.reason(name, "ApprovalPending"))["status"]["plan"]["digest"]
        monkeypatch.setattr(work, "plan_accesses", plan_accesses)
        drifts.append(True)
        await team.approve(name, approved)

        def otherwise(body: JSON) -> bool:
            return bool(body["status"]["plan"].get("digest") != approved)

        body = await team.wait(name, otherwise)
        assert condition(body, "Ready")["reason"] == "ApprovalPending"
        assert await team.privileges(name) == set()
        assert body["status"]["plan"].get("approvedDigest", "") == ""
        await team.approve(name, body["status"]["plan"]["digest"])
        await team.ready(name)
        found = await team.privileges(name)
        assert {(f"database {team.database}", "CONNECT"), ("t", "SELECT")} <= found


@pytest.mark.parametrize("drifts", [False, True])
async def test_after_a_kill_the_rest_of_an_approved_plan_goes_on(
    team: Alone, monkeypatch: pytest.MonkeyPatch, drifts: bool
) -> None:
    """The role is made, and the operator dies before it grants anything in the database."""
    made = asyncio.Event()

    async def visit_databases(*_: object, **__: object) -> NoReturn:
        made.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with running(team.client, OPTIONS):
        name = await team.create(approval="Manual", grants=[team.grant("CONNECT", "SELECT")])
        digest = (await team.reason(name, "ApprovalPending"))["status"]["plan"]["digest"]
        with monkeypatch.context() as patch:
            patch.setattr(sync, "visit_databases", visit_databases)
            await team.approve(name, digest)
            await made.wait()
    assert await team.role_exists(name)
    if drifts:
        await team.sql("GRANT INSERT ON t TO {r}", r=name)
    before = await team.privileges(name)
    async with running(team.client, OPTIONS):
        if drifts:
            told = f"the approval {digest} is void"
            body = await team.wait(name, lambda body: told in body["status"]["lastLog"])
            assert await team.privileges(name) == before
            digest = body["status"]["plan"]["digest"]
            await team.approve(name, digest)
        plan = (await team.ready(name))["status"]["plan"]
        assert plan["approvedDigest"] == digest
        assert "parts" not in plan
        found = await team.privileges(name)
        assert ("t", "SELECT") in found
        assert ("t", "INSERT") not in found


@pytest.mark.parametrize(
    "drift",
    [
        pytest.param("", id="nothing"),
        pytest.param("GRANT INSERT ON many50 TO {r}", id="another-privilege"),
        pytest.param("GRANT SELECT ON t TO {r}", id="another-table"),
        pytest.param("GRANT SELECT ON many0 TO {r}", id="what-was-taken-away"),
    ],
)
async def test_all_pieces_of_very_many_privileges_are_one_approval(
    team: Alone, monkeypatch: pytest.MonkeyPatch, drift: str
) -> None:
    """The operator is killed between two pieces; what comes meanwhile was not approved."""
    monkeypatch.setattr(bounds, "ACL_WINDOW", 10)
    reached, read = asyncio.Event(), comparison.read_window

    async def read_window(*args: Any) -> comparison.Reading:
        # After two windows.
        if await foreign() <= 40:
            reached.set()
            await asyncio.Event().wait()
        return await read(*args)

    async def foreign() -> int:
        found = await team.privileges(name)
        return len({one for one in found if one[0].startswith("many") or one[0] == "t"})

    async with running(team.client, OPTIONS):
        name = await team.create(grants=[team.grant("CONNECT")])
        await team.ready(name)
        await team.patch(name, approval="Manual")
        await team.ready(name)
    await team.build(*(f"CREATE TABLE many{number} ()" for number in range(60)))
    await team.sql(*(f"GRANT SELECT ON many{number} TO {{r}}" for number in range(60)), r=name)
    async with running(team.client, OPTIONS):
        plan = (await team.reason(name, "ApprovalPending"))["status"]["plan"]
        assert plan["statements"] == [
            f'{team.database}: REVOKE SELECT ON 60 tables FROM "{name}"',
        ]
        with monkeypatch.context() as patch:
            patch.setattr(privileges, "read_window", read_window)
            await team.approve(name, plan["digest"])
            await reached.wait()
    assert await foreign() == 40
    digest = plan["digest"]
    if drift:
        await team.sql(drift, r=name)
    async with running(team.client, OPTIONS):
        if drift:
            told = f"the approval {digest} is void"
            body = await team.wait(name, lambda body: told in body["status"]["lastLog"])
            assert await foreign() == 41
            digest = body["status"]["plan"]["digest"]
            await team.approve(name, digest)
        plan = (await team.ready(name))["status"]["plan"]
        assert plan["approvedDigest"] == digest
        assert await foreign() == 0


async def test_an_approval_is_of_one_server_whatever_its_address_leads_to(
    team: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cold copy beside the original, and DNS or a proxy that turns; a neighbour is at work."""

    async def has_role(server: EmbeddedPostgres, role: str) -> bool:
        async with await psycopg.AsyncConnection.connect(server.dsn()) as session:
            found = await session.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))
            return bool(await found.fetchall())

    def void(digest: str) -> Callable[[JSON], bool]:
        return lambda body: f"the approval {digest} is void" in body["status"]["lastLog"]

    async with EmbeddedPostgres() as original, Switch() as switch:
        await original.stop_server()
        async with ColdCopy(original) as copy, running(team.client, OPTIONS):
            await original.start_server()
            there, other = (f"http://127.0.0.1:{one.port}" for one in (original, copy))
            await switch.turn(there)
            neighbour = await team.create("neighbour")
            connection = {
                "host": "127.0.0.1",
                "port": switch.port,
                "sslMode": "disable",
                "username": {"value": original.username},
                "password": {"value": original.password},
            }
            name = await team.create(approval="Manual", connection=connection)
            body = await team.reason(name, "ApprovalPending")
            first = body["status"]["plan"]["digest"]
            await switch.turn(other)
            await team.approve(name, first)
            body = await team.wait(name, void(first))
            assert condition(body, "Ready")["reason"] == "ApprovalPending"
            assert not await has_role(original, name)
            assert not await has_role(copy, name)
            second = body["status"]["plan"]["digest"]
            # A restart at the same address makes no other server.
            await copy.stop_server()
            await copy.start_server()
            await team.approve(name, second)
            await team.ready(name)
            assert await has_role(copy, name)
            assert not await has_role(original, name)
            await team.annotate(name, ROTATE_ANNOTATION, "now")
            pending = (await team.reason(name, "ApprovalPending"))["status"]["plan"]["digest"]
            password = await team.secret(name)
            plan = planning.plan_accesses

            async def turning_after_the_plan(*args: Any, **options: Any) -> ShownPlan:
                planned = await plan(*args, **options)
                annotations = (await team.body(name))["metadata"]["annotations"]
                if annotations[APPROVE_ANNOTATION] == pending and switch.targets != (there,):
                    await switch.turn(there)
                return planned

            monkeypatch.setattr(work, "plan_accesses", turning_after_the_plan)
            await team.approve(name, pending)
            await team.wait(name, void(pending))
            assert await team.secret(name) == password
            assert not await has_role(original, name)
            await team.ready(neighbour)
            await team.abandon(name)
            await team.delete(name)
            await team.gone(name)


async def test_an_approval_is_of_one_database_whatever_has_its_name(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(grants=[team.grant("CONNECT")], approval="Manual")
        first = (await team.reason(name, "ApprovalPending"))["status"]["plan"]["digest"]
        await team.sql("DROP DATABASE {d} WITH (FORCE)", d=team.database, database="postgres")
        await team.create_database(team.database)
        await team.approve(name, first)
        told = f"the approval {first} is void"
        body = await team.wait(name, lambda body: told in body["status"]["lastLog"])
        assert not await team.role_exists(name)
        await team.approve(name, body["status"]["plan"]["digest"])
        await team.ready(name)


async def test_a_new_password_needs_an_approval_too(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(grants=[team.grant("CONNECT")])
        await team.ready(name)
        await team.patch(name, approval="Manual")
        await team.ready(name)
        first = (await team.secret(name))["password"]
        await team.annotate(name, ROTATE_ANNOTATION, "now")
        body = await team.reason(name, "ApprovalPending")
        (statement,) = body["status"]["plan"]["statements"]
        assert statement.endswith("PASSWORD '***'")
        assert (await team.secret(name))["password"] == first
        assert await team.can_login(name, first)
        await team.approve(name, body["status"]["plan"]["digest"])
        await team.logs_in(name, first, False)
        await team.ready(name)
        assert await team.can_login(name, (await team.secret(name))["password"])


async def test_an_approval_holds_until_it_could_be_carried_out(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(approval="Manual", grants=[team.grant("CONNECT")])
        body = await team.reason(name, "ApprovalPending")
        foreign: JSON = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{name}-login", "namespace": team.namespace},
        }
        await team.client.create(SECRETS, foreign)
        await team.approve(name, body["status"]["plan"]["digest"])
        await team.fails(name, "SecretConflict")
        await team.client.delete(SECRETS, f"{name}-login", team.namespace)
        await team.ready(name)


def ends_in(seconds: float, body: JSON) -> str:
    """spec.expiresAfter of an object that shall end so many seconds from now."""
    created = parse_time(body["metadata"]["creationTimestamp"])
    left = datetime.now(UTC) + timedelta(seconds=seconds) - created
    return f"{left.total_seconds():.0f}s"


@pytest.mark.parametrize("policy", ["Restrict", "Retain"])
async def test_an_access_ends_on_time_and_comes_back_when_that_is_raised(
    team: Alone, policy: str
) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(
            expiresAfter="1h", cleanupPolicy=policy, grants=[team.grant("CONNECT")]
        )
        body = await team.ready(name)
        ends = parse_time(body["metadata"]["creationTimestamp"]) + timedelta(hours=1)
        assert parse_time(body["status"]["expiresAt"]) == ends
        query = "SELECT rolvaliduntil FROM pg_catalog.pg_roles WHERE rolname = %s"
        assert await team.sql(query, values=(name,)) == [(ends,)]
        password = (await team.secret(name))["password"]
        async with team.login(name) as session:
            await team.patch(name, expiresAfter="1s")
            body = await team.reason(name, "Expired")
            with pytest.raises(psycopg.OperationalError):
                await session.execute("SELECT 1")
        assert condition(body, "Stalled")["status"] == "True"
        assert "binding" not in body["status"]
        assert await team.no_secret(name)
        assert not await team.can_login(name, password)
        assert await team.role_exists(name) is (policy == "Retain")
        assert await idle(1.0)
        assert (await team.body(name))["metadata"] == body["metadata"]
        await team.patch(name, expiresAfter="2h")
        await team.ready(name)
        again = (await team.secret(name))["password"]
        assert again != password
        assert await team.can_login(name, again)
        await team.patch(name, expiresAfter=None)
        body = await team.ready(name)
        assert "expiresAt" not in body["status"]
        assert not await team.sql(f"{query} AND rolvaliduntil < 'infinity'", values=(name,))


async def test_the_server_ends_a_login_while_the_operator_is_away(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(expiresAfter="1h", grants=[team.grant("CONNECT")])
        body = await team.ready(name)
        password = (await team.secret(name))["password"]
        after = ends_in(4, body)
        await team.patch(name, expiresAfter=after)
        await team.ready(name)
    # Whoever was slower than that found it expired, which is another test's.
    await team.logs_in(name, password, False)
    async with running(team.client, OPTIONS):
        await team.reason(name, "Expired")
        assert not await team.role_exists(name)
        assert await team.no_secret(name)


async def test_an_end_that_was_taken_back_while_the_server_was_away_is_taken_back(
    team: Alone,
) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(expiresAfter="1h", grants=[team.grant("CONNECT")])
        await team.ready(name)
        await team.client.merge_patch(POSTGRESSERVERS, team.server, "", {"spec": {"port": 1}})
        # Two watches tell of the two patches: by the old address the end is taken back at once.
        await team.wait(name, failed_with("ConnectionFailed"))
        await team.patch(name, expiresAfter=None)
        body = await team.wait(name, failed_with("ConnectionFailed"))
        assert "expiresAt" in body["status"]
        await team.client.merge_patch(
            POSTGRESSERVERS, team.server, "", {"spec": {"port": team.postgres.port}}
        )
        await team.ready(name)
        query = """SELECT COALESCE(rolvaliduntil, 'infinity') = 'infinity'
                     FROM pg_catalog.pg_roles WHERE rolname = %s"""
        assert await team.sql(query, values=(name,)) == [(True,)]


async def test_what_is_owned_is_kept_without_its_login_when_the_access_ends(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(
            expiresAfter="1h", grants=[team.grant("CONNECT", "CREATE", "USAGE")]
        )
        await team.ready(name)
        password = (await team.secret(name))["password"]
        async with team.login(name) as session:
            await session.execute("CREATE TABLE mine (id int)")
        await team.patch(name, expiresAfter="1s")
        body = await team.wait(name, failed_with("OwnsObjects"))
        assert body["status"]["deletion"]["blockers"] == [
            {"database": team.database, "objects": ["table public.mine"]}
        ]
        assert not await team.can_login(name, password)
        assert await team.no_secret(name)
        await team.sql("DROP TABLE mine")
        body = await team.reason(name, "Expired")
        assert "deletion" not in body["status"]
        assert not await team.role_exists(name)


@pytest.mark.parametrize("after", ["80000000h", "999999999999999h", "0s"])
async def test_an_end_that_is_none_stops_no_deletion(team: Alone, after: str) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create(expiresAfter=after)
        await team.reason(name, "Expired" if after == "0s" else "DatabaseSyncFailed")
        assert not await team.role_exists(name)
        await team.removed(name)


async def test_a_password_that_is_overdue_starts_no_loop(team: Alone) -> None:
    """Where nothing is done about it: it was suspended, is over, or may not be changed."""
    async with running(team.client, OPTIONS):
        names = []
        for suffix, spec in (
            ("suspended", {"suspend": True}),
            ("observed", {"mode": "Observe"}),
            ("refused", {"memberOf": [{"role": team.name("refused")}]}),
            ("over", {"expiresAfter": "1s"}),
        ):
            name = await team.create(suffix, passwordPolicy={"rotateEvery": "1m"})
            body = await team.ready(name)
            status = body["status"]
            status["password"]["nextRotation"] = "2020-01-01T00:00:00Z"
            await team.patch(name, **spec)
            await team.client.merge_patch(
                POSTGRESACCESSES, name, team.namespace, {"status": status}, subresource="status"
            )
            names.append(name)
        log, begun = team.postgres.logged(), time.monotonic()
        assert await idle(2.0)
        # Two looks a second at each are what the intervals allow; a loop makes twenty.
        looks = team.postgres.log(log).count("pg_control_system")
        assert looks < 15 * (time.monotonic() - begun)


async def test_what_cannot_be_had_takes_nothing_from_the_login(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        config = {"session_replication_role": "replica"}
        name = await team.create(grants=[team.grant("CONNECT")], attributes={"config": config})
        body = await team.reason(name, "PolicyDenied")
        assert "spec.attributes.config.session_replication_role" in body["status"]["lastLog"]
        assert body["status"]["binding"] == {"name": f"{name}-login"}
        assert body["status"]["username"] == name
        assert await team.can_login(name, (await team.secret(name))["password"])
        await team.removed(name)


async def test_a_username_that_somebody_writes_into_a_status_proves_nothing(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name, neighbour = await team.create(), await team.create("neighbour")
        await team.ready(name)
        await team.ready(neighbour)
        await team.name_in_status(name, neighbour)
        await team.patch(name, grants=[team.grant("CONNECT")])
        body = await team.reason(name, "Ready")
        assert body["status"]["username"] == name
    await team.name_in_status(name, neighbour)
    await team.delete(name)
    async with running(team.client, OPTIONS):
        await team.gone(name)
        assert not await team.role_exists(name)
        assert await team.can_login(neighbour, (await team.secret(neighbour))["password"])


async def test_adoption_is_for_whom_the_operator_allows_it(team: Alone) -> None:
    role = team.name("by-hand")
    await team.sql("CREATE ROLE {r} LOGIN PASSWORD 'by hand'", r=role)
    async with running(team.client, OPTIONS):
        name = await team.create(username=role, adoptionPolicy="IfUnclaimed")
        await team.fails(name, "AdoptionRefused")
        assert await team.no_secret(name)
        assert await team.can_login(role, "by hand")
    async with running(team.client, replace(OPTIONS, allow_adoption=True)):
        await team.annotate(name, "poked", "1")
        await team.ready(name)
        assert await team.can_login(role, (await team.secret(name))["password"])
        assert not await team.can_login(role, "by hand")
        excluded = await team.create("excluded", username="excluded", adoptionPolicy="IfUnclaimed")
        await team.fails(excluded, "UserExcluded")


async def test_no_name_of_a_tenant_is_shown_to_who_logs_in(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name = await team.create("private", username=f"u{team.id}")
        await team.ready(name)
        rows = await team.sql("SELECT description FROM pg_catalog.pg_shdescription")
        assert any("managed by Fairlead" in row for (row,) in rows)
        assert team.namespace not in str(rows)
        assert "private" not in str(rows)


async def test_a_renamed_role_is_told_of(team: Alone) -> None:
    async with running(team.client, OPTIONS):
        name, old = await team.create(), team.name("renamed")
        await team.ready(name)
        password = (await team.secret(name))["password"]
        await team.sql("ALTER ROLE {r} RENAME TO {o}", r=name, o=old)
        body = await team.wait(name, lambda body: old in str(body["status"].get("warnings")))
        assert is_ready(body)
        assert not await team.can_login(old, password)
        assert await team.can_login(name, password)

        async def told() -> bool:
            return [one["reason"] for one in await team.events(name)].count("RoleRenamed") == 1

        await eventually(told)
        await team.sql("DROP ROLE {o}", o=old)
        await team.wait(name, lambda body: "warnings" not in body["status"])


async def test_another_server_is_told_of(team: Alone) -> None:
    async with EmbeddedPostgres() as elsewhere, running(team.client, OPTIONS):
        name = await team.create(connection=team.directly())
        await team.ready(name)
        there = Alone.of(team.client, elsewhere)
        await team.patch(name, connection=there.directly())
        await team.wait(name, is_ready)

        async def told() -> bool:
            return "ServerChanged" in [one["reason"] for one in await team.events(name)]

        await eventually(told)
        assert await there.role_exists(name)
        await team.delete(name)
        await team.gone(name)
        assert not await there.role_exists(name)


async def test_what_an_access_left_at_another_server_goes_with_it(team: Alone) -> None:
    async with EmbeddedPostgres() as elsewhere, running(team.client, OPTIONS):
        name, stays = await team.create(), await team.create("stays")
        await team.ready(name)
        await team.ready(stays)
        there = Alone.of(team.client, elsewhere)
        await team.patch(name, connection={"serverRef": None, **there.directly()})
        await team.wait(
            name,
            lambda body: is_ready(body) and body["status"]["server"]["host"] == elsewhere.host,
        )
        assert await there.role_exists(name)
        assert await team.role_exists(name)
        surroundings = await Surroundings.of(team.client, DEFAULT_NAMESPACE)
        (found,) = (await audit(surroundings, team.server, [name])).roles
        assert (found.kind, found.login) == ("leftover", True)
        await team.delete(name)
        await team.gone(name)

        async def away() -> bool:
            await team.poke()
            return not await team.role_exists(name)

        await eventually(away)
        assert await team.role_exists(stays)


async def test_an_access_torn_out_while_its_server_works_leaves_no_role(team: Alone) -> None:
    name = team.name()
    async with running(team.client, replace(OPTIONS, synced_interval=3600.0)):
        async with team.locked("pg_catalog.pg_authid", "SHARE", database="postgres"):
            await team.create(grants=[team.grant("CONNECT")])

            await eventually(lambda: waits(team))
            body = {"metadata": {"finalizers": None}}
            await team.client.merge_patch(POSTGRESACCESSES, name, team.namespace, body)
            await team.delete(name)
            await team.gone(name)

        async def away() -> bool:
            return not await team.role_exists(name)

        await team.ready(await team.create("next"))
        await eventually(away)


async def test_a_deletion_while_its_server_works_follows(team: Alone) -> None:
    name = team.name()
    async with running(team.client, OPTIONS):
        async with team.locked("pg_catalog.pg_authid", "SHARE", database="postgres"):
            await team.create(grants=[team.grant("CONNECT")])
            await eventually(lambda: waits(team))
            await team.delete(name)
        await team.gone(name)
        assert not await team.role_exists(name)


async def waits(team: Alone) -> bool:
    query = "SELECT 1 FROM pg_catalog.pg_locks WHERE NOT granted"
    return bool(await team.sql(query, database="postgres"))


def kstatus(body: JSON) -> str:
    """What kstatus makes of an object, by its rules for kinds that it does not know.

    https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
    """
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = body.get("status") or {}
    observed = status.get("observedGeneration")
    if observed is not None and observed != body["metadata"]["generation"]:
        return "InProgress"
    for type_, verdict in (("Reconciling", "InProgress"), ("Stalled", "Failed")):
        if condition(body, type_).get("status") == "True":
            return verdict
    ready = condition(body, "Ready").get("status")
    return "InProgress" if ready in {"False", "Unknown"} else "Current"


async def test_gitops_sees_what_is_so(team: Alone) -> None:
    name = await team.create()
    fresh = await team.body(name)
    assert fresh["status"] == {"observedGeneration": -1}
    assert kstatus(fresh) == "InProgress"
    async with running(team.client, OPTIONS):
        body = await team.ready(name)
        assert kstatus(body) == "Current"
        assert {one["type"] for one in body["status"]["conditions"]} == {
            "Ready",
            "Success",
            "InProgress",
        }
        await team.patch(name, grants=[team.grant("SELECT", schema="nowhere")])
        assert kstatus(await team.body(name)) == "InProgress"
        assert kstatus(await team.wait(name, failed_with("SchemaNotFound"))) == "InProgress"
        await team.patch(name, grants=[], memberOf=[{"role": name}])
        assert kstatus(await team.wait(name, failed_with("MemberOfInvalid"))) == "Failed"
        await team.patch(name, memberOf=None)
        assert kstatus(await team.ready(name)) == "Current"


async def test_what_a_person_asks_kubectl(
    team: Alone, control_plane: ControlPlane, tmp_path: Path
) -> None:
    if not kubectls():
        pytest.skip(MISSING)
    shell = Shell(kubectls()[0], control_plane.kubeconfig(), tmp_path, team.namespace)

    async def run(command: str) -> Result:
        return await asyncio.to_thread(shell.run, command)

    async with running(team.client, OPTIONS):
        name = await team.create(grants=[team.grant("CONNECT")])
        waited = await run(f"wait postgresaccess/{name} --for=condition=Ready --timeout=60s -n NS")
        assert (waited.code, waited.err) == (0, "")
        listed = await run("get fairlead -n NS")
        assert (listed.code, listed.err) == (0, "")
        kinds = {line.partition("/")[0] for line in listed.out.splitlines() if "/" in line}
        assert {
            "postgresaccess.access.k8s.delta10.nl",
            "postgresserver.access.k8s.delta10.nl",
        } <= kinds
        told = await run(f"describe postgresaccess {name} -n NS")
        assert "PostgresAccess is in sync and ready" in told.out
        deleted = await run(f"delete postgresaccess {name} -n NS --wait=false")
        gone = await run(f"wait postgresaccess/{name} --for=delete --timeout=60s -n NS")
        assert (deleted.code, gone.code) == (0, 0)
        assert not await team.role_exists(name)


@pytest.mark.edge
async def test_a_second_apply_changes_nothing(team: Alone) -> None:
    name = team.name()
    wanted = access(
        name,
        team.namespace,
        team.server,
        grants=[team.grant("CONNECT")],
        attributes={"connectionLimit": 5, "config": {"search_path": '"a,b", c'}},
        memberOf=[],
        expiresAfter="8h",
    )
    async with running(team.client, OPTIONS):
        await team.client.apply(POSTGRESACCESSES, wanted)
        await team.ready(name)
        assert await idle(1.0)
        before = (await team.body(name), await team.roles(), await team.xid())
        await team.client.apply(POSTGRESACCESSES, wanted)
        assert await idle(1.0)
        assert (await team.body(name), await team.roles(), await team.xid()) == before


async def test_an_operator_that_begins_again_takes_up_what_was_left(team: Alone) -> None:
    """The same controllers once more: what waited for its server, and what was kept."""
    config = await as_service_account(team.client, DEFAULT_NAMESPACE, NAME)
    async with Client(config) as client, asyncio.TaskGroup() as group:
        cluster = Cluster("provider", client)
        chosen = controllers(cluster, OPTIONS)
        watching = group.create_task(cluster.run())

        @contextlib.asynccontextmanager
        async def leading() -> AsyncIterator[None]:
            tasks = [asyncio.create_task(one.run()) for one in chosen]
            yield
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

        async with leading():
            kept = await team.create("kept", grants=[team.grant("CONNECT")])
            await team.ready(kept)
            lock = team.locked("pg_catalog.pg_authid", "SHARE", database="postgres")
            await lock.__aenter__()
            waiting = await team.create("waiting")
            await eventually(lambda: waits(team))
        await lock.__aexit__(None, None, None)
        await team.sql("REVOKE CONNECT ON DATABASE {d} FROM {r}", d=team.database, r=kept)
        async with leading():
            await team.ready(waiting)

            async def healed() -> bool:
                return bool(await team.privileges(kept))

            await eventually(healed)
        watching.cancel()


async def test_an_adopted_role_keeps_the_password_of_its_own_secret(team: Alone) -> None:
    """As access-operator leaves it: the role, and a Secret that the access controls."""
    role, password = team.name("theirs"), "Made-by-the-other-operator-0001"
    await team.sql(f"CREATE ROLE {{r}} LOGIN PASSWORD '{password}'", r=role)
    name = await team.create(username=role, adoptionPolicy="IfUnclaimed")
    found = await team.client.get(POSTGRESACCESSES, name, team.namespace)
    owner = {
        "apiVersion": found.api_version,
        "kind": found.kind,
        "name": name,
        "uid": found.meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-login", "ownerReferences": [owner]},
        "stringData": {"username": role, "password": password},
    }
    await team.client.create(SECRETS, body, team.namespace)
    async with running(team.client, replace(OPTIONS, allow_adoption=True)):
        await team.ready(name)
        assert (await team.secret(name))["password"] == password
        assert await team.can_login(role, password)
