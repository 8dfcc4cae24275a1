"""Every edge of related resources: which rules hold, and what becomes of each copy."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.kbind import ClusterBinding
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.resource import CONFIGMAPS, SECRETS
from fairlead.konnector.v2.related.plan import originals, plan
from fairlead.konnector.v2.related.rules import (
    Place,
    RelatedSelection,
    judge,
    places_text,
    stored_places,
)


OWN = "kube-bind"


def rule(resource: str, direction: str, **selector: Any) -> JSON:
    chosen = {"selector": selector} if selector else {}
    return {"resource": resource, "direction": direction, **chosen}


def labels(**more: str) -> JSON:
    return {"labelSelector": {"matchLabels": more}}


def binding(*rules: JSON, namespace: str = "", deleting: bool = False) -> ClusterBinding:
    metadata = {"name": "all", "namespace": namespace}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return object_from_dict(
        {
            "apiVersion": "core.kbind.io/v1alpha1",
            "kind": "Binding" if namespace else "ClusterBinding",
            "metadata": metadata,
            "spec": {
                "connectionRef": {"name": "acme"},
                "apis": [{"name": "widgets.acme.io"}],
                "relatedResources": list(rules),
            },
        }
    ).decode(ClusterBinding)


def connection(admitted: str | None = None) -> Object:
    annotations = {} if admitted is None else {"fairlead.dev/related-resources": admitted}
    return object_from_dict(
        {
            "apiVersion": "core.kbind.io/v1alpha1",
            "kind": "Connection",
            "metadata": {"name": "acme", "annotations": annotations},
        }
    )


HERE = Place("secrets", "FromProvider")
THERE = Place("secrets", "FromConsumer", "acme")
ALL = RelatedSelection()


@pytest.mark.parametrize(
    ("rules", "more", "selections", "refusals"),
    [
        pytest.param([], {}, {}, [], id="no-rule"),
        pytest.param(
            [rule("secrets", "FromProvider")], {}, {HERE: {ALL}}, [], id="all-of-the-provider"
        ),
        pytest.param(
            [rule("secrets", "FromConsumer")],
            {},
            {},
            ["[0] (secrets FromConsumer) is refused: without a selector it would send all"],
            id="F4-all-of-the-consumer-is-refused",
        ),
        pytest.param(
            [rule("secrets", "FromConsumer", labelSelector={}, names=[])],
            {},
            {},
            ["give it selector.names or selector.labelSelector"],
            id="F4-an-empty-selector-is-none",
        ),
        pytest.param(
            [rule("secrets", "FromConsumer")],
            {"namespace": "shop"},
            {THERE: {ALL}},
            [],
            id="all-of-a-bindings-own-namespace",
        ),
        pytest.param(
            [rule("secrets", "FromProvider", names=["a"])],
            {"namespace": "kube-system"},
            {},
            ["the konnector copies no related objects from or to namespace kube-system"],
            id="F4-binding-in-a-kube-namespace",
        ),
        pytest.param(
            [rule("secrets", "FromProvider", names=["a"])],
            {"namespace": OWN},
            {},
            [f"namespace {OWN}"],
            id="F4-binding-in-the-konnectors-namespace",
        ),
        pytest.param(
            [rule("secrets", "FromConsumer", names=["a", "b"])],
            {},
            {
                THERE: {
                    RelatedSelection("", "metadata.name=a"),
                    RelatedSelection("", "metadata.name=b"),
                }
            },
            [],
            id="by-names-a-watch-for-each",
        ),
        pytest.param(
            [rule("secrets", "FromConsumer", names=["a"], **labels(app="db"))],
            {},
            {THERE: {RelatedSelection("app=db", "metadata.name=a")}},
            [],
            id="labels-and-names-must-both-fit",
        ),
        pytest.param(
            [
                rule("secrets", "FromProvider", names=["a"]),
                rule("secrets", "FromProvider", **labels(app="db")),
            ],
            {},
            {HERE: {RelatedSelection("", "metadata.name=a"), RelatedSelection("app=db")}},
            [],
            id="F19-one-set-of-a-kind-and-direction",
        ),
        pytest.param(
            [rule("secrets", "FromConsumer"), rule("secrets", "FromProvider")],
            {},
            {HERE: {ALL}},
            ["spec.relatedResources[0]"],
            id="a-refused-rule-stops-no-other",
        ),
        pytest.param(
            [rule("secrets", "FromProvider", names=["a,b"])],
            {},
            {},
            ["'a,b' in its selector.names is not a valid"],
            id="odd-name",
        ),
        pytest.param(
            [
                rule(
                    "secrets",
                    "FromProvider",
                    labelSelector={"matchExpressions": [{"key": "a", "operator": "Near"}]},
                )
            ],
            {},
            {},
            ['labelSelector cannot be read: "Near" is not a valid'],
            id="odd-label-selector",
        ),
        pytest.param(
            [rule("secrets", "FromProvider"), rule("configmaps", "FromProvider")],
            {"admitted": "secrets/FromProvider, configmaps/FromConsumer"},
            {HERE: {ALL}},
            ["of Connection acme does not list configmaps/FromProvider"],
            id="F3-the-connection-lists-what-may-cross",
        ),
        pytest.param(
            [rule("secrets", "FromProvider")],
            {"admitted": ""},
            {},
            ["does not list secrets/FromProvider"],
            id="F3-an-empty-list-admits-nothing",
        ),
        pytest.param(
            [rule("secrets", "FromProvider")], {"deleting": True}, {}, [], id="unbinding"
        ),
        pytest.param(
            [rule("secrets", "FromProvider")],
            {"is_admitted": False},
            {},
            [],
            id="F3-binding-that-may-not-use-the-connection",
        ),
    ],
)
def test_rules(
    rules: list[JSON],
    more: JSON,
    selections: dict[Place, set[RelatedSelection]],
    refusals: list[str],
) -> None:
    options = {key: more[key] for key in ("namespace", "deleting") if key in more}
    judged = judge(
        binding(*rules, **options),
        connection(more.get("admitted")),
        OWN,
        admitted=more.get("is_admitted", True),
    )
    assert judged.selections == selections
    assert [fault.reason for fault in judged.refusals] == ["RuleRefused"] * len(refusals)
    for fault, text in zip(judged.refusals, refusals, strict=True):
        assert text in fault.message


def test_places_are_noted_and_read_again_and_odd_notes_are_passed_over() -> None:
    text = places_text({THERE, HERE})
    noted = f"{text}, pods/FromProvider,secrets, secrets/Sideways"
    obj = object_from_dict(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"annotations": {"fairlead.dev/related-copies": noted}},
        }
    )
    assert stored_places(obj) == {HERE, THERE}
    assert places_text(set()) is None


KEY = Key("shop", "a")
UID = "binding-uid"
MARKS = {
    "core.kbind.io/consumer-cluster-uid": "cluster-uid",
    "core.kbind.io/related-binding": UID,
}


def secret(
    *, namespace: str = "shop", version: str = "1", data: JSON | None = None, **more: Any
) -> Object:
    metadata = {
        "namespace": namespace,
        "name": more.pop("name", "a"),
        "resourceVersion": version,
        **more.pop("metadata", {}),
    }
    content = {"a": "MQ=="} if data is None else data
    fields = {"type": "Opaque", **more}
    kind = {"apiVersion": "v1", "kind": fields.pop("kind", "Secret")}
    return object_from_dict({**kind, "metadata": metadata, "data": content, **fields})


def copy(
    marks: JSON = MARKS, *, managed: str = "true", deleting: bool = False, **more: Any
) -> Object:
    metadata: JSON = {"labels": {"core.kbind.io/managed": managed}, "annotations": marks}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return secret(version="9", metadata=metadata, **more)


@pytest.mark.parametrize(
    ("obj", "crosses"),
    [
        pytest.param(secret(), True, id="opaque"),
        pytest.param(secret(type="kubernetes.io/tls"), True, id="certificate"),
        pytest.param(
            secret(type="kubernetes.io/service-account-token"), False, id="F4-account-token"
        ),
        pytest.param(secret(type="bootstrap.kubernetes.io/token"), False, id="F4-bootstrap-token"),
        pytest.param(secret(namespace=OWN), False, id="F4-konnectors-namespace"),
        pytest.param(secret(namespace="kbind"), False, id="F4-namespace-of-leases"),
        pytest.param(secret(namespace="kube-public"), False, id="F4-kube-namespace"),
        pytest.param(copy(), False, id="own-copy"),
        pytest.param(
            copy({"core.kbind.io/related-binding": "x"}), False, id="copy-of-another-binding"
        ),
        pytest.param(
            secret(kind="ConfigMap", name="kube-root-ca.crt"), False, id="certificate-of-a-cluster"
        ),
    ],
)
def test_which_objects_cross(obj: Object, *, crosses: bool) -> None:
    assert list(originals([obj], OWN)) == ([obj.key] if crosses else [])


@pytest.mark.parametrize(
    ("source", "target", "outcome", "action"),
    [
        pytest.param(None, None, None, "", id="nothing"),
        pytest.param(secret(), None, None, "apply", id="absent-is-written"),
        pytest.param(secret(), copy(), None, "", id="equal-rests"),
        pytest.param(secret(data={"a": "Mg=="}), copy(), None, "apply", id="changed-is-written"),
        pytest.param(secret(), copy(managed="no"), None, "apply", id="lost-label-is-mended"),
        pytest.param(
            secret(),
            copy({**MARKS, "core.kbind.io/consumer-cluster-uid": "x"}),
            None,
            "apply",
            id="other-cluster-uid-is-mended",
        ),
        pytest.param(
            secret(),
            copy(data={"a": "MQ==", "others": "MQ=="}),
            ("1", "9"),
            "",
            id="fields-of-others-stay-once-written",
        ),
        pytest.param(
            secret(),
            copy(data={"a": "MQ==", "others": "MQ=="}),
            ("1", "8"),
            "apply",
            id="a-later-change-of-others-is-looked-at",
        ),
        pytest.param(None, copy(), None, "delete", id="without-an-original-it-goes"),
        pytest.param(None, copy(deleting=True), None, "", id="its-end-is-awaited"),
        pytest.param(secret(), copy(deleting=True), None, "", id="written-after-its-end"),
        pytest.param(
            secret(type="x/y"), copy(), None, "delete", id="another-type-needs-another-object"
        ),
        pytest.param(
            secret(data={"a": "Mg=="}),
            copy(immutable=True),
            None,
            "delete",
            id="an-immutable-one-is-replaced",
        ),
        pytest.param(
            secret(immutable=True),
            copy(immutable=True, managed="no"),
            None,
            "apply",
            id="marks-of-an-immutable-one-are-mended",
        ),
        pytest.param(secret(immutable=True), copy(), None, "apply", id="it-becomes-immutable"),
        pytest.param(
            secret(),
            copy({"core.kbind.io/related-binding": "x"}),
            None,
            "foreign",
            id="copy-of-another-binding-stays",
        ),
        pytest.param(secret(), copy({}), None, "foreign", id="without-our-marks-it-stays"),
        pytest.param(None, copy({}), None, "", id="what-is-not-ours-is-not-deleted"),
    ],
)
def test_copies(
    source: Object | None, target: Object | None, outcome: tuple[str, str] | None, action: str
) -> None:
    steps = plan(
        SECRETS,
        {KEY: source} if source is not None else {},
        {KEY: target} if target is not None else {},
        {KEY: outcome} if outcome is not None else {},
        binding_uid=UID,
        cluster_uid="cluster-uid",
    )
    assert [step.action for step in steps] == ([action] if action else [])


def test_the_body_has_content_and_marks_alone() -> None:
    source = secret(
        immutable=True,
        metadata={"labels": {"app": "db"}, "annotations": {"note": "x"}, "uid": "u"},
    )
    (step,) = plan(SECRETS, {KEY: source}, {}, {}, binding_uid=UID, cluster_uid="cluster-uid")
    assert step.body == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": "shop",
            "name": "a",
            "labels": {"core.kbind.io/managed": "true"},
            "annotations": MARKS,
        },
        "type": "Opaque",
        "immutable": True,
        "data": {"a": "MQ=="},
    }


def test_a_config_map_has_no_type() -> None:
    obj = object_from_dict(
        {"kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "a"}, "binaryData": {}}
    )
    (step,) = plan(CONFIGMAPS, {KEY: obj}, {}, {}, binding_uid=UID, cluster_uid="c")
    assert step.body.keys() == {"apiVersion", "kind", "metadata", "binaryData"}
