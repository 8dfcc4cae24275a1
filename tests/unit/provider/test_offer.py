from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.kubebind import claim, kube, resource

from fairlead.api.kubebind import ExportResource, PermissionClaim, Selector, TemplateSpec
from fairlead.api.meta import JSON, Object
from fairlead.provider.offer import (
    InvitationRecord,
    Offer,
    beyond,
    covers,
    record_of,
    with_revocation,
    with_template,
)


def binding(service_provider_spec: JSON | None = None) -> Object:
    spec: JSON = {
        "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
        "providerPrettyName": "Bank",
    }
    if service_provider_spec is not None:
        spec["serviceProviderSpec"] = service_provider_spec
    return kube("ClusterBinding", "cluster", spec=spec)


def offer(*specs: JSON, **more: Any) -> Offer:
    """What templates ``t0``, ``t1`` and so on offer together."""
    templates: dict[str, TemplateSpec | None] = {
        f"t{index}": msgspec.convert({"scope": "Namespaced", **spec}, TemplateSpec)
        for index, spec in enumerate(specs)
    }
    templates |= dict.fromkeys(more.get("gone", ()))
    return Offer(InvitationRecord(tuple(templates)), templates)


def asked(offered: Offer, resources: list[JSON], *claims: JSON) -> str:
    return beyond(
        offered,
        msgspec.convert(resources, list[ExportResource]),
        msgspec.convert(claims, list[PermissionClaim]),
    )


WIDGETS = {"resources": [resource()]}
SECRETS = {**WIDGETS, "permissionClaims": [claim("secrets", labelSelector={})]}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(None, InvitationRecord(), id="nothing was recorded"),
        pytest.param({"region": "eu"}, InvitationRecord(), id="something of somebody else's"),
        pytest.param({"templates": []}, InvitationRecord(()), id="invited to nothing"),
        pytest.param(
            {"templates": [{"name": "b"}, {"name": "a"}, {"name": "b"}]},
            InvitationRecord(("b", "a")),
            id="in order, each once",
        ),
        pytest.param({"templates": "all"}, InvitationRecord(), id="damaged: as good as nothing"),
        pytest.param({"templates": [{}]}, InvitationRecord(), id="a template without a name"),
        pytest.param(
            {"templates": 1, "revoked": True}, InvitationRecord(revoked=True), id="damaged, going"
        ),
        pytest.param(
            {"templates": [], "revoked": True}, InvitationRecord((), revoked=True), id="going"
        ),
    ],
)
def test_the_record_of_a_consumer(stored: JSON | None, expected: InvitationRecord) -> None:
    assert record_of(binding(stored)) == expected


def test_a_consumer_without_a_clusterbinding_has_no_record() -> None:
    assert record_of(None) == InvitationRecord()


def test_an_invitation_adds_its_template_and_leaves_the_rest() -> None:
    stored = {"region": "eu", "templates": [{"name": "a"}]}
    added = with_template(stored, record_of(binding(stored)), "b")
    assert added == {"region": "eu", "templates": [{"name": "a"}, {"name": "b"}]}
    assert with_template(added, record_of(binding(added)), "a") == added


def test_a_revocation_leaves_no_template() -> None:
    revoked = with_revocation({"region": "eu", "templates": [{"name": "a"}]})
    assert record_of(binding(revoked)) == InvitationRecord((), revoked=True)
    assert revoked["region"] == "eu"


@pytest.mark.parametrize(
    ("templates", "resources", "claims", "told"),
    [
        pytest.param([WIDGETS], [resource()], [], "", id="the template itself"),
        pytest.param(
            [WIDGETS],
            [resource(), resource("gadgets")],
            [],
            "spec.resources[1]: gadgets.example.org is not in",
            id="another kind",
        ),
        pytest.param(
            [WIDGETS],
            [resource(group="example.com")],
            [],
            "widgets.example.com is not in",
            id="the same plural of another group",
        ),
        pytest.param(
            [WIDGETS],
            [resource(versions=["v1", "v2"])],
            [],
            "is requested in versions v1, v2, and this consumer's invitation has v1",
            id="another version",
        ),
        pytest.param(
            [WIDGETS],
            [resource(versions=[])],
            [],
            "is requested in all versions",
            id="no versions are all versions",
        ),
        pytest.param(
            [{"resources": [resource(versions=[])]}],
            [resource()],
            [],
            "",
            id="all versions offered",
        ),
        pytest.param(
            [WIDGETS, {"resources": [resource(versions=["v2"])]}],
            [resource(versions=["v1", "v2"])],
            [],
            "",
            id="versions of two templates",
        ),
        pytest.param(
            [WIDGETS, {"resources": [resource("gadgets")]}],
            [resource(), resource("gadgets")],
            [],
            "",
            id="kinds of two templates",
        ),
        pytest.param(
            [WIDGETS],
            [resource()],
            [claim()],
            "spec.permissionClaims[0]: secrets.core is claimed, but is not",
            id="a claim of no template",
        ),
        pytest.param(
            [SECRETS],
            [resource()],
            [claim("configmaps")],
            "configmaps.core is claimed, but is not",
            id="a claim on another kind",
        ),
        pytest.param([SECRETS], [resource()], [claim()], "", id="a narrower claim"),
        pytest.param(
            [{**WIDGETS, "permissionClaims": [claim()]}],
            [resource()],
            [claim("secrets", labelSelector={})],
            "with a wider selector",
            id="a wider claim",
        ),
        pytest.param([], [resource()], [], "its invitation has no template", id="to no template"),
    ],
)
def test_what_goes_beyond_the_templates(
    templates: list[JSON], resources: list[JSON], claims: list[JSON], told: str
) -> None:
    why = asked(offer(*templates), resources, *claims)
    assert told in why
    assert bool(why) == bool(told)


