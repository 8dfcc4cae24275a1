"""Advice on the spec of an access is for who may change it."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.api.test_verdict import ACCESS, c, obj

from fairlead.api.links import verdict_link
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.verdict import verdict_of
from fairlead.api.resource import Resource
from fairlead.client import Client, ConnectionFailed
from fairlead.explain.explaining import advised


class Reviewing:
    """Answers reviews; without an answer it is away."""

    def __init__(self, allowed: bool | None) -> None:
        self.allowed = allowed
        self.asked: list[JSON] = []

    async def create(self, resource: Resource, body: JSON) -> Object:
        self.asked.append(body["spec"]["resourceAttributes"])
        if self.allowed is None:
            raise ConnectionFailed("away")
        return object_from_dict({**body, "status": {"allowed": self.allowed}})


@pytest.mark.parametrize(
    ("reason", "allowed", "prefix", "reviews"),
    [
        pytest.param("OwnsObjects", True, "give the objects of the role", 1, id="author"),
        pytest.param(
            "OwnsObjects",
            False,
            "ask who may change PostgresAccess team/x: give the objects of the role",
            1,
            id="reader",
        ),
        pytest.param("OwnsObjects", None, "give the objects of the role", 1, id="not-known"),
        pytest.param("AuthenticationFailed", False, "write the administrator's", 0, id="server"),
        pytest.param("Ready", False, "", 0, id="well"),
    ],
)
async def test_who_may_not_change_an_access_is_told_whom_to_ask(
    reason: str, allowed: bool | None, prefix: str, reviews: int
) -> None:
    status = "True" if reason == "Ready" else "False"
    found = obj(ACCESS, c("Ready", status, reason, "no"), observedGeneration=2)
    link = verdict_link(verdict_of(found), name="service", subject="x")
    client = Reviewing(allowed)
    (after,) = await advised(cast("Client", client), POSTGRESACCESSES, found, [link])
    assert after.remedy.startswith(prefix)
    assert bool(after.remedy) == bool(prefix)
    assert len(client.asked) == reviews
    assert all(one["verb"] == "update" for one in client.asked)
