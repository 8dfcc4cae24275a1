"""Every edge of the consumer's CRD of a bound API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.kbind import SchemaPolicy, schema_hash
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.konnector.v2.bindings.crds import (
    Fault,
    plan_crd,
    pulled,
    takes_status,
    unusable,
    usable_resource,
)


API = "widgets.acme.io"
SPEC: JSON = {
    "group": "acme.io",
    "names": {"plural": "widgets", "kind": "Widget"},
    "scope": "Namespaced",
    "versions": [
        {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}},
        {"name": "v1beta1", "served": True, "storage": False},
    ],
    "conversion": {"strategy": "None"},
}
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


def crd(spec: JSON | None = None, *, deleting: bool = False, **metadata: Any) -> Object:
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return object_from_dict(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": API, "uid": "1", "resourceVersion": "1", **metadata},
            "spec": SPEC if spec is None else spec,
            "status": ESTABLISHED,
        }
    )


def offered(**spec: Any) -> Object:
    labels = {"core.kbind.io/exported": "true", "team": "db", "kube-bind.io/exported": "true"}
    annotations = {"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    return crd({**SPEC, **spec}, labels=labels, annotations=annotations)


def made(connection: str = "acme", **spec: Any) -> Object:
    body = pulled(offered(**spec), connection, "v1")
    metadata = body["metadata"]
    return crd(body["spec"], labels=metadata["labels"], annotations=metadata["annotations"])


def versions(*entries: JSON) -> JSON:
    return {"versions": list(entries)}


V1ALPHA2 = crd(annotations={"kube-bind.io/bound-by": "db"})


@pytest.mark.parametrize(
    ("there", "here", "policy", "action", "reason"),
    [
        pytest.param(offered(), None, {}, "create", "", id="created"),
        pytest.param(offered(), made(), {}, "", "", id="as-it-should-be"),
        pytest.param(offered(scope="Cluster"), made(), {}, "replace", "", id="schema-has-changed"),
        pytest.param(
            offered(scope="Cluster"),
            made(),
            {"update_policy": "Once"},
            "",
            "",
            id="schema-has-changed-once",
        ),
        pytest.param(None, None, {}, "", "APINotExported", id="not-offered"),
        pytest.param(
            offered(), crd(), {}, "", "ForeignCustomResourceDefinition", id="F7-users-own"
        ),
        pytest.param(
            offered(),
            crd(annotations={"core.kbind.io/connection": "acme"}),
            {},
            "",
            "ForeignCustomResourceDefinition",
            id="F7-annotated-alone",
        ),
        pytest.param(
            offered(),
            made("other"),
            {},
            "",
            "ForeignCustomResourceDefinition",
            id="F14-of-another-connection",
        ),
        pytest.param(
            offered(),
            V1ALPHA2,
            {"pull_policy": "None"},
            "",
            "ForeignCustomResourceDefinition",
            id="of-the-other-protocol",
        ),
        pytest.param(
            offered(), made(), {"pull_policy": "None"}, "", "", id="pulled-before-and-none-now"
        ),
        pytest.param(
            offered(), crd(), {"pull_policy": "None"}, "replace", "", id="users-own-annotated"
        ),
        pytest.param(offered(), None, {"pull_policy": "None"}, "", "Pending", id="none-to-use"),
        pytest.param(offered(), crd(deleting=True), {}, "", "Pending", id="F17-waits-for-its-end"),
        pytest.param(
            offered(conversion={"strategy": "Webhook"}),
            None,
            {},
            "",
            "ConversionRefused",
            id="converted-by-webhook",
        ),
        pytest.param(
            offered(**versions({"name": "v1", "served": False, "storage": True})),
            None,
            {},
            "",
            "NoVersionServed",
            id="F21-nothing-served",
        ),
    ],
)
def test_plan(
    there: Object | None, here: Object | None, policy: JSON, action: str, reason: str
) -> None:
    plan = plan_crd(API, "acme", SchemaPolicy(**policy), there, here)
    assert (plan.action, plan.fault.reason if plan.fault is not None else "") == (action, reason)
    assert (plan.body is not None) == bool(action)


def test_a_crd_whose_connection_is_gone_is_taken_over() -> None:
    plan = plan_crd(API, "acme", SchemaPolicy(), offered(), made("former"), left=True)
    assert plan.action == "replace"
    assert plan.body is not None
    assert plan.body["metadata"]["annotations"]["core.kbind.io/connection"] == "acme"


def test_users_own_crd_gets_the_annotation_and_nothing_else() -> None:
    plan = plan_crd(API, "acme", SchemaPolicy(pull_policy="None"), offered(), crd())
    assert plan.body is not None
    assert plan.body["metadata"]["annotations"] == {"core.kbind.io/connection": "acme"}
    assert plan.body["metadata"]["labels"] == {}
    assert plan.body["spec"] == SPEC


def test_pulled_crd_has_one_version_and_the_marks() -> None:
    body = pulled(offered(), "acme", "v1")
    assert body["metadata"]["labels"] == {
        "core.kbind.io/exported": "true",
        "core.kbind.io/managed": "true",
        "team": "db",
    }
    annotations = body["metadata"]["annotations"]
    assert annotations.pop("core.kbind.io/schema-hash") == schema_hash(body["spec"])
    assert annotations == {"core.kbind.io/connection": "acme", "note": "x"}
    (version,) = body["spec"]["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, True)


def test_f21_version_that_is_served_is_pulled_where_the_stored_one_is_not() -> None:
    """The original installs the stored version, and synchronises nothing."""
    there = offered(
        **versions(
            {"name": "v1", "served": False, "storage": True},
            {"name": "v1beta1", "served": True, "storage": False},
        )
    )
    plan = plan_crd(API, "acme", SchemaPolicy(), there, None)
    assert plan.body is not None
    assert [one["name"] for one in plan.body["spec"]["versions"]] == ["v1beta1"]


@pytest.mark.parametrize(
    ("there", "here", "version"),
    [
        pytest.param(offered(), None, None, id="no-crd"),
        pytest.param(offered(), made(), "v1", id="stored"),
        pytest.param(
            offered(**versions({"name": "v1beta1", "served": True, "storage": True})),
            crd(),
            "v1beta1",
            id="F21-first-that-both-serve",
        ),
        pytest.param(
            offered(**versions({"name": "v2", "served": True, "storage": True})),
            crd(),
            None,
            id="none-that-both-serve",
        ),
        pytest.param(None, made(), "v1", id="not-offered-any-more"),
    ],
)
def test_resource(there: Object | None, here: Object | None, version: str | None) -> None:
    resource = usable_resource(there, here)
    assert (resource.version if resource is not None else None) == version


def test_subresource_status_is_of_a_version() -> None:
    assert [takes_status(crd(), version) for version in ("v1", "v1beta1")] == [True, False]


def test_f21_no_common_version_is_told_where_the_original_syncs_nothing_in_silence() -> None:
    there = offered(**versions({"name": "v2", "served": True, "storage": True}))
    fault = unusable(API, there, made())
    assert fault.reason == "NoVersionServed"
    assert "this one serves v1, and the provider v2" in fault.message
    assert unusable(API, offered(), None).reason == "Pending"


def test_a_version_in_which_objects_are_stored_stays_unserved() -> None:
    """API servers refuse a CRD without it."""
    before = object_from_dict(
        {**made().to_dict(), "status": {**ESTABLISHED, "storedVersions": ["v1"]}}
    )
    there = offered(**versions({"name": "v2", "served": True, "storage": True}))
    plan = plan_crd(API, "acme", SchemaPolicy(), there, before)
    assert plan.action == "replace"
    assert plan.body is not None
    entries = plan.body["spec"]["versions"]
    assert [(one["name"], one["served"], one["storage"]) for one in entries] == [
        ("v2", True, True),
        ("v1", False, False),
    ]
    after = object_from_dict({**plan.body, "status": before.to_dict()["status"]})
    assert not plan_crd(API, "acme", SchemaPolicy(), there, after).action


UNREAD = Fault("SchemaUnusable", "no CRD can be made")


@pytest.mark.parametrize(
    ("there", "here", "policy", "reason"),
    [
        pytest.param(offered(), None, {}, "SchemaUnusable", id="not-created"),
        pytest.param(offered(), made(), {}, "SchemaUnusable", id="not-updated"),
        pytest.param(offered(), made(), {"update_policy": "Once"}, "", id="installed-once"),
        pytest.param(offered(), None, {"update_policy": "Once"}, "SchemaUnusable", id="once"),
        pytest.param(offered(), crd(), {"pull_policy": "None"}, "", id="users-own"),
        pytest.param(None, made(), {}, "SchemaUnusable", id="group-is-down"),
    ],
)
def test_a_schema_that_is_not_known_holds_up_what_needs_it(
    there: Object | None, here: Object | None, policy: JSON, reason: str
) -> None:
    plan = plan_crd(API, "acme", SchemaPolicy(**policy), there, here, unread=UNREAD)
    assert (plan.fault.reason if plan.fault is not None else "") == reason


@pytest.mark.parametrize(("here", "reason"), [(None, "Pending"), (made(), "")])
def test_an_installed_crd_goes_on_while_the_schema_is_being_read(
    here: Object | None, reason: str
) -> None:
    """So that no restart and no new credentials stop an API for a moment."""
    unread = Fault("Pending", "it is being read", passing=True)
    fault = plan_crd(API, "acme", SchemaPolicy(), offered(), here, unread=unread).fault
    assert (fault.reason if fault is not None else "") == reason


@pytest.mark.parametrize("source", ["OpenAPI", "Auto"])
def test_an_api_that_is_not_offered_has_the_remedy_of_its_source(source: str) -> None:
    policy = msgspec.convert({"source": source}, SchemaPolicy)
    fault = plan_crd(API, "acme", policy, None, None).fault
    assert fault is not None
    assert ("has to serve it" in fault.message) == (source == "OpenAPI")


NEVER_BOUND = "fairlead.dev/never-bound"


def test_a_crd_that_all_makes_is_marked_until_it_is_bound() -> None:
    create = plan_crd(API, "acme", SchemaPolicy(), offered(), None, bound=False)
    assert create.action == "create"
    assert create.body is not None
    annotations = create.body["metadata"]["annotations"]
    assert annotations[NEVER_BOUND] == "true"
    here = crd(
        create.body["spec"],
        labels=create.body["metadata"]["labels"],
        annotations=annotations,
    )
    assert not plan_crd(API, "acme", SchemaPolicy(), offered(), here, bound=False).action
    newer = plan_crd(API, "acme", SchemaPolicy(), offered(scope="Cluster"), here, bound=False)
    assert newer.body is not None
    assert NEVER_BOUND in newer.body["metadata"]["annotations"]
    for schema in (SchemaPolicy(), SchemaPolicy(update_policy="Once")):
        plan = plan_crd(API, "acme", schema, offered(), here)
        assert plan.action == "replace"
        assert plan.body is not None
        assert NEVER_BOUND not in plan.body["metadata"]["annotations"]
        assert plan.body["spec"] == here.to_dict()["spec"]


def test_a_crd_that_was_bound_is_not_marked_again() -> None:
    plan = plan_crd(API, "acme", SchemaPolicy(), offered(scope="Cluster"), made(), bound=False)
    assert plan.action == "replace"
    assert plan.body is not None
    assert NEVER_BOUND not in plan.body["metadata"]["annotations"]
