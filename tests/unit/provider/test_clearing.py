from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.provider.controllers.clearing.reconcile import ClearingPlan, State, reconcile
from fairlead.provider.offer import with_revocation


WIDGETS = Resource("example.org", "v1", "widgets", "Widget", namespaced=False)
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def thing(kind: str, name: str, **metadata: Any) -> Object:
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}
    return object_from_dict(body)


def binding(stored: JSON) -> Object:
    spec = {"serviceProviderSpec": stored}
    return object_from_dict({**thing("ClusterBinding", "cluster").to_dict(), "spec": spec})


MINE = {"backend.kube-bind.io/identity": "shop"}
CONSUMER = thing("Namespace", "abc", annotations=MINE)
SAID = binding(with_revocation({}, clearing=True))
OWNED = thing("Namespace", "abc-shop")
COPY = (WIDGETS, thing("Widget", "abc-blue"))


@pytest.mark.parametrize(
    ("consumer", "said"),
    [
        pytest.param(None, SAID, id="gone"),
        pytest.param(thing("Namespace", "abc", annotations=MINE, **GOING), SAID, id="going"),
        pytest.param(thing("Namespace", "abc"), SAID, id="of nobody"),
        pytest.param(CONSUMER, None, id="nothing said"),
        pytest.param(CONSUMER, binding(with_revocation({})), id="its access is being taken"),
        pytest.param(CONSUMER, binding({"clearing": True}), id="not revoked"),
        pytest.param(CONSUMER, binding(with_revocation({}, clearing=False)), id="data is kept"),
    ],
)
def test_nothing_goes_that_is_not_to_be_cleared(
    consumer: Object | None, said: Object | None
) -> None:
    state = State(consumer, said, [OWNED], [COPY])
    assert reconcile(state) == ClearingPlan()


def waits(plan: ClearingPlan) -> tuple[str, str]:
    assert plan.condition is not None
    return plan.condition.reason, plan.condition.message


def test_provider_namespaces_go_first_then_copies_and_the_identity_last() -> None:
    state = State(CONSUMER, SAID, [OWNED], [COPY])
    first = reconcile(state)
    assert first.namespaces == [OWNED]
    assert first.copies == []
    assert reconcile(state._replace(owned=[], copies=None)) == ClearingPlan(count=True)
    second = reconcile(state._replace(owned=[]))
    assert (second.namespaces, second.copies) == ([], [COPY])
    assert waits(second) == ("ObjectsRemain", "Widget abc-blue")
    last = reconcile(state._replace(owned=[], copies=[]))
    assert (last.namespaces, last.copies) == ([CONSUMER], [])


def test_what_is_going_is_waited_for() -> None:
    going = thing("Namespace", "abc-shop", **GOING)
    plan = reconcile(State(CONSUMER, SAID, [going]))
    assert plan.namespaces == []
    assert waits(plan) == ("ObjectsRemain", "Namespace abc-shop")
    copy = (WIDGETS, thing("Widget", "abc-blue", finalizers=["x.org/y"], **GOING))
    plan = reconcile(State(CONSUMER, SAID, [], [copy]))
    assert (plan.copies, plan.namespaces) == ([], [])
    assert waits(plan) == ("ObjectsRemain", "Widget abc-blue (finalizer x.org/y)")


def test_a_kind_that_cannot_be_looked_at_keeps_the_identity() -> None:
    plan = reconcile(State(CONSUMER, SAID, [], [], ["widgets cannot be listed"]))
    assert plan.namespaces == []
    assert waits(plan) == ("ObjectsUnknown", "widgets cannot be listed")
