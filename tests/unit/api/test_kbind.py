"""The kinds of kbind v2: CRDs, statuses and names as the protocol describes them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.support.kbind import GoldenStatus, golden_statuses
from tests.support.schemafacts import facts
from tests.unit.api.kbind_kinds import expected

from fairlead.api import kbind
from fairlead.api.conditions import Condition
from fairlead.api.kbind import Binding, ClusterBinding, Connection, ReportedCondition
from fairlead.api.kbind.names import SYNCED
from fairlead.api.meta import JSON
from fairlead.api.reasons.conditions import TYPES, state_of
from fairlead.api.reasons.kbind import KBIND
from fairlead.cli.crds import file_name, to_yaml


FOLDER = Path(__file__).parents[3] / "config" / "crd"
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in kbind.crds()}
KINDS = {"Connection": Connection, "ClusterBinding": ClusterBinding, "Binding": Binding}
SPECS: dict[str, JSON] = {
    "Connection": {"kubeconfigSecretRef": {"namespace": "kbind", "name": "acme"}},
    "ClusterBinding": {"connectionRef": {"name": "acme"}, "apis": [{"name": "ws.acme.io"}]},
    "Binding": {"connectionRef": {"name": "acme"}, "apis": [{"name": "ws.acme.io"}]},
}


@pytest.mark.parametrize("kind", expected())
def test_a_crd_is_as_the_protocol_describes_it(kind: str) -> None:
    lines = facts(CRDS[kind])
    assert sorted(lines) == sorted(expected()[kind])
    columns = [line for line in expected()[kind] if line.startswith("|")]
    assert [line for line in lines if line.startswith("|")] == columns


def test_there_is_no_other_kind() -> None:
    assert CRDS.keys() == expected().keys()


@pytest.mark.parametrize("crd", kbind.crds(), ids=file_name)
def test_the_generated_file_is_what_the_types_say(crd: JSON) -> None:
    assert (FOLDER / file_name(crd)).read_text() == to_yaml([crd]), "run: make crds"


@pytest.mark.parametrize("status", golden_statuses().values(), ids=golden_statuses())
def test_a_status_of_each_state_is_read_and_written_as_it_is(status: GoldenStatus) -> None:
    conditions = [
        {
            "type": type_,
            "status": value,
            "reason": reason,
            "message": "",
            "lastTransitionTime": "2026-11-30T12:00:00Z",
        }
        for type_, value, reason in status.conditions
    ]
    if status.kind == "Object":
        # Synced stands in the status of an object of any kind, beside its own conditions.
        assert [condition["type"] for condition in conditions] == [SYNCED]
        return
    body = {"spec": SPECS[status.kind], "status": {"conditions": conditions}}
    decoded = msgspec.convert(body, KINDS[status.kind])
    # The message too, which the schema of metav1.Condition requires.
    assert msgspec.to_builtins(decoded.status)["conditions"] == conditions


@pytest.mark.parametrize("status", golden_statuses().values(), ids=golden_statuses())
def test_each_reason_of_a_state_stands_in_the_table(status: GoldenStatus) -> None:
    for type_, value, reason in status.conditions:
        assert type_ in TYPES
        assert reason in KBIND
        condition = Condition(type_, value, reason=reason)  # type: ignore[arg-type]
        assert (state_of(condition) == "ok") == (reason == "AsExpected")


def test_defaults_are_those_of_the_schema() -> None:
    connection = msgspec.convert({"spec": SPECS["Connection"]}, Connection)
    assert connection.spec.kubeconfig_secret_ref.key == "kubeconfig"
    schema = connection.spec.schema
    assert (schema.source, schema.pull_policy, schema.update_policy) == ("Auto", "Bound", "Always")
    assert connection.spec.auto_bind is False
    binding = msgspec.convert({"spec": SPECS["Binding"]}, Binding)
    assert (binding.spec.conflict_policy, binding.spec.related_resources) == ("Fail", [])


def test_a_condition_takes_its_place_among_others() -> None:
    condition = ReportedCondition(
        type="Ready", status="True", reason="AsExpected", message="", last_transition_time=""
    )
    assert msgspec.to_builtins(condition).keys() == {
        *("type", "status", "reason", "message", "lastTransitionTime")
    }


def test_a_hash_does_not_depend_on_the_order_of_fields() -> None:
    one = kbind.schema_hash({"group": "acme.io", "names": {"kind": "W", "plural": "ws"}})
    other = kbind.schema_hash({"names": {"plural": "ws", "kind": "W"}, "group": "acme.io"})
    # printf '{"group":"acme.io","names":{"kind":"W","plural":"ws"}}' | sha256sum
    assert one == other == "sha256:7a64c38c6c56fc95"


def test_a_lease_is_named_after_the_consumers_cluster() -> None:
    assert kbind.lease_name("0b5e") == "consumer-0b5e"
