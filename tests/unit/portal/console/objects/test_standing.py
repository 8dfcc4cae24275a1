"""How objects stand, whatever others wrote as their conditions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.portal.console.objects.standing import LONGEST, conditions_of, standing
from fairlead.portal.console.states import STATES


def made(*conditions: Any, **metadata: Any) -> Object:
    body: JSON = {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": "team", "uid": "u", **metadata},
        "status": {"conditions": list(conditions)},
    }
    return object_from_dict(body)


def told(type_: str, status: str, reason: str = "", at: str = "2026-01-01T00:00:00Z") -> JSON:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": at}


@pytest.mark.parametrize(
    ("conditions", "state", "reason"),
    [
        ([told("Ready", "True")], "ok", ""),
        ([told("Ready", "False", "Odd")], "failed", "Odd"),
        ([told("Ready", "False", "NamespacePending")], "waiting", "NamespacePending"),
        ([told("Ready", "Unknown")], "unknown", ""),
        ([], "unknown", ""),
        ([told("Odd", "True")], "unknown", ""),
        # Ready sums up what others say more precisely.
        ([told("Ready", "False", "Sum"), told("Synced", "False", "Finer")], "failed", "Finer"),
        # What is wrong while it is True is never well, whatever Ready says.
        ([told("Ready", "True"), told("Degraded", "True", "Slow")], "failed", "Slow"),
        ([told("Ready", "True"), told("Reconciling", "True", "Busy")], "waiting", "Busy"),
        ([told("Degraded", "False")], "ok", ""),
        # A type that is not known says nothing beside Ready.
        ([told("Ready", "True"), told("Odd", "False", "Own")], "ok", ""),
        ([told("Reconciling", "True"), told("Ready", "False", "Bad")], "failed", "Bad"),
    ],
)
def test_an_object_stands_as_its_worst_condition(
    conditions: list[JSON], state: str, reason: str
) -> None:
    found = standing(made(*conditions))
    assert (found.state, found.reason) == (state, reason)
    assert (found.helps == "") == (state == "ok" or not reason)


def test_what_is_being_deleted_waits_and_names_what_holds_it() -> None:
    found = standing(
        made(
            told("Ready", "True"),
            deletionTimestamp="2026-01-02T00:00:00Z",
            finalizers=["example.org/held"],
        )
    )
    assert (found.state, found.since) == ("waiting", "2026-01-02T00:00:00Z")
    assert "example.org/held" in found.message
    assert "finalizers" in found.helps


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
)


@given(_json)
def test_whatever_stands_in_a_status_is_read(status: Any) -> None:
    for stored in (status, {"conditions": status}, {"conditions": [status]}):
        body = {
            "apiVersion": "example.org/v1",
            "kind": "Widget",
            "metadata": {"name": "one"},
            "status": stored,
        }
        assert standing(object_from_dict(body)).state in STATES


def test_one_condition_that_is_none_hides_no_other() -> None:
    found = conditions_of(made(7, {"type": "Ready", "status": 1}, told("Synced", "False", "Bad")))
    assert [(one.type, one.status) for one in found] == [("Ready", "Unknown"), ("Synced", "False")]


def test_long_texts_are_cut() -> None:
    found = standing(made(told("Ready", "False", "r" * 9000) | {"message": "m" * 9000}))
    assert len(found.message) == len(found.reason) == LONGEST + 1


def test_a_reason_of_another_controller_has_no_remedy_of_ours() -> None:
    stands = standing(made(told("Ready", "False", "Pending")))
    assert stands.state == "waiting"
    assert "konnector" not in stands.helps
    assert stands.helps == "ask the provider's team what it waits for"


def test_a_stage_that_fails_has_the_remedy_of_the_finer_reason() -> None:
    message = "DatabaseNotFound: database payroll of spec.grants does not exist"
    body = made(told("Ready", "False", "DatabaseSyncFailed") | {"message": message}).to_dict()
    body |= {"apiVersion": "access.k8s.delta10.nl/v1", "kind": "PostgresAccess"}
    stands = standing(object_from_dict(body))
    assert stands.helps == "create the database, or correct spec.grants"
