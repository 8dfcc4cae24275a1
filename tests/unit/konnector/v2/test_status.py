"""Every edge of a binding's status, those of the golden statuses among them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.kbind import golden_statuses

from fairlead.api.conditions import ConditionStatus
from fairlead.api.kbind import BindingStatus, BoundAPI, ClusterBinding, ReportedCondition
from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.meta import ObjectMeta, OwnerReference, object_from_dict
from fairlead.konnector.statuses import with_whole_status
from fairlead.konnector.v2.bindings.crds import Fault
from fairlead.konnector.v2.bindings.status import MISSING_RIGHT, APIView, binding_status


NOW = "2026-01-02T00:00:00Z"
WELL = APIView("a", crd_hash="sha256:1")


def faulty(reason: str) -> APIView:
    return APIView("a", fault=Fault(reason, f"{reason} of a"))


def failing(reason: str) -> APIView:
    condition = KubeBindCondition("ObjectsFailing", "True", reason=reason, message="no right")
    return APIView("a", failing=condition)


def binding(*conditions: tuple[str, ConditionStatus], deleting: bool = False) -> ClusterBinding:
    before = [
        ReportedCondition(
            type=type_, status=status, reason="AsExpected", message="", last_transition_time="t"
        )
        for type_, status in conditions
    ]
    parsed = {"connectionRef": {"name": "acme"}, "apis": [{"name": "a"}]}
    body: dict[str, Any] = {"spec": parsed}
    found = msgspec.convert(body, ClusterBinding)
    found.metadata = ObjectMeta(
        name="all", generation=3, deletion_timestamp=NOW if deleting else None
    )
    found.status = BindingStatus(conditions=before)
    return found


READY: tuple[tuple[str, ConditionStatus], ...] = (
    ("Ready", "True"),
    ("Synced", "True"),
    ("Conflicts", "False"),
)


@pytest.mark.parametrize(
    ("before", "views", "golden"),
    [
        ((), [WELL], "binding/ready"),
        ((), [faulty("Pending")], "binding/no-connection"),
        ((), [faulty("APINotExported")], "binding/not-exported"),
        ((), [faulty("Forbidden")], "binding/crd-forbidden"),
        ((*READY, ("PermissionDenied", "True")), [WELL], "binding/permitted-again"),
        ((), [APIView("a", conflicts=1)], "binding/foreign-object"),
        (READY, [faulty("Pending")], "binding/fell"),
        ((), [faulty("ForeignCustomResourceDefinition")], "binding/foreign-crd"),
        ((), [faulty("ConversionRefused")], "binding/conversion"),
        ((), [faulty("NoVersionServed")], "binding/no-version"),
    ],
)
def test_golden(before: Any, views: list[APIView], golden: str) -> None:
    status = binding_status(binding(*before), views, [], now=NOW)
    conditions = [(one.type, one.status, one.reason) for one in status.conditions]
    assert sorted(conditions) == sorted(map(tuple, golden_statuses()[golden].conditions))


def reasons(status: BindingStatus) -> dict[str, str]:
    return {one.type: one.reason for one in status.conditions}


def test_one_faulty_api_leaves_the_others_bound() -> None:
    other = APIView("b", crd_hash="sha256:2", conflicts=2)
    status = binding_status(binding(), [faulty("APINotExported"), other], [], now=NOW)
    assert reasons(status) == {
        "Ready": "APINotExported",
        "Synced": "AsExpected",
        "Conflicts": "ForeignObjectExists",
    }
    (bound,) = status.bound_apis
    assert (bound.name, bound.crd_hash, bound.conflict_count) == ("b", "sha256:2", 2)


def test_every_fault_is_named() -> None:
    views = [faulty("Pending"), APIView("b", fault=Fault("Forbidden", "b is forbidden"))]
    status = binding_status(binding(), views, [], now=NOW)
    assert status.conditions[0].message == "Pending of a; b is forbidden"
    assert reasons(status)["PermissionDenied"] == "Forbidden"


def test_objects_that_lack_a_right_are_a_permission_denied() -> None:
    status = binding_status(binding(), [failing("Forbidden")], [], now=NOW)
    assert reasons(status)["PermissionDenied"] == "Forbidden"
    assert reasons(status)["ObjectsFailing"] == "Forbidden"
    after = binding(*[(one.type, one.status) for one in status.conditions])
    again = binding_status(after, [WELL], [], now=NOW)
    assert "ObjectsFailing" not in reasons(again)
    assert reasons(again)["PermissionDenied"] == "AsExpected"


OWNER = OwnerReference("core.kbind.io/v1alpha1", "Connection", "acme", "1", controller=True)


@pytest.mark.parametrize(
    ("metadata", "target"),
    [
        (ObjectMeta(name="all"), "clusterbinding/all"),
        (ObjectMeta(name="own", namespace="shop"), "binding/shop/own"),
        (ObjectMeta(name="acme", owner_references=[OWNER]), "connection/acme"),
    ],
)
def test_a_right_that_is_missing_here_has_the_command_that_grants_it(
    metadata: ObjectMeta, target: str
) -> None:
    parsed = binding()
    parsed.metadata = metadata
    here = APIView("a", fault=Fault("Forbidden", f"cannot list a. {MISSING_RIGHT}"))
    message = binding_status(parsed, [here], [], now=NOW).conditions[1].message
    assert message.endswith(f"`fairlead accept {target}` writes them")
    there = APIView("a", fault=Fault("Forbidden", "on the provider: cannot list a"))
    message = binding_status(parsed, [there], [], now=NOW).conditions[1].message
    assert "fairlead accept" not in message


def test_deleted_binding_says_what_it_waits_for() -> None:
    status = binding_status(binding(*READY, deleting=True), [WELL], ["waiting for a"], now=NOW)
    ready = status.conditions[0]
    assert (ready.type, ready.status, ready.reason) == ("Ready", "False", "Pending")
    assert ready.message == "unbinding; waiting for a"
    assert ready.observed_generation == 3


def test_conflicts_stand_until_objects_have_been_looked_at_again() -> None:
    first = binding_status(binding(), [APIView("a", conflicts=2)], [], now=NOW)
    found = binding()
    found.status = first
    unknown = APIView("a", conflicts=None)
    assert binding_status(found, [unknown], [], now="later") == first
    assert reasons(binding_status(found, [WELL], [], now=NOW))["Conflicts"] == "AsExpected"


def test_nothing_changes_where_nothing_has_changed() -> None:
    first = binding_status(binding(), [WELL], [], now="2026-01-01T00:00:00Z")
    found = binding()
    found.status = first
    assert binding_status(found, [WELL], [], now=NOW) == first


@pytest.mark.parametrize(
    ("reason", "stays"),
    [("Pending", True), ("APINotExported", True), ("ForeignCustomResourceDefinition", False)],
)
def test_an_api_stays_bound_while_its_provider_has_it_not(reason: str, stays: bool) -> None:
    found = binding()
    found.status = binding_status(binding(), [APIView("a", conflicts=2)], [], now=NOW)
    status = binding_status(found, [faulty(reason)], [], now=NOW)
    assert [(api.name, api.conflict_count) for api in status.bound_apis] == [("a", 2)] * stays


def test_a_list_that_is_empty_now_keeps_no_former_value() -> None:
    stored = {"boundAPIs": [{"name": "a"}], "conditions": [], "theirs": 1}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "own"}, "status": stored}
    status = with_whole_status(object_from_dict(body), BindingStatus())["status"]
    assert status == {"theirs": 1}


def test_an_api_that_was_taken_out_is_told_until_its_copies_are_gone() -> None:
    status = binding_status(binding(), [WELL], [], left=[BoundAPI(name="former")], now=NOW)
    assert [api.name for api in status.bound_apis] == ["a", "former"]
    assert reasons(status)["Ready"] == "AsExpected"
