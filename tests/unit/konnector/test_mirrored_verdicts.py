"""The verdict on a binding of kbind v2, which the table and the explanation have alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.kbindbound import binding
from tests.support.kbindworld import connection

from fairlead.api.links import join
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.reasons.model import State
from fairlead.konnector.commands.overview.links import binding_links
from fairlead.konnector.commands.overview.rows import FetchedBinding, MirroredRow, make_row
from fairlead.konnector.commands.presence import KonnectorStop


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
AT = "2026-01-01T11:59:00Z"


def told(body: JSON, *conditions: tuple[str, str, str, str], **meta: Any) -> Object:
    """An object with conditions, as type, status, reason and message."""
    every = [
        {"type": type_, "status": status, "reason": reason, "message": message}
        | {"lastTransitionTime": AT}
        for type_, status, reason, message in conditions
    ]
    body["metadata"] |= {"uid": "u", **meta}
    return object_from_dict({**body, "status": {"conditions": every}})


WELL = ("Ready", "True", "AsExpected", "")
PENDING = ("Ready", "False", "Pending", "Connection acme is not ready: see its conditions")
FOREIGN = ("Ready", "False", "ForeignCustomResourceDefinition", "another's")
CONFLICT = ("Conflicts", "True", "ForeignObjectExists", "1 object is not synchronised")


def bound(own: tuple[str, str, str, str], *more: tuple[str, str, str, str], **meta: Any) -> Object:
    return told(binding("all", "acme", "widgets.example.org"), own, *more, **meta)


def way(*conditions: tuple[str, str, str, str]) -> Object:
    return told(connection("acme"), *conditions)


CONNECTED = way(WELL)
SECRETLESS = way(("Ready", "False", "SecretNotFound", "Secret kube-bind/acme not found"))
SILENT = way(("Ready", "False", "Pending", "no answer"))
GOING = {"deletionTimestamp": AT, "finalizers": ["core.kbind.io/cleanup"]}
STOP = KonnectorStop("no konnector has renewed its Lease", AT)


@pytest.mark.parametrize(
    ("binding", "state", "reason", "text"),
    [
        pytest.param(
            FetchedBinding(bound(WELL), connection=CONNECTED, reached=True, kinds=()),
            *("ok", "", ""),
            id="well",
        ),
        pytest.param(
            FetchedBinding(bound(FOREIGN), connection=CONNECTED),
            *("failed", "ForeignCustomResourceDefinition", "another's"),
            id="its own fault",
        ),
        pytest.param(
            FetchedBinding(bound(FOREIGN), connection=SILENT),
            *("failed", "ForeignCustomResourceDefinition", "another's"),
            id="its own fault, behind which the Connection waits",
        ),
        pytest.param(
            FetchedBinding(bound(FOREIGN), connection=SECRETLESS),
            *("failed", "SecretNotFound", "Connection acme: Secret kube-bind/acme not found"),
            id="its own fault, behind which the Connection fails",
        ),
        pytest.param(
            FetchedBinding(bound(PENDING), connection=SECRETLESS),
            *("failed", "SecretNotFound", "Connection acme: Secret kube-bind/acme not found"),
            id="the Connection's fault",
        ),
        pytest.param(
            FetchedBinding(bound(PENDING), connection=SILENT),
            *("waiting", "Pending", "Connection acme: no answer"),
            id="a provider without an answer",
        ),
        pytest.param(
            FetchedBinding(bound(PENDING)),
            *("waiting", "Pending", "Connection acme: it does not exist"),
            id="no Connection",
        ),
        pytest.param(
            FetchedBinding(bound(WELL), connection=CONNECTED, problem="no route"),
            *("failed", "NotReached", "no route"),
            id="a provider that this machine does not reach",
        ),
        pytest.param(
            FetchedBinding(bound(PENDING), connection=SECRETLESS, problem="no route"),
            *("failed", "SecretNotFound", "Connection acme: Secret kube-bind/acme not found"),
            id="a provider that neither reaches",
        ),
        pytest.param(
            FetchedBinding(bound(WELL), connection=CONNECTED, stop=STOP),
            *("failed", "KonnectorStopped", "no konnector has renewed its Lease"),
            id="no konnector any more",
        ),
        pytest.param(
            FetchedBinding(CONNECTED, connection=CONNECTED, stop=STOP),
            *("failed", "KonnectorStopped", "no konnector has renewed its Lease"),
            id="a Connection without a konnector",
        ),
        pytest.param(
            FetchedBinding(SECRETLESS, connection=SECRETLESS),
            *("failed", "SecretNotFound", "Secret kube-bind/acme not found"),
            id="a Connection with a fault",
        ),
    ],
)
def test_the_table_and_the_explanation_have_one_verdict(
    binding: FetchedBinding, state: State, reason: str, text: str
) -> None:
    row = make_row(binding, NOW)
    assert (row.state, row.reason) == (state, reason)
    assert text in row.problem
    assert bool(row.remedy) == bool(reason)
    chain = join("x", binding_links(binding))
    assert (chain.ready, chain.reason, chain.next_step) == (state == "ok", reason, row.remedy)


def test_a_conflict_is_a_remark_with_its_remedy() -> None:
    row = make_row(FetchedBinding(bound(WELL, CONFLICT), connection=CONNECTED), NOW)
    assert (row.state, row.problem) == ("ok", "")
    assert [(remark.reason, bool(remark.remedy)) for remark in row.remarks] == [
        ("ForeignObjectExists", True)
    ]


def test_who_may_not_see_the_provider_is_told_so_and_nothing_is_wrong() -> None:
    unseen = "you may not read Secret kube-bind/acme"
    row = make_row(FetchedBinding(bound(WELL), connection=CONNECTED, unseen=unseen), NOW)
    assert (row.state, row.in_sync) == ("ok", None)
    assert [remark.message.partition(",")[0] for remark in row.remarks] == [unseen]
    for there in (CONNECTED, None):
        links = binding_links(FetchedBinding(bound(WELL), connection=there, unseen=unseen))
        assert unseen in links[-1].about
        assert join("x", links).ready


def test_one_that_is_being_deleted_says_what_it_waits_for() -> None:
    message = "unbinding; waiting for the copies of 2 objects"
    going = bound(("Ready", "False", "Pending", message), **GOING)
    row = make_row(FetchedBinding(going, connection=SILENT), NOW)
    assert (row.state, row.problem) == ("waiting", f"Pending: {message}")


def test_one_that_cannot_be_read_is_a_row_of_its_own() -> None:
    body = binding("own", "acme", "widgets.example.org", namespace="shop")
    body["spec"]["apis"] = "all"
    row = make_row(FetchedBinding(told(body)), NOW)
    assert isinstance(row, MirroredRow)
    assert (row.title, row.state, row.reason, row.resources) == (
        *("binding/shop/own", "failed", "Invalid", []),
    )
