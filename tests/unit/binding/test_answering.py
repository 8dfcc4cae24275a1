"""Reads answered from metadata that are here already, which may be a moment old."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.binding.client import FakeClient
from tests.unit.binding.objects import deployment
from tests.unit.binding.test_controller import ClusterOf

from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.resource import DEPLOYMENTS
from fairlead.api.status import Status
from fairlead.binding.cluster.answering import Answers, Mappings
from fairlead.binding.cluster.dependencies import BindingDependencies
from fairlead.binding.reads import Answer, Marked
from fairlead.binding.workloads.records import record_key
from fairlead.client import ClientError, ServerError
from fairlead.runtime import Cluster, Request


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
    dependencies.expect_newer(REQUEST, DEPLOYMENTS, before)
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
