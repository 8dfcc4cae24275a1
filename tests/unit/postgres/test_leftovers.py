"""A role is left over only when the server itself says that its object is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fairlead.api.meta import Object, object_from_dict
from fairlead.api.resource import CONFIGMAPS, Resource
from fairlead.api.status import Status, StatusDetails
from fairlead.client.errors import ClientError, ConnectionFailed, api_error
from fairlead.postgres.controllers.access import leftovers
from fairlead.postgres.controllers.access.claims import Claims
from fairlead.postgres.controllers.access.leftovers import LeftoverRoles
from fairlead.postgres.controllers.rules.desired import ServerPlace
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.sessions import Sessions
from fairlead.postgres.database.plans.snapshot import RoleClaim, parse_claim
from fairlead.postgres.options import PostgresOptions


CLAIM = RoleClaim(installation="i", namespace="team", name="app", uid="u-1")
PLACE = ServerPlace(
    "PostgresServer main",
    Endpoint(host="db", port=5432, username="admin", password="", ssl_mode="require"),
)


def access(uid: str, username: str, **fields: Any) -> Object:
    metadata = {"name": "app", "namespace": "team", "uid": uid}
    spec = {"username": username, "generatedSecret": "login", "connection": {}, "grants": []}
    spec |= fields
    return object_from_dict(
        {
            "apiVersion": "access.k8s.delta10.nl/v1",
            "kind": "PostgresAccess",
            "metadata": metadata,
            "spec": spec,
        }
    )


def not_found(details: StatusDetails | None) -> ClientError:
    return api_error(Status("Failure", "not found", "NotFound", 404, details))


class World:
    """A cluster whose API server and cache say what they are told to, and what was done then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.listed: list[Object] | ClientError = []
        self.cached: list[Object] = []
        self.record: Object | ClientError | None = None
        self.removed: list[str] = []
        self.fenced: list[str] = []
        self.told: list[Object] = []
        self.given_up: list[str] = []
        self.deleted: list[str] = []
        for name in ("cleanup", "fence", "give_up"):
            monkeypatch.setattr(f"{leftovers.__name__}.{name}", getattr(self, f"_{name}"))
        watches = SimpleNamespace(accesses=SimpleNamespace(list=lambda: self.cached))
        key = SimpleNamespace(value=b"key")
        self.claims = Claims(cast("Any", SimpleNamespace(installation_id="i")), cast("Any", key))
        self.leftovers = LeftoverRoles(
            cast("Any", SimpleNamespace(get=self._get, list=self._list, delete=self._delete)),
            cast("Any", watches),
            Settings(PostgresOptions(**options)),
            self.claims,
            self.told.append,
        )

    async def sweep(self, claim: RoleClaim = CLAIM, roles: Iterable[str] = ("app",)) -> None:
        claimed = dict.fromkeys(roles, claim)
        await self.leftovers.sweep(PLACE, Sessions(PLACE.endpoint), claimed)

    async def _get(self, resource: Resource, name: str, *_: Any) -> Object:
        assert resource == CONFIGMAPS
        if isinstance(self.record, Object):
            return self.record
        raise self.record or not_found(StatusDetails(name=name))

    async def _list(self, resource: Resource, **_: Any) -> Any:
        if isinstance(self.listed, ClientError):
            raise self.listed
        return SimpleNamespace(items=self.listed)

    async def _cleanup(
        self, _sessions: Sessions, role: str, _claim: RoleClaim, policy: str
    ) -> bool:
        assert policy == "Restrict"
        self.removed.append(role)
        return True

    async def _give_up(
        self, _sessions: Sessions, role: str, _claim: RoleClaim, *, fence: bool
    ) -> None:
        assert not self.deleted
        self.given_up.append(f"{role}{' fenced' if fence else ''}")

    async def _delete(self, _resource: Resource, name: str, *_: Any) -> None:
        self.deleted.append(name)

    async def _fence(self, _sessions: Sessions, role: str, _claim: RoleClaim) -> bool:
        self.fenced.append(role)
        return True


@pytest.mark.parametrize(
    ("listed", "removed"),
    [
        pytest.param([], True, id="gone"),
        pytest.param(not_found(None), False, id="the-kind-is-not-served"),
        pytest.param(ConnectionFailed("away"), False, id="no-answer"),
        pytest.param([access("u-1", "app")], False, id="the-same-object"),
        pytest.param([access("u-2", "app")], False, id="made-anew"),
        pytest.param([access("u-2", "other")], True, id="made-anew-for-another-role"),
    ],
)
@pytest.mark.parametrize("older", [False, True], ids=["hashed", "named"])
async def test_a_role_is_removed_when_the_server_says_that_its_object_is_gone(
    monkeypatch: pytest.MonkeyPatch,
    listed: list[Object] | ClientError,
    removed: bool,
    older: bool,
) -> None:
    world = World(monkeypatch)
    world.listed = listed
    claim = CLAIM
    if not older:
        hashed = await world.claims.of(access("u-1", "app").meta)
        claim = parse_claim(hashed.text()) or CLAIM
        assert (claim.namespace, claim.name) == ("", "")
    await world.sweep(claim)
    assert world.removed == (["app"] if removed else [])


def at(place: str, *, observed: int = 1, uid: str = "u-2") -> Object:
    """The access, made anew, whose role is at the server of this identity."""
    body = access(uid, "app").to_dict()
    body["metadata"]["generation"] = 1
    body["status"] = {"observedGeneration": observed, "server": {"systemIdentifier": place}}
    return object_from_dict(body)


