"""The pages of both consoles and the commands agree on every object."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.api.test_verdict import BINDING, DEPLOYMENT, ROWS, c, obj

from fairlead.api.links import verdict_link
from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import place_of, verdict_of
from fairlead.api.resource import Resource
from fairlead.binding.commands.chain import binding_link as service_binding_link
from fairlead.binding.commands.explain import wish_of
from fairlead.binding.workloads.rollout import rollout_failure
from fairlead.konnector.commands.overview.links import binding_link
from fairlead.konnector.commands.overview.rows import FetchedBinding
from fairlead.portal.console.sources.kinds import FollowedKind, kept_of
from fairlead.portal.console.sources.look import bound_of, thing_of
from fairlead.portal.console.sources.provided import provider_chain
from fairlead.portal.model.thing import answer_of, shown_conditions
from fairlead.portal.model.timeline import timeline
from fairlead.postgres.commands.links import provided_role_link, role_by_status
from fairlead.postgres.commands.surroundings import is_provided
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
        "ServiceBinding": lambda: service_binding_link(wish_of(found).binding),
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
