"""The managed ClusterBinding of a Connection with autoBind, one row for each edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fairlead.api.kbind import ConnectionStatus
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.konnector import bounds
from fairlead.konnector.v2.autobind import (
    AutoBindFault,
    AutoBindPlan,
    is_managed,
    plan_auto_bind,
    with_auto_bind,
)


NOW = "2026-11-30T12:00:00Z"
OWNER: JSON = {
    "apiVersion": "core.kbind.io/v1alpha1",
    "kind": "Connection",
    "name": "acme",
    "uid": "1",
    "controller": True,
}
A, B, C = "as.acme.io", "bs.acme.io", "cs.acme.io"


def connection(*, auto: bool = True, deleting: bool = False) -> Object:
    metadata: JSON = {"name": "acme", "uid": "1"}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    ref = {"namespace": "kube-bind", "name": "acme"}
    return object_from_dict(
        {
            "apiVersion": "core.kbind.io/v1alpha1",
            "kind": "Connection",
            "metadata": metadata,
            "spec": {"kubeconfigSecretRef": ref, "autoBind": auto},
        }
    )


def binding(*apis: str, owner: JSON | None = OWNER, **spec: Any) -> Object:
    metadata: JSON = {"name": "acme", "labels": {"core.kbind.io/managed": "true"}}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    if spec.pop("deleting", False):
        metadata["deletionTimestamp"] = NOW
    bound = [{"name": api} for api in apis]
    return object_from_dict(
        {
            "apiVersion": "core.kbind.io/v1alpha1",
            "kind": "ClusterBinding",
            "metadata": metadata,
            "spec": {"connectionRef": {"name": "acme"}, "apis": bound, **spec},
        }
    )


FORMER = {**OWNER, "uid": "0"}
PLAIN_OWNER = {key: value for key, value in OWNER.items() if key != "controller"}


@pytest.mark.parametrize(
    ("one", "existing", "offered", "gone", "action", "apis", "reason"),
    [
        pytest.param(connection(), None, [B, A], (), "create", [A, B], "", id="first"),
        pytest.param(connection(), None, [], (), "", None, "", id="nothing-offered"),
        pytest.param(connection(), None, None, (), "", None, "", id="not-ready"),
        pytest.param(connection(), binding(A), [A], (), "", [A], "", id="as-it-is"),
        pytest.param(connection(), binding(B, A), [A, B], (), "", [B, A], "", id="other-order"),
        pytest.param(connection(), binding(A), [A, B], (), "change", [A, B], "", id="grows"),
        pytest.param(
            connection(),
            binding(A, B),
            [A],
            None,
            "",
            [A, B],
            "unknown",
            id="F9-missing-original-shrinks-at-once",
        ),
        pytest.param(
            connection(),
            binding(A, B),
            [A],
            (),
            "",
            [A, B],
            "APINotExported",
            id="F9-label-removed-original-shrinks",
        ),
        pytest.param(
            connection(), binding(A, B), [A], (B,), "change", [A], "", id="F9-gone-for-good"
        ),
        pytest.param(
            connection(),
            binding(A, B),
            [C],
            (A,),
            "change",
            [B, C],
            "APINotExported",
            id="F9-another-one-goes-and-one-stays",
        ),
        pytest.param(
            connection(),
            binding(A),
            [],
            (A,),
            "",
            [A],
            "APINotExported",
            id="F9-never-empty-original-deletes-all",
        ),
        pytest.param(
            connection(), binding(A, B), [], (A,), "change", [B], "APINotExported", id="F9-kept"
        ),
        pytest.param(
            connection(), binding(A, B), None, (B,), "", None, "unknown", id="F9-not-ready"
        ),
        pytest.param(
            connection(),
            binding(A, owner=None),
            [A, B],
            (),
            "",
            None,
            "ForeignClusterBinding",
            id="F10-users-own-original-takes-it",
        ),
        pytest.param(
            connection(),
            binding(A, owner=FORMER),
            [A, B],
            (),
            "",
            None,
            "ForeignClusterBinding",
            id="F10-of-a-former-connection",
        ),
        pytest.param(
            connection(),
            binding(A, owner=PLAIN_OWNER),
            [A, B],
            (),
            "",
            None,
            "ForeignClusterBinding",
            id="F10-owned-and-not-controlled",
        ),
        pytest.param(
            connection(), binding(A, deleting=True), [A], (), "", None, "unknown", id="its-end"
        ),
        pytest.param(
            connection(auto=False),
            binding(A),
            [A],
            (),
            "delete",
            None,
            "",
            id="F16-off-original-leaves-it",
        ),
        pytest.param(
            connection(auto=False), binding(A), None, None, "delete", None, "", id="F16-off-away"
        ),
        pytest.param(
            connection(auto=False), binding(A, owner=None), [A], (), "", None, "", id="off-users"
        ),
        pytest.param(
            connection(auto=False),
            binding(A, deleting=True),
            [A],
            (),
            "",
            None,
            "",
            id="off-going",
        ),
        pytest.param(connection(deleting=True), binding(A), [A], (), "delete", None, "", id="end"),
        pytest.param(connection(deleting=True), None, [A], (), "", None, "", id="end-without"),
        pytest.param(
            connection(deleting=True),
            binding(A, owner=None),
            [A],
            (),
            "",
            None,
            "",
            id="end-users",
        ),
    ],
)
def test_plan(
    one: Object,
    existing: Object | None,
    offered: Sequence[str] | None,
    gone: Sequence[str] | None,
    action: str,
    apis: list[str] | None,
    reason: str,
) -> None:
    plan = plan_auto_bind(one, existing, offered, gone)
    assert plan.action == action
    body = plan.body
    assert (body and [api["name"] for api in body["spec"]["apis"]]) == apis
    if not plan.settled:
        assert reason == "unknown" or (existing is None and offered is None)
    else:
        assert (plan.fault.reason if plan.fault is not None else "") == reason


def test_a_new_one_is_controlled_and_needs_no_right_on_finalizers() -> None:
    body = plan_auto_bind(connection(), None, [A], ()).body
    assert body is not None
    assert body["metadata"]["ownerReferences"] == [OWNER]
    assert body["metadata"]["labels"] == {"core.kbind.io/managed": "true"}
    assert is_managed(object_from_dict(body), connection())


def test_what_a_user_adds_stays() -> None:
    rule = {"resource": "secrets", "direction": "FromProvider"}
    added: JSON = {"conflictPolicy": "Adopt", "relatedResources": [rule]}
    plan = plan_auto_bind(connection(), binding(A, **added), [A, B], ())
    assert plan.body is not None
    assert plan.body["spec"].items() >= added.items()


def test_its_connection_and_label_are_the_konnectors() -> None:
    changed = binding(A).to_dict()
    changed["spec"]["connectionRef"] = {"name": "other"}
    changed["metadata"]["labels"] = {"team": "a"}
    plan = plan_auto_bind(connection(), object_from_dict(changed), [A], ())
    assert plan.action == "change"
    assert plan.body is not None
    assert plan.body["spec"]["connectionRef"] == {"name": "acme"}
    assert plan.body["metadata"]["labels"] == {"team": "a", "core.kbind.io/managed": "true"}


def test_a_provider_brings_no_apis_without_end() -> None:
    offered = [f"as{number:04}.acme.io" for number in range(bounds.AUTO_BOUND_APIS + 2)]
    plan = plan_auto_bind(connection(), None, offered, ())
    assert plan.body is not None
    assert len(plan.body["spec"]["apis"]) == bounds.AUTO_BOUND_APIS
    assert plan.fault is not None
    assert str(len(offered)) in plan.fault.message


def test_f9_what_is_bound_makes_no_room_for_what_is_offered_later() -> None:
    bound = [f"bs{number:04}.acme.io" for number in range(bounds.AUTO_BOUND_APIS)]
    plan = plan_auto_bind(connection(), binding(*bound), [A, *bound], ())
    assert plan.action == ""
    assert plan.fault is not None


def test_a_message_names_a_few_of_many() -> None:
    names = [f"as{number}.acme.io" for number in range(9)]
    plan = plan_auto_bind(connection(), binding(*names, "b.acme.io"), ["b.acme.io"], ())
    assert plan.fault is not None
    assert "as0.acme.io, as1.acme.io, as2.acme.io and 6 more" in plan.fault.message


def test_the_condition_is_there_during_a_fault_alone() -> None:
    fault = AutoBindFault("Forbidden", "no right")
    before = ConnectionStatus()
    told = with_auto_bind(before, AutoBindPlan(fault=fault), 3, now=NOW)
    (condition,) = told.conditions
    assert (condition.type, condition.status, condition.reason, condition.observed_generation) == (
        *("AutoBindFailing", "True", "Forbidden"),
        3,
    )
    later = msgspec.structs.replace(AutoBindPlan(), settled=False)
    assert with_auto_bind(told, later, 3, now=NOW) == told
    assert with_auto_bind(told, AutoBindPlan(), 3, now=NOW) == before
