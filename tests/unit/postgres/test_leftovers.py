"""A role is left over only when the server itself says that its object is gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.api.meta import Object, object_from_dict
from fairlead.api.resource import CONFIGMAPS, Resource
from fairlead.api.status import Status, StatusDetails
from fairlead.client.errors import ClientError, ConnectionFailed, api_error
from fairlead.postgres.controllers.jobs import Place
from fairlead.postgres.controllers.leftovers import Leftovers
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.database.endpoint import Endpoint
from fairlead.postgres.database.sessions import Sessions
from fairlead.postgres.database.snapshot import Claim
from fairlead.postgres.options import PostgresOptions


CLAIM = Claim(installation="i", namespace="team", name="app", uid="u-1")
PLACE = Place(
    "PostgresServer main",
    Endpoint(host="db", port=5432, username="admin", password="", ssl_mode="require"),
)


def access(uid: str, username: str) -> Object:
    metadata = {"name": "app", "namespace": "team", "uid": uid}
    spec = {"username": username, "generatedSecret": "login", "connection": {}, "grants": []}
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


@pytest.mark.parametrize(
    ("answer", "removed"),
    [
        pytest.param(not_found(StatusDetails(name="app")), True, id="gone"),
        pytest.param(not_found(None), False, id="the-kind-is-not-served"),
        pytest.param(ConnectionFailed("away"), False, id="no-answer"),
        pytest.param(
            api_error(Status("Failure", "bad name", "BadRequest", 400)), False, id="odd-claim"
        ),
        pytest.param(access("u-1", "other"), False, id="the-same-object"),
        pytest.param(access("u-2", "app"), False, id="made-anew"),
        pytest.param(access("u-2", "other"), True, id="made-anew-for-another-role"),
    ],
)
async def test_strays(
    answer: Object | ClientError, removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def get(resource: Resource, name: str, *_: Any) -> Object:
        if resource == CONFIGMAPS:
            raise not_found(StatusDetails(name=name))
        if isinstance(answer, Object):
            return answer
        raise answer

    taken: list[str] = []

    async def cleanup(_sessions: Sessions, role: str, _claim: Claim, policy: str) -> None:
        assert policy == "Restrict"
        taken.append(role)

    monkeypatch.setattr("fairlead.postgres.controllers.leftovers.cleanup", cleanup)
    watches = SimpleNamespace(accesses=SimpleNamespace(get=lambda *_: None))
    known = cast("Any", SimpleNamespace(get=get))
    leftovers = Leftovers(known, cast("Any", watches), Settings(PostgresOptions()))
    await leftovers.sweep(PLACE, Sessions(PLACE.endpoint), {"app": CLAIM})
    assert taken == (["app"] if removed else [])


async def test_excluded_roles_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def get(*_: Any) -> Object:
        raise not_found(StatusDetails(name="app"))

    async def cleanup(*_: Any) -> None:
        raise AssertionError("an excluded role was touched")

    monkeypatch.setattr("fairlead.postgres.controllers.leftovers.cleanup", cleanup)
    watches = SimpleNamespace(accesses=SimpleNamespace(get=lambda *_: None))
    options = PostgresOptions(excluded_users=("app",))
    known = cast("Any", SimpleNamespace(get=get))
    leftovers = Leftovers(known, cast("Any", watches), Settings(options))
    await leftovers.sweep(PLACE, Sessions(PLACE.endpoint), {"app": CLAIM})


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
    async def get(resource: Resource, *_: Any) -> Object:
        raise answer if resource == CONFIGMAPS else not_found(StatusDetails(name="app"))

    async def cleanup(*_: Any) -> None:
        raise AssertionError("the role was dropped")

    monkeypatch.setattr("fairlead.postgres.controllers.leftovers.cleanup", cleanup)
    watches = SimpleNamespace(accesses=SimpleNamespace(get=lambda *_: None))
    known = cast("Any", SimpleNamespace(get=get))
    leftovers = Leftovers(known, cast("Any", watches), Settings(PostgresOptions()))
    await leftovers.sweep(PLACE, Sessions(PLACE.endpoint), {"app": CLAIM})
