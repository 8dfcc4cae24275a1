"""Two logins in turn on both control planes: killed at each step, asked for what cannot be."""

from __future__ import annotations

import contextlib

import pytest
from msgspec.structs import replace
from tests.e2e.postgres.test_secrets import (
    KILLS,
    OPTIONS,
    POLICY,
    WAYS,
    Clock,
    annotate,
    clock,
    create_secret,
    fingerprint,
    killed,
    logs_in,
    looked_at,
    settled,
    trigger,
    world,
)
from tests.support.pgserver import run
from tests.support.pgworld import World, grant
from tests.support.postgres import running
from tests.support.waiting import eventually, failed_with

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import ROTATE_ANNOTATION
from fairlead.api.resource import SECRETS
from fairlead.client import NotFound


__all__ = ["clock", "world"]

TURNS: JSON = {"passwordPolicy": {**POLICY, "rotation": "TwoLogins", "gracePeriod": "30m"}}


def current(body: JSON) -> list[str]:
    return [one["name"] for one in body["status"]["logins"] if one.get("current")]


@pytest.mark.extended
@pytest.mark.parametrize(("what", "after"), KILLS)
@pytest.mark.parametrize("way", WAYS)
async def test_an_operator_killed_at_any_step_fails_no_login(
    world: World,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    what: str,
    after: bool,
) -> None:
    async with killed(world, monkeypatch) as wire:
        name = await world.create(grants=[grant(world.database, "CONNECT")], **TURNS)
        first, known = await world.ready(name), await world.secret(name)
        assert known["username"] == f"{name}_a"
        wire.set(what, after=after)
        await trigger(world, clock, name, way)
    # Nobody is at work: whoever has read the Secret before or now logs in.
    then: dict[str, str] = {}
    with contextlib.suppress(NotFound):
        then = await world.secret(name)
    assert await world.logs_in(known["uri"])
    if then.get("password"):
        assert await world.logs_in(then["uri"])
    written = then.get("username") == f"{name}_b"
    assert written is ((what, after) != ("Secret", False))
    async with running(world.admin, OPTIONS):
        second = await settled(world, name, fingerprint(first))
        secret = await world.secret(name)
        if written:
            assert secret["password"] == then["password"]
        assert secret["username"] == f"{name}_b"
        assert current(second) == [f"{name}_b"]
        assert await world.logs_in(secret["uri"])
        assert await world.logs_in(known["uri"])
        assert fingerprint(await looked_at(world, name)) == fingerprint(second)
        assert await world.secret(name) == secret


@pytest.mark.extended
@pytest.mark.parametrize(("what", "after"), KILLS)
async def test_an_operator_killed_while_it_changes_the_rotation_fails_no_login(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str, after: bool
) -> None:
    async with killed(world, monkeypatch) as wire:
        name = await world.create(grants=[grant(world.database, "CONNECT")])
        await world.ready(name)
        known = await world.secret(name)
        wire.set(what, after=after)
        await world.patch(name, **TURNS)
    assert await world.logs_in(known["uri"])
    assert await world.logs_in((await world.secret(name))["uri"])
    async with running(world.admin, OPTIONS):
        await world.wait(
            name,
            lambda body: (
                body.get("status", {}).get("observedGeneration") == 2
                and current(body) == [f"{name}_a"]
            ),
        )
        await world.ready(name)
        assert await world.logs_in(known["uri"])
        assert await world.logs_in((await world.secret(name))["uri"])


@pytest.mark.extended
@pytest.mark.parametrize(("what", "after"), KILLS)
async def test_an_operator_killed_at_any_step_of_a_creation_leaves_one_login(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str, after: bool
) -> None:
    async with killed(world, monkeypatch) as wire:
        wire.set(what, after=after)
        name = await world.create(grants=[grant(world.database, "CONNECT")], **TURNS)
    then: dict[str, str] = {}
    with contextlib.suppress(NotFound):
        then = await world.secret(name)
        # What is there to be read logs in, whoever comes back and when.
        assert await world.logs_in(then["uri"])
    async with running(world.admin, OPTIONS):
        body = await world.ready(name)
        secret = await world.secret(name)
        assert secret == (then or secret)
        assert current(body) == [f"{name}_a"]
        assert await world.logs_in(secret["uri"])
        assert not await world.role_exists(f"{name}_b")


