from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import BindableResourcesRequestSpec, LocalSecretKeyRef
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.provider.controllers.bindableresources.reconcile import (
    InvitationOutcome,
    InvitationPlan,
    fault,
    ready_events,
    reconcile,
    secret_ref,
    with_outcome,
)


NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
EARLIER, MOMENT = "2026-05-01T11:59:00Z", "2026-05-01T12:00:00Z"
SPEC: JSON = {
    "templateRef": {"name": "widgets"},
    "clusterIdentity": {"identity": "shop"},
    "author": "ann",
}


def request(status: JSON | None = None, *, ttl: str = "", **metadata: Any) -> Object:
    spec = SPEC | ({"ttlAfterFinished": ttl} if ttl else {})
    known: JSON = {"name": "shop", "namespace": "asks", "generation": 2, "uid": "u"}
    return object_from_dict(
        {
            "apiVersion": "kube-bind.io/v1alpha2",
            "kind": "BindableResourcesRequest",
            "metadata": known | metadata,
            "spec": spec,
            "status": status or {},
        }
    )


def finished(phase: str, *, generation: int = 2, at: str = EARLIER) -> JSON:
    status = "True" if phase == "Succeeded" else "False"
    ready = {
        "type": "Ready",
        "status": status,
        "reason": "R",
        "message": "m",
        "lastTransitionTime": at,
        "observedGeneration": generation,
    }
    return {"phase": phase, "completionTime": at, "conditions": [ready]}


GOING = "2026-05-01T11:59:59Z"


@pytest.mark.parametrize(
    ("request_", "plan"),
    [
        pytest.param(request(), InvitationPlan(invite=True), id="new"),
        pytest.param(request({"phase": "Pending"}), InvitationPlan(invite=True), id="pending"),
        pytest.param(request(deletionTimestamp=GOING), InvitationPlan(), id="going"),
        pytest.param(request(finished("Succeeded")), InvitationPlan(), id="done, for ever"),
        pytest.param(
            request(finished("Succeeded"), ttl="90s"),
            InvitationPlan(requeue_after=30.0),
            id="done, for half a minute more",
        ),
        pytest.param(
            request(finished("Succeeded"), ttl="1m"),
            InvitationPlan(delete=True),
            id="done, time is up",
        ),
        pytest.param(
            request(finished("Succeeded"), ttl="0s"),
            InvitationPlan(delete=True),
            id="done, no time given",
        ),
        pytest.param(
            request(finished("Succeeded", at="then"), ttl="1m"),
            InvitationPlan(),
            id="done, nobody knows when",
        ),
        pytest.param(
            request(finished("Succeeded", generation=1), ttl="1m"),
            InvitationPlan(invite=True),
            id="done, but the spec has changed",
        ),
        pytest.param(
            request(finished("Failed")), InvitationPlan(invite=True), id="failed, tried again"
        ),
        pytest.param(
            request(finished("Failed"), ttl="90s"),
            InvitationPlan(invite=True, requeue_after=30.0),
            id="failed, tried again until its time is up",
        ),
        pytest.param(
            request(finished("Failed"), ttl="1m"),
            InvitationPlan(delete=True),
            id="failed, time is up",
        ),
    ],
)
def test_what_a_request_leads_to(request_: Object, plan: InvitationPlan) -> None:
    assert reconcile(request_, now=NOW) == plan


def spec(**fields: Any) -> BindableResourcesRequestSpec:
    return object_spec(SPEC | fields)


def object_spec(body: JSON) -> BindableResourcesRequestSpec:
    return msgspec.convert(body, BindableResourcesRequestSpec)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({}, "", id="good"),
        pytest.param({"ttlAfterFinished": "1h30m"}, "", id="a duration"),
        pytest.param(
            {"ttlAfterFinished": "soon"}, "spec.ttlAfterFinished 'soon'", id="no duration"
        ),
        pytest.param({"author": ""}, "spec.author is empty", id="nobody"),
        pytest.param({"clusterIdentity": {"identity": ""}}, "identity is empty", id="no cluster"),
    ],
)
def test_what_cannot_be_handed_out_is_said(fields: JSON, message: str) -> None:
    found = fault(spec(**fields))
    assert found.startswith(message) or message in found
    assert bool(found) is bool(message)


def test_the_answer_has_a_name_of_its_own_unless_one_is_given() -> None:
    assert secret_ref(request(), spec()) == LocalSecretKeyRef(
        name="shop-binding-response", key="binding-response"
    )
    named = {"name": "mine", "key": "k"}
    assert secret_ref(request(), spec(kubeconfigSecretRef=named)) == LocalSecretKeyRef(**named)


GOOD = InvitationOutcome(
    phase="Succeeded",
    reason="SecretReady",
    message="there",
    namespace="ns",
    ref=LocalSecretKeyRef(name="s", key="k"),
)
BAD = InvitationOutcome(phase="Failed", reason="TemplateNotFound", message="none")
WAITING = InvitationOutcome(phase="Pending", reason="HandleResourcesFailed", message="forbidden")


@pytest.mark.parametrize(
    ("before", "outcome", "completed"),
    [
        pytest.param({}, GOOD, MOMENT, id="succeeds"),
        pytest.param({}, BAD, MOMENT, id="fails"),
        pytest.param({}, WAITING, None, id="waits"),
        pytest.param(finished("Failed"), BAD, EARLIER, id="fails again"),
        pytest.param(finished("Failed"), GOOD, MOMENT, id="succeeds at last"),
        pytest.param(finished("Failed"), WAITING, None, id="waits after it failed"),
        pytest.param(
            finished("Succeeded", generation=1), GOOD, MOMENT, id="succeeds with another spec"
        ),
    ],
)
def test_it_is_finished_when_it_ended_so_first(
    before: JSON, outcome: InvitationOutcome, completed: str | None
) -> None:
    status = with_outcome(request(before), outcome, now=NOW)["status"]
    assert status.get("completionTime") == completed
    assert status["phase"] == outcome.phase
    (ready,) = status["conditions"]
    assert ready["status"] == ("True" if outcome is GOOD else "False")
    assert (ready["reason"], ready["message"]) == (outcome.reason, outcome.message)
    assert ready["observedGeneration"] == 2
    assert status.get("namespace") == ("ns" if outcome is GOOD else None)
    assert status.get("kubeconfigSecretRef") == (
        {"name": "s", "key": "k"} if outcome is GOOD else None
    )


def test_looking_again_changes_nothing() -> None:
    first = with_outcome(request(), BAD, now=NOW)
    again = with_outcome(object_from_dict(first), BAD, now=NOW.replace(hour=13))
    assert again == first


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param(None, BAD, [("Warning", "TemplateNotFound")], id="first"),
        pytest.param(BAD, BAD, [], id="same"),
        pytest.param(BAD, GOOD, [("Normal", "SecretReady")], id="turned"),
    ],
)
def test_an_event_tells_of_what_has_turned(
    before: InvitationOutcome | None, after: InvitationOutcome, told: list[tuple[str, str]]
) -> None:
    old = request()
    if before is not None:
        old = object_from_dict(with_outcome(old, before, now=NOW))
    new = object_from_dict(with_outcome(old, after, now=NOW))
    assert [(event.type, event.reason) for event in ready_events(old, new)] == told
