"""The status of a Connection, one row for each edge."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.kbind import golden_statuses

from fairlead.api.kbind import Connection, ConnectionStatus, ExportedAPI
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.konnector.v2.connection.reconcile import (
    ConnectionOutcome,
    ConnectionState,
    LinkState,
    PullFaults,
    SecretFault,
    exported_apis,
    reconcile,
    secret_fault,
)


NOW = "2026-11-30T12:00:00Z"
REMOTE, LOCAL = "5a0c", "0b5e"
WIDGETS = ExportedAPI(
    name="widgets.acme.io",
    group="acme.io",
    resource="widgets",
    scope="Namespaced",
    versions=["v1"],
)
LINKED = LinkState(remote_uid=REMOTE, apis=(WIDGETS,), source="CRD", holder="Ours")
REFUSED = 'User "team" cannot list resource "customresourcedefinitions"'


def connection(
    status: ConnectionStatus | None = None, *, deleting: bool = False, **spec: Any
) -> Connection:
    metadata: JSON = {"name": "acme", "generation": 3}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    ref = {"namespace": "kube-bind", "name": "acme"}
    body = {"metadata": metadata, "spec": {"kubeconfigSecretRef": ref, **spec}}
    made = msgspec.convert(body, Connection)
    made.status = status or ConnectionStatus()
    return made


def outcome(one: Connection | None = None, **state: Any) -> ConnectionOutcome:
    state.setdefault("link", LINKED)
    return reconcile(ConnectionState(one or connection(), LOCAL, **state), now=NOW)


def conditions(found: ConnectionOutcome) -> list[tuple[str, str, str]]:
    assert found.status is not None
    return [(one.type, one.status, one.reason) for one in found.status.conditions]


def stored(name: str, **fields: Any) -> ConnectionStatus:
    """A status with the conditions of a state."""
    body = [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "",
            "lastTransitionTime": "2026-11-29T12:00:00Z",
        }
        for type_, status, reason in golden_statuses()[f"connection/{name}"].conditions
    ]
    return msgspec.convert({"conditions": body, **fields}, ConnectionStatus)


PINNED = {"remoteClusterUID": REMOTE, "localClusterUID": LOCAL}
MISSING = SecretFault("SecretNotFound", "Secret kube-bind/acme not found")
ELSEWHERE = SecretFault("SecretRefused", "Secret shop/acme is not read")


@pytest.mark.parametrize(
    ("state", "one", "more", "usable"),
    [
        ("ready", connection(), {}, True),
        ("secret-missing", connection(), {"secret_fault": MISSING, "link": None}, False),
        ("secret-refused", connection(), {"secret_fault": ELSEWHERE, "link": None}, False),
        (
            "secret-missing",
            connection(stored("ready", **PINNED)),
            {"secret_fault": MISSING, "link": None},
            False,
        ),
        ("no-answer", connection(), {"link": LinkState(silent="no answer")}, False),
        (
            "no-answer",
            connection(stored("ready", **PINNED)),
            {"link": msgspec.structs.replace(LINKED, silent="no answer")},
            False,
        ),
        (
            "identity-changed",
            connection(stored("ready", **{**PINNED, "remoteClusterUID": "old"})),
            {},
            False,
        ),
        (
            "identity-changed",
            connection(stored("ready", **{**PINNED, "localClusterUID": "old"})),
            {"link": LinkState()},
            False,
        ),
        ("identity-forbidden", connection(), {"link": LinkState(forbidden=REFUSED)}, False),
        (
            "discovery-forbidden",
            connection(),
            {"link": LinkState(remote_uid=REMOTE, forbidden=REFUSED, holder="Ours")},
            False,
        ),
        ("permitted-again", connection(stored("discovery-forbidden", **PINNED)), {}, True),
        ("ready", connection(), {"link": LinkState(REMOTE, apis=(), holder="Unwritten")}, True),
        (
            "draining",
            connection(stored("ready", **PINNED), deleting=True),
            {"bindings": ("ClusterBinding shop",)},
            True,
        ),
        (
            "draining",
            connection(stored("ready", **PINNED), deleting=True),
            {"leaving": ("copies of ws.acme.io",)},
            True,
        ),
        (
            "another-konnector",
            connection(),
            {"link": LinkState(REMOTE, apis=(WIDGETS,), holder="Another")},
            False,
        ),
        ("ready", connection(stored("another-konnector")), {}, True),
    ],
    ids=[
        "ready",
        "secret-missing",
        "secret-refused",
        "secret-lost",
        "no-answer",
        "silent",
        "another-cluster",
        "restored-elsewhere",
        "identity-forbidden",
        "discovery-forbidden",
        "permitted-again",
        "without-lease",
        "draining",
        "draining-copies",
        "another-konnector",
        "alone-again",
    ],
)
def test_a_connection_has_the_conditions_of_its_state(
    state: str, one: Connection, more: dict[str, Any], usable: bool
) -> None:
    found = outcome(one, **more)
    expected = golden_statuses()[f"connection/{state}"].conditions
    assert sorted(conditions(found)) == sorted(expected)
    assert found.usable is usable


@pytest.mark.parametrize(
    "link",
    [
        pytest.param(None, id="none"),
        pytest.param(LinkState(), id="begun"),
        pytest.param(LinkState(remote_uid=REMOTE), id="identified"),
        pytest.param(LinkState(remote_uid=REMOTE, apis=()), id="lease-unknown"),
        pytest.param(LinkState(remote_uid=REMOTE, holder="Ours"), id="exports-unknown"),
    ],
)
def test_what_is_not_known_yet_changes_no_status(link: LinkState | None) -> None:
    assert outcome(link=link) == ConnectionOutcome(None, usable=False)


def test_a_first_success_pins_both_clusters_and_tells_the_exports() -> None:
    status = outcome().status
    assert status is not None
    assert (status.remote_cluster_uid, status.local_cluster_uid) == (REMOTE, LOCAL)
    assert status.exported_apis == [WIDGETS]
    assert status.active_schema_source == "CRD"
    assert {one.observed_generation for one in status.conditions} == {3}


def test_another_cluster_changes_no_pinned_uid() -> None:
    one = connection(stored("ready", remoteClusterUID="old", localClusterUID=LOCAL))
    status = outcome(one).status
    assert status is not None
    assert status.remote_cluster_uid == "old"
    assert "old" in status.conditions[-1].message


def test_one_that_stands_back_leaves_all_else_to_the_other() -> None:
    before = stored("ready", **PINNED)
    link = LinkState(REMOTE, apis=(), holder="Another")
    status = outcome(connection(before), link=link).status
    assert status is not None
    assert status.conditions[:-1] == before.conditions
    assert status.conditions[-1].type == "AnotherKonnector"


def test_a_second_pass_changes_nothing() -> None:
    first = outcome().status
    assert outcome(connection(first)).status == first


def test_a_new_kubeconfig_that_does_not_work_is_told_beside_the_one_in_use() -> None:
    found = outcome(untried="the konnector does not use the Secret's new kubeconfig: no answer")
    assert found.usable
    assert found.status is not None
    assert "does not use the Secret's new kubeconfig" in found.status.conditions[1].message


def test_a_lease_that_cannot_be_written_is_told_and_holds_up_nothing() -> None:
    link = LinkState(REMOTE, apis=(), holder="Unwritten", lease_problem="Lease is not written: x")
    found = outcome(link=link)
    assert found.usable
    assert found.status is not None
    assert "Lease is not written" in found.status.conditions[1].message


def test_the_source_of_schemas_is_reported() -> None:
    found = outcome(link=msgspec.structs.replace(LINKED, source="OpenAPI"))
    assert found.status is not None
    assert found.status.active_schema_source == "OpenAPI"


def test_rights_that_all_lacks_are_told_and_hold_up_nothing() -> None:
    names = tuple(f"CustomResourceDefinition w{number}" for number in range(5))
    found = outcome(pulls=PullFaults(forbidden=names))
    assert found.usable
    assert ("PermissionDenied", "True", "Forbidden") in conditions(found)
    assert conditions(found)[-1] == ("Ready", "True", "AsExpected")
    assert found.status is not None
    (message,) = (one.message for one in found.status.conditions if one.type == "PermissionDenied")
    assert "w2; and 2 more: fairlead accept connection/acme grants what is missing" in message
    again = outcome(connection(found.status))
    assert ("PermissionDenied", "False", "AsExpected") in conditions(again)


def test_crds_that_all_leaves_alone_are_named() -> None:
    found = outcome(pulls=PullFaults(others=("CustomResourceDefinition w is in use",)))
    assert found.status is not None
    ready = found.status.conditions[-1]
    assert (ready.type, ready.status) == ("Ready", "True")
    assert ready.message == "1 API is offered; not pulled: CustomResourceDefinition w is in use"


def test_a_deleted_one_names_the_bindings_it_waits_for() -> None:
    names = tuple(f"Binding shop/{number}" for number in range(12))
    found = outcome(connection(deleting=True), bindings=names)
    assert found.status is not None
    message = found.status.conditions[-1].message
    assert "Binding shop/0, " in message
    assert "and 2 more" in message


def test_a_deleted_one_names_the_copies_it_waits_for() -> None:
    found = outcome(connection(deleting=True), leaving=("copies of ws.acme.io",))
    assert found.status is not None
    expected = "waits for what bindings have left: copies of ws.acme.io"
    assert found.status.conditions[-1].message == expected


REF = connection().spec.kubeconfig_secret_ref


@pytest.mark.parametrize(
    ("fields", "reason", "text"),
    [
        ({}, "", ""),
        (
            {"namespace": "elsewhere"},
            "SecretRefused",
            "only Secrets of its own namespace elsewhere",
        ),
        ({"exists": False}, "SecretNotFound", "not found"),
        ({"exists": False, "unreadable": "no right"}, "SecretNotFound", "no right"),
        ({"content": b""}, "SecretNotFound", "no key 'kubeconfig'"),
        ({"fault": "no YAML"}, "SecretNotFound", "no YAML"),
        ({"fault": "runs a command", "refused": True}, "SecretRefused", "runs a command"),
    ],
    ids=["good", "elsewhere", "missing", "unreadable", "no-key", "broken", "exec"],
)
def test_a_secret(fields: dict[str, Any], reason: str, text: str) -> None:
    known: dict[str, Any] = {
        "namespace": "kube-bind",
        "exists": True,
        "content": b"x",
        "unreadable": "",
        "fault": "",
        "refused": False,
    }
    fault = secret_fault(REF, **{**known, **fields})
    if not reason:
        assert fault is None
        return
    assert fault is not None
    assert fault.reason == reason
    assert text in fault.message


def crd(name: str, *versions: tuple[str, bool], scope: str = "Namespaced") -> Object:
    plural, _, group = name.partition(".")
    spec = {
        "group": group,
        "names": {"plural": plural, "kind": plural.title()},
        "scope": scope,
        "versions": [{"name": version, "served": served} for version, served in versions],
    }
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return object_from_dict({**kind, "metadata": {"name": name}, "spec": spec})


def test_exports_are_the_apis_that_serve_a_version_in_order() -> None:
    broken = object_from_dict({"kind": "CustomResourceDefinition", "metadata": {"name": "x"}})
    found = exported_apis(
        [
            crd("widgets.acme.io", ("v1", True), ("v2", False), ("v3", True)),
            crd("unserved.acme.io", ("v1", False)),
            broken,
            crd("gadgets.acme.io", ("v1", True), scope="Cluster"),
        ]
    )
    assert [(one.name, one.scope, one.versions) for one in found] == [
        ("gadgets.acme.io", "Cluster", ["v1"]),
        ("widgets.acme.io", "Namespaced", ["v1", "v3"]),
    ]