async def test_a_login_keeps_its_password_where_the_cache_does_not_know_its_secret(
    world: World,
) -> None:
    """The label was taken off while no operator was at work."""
    query = "SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname LIKE %s ORDER BY 1"
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")], **TURNS)
        first, known = await world.ready(name), await world.secret(name)
    verifiers = await world.fetch(query, f"{name}%")
    unlabelled = {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}
    await world.admin.merge_patch(SECRETS, f"{name}-login", world.namespace, unlabelled)
    async with running(world.admin, OPTIONS):
        assert fingerprint(await looked_at(world, name)) == fingerprint(first)
    assert await world.fetch(query, f"{name}%") == verifiers
    assert await world.secret(name) == known
    assert await world.logs_in(known["uri"])


async def test_the_server_ends_a_login_with_the_operator_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough to look in between on a machine that others load, too.
    policy: JSON = {"passwordPolicy": {"rotation": "TwoLogins", "gracePeriod": "10s"}}
    async with killed(world, monkeypatch) as wire:
        name = await world.create(grants=[grant(world.database, "CONNECT")], **policy)
        await world.ready(name)
        known = await world.secret(name)
        # The database knows of the end, and the status is not written any more.
        wire.set("status", after=False)
        await annotate(world, name, **{ROTATE_ANNOTATION: "now"})
    assert await world.logs_in(known["uri"])

    async def ended() -> bool:
        return not await world.logs_in(known["uri"])

    await eventually(ended)
    assert await world.logs_in((await world.secret(name))["uri"])


async def test_an_owner_is_adopted_and_its_login_has_a_grace(world: World) -> None:
    name = world.name()
    await run(world.postgres, "postgres", "CREATE ROLE {r} LOGIN PASSWORD 'by hand'", r=name)
    async with running(world.admin, replace(OPTIONS, allow_adoption=True)):
        await world.create(
            grants=[grant(world.database, "CONNECT")], adoptionPolicy="IfUnclaimed", **TURNS
        )
        body = await world.ready(name)
        assert [one["name"] for one in body["status"]["logins"]] == [f"{name}_a", name]
        assert await logs_in(world, name, "by hand")
        assert await world.logs_in((await world.secret(name))["uri"])


async def test_two_become_one_whose_password_is_from_elsewhere(world: World) -> None:
    await create_secret(world, "vault", password="made elsewhere")
    async with running(world.admin, OPTIONS):
        name = await world.create(grants=[grant(world.database, "CONNECT")], **TURNS)
        await world.ready(name)
        known = await world.secret(name)
        await world.patch(
            name,
            passwordSecretRef={"name": "vault"},
            passwordPolicy={"rotation": "InPlace", "rotateEvery": None},
        )
        await world.wait(
            name,
            lambda body: body["status"]["observedGeneration"] == 2 and current(body) == [name],
        )
        await world.ready(name)
        secret = await world.secret(name)
        assert (secret["username"], secret["password"]) == (name, "made elsewhere")
        assert await world.logs_in(secret["uri"])
        assert await world.logs_in(known["uri"])


async def test_what_is_dropped_for_nobody_asks_for_it_is_no_login(world: World) -> None:
    stranger = f"stranger_{world.id}"
    await run(world.postgres, "postgres", "CREATE ROLE {r} LOGIN", r=stranger)
    options = replace(OPTIONS, unmanaged_users="Drop", synced_interval=0.5)
    async with running(world.admin, options):
        name = await world.create(grants=[grant(world.database, "CONNECT")], **TURNS)
        await world.ready(name)
        known = await world.secret(name)
        await annotate(world, name, **{ROTATE_ANNOTATION: "now"})
        await world.wait(name, lambda body: current(body) == [f"{name}_b"])

        async def dropped() -> bool:
            return not await world.role_exists(stranger)

        await eventually(dropped)
        assert await world.logs_in(known["uri"])
        assert await world.logs_in((await world.secret(name))["uri"])


async def test_a_login_that_is_excluded_refuses_the_access(world: World) -> None:
    options = replace(OPTIONS, excluded_user_patterns=("*_b",))
    async with running(world.admin, options):
        name = await world.create(**TURNS)
        await world.wait(name, failed_with("UserExcluded"))
        assert not await world.role_exists(name)
