from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.cli.kubebind.consumers import table
from fairlead.provider.commands.overview import ConsumerRow, ProviderState, age, rows


NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
IDENTITY = "backend.kube-bind.io/identity"
LEGACY = "example-backend.kube-bind.io/identity"
PRETTY = "backend.kube-bind.io/cluster-pretty-name"


def namespace(name: str = "ns", identity: str = "shop", **metadata: Any) -> Object:
    annotations = {IDENTITY: identity} if identity else {}
    body: JSON = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
    body["metadata"] |= {"annotations": annotations, **metadata}
    return object_from_dict(body)


INVITED: JSON = {"templates": [{"name": "widgets"}]}


def binding(
    pretty: str = "", *, record: JSON = INVITED, manager: str = "kube-bind.io", **status: Any
) -> Object:
    written: JSON = {"f:status": {"f:lastHeartbeatTime": {}}}
    metadata: JSON = {"name": "cluster", "namespace": "ns", "annotations": {PRETTY: pretty}}
    metadata["managedFields"] = [{"manager": manager, "fieldsV1": written}]
    spec = {
        "kubeconfigSecretRef": {"name": "k", "key": "k"},
        "providerPrettyName": "us",
        "serviceProviderSpec": record,
    }
    return object_from_dict(
        {
            "apiVersion": "kube-bind.io/v1alpha2",
            "kind": "ClusterBinding",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }
    )


def export(name: str, namespace: str = "ns", plural: str = "widgets", **spec: Any) -> Object:
    resources = [{"group": "example.org", "resource": plural, "versions": ["v1"]}]
    given = {
        "resources": resources,
        "informerScope": "Namespaced",
        "isolation": "Prefixed",
        **spec,
    }
    metadata = {"name": name, "namespace": namespace}
    return object_from_dict({"kind": "APIServiceExport", "metadata": metadata, "spec": given})


TEMPLATE = object_from_dict(
    {
        "metadata": {"name": "widgets"},
        "spec": {
            "scope": "Namespaced",
            "resources": [{"group": "example.org", "resource": "widgets", "versions": ["v1"]}],
        },
    }
)


BEATS: JSON = {
    "lastHeartbeatTime": "2026-05-01T11:57:00Z",
    "heartbeatInterval": "5m0s",
    "konnectorVersion": "v0.8.1",
}


def one(*bindings: Object, **kept: Any) -> ConsumerRow:
    state = ProviderState(
        [kept.pop("namespace", namespace())], bindings, templates=[TEMPLATE], **kept
    )
    (row,) = rows(state, now=NOW)
    return row


@pytest.mark.parametrize(
    ("bindings", "status", "reason"),
    [
        pytest.param([binding(**BEATS)], "True", "", id="alive"),
        pytest.param([binding()], "False", "FirstHeartbeatPending", id="never seen"),
        pytest.param(
            [binding(**BEATS | {"lastHeartbeatTime": "2026-05-01T11:50:00Z"})],
            "False",
            "HeartbeatTimeout",
            id="silent",
        ),
        pytest.param(
            [binding(**BEATS | {"lastHeartbeatTime": "2026-05-01T12:10:00Z"})],
            "False",
            "HeartbeatTimeDrift",
            id="from the future",
        ),
        pytest.param(
            [binding(**BEATS | {"lastHeartbeatTime": "yesterday"})],
            "False",
            "HeartbeatTimeDrift",
            id="no time at all",
        ),
        pytest.param([binding(lastHeartbeatTime=3)], "Unknown", "Invalid", id="invalid"),
        pytest.param([], "Unknown", "NotInvited", id="half invited"),
        pytest.param(
            [
                binding(
                    conditions=[{"type": "Healthy", "status": "True"}],
                    **BEATS | {"lastHeartbeatTime": "2026-04-01T00:00:00Z"},
                )
            ],
            "False",
            "HeartbeatTimeout",
            id="nobody was there to store that it fell silent",
        ),
    ],
)
def test_health_is_judged_by_the_heartbeat(
    bindings: list[Object], status: str, reason: str
) -> None:
    found = one(*bindings).healthy
    assert (found.status, found.reason) == (status, reason)


