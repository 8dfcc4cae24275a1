"""The pages of both consoles and the commands agree on every object."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.api.test_verdict import BINDING, DEPLOYMENT, EXPORT, ROWS, c, obj

from fairlead.api.kubebind import ClusterBinding
from fairlead.api.links import verdict_link
from fairlead.api.meta import JSON, Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import place_of, verdict_of
from fairlead.api.resource import Resource
from fairlead.binding.commands.links import binding_link as service_binding_link
from fairlead.binding.commands.links import wish_of
from fairlead.binding.workloads.rollout import rollout_failure
from fairlead.konnector.commands.overview.fetch import ProviderNamespaces
from fairlead.konnector.commands.overview.links import binding_link
from fairlead.konnector.commands.overview.rows import (
    BoundKind,
    FetchedBinding,
    ProviderCopies,
    make_row,
)
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.portal.console.sources.consumers import ConsumerConnection
from fairlead.portal.console.sources.kinds import FollowedKind, History, kept_of
from fairlead.portal.console.sources.provided import Provided, provider_chain
from fairlead.portal.console.sources.rows import bound_of, thing_of
from fairlead.portal.console.sources.sights import Sight
from fairlead.portal.model.thing import answer_of, shown_conditions
from fairlead.portal.model.timeline import timeline
from fairlead.postgres.commands.links import provided_role_link, role_by_status
from fairlead.postgres.commands.surroundings import is_provided
from fairlead.provider.commands.overview import connection_verdict
from fairlead.runtime import Delta, Informer


RESOURCE = Resource("example.org", "v1", "widgets", "Widget")


@pytest.mark.parametrize("found", [pytest.param(row[0], id=name) for name, row in ROWS.items()])
def test_each_page_and_command_gives_the_same_verdict(found: Object) -> None:
    state = verdict_of(found).state
    kind = FollowedKind(RESOURCE, cast("Informer", None), cast("Informer", None))
    # The provider's console judges what its cache keeps.
    kind.heard(Delta("ADDED", None, kept_of(found.to_dict())))
    verdict = kind.verdict(found)
    assert verdict.state == state
    assert kind.numbers(found.meta.namespace)[state] == 1
    assert thing_of(RESOURCE, found).state == state
    link = verdict_link(verdict, name="service", subject="x")
    assert link.state == ("ok" if state == "unknown" and not verdict.reason else state)
    if place_of(found) != "consumer":
        # The provider's page is about objects of its own cluster.
        answer = answer_of(verdict, [provider_chain(found, verdict)])
        assert answer.state == state


OURS = {name: row[0] for name, row in ROWS.items()}


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(found, id=name)
        for name, found in OURS.items()
        if found.kind in {"PostgresAccess", "ServiceBinding", "APIServiceBinding"}
    ],
)
def test_each_link_of_a_chain_gives_the_same_verdict(found: Object) -> None:
    link = {
        "PostgresAccess": lambda: (
            provided_role_link(found, None) if is_provided(found.meta) else role_by_status(found)
        ),
        "ServiceBinding": lambda: service_binding_link(wish_of(found)),
        "APIServiceBinding": lambda: binding_link(FetchedBinding(found, reached=True)),
    }[found.kind]()
    assert link.state == verdict_of(found).state


def test_facts_have_no_colour_on_any_page() -> None:
    found = obj(DEPLOYMENT, c("Progressing", "True"), c("ReplicaFailure", "False"))
    assert [one.state for one in shown_conditions(found)] == [None, None]
    lines = timeline(found)
    assert {one.state for one in lines if one.what == "condition"} == {None}
    binding = obj(BINDING, c("Ready", "True"), c("Conflicts", "False"), c("WithoutStatus", "True"))
    bound = bound_of(FetchedBinding(binding, reached=True), {})
    states = {one.condition.type: one.state for one in bound.conditions}
    assert states == {"Ready": "ok", "Conflicts": None, "WithoutStatus": None}


@pytest.mark.parametrize(
    "found",
    [pytest.param(row[0], id=name) for name, row in ROWS.items() if not row[0].meta.deleting],
)
def test_a_rollout_that_fails_for_a_binding_fails_by_the_verdict(found: Object) -> None:
    failure = rollout_failure(found.to_dict())
    assert failure is None or verdict_of(found).state == "failed"


GOOD, BAD, SILENT = (
    c("Ready", "True"),
    c("Ready", "False", "BuildFailed", "it does not turn"),
    c("Ready", "False", "HeartbeatTimeout", "no heartbeat for an hour"),
)


@pytest.mark.parametrize(
    ("conditions", "beat", "objects", "state"),
    [
        pytest.param([], GOOD, [GOOD], "ok", id="all is well"),
        pytest.param([], GOOD, [GOOD, BAD], "ok", id="an object fails"),
        pytest.param([c("ObjectsFailing", "True")], GOOD, [BAD], "ok", id="an object is refused"),
        pytest.param([], SILENT, [GOOD], "failed", id="its konnector is silent"),
        pytest.param([c("Connected", "False", "X")], GOOD, [GOOD], "failed", id="it is cut off"),
    ],
)
async def test_both_consoles_and_the_command_give_a_binding_its_own_state(
    conditions: list[JSON], beat: JSON, objects: list[JSON], state: State
) -> None:
    things = [
        obj("example.org/v1/Widget", one, meta={"name": f"w{number}"})
        for number, one in enumerate(objects)
    ]
    spec = {"kubeconfigSecretRef": {"name": "k", "key": "k"}, "providerPrettyName": "Acme"}
    connection = obj("kube-bind.io/v1alpha2/ClusterBinding", beat, spec=spec).decode(
        ClusterBinding
    )
    ready = c("Ready", "False", "X") if state == "failed" and conditions else c("Ready", "True")
    # The last change of each object has yet to cross.
    places = ProviderNamespaces({"team": "c-team"})
    copies = ProviderCopies(BoundPolicy(cluster_namespace="c"), places, {})
    bound = FetchedBinding(
        obj(BINDING, ready, *conditions), [BoundKind(things, copies)], connection, reached=True
    )
    assert make_row(bound, datetime(2026, 1, 1, tzinfo=UTC)).state == state
    own = bound_of(bound, {}).row
    assert own.state == state

    kind = FollowedKind(RESOURCE, cast("Informer", None), cast("Informer", None))
    for thing in things:
        kind.heard(Delta("ADDED", None, kept_of(thing.to_dict())))
    verdict = connection_verdict(connection.status.conditions[0])
    export = obj(EXPORT, c("ProviderInSync", "True"), *conditions)
    consumers = SimpleNamespace(
        kinds=SimpleNamespace(
            get=lambda name: kind,
            problem=lambda name: "",
            namespaces=lambda consumer: [consumer],
        ),
        title=lambda consumer: "shop",
        exports=lambda consumer: [export],
        read=lambda found: ((RESOURCE.group_resource,), verdict_of(found)),
        connection=lambda consumer: ConsumerConnection(connection.status, verdict),
    )
    everything = frozenset({("", RESOURCE.group_resource, "")})
    sight = Sight(("team",), frozenset({"team"}), frozenset({"team"}), everything)
    source = Provided(cast("Any", consumers), cast("Any", None), History())
    (row,) = (await source.bindings(sight)).value.rows
    assert (row.state, row.objects.failed) == (state, objects.count(BAD))
