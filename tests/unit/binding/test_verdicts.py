"""How long a SubjectAccessReview is believed."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.binding.client import FakeClient

from fairlead.api.resource import DEPLOYMENTS, SECRETS
from fairlead.binding import bounds
from fairlead.binding.cluster.answering import Verdicts
from fairlead.binding.reads import RightsReview
from fairlead.client import ConnectionFailed


READ = RightsReview("bob", ("devs",), "get", SECRETS, "ns", "s1")


class Server(FakeClient):
    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.verdicts = Verdicts(self.client, lambda: self.now)


@pytest.mark.parametrize(
    ("allowed", "seconds"),
    [
        pytest.param(True, bounds.ALLOWED_SECONDS, id="allowed"),
        pytest.param(False, bounds.DENIED_SECONDS, id="denied"),
    ],
)
async def test_a_verdict_holds_for_a_moment_and_then_is_asked_for_again(
    allowed: bool, seconds: float
) -> None:
    server = Server()
    server.allowed = allowed
    assert await server.verdicts.allowed(READ) is allowed
    server.allowed = not allowed
    server.now += seconds - 1
    assert await server.verdicts.allowed(READ) is allowed
    assert server.reviews == 1
    server.now += 1
    assert await server.verdicts.allowed(READ) is not allowed
    assert server.reviews == 2


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(RightsReview("eve", ("devs",), "get", SECRETS, "ns", "s1"), id="user"),
        pytest.param(RightsReview("bob", (), "get", SECRETS, "ns", "s1"), id="groups"),
        pytest.param(RightsReview("bob", ("devs",), "list", SECRETS, "ns", "s1"), id="verb"),
        pytest.param(
            RightsReview("bob", ("devs",), "get", DEPLOYMENTS, "ns", "s1"), id="resource"
        ),
        pytest.param(
            RightsReview("bob", ("devs",), "get", SECRETS, "other", "s1"), id="namespace"
        ),
        pytest.param(RightsReview("bob", ("devs",), "get", SECRETS, "ns", "s2"), id="name"),
    ],
)
async def test_a_verdict_is_about_exactly_one_request(other: RightsReview) -> None:
    server = Server()
    assert await server.verdicts.allowed(READ)
    server.allowed = False
    assert not await server.verdicts.allowed(other)


async def test_no_verdict_counts_as_a_refusal_and_is_not_kept() -> None:
    server = Server()
    server.fail["create", "subjectaccessreviews"] = ConnectionFailed("down")
    assert not await server.verdicts.allowed(READ)
    server.fail.clear()
    assert await server.verdicts.allowed(READ)


async def test_the_oldest_verdict_goes_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "VERDICTS", 2)
    server = Server()
    asked: Counter[str] = Counter()
    for name in ("a", "b", "c", "c", "b", "a"):
        before = server.reviews
        await server.verdicts.allowed(RightsReview("bob", (), "get", SECRETS, "ns", name))
        asked[name] += server.reviews - before
    assert asked == {"a": 2, "b": 1, "c": 1}