@pytest.mark.parametrize(
    ("namespaces", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param([namespace(identity="")], [], id="no consumer's"),
        pytest.param(
            [namespace("b", "zoo"), namespace("a", "shop")],
            [("shop", "a"), ("zoo", "b")],
            id="by identity",
        ),
        pytest.param(
            [namespace(identity="", annotations={LEGACY: "old"})], [("old", "ns")], id="legacy"
        ),
    ],
)
def test_a_consumer_is_a_namespace_with_an_identity(
    namespaces: list[Object], expected: list[tuple[str, str]]
) -> None:
    found = rows(ProviderState(namespaces), now=NOW)
    assert [(row.identity, row.namespace) for row in found] == expected


@pytest.mark.parametrize(
    ("pretty", "title"),
    [
        pytest.param("", "shop", id="no name"),
        pytest.param("shop", "shop", id="the same"),
        pytest.param("The Shop", "The Shop (shop)", id="another"),
    ],
)
def test_a_consumer_is_called_as_people_call_it(pretty: str, title: str) -> None:
    assert one(binding(pretty)).title == title


def test_exports_and_objects_are_the_consumers_own() -> None:
    exports = [export("z"), export("a"), export("other", "elsewhere")]
    counts = {"ns": 7, "elsewhere": 9, "": 100}
    row = one(binding(**BEATS), exports=exports, counts=counts)
    assert (row.exports, row.objects) == (["a", "z"], 7)
    assert (row.konnector_version, row.last_heartbeat_time) == ("v0.8.1", "2026-05-01T11:57:00Z")


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ("", ""),
        ("2026-05-01T12:00:30Z", "0s"),
        ("2026-05-01T11:58:01Z", "119s"),
        ("2026-05-01T11:58:00Z", "2m"),
        ("2026-05-01T10:00:01Z", "119m"),
        ("2026-05-01T10:00:00Z", "2h"),
        ("2026-04-29T12:00:01Z", "47h"),
        ("2026-04-29T12:00:00Z", "2d"),
        ("yesterday", "yesterday"),
    ],
)
def test_ages_are_short(since: str, expected: str) -> None:
    assert age(since, NOW) == expected


def shown(*found: ConsumerRow, width: int = 200) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table(found, now=NOW, width=width).table)
    return capture.get().splitlines()


def test_the_table_has_a_line_for_each_consumer() -> None:
    rows_ = [one(binding("Team \x1b[31mA", **BEATS)), one(namespace=namespace("n2", "zoo"))]
    header, first, second = shown(*rows_)
    assert header.split() == [
        *("CONSUMER", "NAMESPACE", "TEMPLATES", "EXPORTS", "OBJECTS"),
        *("KONNECTOR", "HEARTBEAT", "HEALTH"),
    ]
    assert first.split() == [
        *("Team", "?[31mA", "(shop)", "ns", "widgets", "-", "0", "v0.8.1", "3m", "healthy")
    ]
    known = ["zoo", "n2", "not", "recorded", "-", "0", "-", "never"]
    assert second.split() == [*known, *KUBE_BIND.what("NotInvited").split()]


def test_a_consumer_without_a_heartbeat_is_waited_for_in_words() -> None:
    row = one(binding("Team A"))
    assert (row.healthy.reason, row.state) == ("FirstHeartbeatPending", "waiting")
    assert row.remedy == KUBE_BIND.helps("FirstHeartbeatPending", place="provider")
    assert row.remedy.startswith("have the consumer's team see")
    assert shown(row)[1].endswith("no konnector has reported yet")


def test_a_consumer_that_is_well_needs_no_help() -> None:
    row = one(binding("Team A", **BEATS))
    assert (row.state, row.remedy) == ("ok", "")


@pytest.mark.parametrize(
    ("ready", "state", "reason"),
    [("False", "failed", "ProviderSecretNotFound"), ("True", "ok", "")],
)
def test_a_connection_that_is_not_ready_is_no_healthy_one(
    ready: str, state: str, reason: str
) -> None:
    # `fairlead bindings` judges by the same conditions in the consumer's cluster.
    conditions = [
        {"type": "Ready", "status": ready, "reason": "ProviderSecretNotFound"},
        {"type": "SecretValid", "status": "False", "reason": "ProviderSecretNotFound"},
        {"type": "Healthy", "status": "False", "reason": "HeartbeatTimeout"},
    ]
    row = one(binding("Team A", conditions=conditions, **BEATS))
    assert (row.state, row.reason, row.healthy.status) == (state, reason, "True")
    assert row.remedy == (
        "" if state == "ok" else "invite the consumer again: fairlead provider invite"
    )
    words = KUBE_BIND.what(reason) if reason else "healthy"
    assert shown(row)[1].endswith(words)


