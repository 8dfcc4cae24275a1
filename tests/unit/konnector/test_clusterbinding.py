"""Every edge of kube-bind's ClusterBindings document."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import ClusterBinding, SecretReference, kubeconfig_digest
from fairlead.api.kubebind.conditions import happening
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.timestamps import format_time
from fairlead.konnector.controllers.clusterbinding.reconcile import (
    HeartbeatPlan,
    HeartbeatState,
    Rivalry,
    another_konnector,
    heartbeating,
    konnector_version,
    reconcile,
)
from fairlead.konnector.policies.work import SecretKey


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
MINE = Key("kube-bind", "kubeconfig-a")
PLACE = SecretKey(MINE, "kubeconfig")


def secret(data: dict[str, str], **body: Any) -> Object:
    metadata: JSON = {"name": MINE.name, "namespace": MINE.namespace, "resourceVersion": "4"}
    whole = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    return object_from_dict({**whole, "data": data, **body})


THEIRS = secret({"kubeconfig": "bmV3", "other": "eA=="}, type="example.org/kubeconfig")


def planned(
    *, last: str = "", seen: str = "", conditions: tuple[JSON, ...] = (), **given: Any
) -> HeartbeatPlan:
    status = {"lastHeartbeatTime": last, "konnectorVersion": seen, "conditions": list(conditions)}
    body: JSON = {
        "metadata": {"name": "cluster"},
        "spec": {
            "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
            "providerPrettyName": "Acme",
        },
        "status": status,
    }
    known: dict[str, Any] = {
        "binding": msgspec.convert(body, ClusterBinding),
        "provider_secret": THEIRS,
        "consumer_secrets": {PLACE: secret(THEIRS.to_dict()["data"])},
        "fault": "",
        "version": "v1.2.3",
        "now": NOW,
    }
    return reconcile(HeartbeatState(**{**known, **given}))


def conditions(plan: HeartbeatPlan) -> dict[str, tuple[str, str]]:
    return {item.type: (item.status, item.reason) for item in plan.status.conditions}


NOT_FOUND = ("False", "ProviderSecretNotFound")
INVALID = ("False", "ProviderSecretInvalid")
HOLDS = ("True", "")
OLD: dict[str, Any] = {"consumer_secrets": {PLACE: secret({"kubeconfig": "b2xk"})}}
GONE: dict[str, Any] = {"consumer_secrets": {PLACE: None}}


@pytest.mark.parametrize(
    ("looks", "written", "valid", "version"),
    [
        pytest.param(
            [{**OLD, "provider_secret": None}], [], NOT_FOUND, HOLDS, id="secret-absent-valid-no"
        ),
        pytest.param(
            [{**OLD, "provider_secret": None, "unreadable": "forbidden"}],
            [],
            NOT_FOUND,
            HOLDS,
            id="secret-unreadable-valid-no",
        ),
        pytest.param(
            [{**OLD, "fault": "no context"}], [], INVALID, HOLDS, id="secret-broken-valid-no"
        ),
        pytest.param(
            [{**OLD, "fault": "the server refused it"}],
            [],
            INVALID,
            HOLDS,
            id="secret-does-not-work-valid-no",
        ),
        pytest.param(
            [{**GONE, "fault": "the server refused it"}],
            [],
            INVALID,
            HOLDS,
            id="secret-does-not-work-consumers-secret-absent",
        ),
        pytest.param(
            [OLD], ["update"], HOLDS, HOLDS, id="secret-valid-yes-consumers-secret-present-update"
        ),
        pytest.param(
            [{}], [], HOLDS, HOLDS, id="secret-valid-yes-consumers-secret-present-and-equal"
        ),
        pytest.param(
            [GONE], ["create"], HOLDS, HOLDS, id="secret-valid-yes-consumers-secret-absent-create"
        ),
        pytest.param(
            [{"version": "main"}], [], HOLDS, ("False", "ParseError"), id="version-valid-no"
        ),
        pytest.param(
            [OLD, {**OLD, "provider_secret": None}],
            [],
            NOT_FOUND,
            HOLDS,
            id="secret-gone-at-the-second-look",
        ),
        pytest.param(
            [OLD, {**OLD, "fault": "the server refused it"}],
            [],
            INVALID,
            HOLDS,
            id="secret-tried-and-refused-at-the-second-look",
        ),
        pytest.param(
            [{**OLD, "fault": "the server refused it"}, OLD],
            ["update"],
            HOLDS,
            HOLDS,
            id="secret-tried-and-works-at-the-second-look",
        ),
        pytest.param(
            [GONE, {}], [], HOLDS, HOLDS, id="consumers-secret-created-at-the-second-look"
        ),
    ],
)
def test_the_edges_of_the_flowchart(
    looks: list[dict[str, Any]],
    written: list[str],
    valid: tuple[str, str],
    version: tuple[str, str],
) -> None:
    """Whatever came before: a heartbeat is given, the version told, Ready is the summary."""
    stored: tuple[JSON, ...] = ()
    for given in looks:
        plan = planned(conditions=stored, **given)
        stored = tuple(msgspec.to_builtins(item) for item in plan.status.conditions)
    found = conditions(plan)
    assert ["update" if write.old else "create" for write in plan.secrets] == written
    assert found["SecretValid"] == valid
    assert found["ValidVersion"] == version
    assert found["Ready"] == (valid if valid != HOLDS else version)
    assert plan.status.last_heartbeat_time == "2026-01-01T12:00:00Z"
    assert plan.status.konnector_version == ("v1.2.3" if version == HOLDS else "unknown")


@pytest.mark.parametrize(
    ("given", "valid"),
    [
        pytest.param({}, ("True", ""), id="valid"),
        pytest.param({"provider_secret": None}, ("False", "ProviderSecretNotFound"), id="absent"),
        pytest.param(
            {"provider_secret": None, "unreadable": "forbidden"},
            ("False", "ProviderSecretNotFound"),
            id="unreadable",
        ),
        pytest.param({"fault": "no key"}, ("False", "ProviderSecretInvalid"), id="invalid"),
    ],
)
def test_the_providers_secret(given: dict[str, Any], valid: tuple[str, str]) -> None:
    found = conditions(planned(**given))
    assert found["SecretValid"] == valid
    assert found["Ready"] == valid


def test_an_equal_secret_is_not_written() -> None:
    assert planned().secrets == []


def test_a_rotated_secret_replaces_the_kubeconfig_and_nothing_else() -> None:
    old = secret({"kubeconfig": "b2xk", "other": "dGhlaXJz", "mine": "eQ=="})
    places = {PLACE: old, SecretKey(MINE, "second"): old}
    (write,) = planned(consumer_secrets=places).secrets
    assert write.old is old
    assert write.body["data"] == {
        "kubeconfig": "bmV3",
        "second": "bmV3",
        "other": "dGhlaXJz",
        "mine": "eQ==",
    }
    assert write.body["type"] == "Opaque"
    assert write.body["metadata"]["resourceVersion"] == "4"


def test_a_deleted_secret_is_created_again_under_its_own_name() -> None:
    (write,) = planned(consumer_secrets={PLACE: None}).secrets
    assert write.old is None
    assert write.body["metadata"] == {"name": "kubeconfig-a", "namespace": "kube-bind"}
    assert write.body["type"] == "example.org/kubeconfig"
    assert write.body["data"] == {"kubeconfig": "bmV3"}


def test_every_secret_of_the_connection_is_rotated() -> None:
    other = Key("kube-bind", "kubeconfig-b")
    plan = planned(consumer_secrets={SecretKey(other, "kubeconfig"): None, PLACE: None})
    assert [write.body["metadata"]["name"] for write in plan.secrets] == [
        "kubeconfig-a",
        "kubeconfig-b",
    ]
    assert plan.status.consumer_secret_ref == SecretReference(
        name="kubeconfig-a", namespace="kube-bind"
    )


@pytest.mark.parametrize("given", [{"provider_secret": None}, {"fault": "no context"}])
def test_nothing_is_copied_from_a_bad_secret(given: dict[str, Any]) -> None:
    assert planned(consumer_secrets={PLACE: secret({})}, **given).secrets == []


@pytest.mark.parametrize(
    ("last", "beat", "due"),
    [
        pytest.param("", "2026-01-01T12:00:00Z", 151, id="first"),
        pytest.param("2026-01-01T11:59:00Z", "2026-01-01T11:59:00Z", 91, id="fresh"),
        pytest.param("2026-01-01T11:57:30Z", "2026-01-01T12:00:00Z", 151, id="due"),
        pytest.param("2026-01-01T11:00:00Z", "2026-01-01T12:00:00Z", 151, id="late"),
        pytest.param("2026-01-01T13:00:00Z", "2026-01-01T12:00:00Z", 151, id="in-the-future"),
        pytest.param("soon", "2026-01-01T12:00:00Z", 151, id="no-time"),
        pytest.param("0001-01-01T00:00:00+14:00", "2026-01-01T12:00:00Z", 151, id="before-all"),
        pytest.param("9999-12-31T23:59:59Z", "2026-01-01T12:00:00Z", 151, id="last-year"),
    ],
)
def test_heartbeats(last: str, beat: str, due: int) -> None:
    plan = planned(last=last)
    assert plan.status.last_heartbeat_time == beat
    assert plan.status.heartbeat_interval == "5m0s"
    assert plan.next_beat == due


def test_heartbeats_are_given_also_while_the_secret_is_bad() -> None:
    assert planned(provider_secret=None).status.last_heartbeat_time == "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("raw", "version"),
    [
        pytest.param("v1.30.0+kube-bind-v0.6.0", "v0.6.0", id="marked"),
        pytest.param("v0.0.0-master+$Format:%H$", "v0.0.0", id="development"),
        pytest.param("v1.2.3", "v1.2.3", id="plain"),
        pytest.param("1.2.3-rc.1", "v1.2.3-rc.1", id="pre-release"),
        pytest.param("1.2.3+sha.5114f85", "v1.2.3+sha.5114f85", id="build"),
        pytest.param("1.2.3-x-y.7+01.a", "v1.2.3-x-y.7+01.a", id="pre-release-and-build"),
        pytest.param("0.1.0", "v0.1.0", id="without-v"),
        pytest.param("0.1.0.dev0", "v0.1.0-dev.0", id="python-development"),
        pytest.param("1.0.0rc1", "v1.0.0-rc.1", id="python-candidate"),
        pytest.param("1.0.0b2.dev3+g1a", "v1.0.0-beta.2.dev.3+g1a", id="python-local"),
        pytest.param("1.0.0.post1", "v1.0.0+post.1", id="python-post-release"),
        pytest.param("1.2", None, id="two-numbers"),
        pytest.param("1.2.3-01", None, id="leading-zero"),
        pytest.param("01.2.3", None, id="leading-zero-major"),
        pytest.param("1.2.3\n", None, id="line-feed"),
        pytest.param("main", None, id="no-version"),
        pytest.param("", None, id="empty"),
    ],
)
def test_versions(raw: str, version: str | None) -> None:
    assert konnector_version(raw) == version
    plan = planned(version=raw)
    assert plan.status.konnector_version == (version or "unknown")
    valid = ("True", "") if version else ("False", "ParseError")
    assert conditions(plan)["ValidVersion"] == valid


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param("", ("True", ""), id="updated"),
        pytest.param("refused", ("False", "ClusterBindingUpdateFailed"), id="not-updated"),
    ],
)
def test_bindings_are_told_whether_the_update_went_through(
    error: str, expected: tuple[str, str]
) -> None:
    condition = heartbeating(error)
    assert condition.type == "Heartbeating"
    assert (condition.status, condition.reason) == expected


def test_steady_state_changes_nothing() -> None:
    first = planned(last="2026-01-01T11:59:00Z")
    stored = [msgspec.to_builtins(item) for item in first.status.conditions]
    again = planned(last="2026-01-01T11:59:00Z", conditions=tuple(stored))
    assert again.status == first.status


OLD_DIGEST: JSON = {
    "type": "CredentialsInUse",
    "status": "True",
    "reason": "Current",
    "message": "sha256:old",
    "lastTransitionTime": "2026-01-01T11:00:00Z",
}


@pytest.mark.parametrize(
    ("before", "kubeconfig", "secret_", "told"),
    [
        pytest.param((), b"new", THEIRS, kubeconfig_digest(b"new"), id="the provider's newest"),
        pytest.param(
            (OLD_DIGEST,), b"new", THEIRS, kubeconfig_digest(b"new"), id="the newest at last"
        ),
        pytest.param((), b"old", THEIRS, None, id="older ones are not worth a word"),
        pytest.param(
            (OLD_DIGEST,), b"old", THEIRS, "sha256:old", id="older ones do not take turns"
        ),
        pytest.param((OLD_DIGEST,), b"new", None, "sha256:old", id="nothing to compare with"),
    ],
)
def test_only_who_has_the_newest_credentials_tells_of_them(
    before: tuple[JSON, ...], kubeconfig: bytes, secret_: Object | None, told: str | None
) -> None:
    plan = planned(conditions=before, kubeconfig=kubeconfig, provider_secret=secret_)
    found = [one for one in plan.status.conditions if one.type == "CredentialsInUse"]
    assert [one.message for one in found] == ([told] if told else [])
    assert all(one.status == "True" for one in found)


def test_telling_again_changes_nothing() -> None:
    first = planned(kubeconfig=b"new").status
    again = planned(
        kubeconfig=b"new",
        last=first.last_heartbeat_time,
        conditions=tuple(msgspec.to_builtins(first.conditions)),
    )
    assert again.status.conditions == first.conditions


OURS, THEIRS_ = "v1.2.3", "v0.8.1"


@pytest.mark.parametrize(
    ("looks", "rivals", "writes"),
    [
        pytest.param([(0, "")], [""], [True], id="first contact"),
        pytest.param([(0, OURS), (200, OURS)], ["", ""], [True, True], id="alone"),
        pytest.param(
            [(0, THEIRS_), (1, OURS), (900, OURS)], [""] * 3, [True] * 3, id="exchanged for us"
        ),
        pytest.param(
            [(0, OURS), (1, THEIRS_), (2, OURS), (400, OURS)],
            [""] * 4,
            [True] * 4,
            id="the last word of one that was stopped",
        ),
        pytest.param(
            [(0, OURS), (1, THEIRS_), (2, THEIRS_)],
            ["", "", THEIRS_],
            [True, True, False],
            id="two take turns",
        ),
        pytest.param(
            [(0, OURS), (1, THEIRS_), (2, THEIRS_), (250, THEIRS_), (2000, THEIRS_)],
            ["", "", THEIRS_, THEIRS_, THEIRS_],
            [True, True, False, False, False],
            id="left to the other as long as that lives",
        ),
        pytest.param(
            [(0, OURS), (1, THEIRS_), (2, THEIRS_), (400, f"{THEIRS_} silent"), (401, OURS)],
            ["", "", THEIRS_, THEIRS_, ""],
            [True, True, False, True, True],
            id="taken over when the other falls silent, and forgotten",
        ),
        pytest.param(
            [(0, OURS), (1, THEIRS_), (600, THEIRS_)],
            ["", "", ""],
            [True, True, True],
            id="twice in a long time is no fight",
        ),
        pytest.param(
            [(0, OURS), (1, THEIRS_), (2, THEIRS_), (3, OURS)],
            ["", "", THEIRS_, THEIRS_],
            [True, True, False, True],
            id="not forgotten at once",
        ),
    ],
)
def test_two_konnectors(
    looks: list[tuple[int, str]], rivals: list[str], writes: list[bool]
) -> None:
    """Each look is seconds after the first one, and whose version stands there."""
    rivalry, told, wrote = Rivalry(), [], []
    for seconds, seen in looks:
        version, _, silent = seen.partition(" ")
        now = NOW + timedelta(seconds=seconds)
        beat = format_time(now - timedelta(seconds=310 if silent else 60)) if version else ""
        plan = planned(last=beat, seen=version, rivalry=rivalry, now=now)
        rivalry = plan.rivalry
        told.append(rivalry.version)
        wrote.append(plan.status.konnector_version == OURS)
        assert plan.next_beat > 0
    assert (told, wrote) == (rivals, writes)


def test_what_is_left_to_another_konnector_is_not_written() -> None:
    rivalry = Rivalry(version=THEIRS_)
    conditions_ = ({"type": "Ready", "status": "False", "reason": "Theirs"},)
    plan = planned(
        last="2026-01-01T11:59:00Z", seen=THEIRS_, rivalry=rivalry, conditions=conditions_, **OLD
    )
    assert conditions(plan) == {"Ready": ("False", "Theirs")}
    assert plan.next_beat == 240
    assert [write.body["data"]["kubeconfig"] for write in plan.secrets] == ["bmV3"]


def test_another_konnector_is_told_with_its_version_and_what_to_do() -> None:
    told = another_konnector("v0.8.1", "kube-bind-shop")
    assert (told.type, told.status) == ("AnotherKonnector", "True")
    assert "(v0.8.1)" in told.message
    assert "stop one of them" in told.message
    assert happening(told).type == "Warning"