def test_a_refusal_names_the_templates_and_what_they_offer() -> None:
    why = asked(offer(SECRETS, gone=["t9"]), [resource("gadgets")])
    assert "template t0 offers widgets.example.org v1 with claims on secrets.core" in why
    assert "template t9 does not exist any more" in why


def test_a_refusal_is_short_whatever_was_asked_for() -> None:
    many = [f"v{number}" for number in range(1000)]
    for asked_for in (
        resource("a" * 100_000),
        resource(versions=many),
        resource(versions=["v" * 9999]),
    ):
        assert len(asked(offer(WIDGETS), [asked_for])) < 1000


def test_without_a_record_nothing_can_be_requested() -> None:
    assert "provider invite" in asked(Offer(InvitationRecord(), {}), [resource()])


def test_a_consumer_that_is_being_revoked_gets_nothing() -> None:
    given = offer(WIDGETS)
    going = given._replace(record=msgspec.structs.replace(given.record, revoked=True))
    assert "revoking this consumer's access" in asked(going, [resource()])


def labels(*expressions: JSON, **match: str) -> JSON:
    return {"labelSelector": {"matchLabels": match, "matchExpressions": list(expressions)}}


def term(key: str, operator: str, *values: str) -> JSON:
    return {"key": key, "operator": operator, "values": list(values)}


def reference(*versions: str, **path: str) -> JSON:
    return {
        "references": [
            {
                "group": "example.org",
                "resource": "widgets",
                "versions": list(versions),
                "jsonPath": path or {"name": "spec.ref"},
            }
        ]
    }


def named(name: str, namespace: str = "") -> JSON:
    return {"namedResources": [{"name": name, "namespace": namespace}]}


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        pytest.param({}, {}, True, id="nothing covers nothing"),
        pytest.param({}, named("x"), False, id="nothing covers no name"),
        pytest.param(labels(), named("x") | reference() | labels(a="b"), True, id="everything"),
        pytest.param(labels(a="b"), labels(a="b", c="d"), True, id="one label more"),
        pytest.param(labels(a="b", c="d"), labels(a="b"), False, id="one label less"),
        pytest.param(labels(a="b"), labels(a="c"), False, id="another value"),
        pytest.param(labels(a="b"), labels(), False, id="all labels"),
        pytest.param(labels(a="b"), named("x"), False, id="a name is no label"),
        pytest.param(labels(term("a", "In", "b", "c")), labels(a="b"), True, id="one of many"),
        pytest.param(labels(a="b"), labels(term("a", "In", "b", "c")), False, id="many of one"),
        pytest.param(labels(term("a", "Exists")), labels(a="b"), True, id="a value exists"),
        pytest.param(labels(a="b"), labels(term("a", "Exists")), False, id="any value"),
        pytest.param(
            labels(term("a", "NotIn", "b")), labels(term("a", "NotIn", "b", "c")), True, id="not"
        ),
        pytest.param(
            labels(term("a", "NotIn", "b", "c")),
            labels(term("a", "NotIn", "b")),
            False,
            id="not c",
        ),
        pytest.param(labels(term("a", "NotIn", "b")), labels(a="c"), True, id="another, not b"),
        pytest.param(labels(term("a", "NotIn", "b")), labels(a="b"), False, id="b, not b"),
        pytest.param(
            labels(term("a", "DoesNotExist")), labels(term("a", "NotIn", "b")), False, id="may be"
        ),
        pytest.param(
            labels(term("a", "NotIn", "b")), labels(term("a", "DoesNotExist")), True, id="is not"
        ),
        pytest.param(named("x"), named("x", "shop"), True, id="a name in one namespace"),
        pytest.param(named("x", "shop"), named("x"), False, id="a name in all namespaces"),
        pytest.param(named("x", "shop"), named("x", "bank"), False, id="in another namespace"),
        pytest.param(named("x"), named("y"), False, id="another name"),
        pytest.param(reference(), reference("v1"), True, id="a reference in one version"),
        pytest.param(reference("v1"), reference(), False, id="a reference in all versions"),
        pytest.param(reference(), reference(name="spec.other"), False, id="another path"),
        pytest.param(reference(), named("x"), False, id="a name is no reference"),
        pytest.param(named("x") | labels(a="b"), named("x"), True, id="one way of two"),
        pytest.param(named("x"), named("x") | labels(a="b"), False, id="one way more"),
    ],
)
def test_which_selectors_cover_which(wide: JSON, narrow: JSON, expected: bool) -> None:
    found = covers(msgspec.convert(wide, Selector), msgspec.convert(narrow, Selector))
    assert found is expected