def test_the_table_says_whose_konnector_is_not_ours() -> None:
    line = shown(one(binding(manager="konnector", **BEATS)))[1]
    assert "v0.8.1 (not Fairlead's)" in line


def test_a_version_without_end_hides_nobody() -> None:
    endless = one(binding(manager="konnector", **BEATS | {"konnectorVersion": "v" * 100_000}))
    line = shown(endless)[1]
    assert f" {'v' * 80} (not Fairlead's)" in line
    assert len(line) < 300


@pytest.mark.parametrize(
    ("record", "templates", "told"),
    [
        pytest.param(INVITED, ["widgets"], "", id="invited"),
        pytest.param({"templates": []}, [], "exceeds", id="to nothing"),
        pytest.param({}, None, "no record of its invitation", id="not recorded"),
        pytest.param({"templates": [], "revoked": True}, [], "", id="being revoked"),
        pytest.param({"templates": [{"name": "x"}]}, ["x"], "x does not exist", id="gone"),
    ],
)
def test_what_a_consumer_was_invited_to_and_what_goes_beyond_it(
    record: JSON, templates: list[str] | None, told: str
) -> None:
    found = one(binding(record=record), exports=[export("a")])
    assert found.templates == templates
    assert [told in line for line in found.warnings] == ([True] if told else [])
    assert found.deleting is bool(record.get("revoked"))


def test_an_export_of_another_kind_goes_beyond_its_template() -> None:
    found = one(binding(), exports=[export("a"), export("b", plural="gauges")])
    (line,) = found.warnings
    assert "APIServiceExport b exceeds the consumer's invitations" in line
    assert "template widgets offers widgets.example.org v1" in line


def test_an_original_konnector_that_lacks_rights_is_told_of() -> None:
    given = export("a", isolation="Namespaced")
    theirs = one(binding(manager="konnector", **BEATS), exports=[given])
    assert theirs.original_konnector
    (line,) = theirs.warnings
    assert "--original-konnectors" in line
    granted = frozenset({"kube-binder-resources-ns.a"})
    assert not one(
        binding(manager="konnector", **BEATS), exports=[given], granted=granted
    ).warnings
    ours = one(binding(**BEATS), exports=[given])
    assert (ours.original_konnector, ours.warnings) == (False, [])


def test_one_export_that_is_not_valid_does_not_hide_the_others() -> None:
    found = one(binding(), exports=[export("a", isolation="None"), export("b", resources=3)])
    (line,) = found.warnings
    assert "APIServiceExport b is not valid" in line


def test_the_table_says_who_is_being_revoked() -> None:
    going = namespace(deletionTimestamp="2026-05-01T12:00:00Z")
    assert shown(one(namespace=going))[1].endswith("being revoked")


def test_a_namespace_can_be_copied_from_a_narrow_terminal() -> None:
    name = "kube-bind-x6h81287hspq"
    found = one(binding("shop", **BEATS), namespace=namespace(name, "shop"))
    header, *lines = shown(found, width=80)
    assert "KONNECTOR" not in header.split()
    assert any(name in line for line in lines)


@pytest.mark.parametrize(
    ("width", "left_out"),
    [
        (100, ["KONNECTOR"]),
        (80, ["KONNECTOR", "TEMPLATES", "EXPORTS"]),
        (60, ["KONNECTOR", "TEMPLATES", "EXPORTS", "HEARTBEAT"]),
    ],
)
def test_a_narrow_terminal_cuts_no_word(width: int, left_out: list[str]) -> None:
    cluster = "kube-bind-x6h81287hspq"
    rows_ = [
        one(
            binding("Team of the shop", record={"templates": [{"name": "widgets-and-more"}]}),
            exports=[export(name, cluster) for name in ("widgets.example.org", "databases")],
            namespace=namespace(cluster, "shop-team"),
        ),
        one(namespace=namespace("kube-bind-9p81287hx6hs", "zoo")),
    ]
    whole = {word for line in shown(*rows_) for word in line.split()}
    lines = shown(*rows_, width=width)
    assert {word for line in lines for word in line.split()} <= whole
    assert max(map(len, lines)) <= width
    assert table(rows_, now=NOW, width=width).left_out == left_out


