"""Who may bind what: how often the API server is asked, and what its silence means."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.client import Client, ConnectionFailed
from fairlead.client.lookups import may
from fairlead.portal import bounds
from fairlead.portal.handshake.reviews import (
    AccessReviews,
)
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import Person, Prefixes


ADA = Person("https://login.example.org", "ada", groups=("team-a", "system:masters"))


class Server:
    """Answers reviews as it is told, by resource and name."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = set(allowed)
        self.denied: set[tuple[str, str]] = set()
        self.asked: list[JSON] = []
        self.fault: Exception | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def create(self, _resource: Any, body: JSON) -> Object:
        self.asked.append(body["spec"])
        await self.go_on.wait()
        if self.fault is not None:
            raise self.fault
        attributes = body["spec"]["resourceAttributes"]
        place = attributes.get("resource", ""), attributes.get("name", "")
        status = {"allowed": place in self.allowed, "denied": place in self.denied}
        return object_from_dict({**body, "status": status})


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def reviews(
    server: Server, prefixes: Prefixes | None = None, clock: Clock | None = None
) -> AccessReviews:
    client: Client = server  # type: ignore[assignment]
    return AccessReviews(client, prefixes or Prefixes(), clock=clock or Clock())


TEMPLATES = "apiserviceexporttemplates"


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        pytest.param([("", "")], ["one", "two"], id="as-kube-bind-asks"),
        pytest.param([(TEMPLATES, "")], ["one", "two"], id="all-templates"),
        pytest.param([(TEMPLATES, "two")], ["two"], id="by-name"),
        pytest.param([], [], id="nothing"),
    ],
)
async def test_what_is_offered(allowed: list[tuple[str, str]], expected: list[str]) -> None:
    found = reviews(Server(*allowed))
    assert sorted(await found.offered(ADA, ("one", "two"))) == expected
    assert [name for name in ("one", "two") if await found.may(ADA, name)] == expected


async def test_where_there_are_no_templates_nothing_is_offered() -> None:
    assert await reviews(Server()).offered(ADA, ()) == frozenset()


async def test_people_are_asked_about_under_their_prefixes() -> None:
    server = Server()
    await reviews(server).may(ADA, "one")
    assert server.asked[0]["user"] == "oidc:ada"
    assert server.asked[0]["groups"] == ["oidc:system:masters", "oidc:team-a"]


async def test_s11_names_of_kubernetes_own_are_nobodys() -> None:
    server = Server(("", ""))
    bare = Prefixes("", "")
    await reviews(server, bare).may(ADA, "one")
    assert server.asked[0]["groups"] == ["team-a"]
    with pytest.raises(Refusal):
        await reviews(server, bare).may(Person("i", "system:admin"), "one")


async def test_a_denial_counts() -> None:
    server = Server((TEMPLATES, "one"))
    client: Client = server  # type: ignore[assignment]
    key = Key("", "one")
    assert await may(client, APISERVICEEXPORTTEMPLATES, "delete", key)
    assert not await may(client, APISERVICEEXPORTTEMPLATES, "delete", Key("", "two"))
    assert server.asked[0].keys() == {"resourceAttributes"}
    assert await reviews(server).may(ADA, "one")
    server.denied.add((TEMPLATES, "one"))
    assert not await may(client, APISERVICEEXPORTTEMPLATES, "delete", key)
    assert not await reviews(server).may(ADA, "one")


async def test_an_answer_is_believed_for_a_moment() -> None:
    server, clock = Server(("", "")), Clock()
    found = reviews(server, clock=clock)
    assert await found.may(ADA, "one")
    server.allowed.clear()
    clock.now += bounds.REVIEW_SECONDS - 1
    assert await found.may(ADA, "one")
    assert len(server.asked) == 1
    clock.now += 2
    assert not await found.may(ADA, "one")


async def test_one_question_is_asked_for_all_who_wait() -> None:
    server = Server(("", ""))
    server.go_on.clear()
    found = reviews(server)
    waiting = [asyncio.create_task(found.may(ADA, "one")) for _ in range(20)]
    await asyncio.sleep(0)
    # Who leaves takes nothing from the others.
    waiting[0].cancel()
    server.go_on.set()
    assert all(await asyncio.gather(*waiting[1:]))
    assert len(server.asked) == 1


async def test_a_server_that_is_away_is_no_yes_and_is_asked_again() -> None:
    server = Server(("", ""))
    server.fault = ConnectionFailed("it is away")
    found = reviews(server)
    with pytest.raises(ConnectionFailed):
        await found.may(ADA, "one")
    server.fault = None
    assert await found.may(ADA, "one")


async def test_what_is_offered_is_believed_no_longer_than_any_answer() -> None:
    server, clock = Server((TEMPLATES, "one"), (TEMPLATES, "two")), Clock()
    found = reviews(server, clock=clock)
    assert await found.offered(ADA, ("one",)) == {"one"}
    clock.now += bounds.REVIEW_SECONDS / 2
    assert await found.offered(ADA, ("one", "two")) == {"one", "two"}
    assert len(server.asked) == 4
    server.allowed.clear()
    clock.now += bounds.REVIEW_SECONDS / 2 - 1
    assert await found.offered(ADA, ("one", "two")) == {"one", "two"}
    assert len(server.asked) == 4
    clock.now += 2
    assert await found.offered(ADA, ("one", "two")) == {"two"}


@pytest.mark.parametrize("allowed", [("", ""), (TEMPLATES, "")])
async def test_all_that_is_offered_is_believed_no_longer_than_the_right_to_all(
    allowed: tuple[str, str],
) -> None:
    server, clock = Server(allowed), Clock()
    found = reviews(server, clock=clock)
    assert await found.offered(ADA, ("one",)) == {"one"}
    server.allowed.clear()
    clock.now += bounds.REVIEW_SECONDS - 1
    assert await found.offered(ADA, ("one", "two")) == {"one", "two"}
    clock.now += 2
    assert await found.offered(ADA, ("one", "two")) == frozenset()


async def test_what_is_offered_is_each_persons_own() -> None:
    server = Server(("", ""))
    found = reviews(server)
    assert await found.offered(ADA, ("one",)) == {"one"}
    server.allowed.clear()
    assert await found.offered(Person(ADA.issuer, "ada"), ("one",)) == frozenset()


async def test_answers_are_remembered_without_the_groups_that_they_were_for() -> None:
    server = Server()
    found = reviews(server)
    names = tuple(f"template-{number}" for number in range(50))

    def person(number: int) -> Person:
        return Person("https://login.example.org", f"p-{number}", groups=groups)

    groups = tuple(f"cn=team-{number},ou=groups,dc=example,dc=org" for number in range(1000))
    await found.offered(person(0), names)
    tracemalloc.start()
    try:
        for number in range(1, 5):
            await found.offered(person(number), names)
        server.asked.clear()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 208 answers with the groups of each would be 8 MB of pointers and more of names.
    assert kept < 500_000


async def test_people_of_other_groups_are_other_people() -> None:
    server = Server(("", ""))
    found = reviews(server)
    for groups in ((), ("a",), ("a", "b"), ('a", "b',)):
        await found.may(Person("https://login.example.org", "ada", groups=groups), "one")
    assert len(server.asked) == 4