@pytest.mark.parametrize(
    ("found", "identity", "removed"),
    [
        pytest.param(at("there"), "here", True, id="its-role-is-at-another-server"),
        pytest.param(at("here"), "here", False, id="its-role-is-here"),
        pytest.param(at("there", observed=0), "here", False, id="it-may-be-on-its-way-here"),
        pytest.param(at(""), "here", False, id="its-server-is-not-known"),
        pytest.param(at("there"), "", False, id="this-server-does-not-say-which-it-is"),
        pytest.param(at("there", uid="u-1"), "here", False, id="the-claim-is-its-own"),
    ],
)
async def test_a_role_of_an_object_made_anew_for_another_server_is_left_over(
    monkeypatch: pytest.MonkeyPatch, found: Object, identity: str, removed: bool
) -> None:
    @asynccontextmanager
    async def working(*_: Any) -> AsyncIterator[None]:
        yield None

    async def read_server(_: Any) -> Any:
        return SimpleNamespace(system_identifier=identity)

    world = World(monkeypatch)
    monkeypatch.setattr(Sessions, "working", working)
    monkeypatch.setattr(leftovers, "read_server", read_server)
    world.cached = world.listed = [found]
    await world.sweep()
    assert world.removed == (["app"] if removed else [])


async def test_what_an_import_has_claimed_waits_for_its_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody's leftover, and not fenced either, whatever object there is under that name."""
    world = World(monkeypatch)
    hashed = await world.claims.of(access("u-1", "app").meta)
    claim = msgspec.structs.replace(hashed, uid="", namespace="", name="")
    await world.sweep(claim)
    world.cached = [access("u-1", "other")]
    await world.sweep(claim)
    assert (world.removed, world.fenced) == ([], [])


async def test_a_role_that_was_renamed_by_hand_loses_its_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.cached = [access("u-1", "other")]
    await world.sweep()
    await world.sweep()
    assert (world.removed, world.fenced) == ([], ["app", "app"])
    assert world.told == world.cached
    assert world.leftovers.renamed == {"u-1": {"app"}}
    world.cached = [access("u-1", "app")]
    await world.sweep()
    assert (len(world.told), world.leftovers.renamed) == (2, {})


async def test_excluded_roles_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, excluded_users=("app",))
    await world.sweep()
    assert world.removed == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ConnectionFailed("away"), id="no-answer"),
        pytest.param(api_error(Status("Failure", "no", "Forbidden", 403)), id="no-right"),
    ],
)
async def test_a_role_of_which_nobody_knows_whether_it_was_given_up_stays(
    answer: ClientError, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch)
    world.record = answer
    await world.sweep()
    assert world.removed == []


def record(policy: str, owner: str) -> Object:
    """What a namespace's team was promised when its access was given up."""
    return object_from_dict(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "given-up"},
            "data": {"policy": policy, "owner": owner},
        }
    )


async def test_a_server_of_a_tenant_takes_no_record_of_another_one_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.record = record("Retain", "namespace team")
    place = ServerPlace("namespace stranger", PLACE.endpoint)
    await world.leftovers.sweep(place, Sessions(PLACE.endpoint), {"app": CLAIM})
    assert world.removed == []


FAMILY = ("app_b", "app", "app_a")
TWO = {"passwordPolicy": {"rotation": "TwoLogins"}}


@pytest.mark.parametrize(
    ("listed", "removed"),
    [
        pytest.param([], ["app", "app_a", "app_b"], id="gone-the-owner-first"),
        pytest.param([access("u-1", "app", **TWO)], [], id="the-same-object"),
        pytest.param([access("u-2", "app", **TWO)], [], id="made-anew"),
        pytest.param([access("u-1", "app")], ["app_a", "app_b"], id="that-has-one-login-now"),
        pytest.param([access("u-2", "app")], ["app_a", "app_b"], id="made-anew-with-one"),
    ],
)
async def test_logins_are_left_over_with_their_owner_or_without_a_rotation(
    monkeypatch: pytest.MonkeyPatch, listed: list[Object], removed: list[str]
) -> None:
    world = World(monkeypatch)
    world.listed = listed
    await world.sweep(roles=FAMILY)
    assert (world.removed, world.fenced) == (removed, [])


async def test_logins_in_their_grace_are_known_by_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    body = access("u-1", "app").to_dict()
    body["status"] = {"logins": [{"name": "app", "current": True}, {"name": "app_a"}]}
    world.cached = [object_from_dict(body)]
    await world.sweep(roles=FAMILY)
    assert (world.removed, world.fenced) == ([], [])


@pytest.mark.parametrize(("policy", "fenced"), [("Retain", " fenced"), ("Abandon", "")])
async def test_all_roles_are_given_up_before_the_record_goes(
    monkeypatch: pytest.MonkeyPatch, policy: str, fenced: str
) -> None:
    world = World(monkeypatch)
    world.record = record(policy, PLACE.owner)
    await world.sweep(roles=FAMILY)
    assert world.given_up == [f"app{fenced}", f"app_a{fenced}", f"app_b{fenced}"]
    assert (world.removed, len(world.deleted)) == ([], 1)


async def test_an_excluded_login_keeps_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, excluded_users=("app_b",))
    await world.sweep(roles=FAMILY)
    assert world.removed == []