def test_a_word_that_no_terminal_holds_is_cut_after_all() -> None:
    lines = shown(one(binding("x" * 90)), width=80)
    assert "x" * 90 in "".join(line.split()[0] if line.split() else "" for line in lines[1:])


def condition(type_: str, status: str, reason: str = "", message: str = "") -> JSON:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-05-01T11:00:00Z",
    }


def with_conditions(*conditions: JSON) -> Object:
    body = export("widgets").to_dict()
    body |= {"apiVersion": "kube-bind.io/v1alpha2", "status": {"conditions": list(conditions)}}
    return object_from_dict(body)


REFUSED = condition(
    "ObjectsFailing", "True", "Forbidden", "2 objects cannot be written: Widget shop/blue"
)


@pytest.mark.parametrize(
    ("conditions", "state", "reason"),
    [
        pytest.param([condition("Ready", "True"), REFUSED], "failed", "Forbidden", id="refused"),
        pytest.param(
            [
                condition("Ready", "False"),
                condition("PermissionsGranted", "False", "Forbidden", "no"),
            ],
            "failed",
            "Forbidden",
            id="rights",
        ),
        pytest.param(
            [condition("Connected", "False", "APIServiceBindingNotFound")],
            "waiting",
            "APIServiceBindingNotFound",
            id="not-bound-yet",
        ),
        pytest.param([condition("Conflicts", "True")], "failed", "Conflicts", id="bad-when-true"),
        pytest.param([condition("Ready", "True")], "ok", "", id="well"),
    ],
)
def test_a_consumer_whose_exports_show_a_fault_is_not_healthy(
    conditions: list[JSON], state: str, reason: str
) -> None:
    row = one(binding("Team A", **BEATS), exports=[with_conditions(*conditions)])
    assert (row.state, row.reason) == (state, reason)
    assert shown(row)[1].endswith("healthy") == (state == "ok")
    if state != "ok":
        assert row.message.startswith("APIServiceExport widgets: ")
        assert row.since == "2026-05-01T11:00:00Z"


def test_a_consumer_without_credentials_is_not_healthy_while_its_heartbeat_is_good() -> None:
    row = one(binding("Team A", **BEATS), lost={"ns": "its ServiceAccount is gone"})
    assert (row.state, row.reason, row.healthy.status) == ("failed", "CredentialsRefused", "True")
    assert row.message == "its ServiceAccount is gone"
    assert row.remedy.startswith("invite the consumer again")
    assert shown(row)[1].endswith(KUBE_BIND.what("CredentialsRefused"))


@pytest.mark.parametrize(
    ("conditions", "state", "reason", "message"),
    [
        pytest.param([], "waiting", "", "no controller deletes its data yet", id="declared"),
        pytest.param(
            [condition("Cleared", "False", "ObjectsRemain", message="Widget n/blue")],
            "waiting",
            "ObjectsRemain",
            "Widget n/blue",
            id="something-is-left",
        ),
        pytest.param(
            [condition("Cleared", "False", "ObjectsUnknown", message="no list of widgets")],
            "failed",
            "ObjectsUnknown",
            "no list of widgets",
            id="something-cannot-be-listed",
        ),
    ],
)
def test_a_consumer_that_is_being_revoked_tells_what_its_data_waits_for(
    conditions: list[JSON], state: str, reason: str, message: str
) -> None:
    """Its credentials are gone on purpose."""
    record = {"revoked": True, "clearing": True}
    lost = {"ns": "its ServiceAccount is gone"}
    row = one(binding("Team A", record=record, conditions=conditions, **BEATS), lost=lost)
    assert (row.state, row.reason, row.deleting) == (state, reason, True)
    assert message in row.message
    assert row.remedy


def test_a_consumer_with_warnings_is_not_healthy() -> None:
    row = one(binding("Team A", record={}, **BEATS), exports=[export("widgets")])
    assert shown(row)[1].endswith("1 warning")
