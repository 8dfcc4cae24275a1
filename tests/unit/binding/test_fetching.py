"""Reads and what the server answers to them."""

from __future__ import annotations

import pytest
from tests.unit.binding.client import FakeClient
from tests.unit.binding.objects import deployment, secret

from fairlead.api.meta import Object
from fairlead.api.resource import DEPLOYMENTS, SECRETS, Resource
from fairlead.api.status import Status
from fairlead.binding.cluster.fetching import fetch
from fairlead.binding.reads import Get, ListAll, Lookup, Read, ReadFailure, RightsReview
from fairlead.client import BadRequest, ConnectionFailed, Forbidden, ServerError


DATABASES = Resource("x.io", "v1", "databases", "Database")


def server() -> FakeClient:
    return FakeClient(secret(), deployment(), resources=(DATABASES,))


@pytest.mark.parametrize(
    ("read", "code", "text"),
    [
        pytest.param(Get(SECRETS, "ns", "no"), "NotFound", 'secrets "no" not found', id="missing"),
        pytest.param(
            Get(DATABASES, "ns", "db"),
            "NotFound",
            'databases.x.io "db" not found',
            id="with group",
        ),
        pytest.param(Get(SECRETS, "", "s1"), "NotFound", '"s1" not found', id="no namespace"),
        pytest.param(Get(SECRETS, "ns", ""), "NotFound", "not found", id="no name"),
        pytest.param(
            Lookup("x.io", "v1", kind="Nope"),
            "NoMatch",
            'no matches for kind "Nope" in version "x.io/v1": install its CRD',
            id="no such kind",
        ),
        pytest.param(
            Lookup("x.io", "v2", plural="databases"),
            "NoMatch",
            'no matches for resource "databases" in version "x.io/v2"',
            id="no such version",
        ),
        pytest.param(Lookup("x.io", "v1"), "NoMatch", "Kind undefined", id="neither"),
    ],
)
async def test_what_is_not_there_is_an_answer(read: Read, code: str, text: str) -> None:
    answer = await fetch(server().client, read)
    assert isinstance(answer, ReadFailure)
    assert answer.code == code
    assert text in answer.message


async def test_what_is_there_is_the_answer() -> None:
    client = server().client
    assert isinstance(await fetch(client, Get(SECRETS, "ns", "s1")), Object)
    listed = await fetch(client, ListAll(DEPLOYMENTS, "ns"))
    assert isinstance(listed, tuple)
    assert len(listed) == 1
    assert await fetch(client, Lookup("x.io", "v1", kind="Database")) == DATABASES
    assert await fetch(client, Lookup("x.io", "v1", plural="databases")) == DATABASES


@pytest.mark.parametrize(
    ("read", "verbs"),
    [
        pytest.param(Get(SECRETS, "ns", "s1"), "get, list and watch on secrets", id="service"),
        pytest.param(
            ListAll(DEPLOYMENTS, "ns", spec_only=True),
            "get, list, watch and patch on deployments.apps",
            id="workload",
        ),
    ],
)
async def test_a_missing_right_names_the_role_that_would_give_it(read: Read, verbs: str) -> None:
    client = server()
    error = Forbidden(Status("Failure", 'User "sa" cannot list x', "Forbidden", 403))
    client.fail = {("get", "secrets"): error, ("list", "deployments"): error}
    answer = await fetch(client.client, read)
    assert isinstance(answer, ReadFailure)
    assert answer.code == "Forbidden"
    assert answer.message.startswith('User "sa" cannot list x; grant ')
    assert f"{verbs} with a ClusterRole labelled servicebinding.io/controller=true" in (
        answer.message
    )


async def test_a_server_that_fails_is_an_answer_and_one_that_is_away_is_none() -> None:
    client = server()
    read = Get(SECRETS, "ns", "s1")
    client.fail["get", "secrets"] = ServerError(Status("Failure", "overloaded", "", 503))
    assert await fetch(client.client, read) == ReadFailure("Error", "overloaded")
    client.fail["get", "secrets"] = BadRequest(Status("Failure", "no name", "BadRequest", 400))
    assert await fetch(client.client, read) == ReadFailure("Invalid", "no name")
    client.fail["get", "secrets"] = ConnectionFailed("down")
    with pytest.raises(ConnectionFailed):
        await fetch(client.client, read)


@pytest.mark.parametrize("allowed", [True, False])
async def test_reviews(allowed: bool) -> None:
    client = server()
    client.allowed = allowed
    review = RightsReview("bob", ("devs",), "get", SECRETS, "ns", "s1")
    assert await fetch(client.client, review) is allowed
    client.fail["create", "subjectaccessreviews"] = ConnectionFailed("down")
    assert await fetch(client.client, review) is False
