"""Reads answered from metadata that are here already, which may be a moment old."""

from __future__ import annotations

import contextlib
from typing import cast

import pytest
from tests.unit.binding.client import FakeClient
from tests.unit.binding.objects import deployment
from tests.unit.binding.test_controller import ClusterOf

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import DEPLOYMENTS, Resource
from fairlead.api.status import Status
from fairlead.binding.cluster.answering import Answers, Mappings
from fairlead.binding.cluster.dependencies import BindingDependencies
from fairlead.binding.reads import Answer, Get, Marked
from fairlead.binding.workloads.records import record_key
from fairlead.client import ClientError, ConnectionFailed, ServerError
from fairlead.runtime import Cluster, Delta, Request


REQUEST = Request("c", "ns", "sb")
MARK = record_key("uid-sb")
READ = Marked(DEPLOYMENTS, "ns", MARK)
DOWN = ServerError(Status("Failure", "overloaded", "", 503))


def recorded(text: str, version: str) -> JSON:
    body = deployment()
    body["metadata"] |= {"annotations": {MARK: text} if text else {}, "resourceVersion": version}
    return body


def marks(answer: Answer) -> list[str]:
    assert isinstance(answer, tuple)
    return [one.meta.annotations[MARK] for one in answer]


@pytest.mark.parametrize(
    ("live", "error", "told"),
    [
        pytest.param(recorded("new", "2"), None, ["new"], id="another record"),
        pytest.param(recorded("", "2"), None, [], id="no record any more"),
        pytest.param(None, None, [], id="gone"),
        pytest.param(recorded("new", "2"), DOWN, ["old"], id="cannot be read"),
    ],
)
async def test_what_a_binding_has_just_written_is_read_anew(
    live: JSON | None, error: ClientError | None, told: list[str]
) -> None:
    client = FakeClient(*([live] if live else []))
    place = ClusterOf(client)
    cluster = cast("Cluster", place)
    dependencies = BindingDependencies(cluster, lambda _: None)
    mappings = Mappings(cluster, lambda _: [], lambda _: None)
    answers = Answers(client.client, dependencies, mappings)
    before = object_from_dict(recorded("old", "1"))
    informer = place.informer(DEPLOYMENTS)
    informer.objects = {"web": before}
    await answers.give(REQUEST, [READ])
    dependencies.expect_newer(REQUEST, (DEPLOYMENTS, "ns", "web"), "1")
    if error:
        client.fail["get", "deployments"] = error
    (given,) = await answers.give(REQUEST, [READ])
    assert (marks(given.answer), given.watched) == (told, True)
    # Once its watch shows it, nobody is asked.
    informer.objects = {"web": object_from_dict(recorded("newest", "3"))}
    client.reads.clear()
    (given,) = await answers.give(REQUEST, [READ])
    assert marks(given.answer) == ["newest"]
    assert client.reads == []


async def test_an_object_that_was_read_before_its_watch_shows_it_is_looked_at_once() -> None:
    """An object is created just before its binding, whose watch of the kind is there already."""
    client = FakeClient(recorded("", "7"))
    place = ClusterOf(client)
    cluster = cast("Cluster", place)
    told: list[Request] = []
    dependencies = BindingDependencies(cluster, told.append)
    answers = Answers(client.client, dependencies, Mappings(cluster, lambda _: [], lambda _: None))
    by_name = Get(DEPLOYMENTS, "ns", "web", spec_only=True)
    await answers.give(REQUEST, [by_name])
    handler = place.informer(DEPLOYMENTS).handler
    seven = object_from_dict(recorded("", "7"))
    handler(Delta("ADDED", None, seven))
    assert told == []
    handler(Delta("MODIFIED", seven, object_from_dict(recorded("", "8"))))
    assert told == [REQUEST]
    # A record is found by the watch alone, so that its arrival there is news.
    client.objects["Deployment", "web"] = recorded("new", "9")
    await answers.give(REQUEST, [by_name, READ])
    handler(Delta("MODIFIED", seven, object_from_dict(recorded("new", "9"))))
    assert told == [REQUEST, REQUEST]
    # What was missing is news when it comes, even as it was before.
    del client.objects["Deployment", "web"]
    await answers.give(REQUEST, [by_name])
    handler(Delta("ADDED", None, object_from_dict(recorded("", "9"))))
    assert told == [REQUEST] * 3


@pytest.mark.parametrize(
    ("answer", "shown", "passes"),
    [
        pytest.param("7", ["7"], 0, id="as it is shown"),
        pytest.param("7", ["8"], 1, id="older than it is shown"),
        pytest.param("7", ["7", "8"], 1, id="as it is shown first"),
        pytest.param("", ["7"], 1, id="not found"),
        pytest.param(None, ["7"], 1, id="no answer"),
    ],
)
async def test_what_the_watch_shows_while_the_server_is_asked_is_compared_with_the_answer(
    answer: str | None, shown: list[str], passes: int
) -> None:
    client = FakeClient(*([recorded("", answer)] if answer else []))
    place = ClusterOf(client)
    cluster = cast("Cluster", place)
    told: list[Request] = []
    dependencies = BindingDependencies(cluster, told.append)
    answers = Answers(client.client, dependencies, Mappings(cluster, lambda _: [], lambda _: None))
    get = client.get

    async def slow(resource: Resource, name: str, namespace: str = "") -> Object:
        for version in shown:
            one = object_from_dict(recorded("", version))
            place.informer(DEPLOYMENTS).handler(Delta("ADDED", None, one))
        assert told == []
        if answer is None:
            raise ConnectionFailed("gone")
        return await get(resource, name, namespace)

    client.get = slow  # type: ignore[assignment, method-assign]
    with contextlib.suppress(ConnectionFailed):
        await answers.give(REQUEST, [Get(DEPLOYMENTS, "ns", "web", spec_only=True)])
    assert told == [REQUEST] * passes
