from __future__ import annotations

from typing import Any

import pytest
from tests.support.kubebind import (
    NOW,
    NS,
    bound_schema,
    claim,
    conditions,
    crd,
    export,
    kube,
    resource,
)

from fairlead.api.kubebind import (
    ExportResource,
    TemplateSpec,
    bound_schema_spec,
    spec_hash,
)
from fairlead.api.meta import JSON, Object
from fairlead.provider.controllers.exportrequest.reconcile import (
    RequestPlan,
    RequestState,
    follows,
    reconcile,
    refused_schema,
)
from fairlead.provider.offer import InvitationRecord, Offer
from fairlead.provider.options import ProviderOptions


OPTIONS = ProviderOptions()


def request(*, phase: str = "Pending", metadata: JSON | None = None, **spec: Any) -> Object:
    given = {"resources": [resource()], **spec}
    status = {"phase": phase}
    return kube("APIServiceExportRequest", spec=given, status=status, **(metadata or {}))


def plan(
    given: Object,
    *,
    made: Object | None = None,
    crds: list[Object] | None = None,
    schemas: list[Object] | None = None,
    namespaces: list[str] | None = None,
    options: ProviderOptions = OPTIONS,
    offer: Offer | None = None,
) -> RequestPlan:
    state = RequestState(
        request=given,
        export=made,
        crds={item.meta.name: item for item in ([crd()] if crds is None else crds)},
        schemas={item.meta.name: item for item in schemas or []},
        namespaces=frozenset(namespaces or []),
        offer=offer,
    )
    return reconcile(state, options, now=NOW)


def phase(result: RequestPlan) -> str:
    assert result.status is not None
    found: str = result.status["status"]["phase"]
    return found


def test_a_new_request_makes_schemas_and_the_export_and_succeeds() -> None:
    result = plan(request(permissionClaims=[claim()]))
    (schema,) = result.create_schemas
    assert schema["metadata"]["name"] == "widgets.example.org"
    assert schema["metadata"]["namespace"] == NS
    assert schema["spec"]["informerScope"] == "Namespaced"
    assert result.create_export is not None
    assert result.create_export["metadata"] == {"name": "widgets", "namespace": NS}
    assert result.create_export["spec"] == {
        "resources": [resource()],
        "permissionClaims": [claim()],
        "informerScope": "Namespaced",
        "isolation": "Prefixed",
    }
    assert phase(result) == "Succeeded"
    assert conditions(result.status)["Ready"]["status"] == "True"


def test_however_old_a_request_is_its_export_makes_it_succeed() -> None:
    old = request(metadata={"creationTimestamp": "2020-01-01T00:00:00Z"})
    assert phase(plan(old)) == "Succeeded"


def test_an_export_that_is_there_already_lets_the_request_succeed() -> None:
    result = plan(request(), made=export(), schemas=[bound_schema(owner="widgets")])
    assert result.create_export is None
    assert phase(result) == "Succeeded"


def test_options_become_the_export_and_the_schema() -> None:
    chosen = ProviderOptions(consumer_scope="Cluster", isolation="None")
    result = plan(request(), options=chosen)
    assert result.create_export is not None
    assert result.create_export["spec"]["informerScope"] == "Cluster"
    assert result.create_export["spec"]["isolation"] == "None"
    assert result.create_schemas[0]["spec"]["informerScope"] == "Cluster"


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(ProviderOptions(consumer_scope="Cluster"), id="another scope"),
        pytest.param(ProviderOptions(isolation="Namespaced"), id="another isolation"),
    ],
)
def test_schemas_stay_as_their_export_is_when_the_options_change(others: ProviderOptions) -> None:
    """An export is immutable, and rights go by it."""
    given = request(schemaUpdatePolicy="Always")
    made, schema = export(), bound_schema(owner="widgets")
    before = plan(given, made=made, schemas=[schema])
    assert plan(given, made=made, schemas=[schema], options=others) == before
    (created,) = plan(given, made=made, options=others).create_schemas
    assert (created["spec"]["informerScope"], created["spec"]["scope"]) == ("Namespaced",) * 2


def test_namespaced_isolation_makes_namespaced_kinds_cluster_scoped_for_consumers() -> None:
    result = plan(request(), options=ProviderOptions(isolation="Namespaced"))
    assert result.create_schemas[0]["spec"]["scope"] == "Cluster"


def test_no_versions_means_all_and_nothing_vanishes() -> None:
    result = plan(request(resources=[{"group": "example.org", "resource": "widgets"}]))
    assert len(result.create_schemas) == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param([claim("pods")], "InvalidPermissionClaim", id="not claimable"),
        pytest.param([claim(), claim()], "DuplicatePermissionClaim", id="twice"),
    ],
)
def test_claims_that_can_never_be_granted_are_terminal(given: list[JSON], reason: str) -> None:
    result = plan(request(permissionClaims=given))
    assert phase(result) == "Failed"
    found = conditions(result.status)["PermissionClaim"]
    assert found["reason"] == reason
    assert found["severity"] == "Error"
    assert result.status is not None
    assert result.status["status"]["terminalMessage"] == found["message"]
    assert not result.create_schemas
    assert result.create_export is None


TOO_MUCH = [
    pytest.param(
        {"namespaces": [{"name": f"n{number}"} for number in range(101)]},
        "TooManyNamespaces",
        "spec.namespaces names 101 namespaces, and one request can have 100 of them made",
        id="too many namespaces",
    ),
    pytest.param(
        {"resources": [resource(f"k{number}s") for number in range(65)]},
        "TooManyResources",
        "spec.resources names 65 resources, and one request can have 64",
        id="too many resources",
    ),
    pytest.param(
        {"resources": [resource()] * 15_000},
        "TooManyResources",
        "spec.resources names 15000 resources",
        id="one resource 15,000 times",
    ),
    pytest.param(
        {"resources": [resource(), resource("gadgets"), resource(versions=["v2"])]},
        "DuplicateResource",
        "spec.resources[2]: widgets.example.org is named twice; join all versions in one entry",
        id="one resource twice",
    ),
]


@pytest.mark.parametrize("made", [None, export()], ids=["new", "exported by an older version"])
@pytest.mark.parametrize(("given", "reason", "message"), TOO_MUCH)
def test_too_much_in_one_request_is_terminal(
    given: JSON, reason: str, message: str, made: Object | None
) -> None:
    asked = request(schemaUpdatePolicy="Always", **given)
    result = plan(asked, made=made, offer=Offer(InvitationRecord(()), {}))
    assert phase(result) == "Failed"
    found = conditions(result.status)["ExportsReady"]
    assert found["reason"] == reason
    assert message in found["message"]
    assert result.status is not None
    assert result.status["status"]["terminalMessage"] == found["message"]
    assert result == RequestPlan(status=result.status)
    assert not follows(asked)
    failed = request(phase="Failed", **given)
    assert plan(failed, made=made) == RequestPlan()


def labels(*expressions: JSON, **match: str) -> JSON:
    return {"labelSelector": {"matchLabels": match, "matchExpressions": list(expressions)}}


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        pytest.param(
            {"namedResources": [{"name": f"n{number}"} for number in range(257)]},
            "namedResources has 257 items, and can have 256",
            id="names",
        ),
        pytest.param(
            labels(*[{"key": "x", "operator": "Exists"}] * 65),
            "matchExpressions has 65 items, and can have 64",
            id="expressions",
        ),
        pytest.param(
            labels(**{f"k{number}": "v" for number in range(65)}),
            "matchLabels has 65 items, and can have 64",
            id="labels",
        ),
        pytest.param(
            labels({"key": "x", "operator": "In", "values": ["y"] * 257}),
            "values has 257 items, and can have 256",
            id="values",
        ),
        pytest.param(
            {
                "references": [
                    {"group": "example.org", "resource": "widgets", "jsonPath": {"name": "x"}}
                ]
                * 65
            },
            "references has 65 items, and can have 64",
            id="references",
        ),
    ],
)
def test_a_claim_that_is_too_large_is_terminal(selector: JSON, message: str) -> None:
    result = plan(request(permissionClaims=[claim("configmaps"), claim(**selector)]))
    assert phase(result) == "Failed"
    found = conditions(result.status)["PermissionClaim"]
    assert found["reason"] == "LargePermissionClaim"
    assert f"spec.permissionClaims[1]: secrets.core: {message}" in found["message"]
    assert result == RequestPlan(status=result.status)


def test_as_much_as_a_request_may_ask_for_is_granted() -> None:
    kinds = [f"k{number}s" for number in range(64)]
    named = [{"name": f"n{number}"} for number in range(256)]
    asked = request(
        resources=[resource(kind) for kind in kinds],
        permissionClaims=[claim(namedResources=named)],
    )
    result = plan(asked, crds=[crd(kind) for kind in kinds])
    assert phase(result) == "Succeeded"
    assert len(result.create_schemas) == 64


def test_a_request_may_name_a_hundred_namespaces() -> None:
    names = [{"name": f"n{number}"} for number in range(100)]
    schemas = [bound_schema(owner="widgets")]
    result = plan(request(namespaces=names), made=export(), schemas=schemas)
    assert len(result.create_namespaces) == 100


@pytest.mark.parametrize(
    ("given", "crds", "options", "reason"),
    [
        pytest.param(request(), [], OPTIONS, "SchemaNotFound", id="no such CRD"),
        pytest.param(
            request(resources=[resource(), resource("gadgets")]),
            [crd()],
            OPTIONS,
            "SchemaNotFound",
            id="one of two CRDs",
        ),
        pytest.param(
            request(resources=[resource(), resource("gadgets")]),
            [crd(), crd("gadgets", scope="Cluster")],
            OPTIONS,
            "DifferentScopes",
            id="different scopes",
        ),
        pytest.param(
            request(),
            [crd(scope="Cluster")],
            ProviderOptions(isolation="Namespaced"),
            "UnsupportedIsolation",
            id="cluster-scoped under Namespaced isolation",
        ),
        pytest.param(
            request(),
            [crd(versions=[{"name": "1.0", "storage": True, "served": True, "schema": {}}])],
            OPTIONS,
            "SchemaNotFound",
            id="a CRD that cannot be exported",
        ),
    ],
)
def test_what_is_missing_keeps_a_request_pending_and_is_told(
    given: Object, crds: list[Object], options: ProviderOptions, reason: str
) -> None:
    result = plan(given, crds=crds, options=options)
    assert phase(result) == "Pending"
    found = conditions(result.status)
    assert found["ExportsReady"]["reason"] == reason
    assert found["Ready"]["reason"] == reason
    assert not result.create_schemas
    assert result.create_export is None


def version(name: str = "v1", **fields: Any) -> JSON:
    known: JSON = {"served": True, "storage": name == "v1"}
    return {"name": name, "schema": {"openAPIV3Schema": {"type": "object"}}, **known, **fields}


def webhook(**client: Any) -> JSON:
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }


SERVICE = {"namespace": "tools", "name": "converter"}
_SPEC: JSON = {"type": "object", "properties": {"size": {"type": "integer"}}}
SIZED: JSON = {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}}}


@pytest.mark.parametrize(
    ("wanted", "made", "reason", "message"),
    [
        pytest.param(
            resource(),
            crd(conversion=webhook(service=SERVICE)),
            "UnsupportedConversion",
            "widgets.example.org cannot be exported: the webhook that converts its versions "
            "is Service tools/converter of the provider's cluster",
            id="conversion by a Service",
        ),
        pytest.param(
            resource(),
            crd(versions=[version(served=False)]),
            "SchemaNotFound",
            "it serves no version",
            id="no served version",
        ),
        pytest.param(
            resource(),
            crd(versions=[version("v1beta1"), version(served=False, **SIZED)]),
            "FieldsLost",
            "on the provider v1beta1 lacks .spec of v1, in which objects are stored. Serve "
            "the version that spec.versions marks with storage",
            id="no version keeps all fields",
        ),
        pytest.param(
            {"group": "", "resource": "configmaps"},
            crd(),
            "NotExportable",
            "spec.resources[0]: configmaps.core is a kind of Kubernetes or kube-bind itself, "
            "which each cluster has on its own and no provider can export: take it out of the "
            "request; objects of this kind can be shared by spec.permissionClaims",
            id="core group, claimable",
        ),
        pytest.param(
            {"group": "", "resource": "pods"},
            crd(),
            "NotExportable",
            "pods.core is a kind of Kubernetes",
            id="core group",
        ),
        pytest.param(
            {"group": "apps", "resource": "deployments"},
            crd(),
            "NotExportable",
            "deployments.apps is a kind of Kubernetes",
            id="of Kubernetes itself",
        ),
        pytest.param(
            {"group": "rbac.authorization.k8s.io", "resource": "clusterroles"},
            crd(),
            "NotExportable",
            "clusterroles.rbac.authorization.k8s.io is a kind of Kubernetes",
            id="of a protected group",
        ),
        pytest.param(
            {"group": "kube-bind.io", "resource": "apiserviceexports"},
            crd(),
            "NotExportable",
            "or kube-bind itself",
            id="of kube-bind itself",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_clear_condition(
    wanted: JSON, made: Object, reason: str, message: str
) -> None:
    result = plan(request(resources=[wanted]), crds=[made])
    # The consumer need not wait for a provider that has to change its CRD.
    assert phase(result) == ("Failed" if reason == "UnsupportedConversion" else "Pending")
    assert (result.create_schemas, result.create_export) == ([], None)
    found = conditions(result.status)
    assert set(found) == {"Ready", "ExportsReady", "PermissionClaim"}
    assert (found["ExportsReady"]["reason"], found["Ready"]["reason"]) == (reason, reason)
    assert message in found["ExportsReady"]["message"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(crd(), {"versions": ["v1"]}, id="no status subresource"),
        pytest.param(
            crd(versions=[version(subresources={"status": {}})]),
            {"versions": ["v1"], "subresources": {"status": {}}},
            id="status subresource",
        ),
        pytest.param(
            crd(versions=[version("v1beta1", served=False), version("v2"), version()]),
            {"versions": ["v1beta1", "v2", "v1"]},
            id="several versions",
        ),
        pytest.param(
            crd(versions=[version("v2"), version()], conversion={"strategy": "None"}),
            {"versions": ["v2", "v1"], "conversion": {"strategy": "None"}},
            id="several versions, no conversion",
        ),
        pytest.param(
            crd(conversion=webhook(url="https://convert.example.org/", caBundle="YQ==")),
            {
                "versions": ["v1"],
                "conversion": webhook(url="https://convert.example.org/", caBundle="YQ=="),
            },
            id="conversion by URL",
        ),
    ],
)
def test_unusual_crds_are_exported_whole(made: Object, expected: JSON) -> None:
    result = plan(request(), crds=[made])
    assert phase(result) == "Succeeded"
    (schema,) = result.create_schemas
    spec = schema["spec"]
    assert [item["name"] for item in spec["versions"]] == expected["versions"]
    assert spec.get("conversion") == expected.get("conversion")
    assert spec["versions"][0].get("subresources") == expected.get("subresources")


def test_an_export_outlives_a_change_that_cannot_be_exported() -> None:
    following = request(phase="Succeeded", schemaUpdatePolicy="Always")
    changed = crd(conversion=webhook(service=SERVICE))
    result = plan(
        following, made=export(), crds=[changed], schemas=[bound_schema(owner="widgets")]
    )
    assert phase(result) == "Succeeded"
    assert result.update_schemas == []
    assert conditions(result.status)["ExportsReady"]["reason"] == "UnsupportedConversion"


LESS, MORE = version("v1"), version("v2", storage=True, **SIZED)
BEFORE = bound_schema(owner="widgets", versions=[{**version(), "schema": {"type": "object"}}])


@pytest.mark.parametrize(
    ("versions", "lost"),
    [
        pytest.param([version(), version("v2", **SIZED)], "", id="another-version-is-served"),
        pytest.param(
            [LESS | {"storage": False}, MORE],
            "on the provider v1 lacks .spec of v2, in which objects are stored",
            id="more-is-stored",
        ),
        pytest.param(
            [version(storage=False), version("v2", storage=True)], "", id="no-more-is-stored"
        ),
        pytest.param([MORE], "", id="the-bound-version-is-gone-which-its-watch-tells"),
    ],
)
@pytest.mark.parametrize("policy", ["Never", "Always"])
def test_a_schema_that_does_not_follow_says_when_copies_would_lose_fields(
    versions: list[JSON], lost: str, policy: str
) -> None:
    given = request(schemaUpdatePolicy=policy, status={"phase": "Succeeded"})
    result = plan(given, made=export(), crds=[crd(versions=versions)], schemas=[BEFORE])
    ready = conditions(result.status)["ExportsReady"]
    assert phase(result) == "Succeeded"
    if not lost or policy == "Always":
        assert ready["status"] == "True"
        return
    assert ready["reason"] == "FieldsLost"
    assert lost in ready["message"]
    assert f"kubectl delete boundschema widgets.example.org -n {NS}" in ready["message"]


@pytest.mark.parametrize(
    ("versions", "order"),
    [
        pytest.param(
            [version("v1beta1"), version(**SIZED)], ["v1", "v1beta1"], id="the-stored-one-is-later"
        ),
        pytest.param(
            [
                version("v1alpha1", served=False),
                version("v1beta1"),
                version("v1beta2", **SIZED),
                version(served=False, **SIZED),
            ],
            ["v1beta2", "v1alpha1", "v1beta1", "v1"],
            id="another-has-all-fields",
        ),
        pytest.param(
            [version("v1beta1", served=False), version(**SIZED)],
            ["v1beta1", "v1"],
            id="it-is-the-first-that-is-served",
        ),
    ],
)
def test_the_first_served_version_of_a_schema_is_the_one_that_takes_no_field(
    versions: list[JSON], order: list[str]
) -> None:
    """kube-bind's konnector writes in the first one."""
    result = plan(request(), crds=[crd(versions=versions)])
    (schema,) = result.create_schemas
    assert [one["name"] for one in schema["spec"]["versions"]] == order


def test_an_export_follows_a_crd_without_a_version_that_keeps_all_fields() -> None:
    """The konnector writes nothing then; with the former schema it would go on, and lose them."""
    following = request(schemaUpdatePolicy="Always", status={"phase": "Succeeded"})
    lossy = crd(versions=[version("v1beta1"), version(served=False, **SIZED)])
    result = plan(following, made=export(), crds=[lossy], schemas=[bound_schema(owner="widgets")])
    ((_, body),) = result.update_schemas
    assert [one["served"] for one in body["spec"]["versions"]] == [True, False]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (request(schemaUpdatePolicy="Always"), True),
        (request(schemaUpdatePolicy="Never"), False),
        (request(), False),
        (request(phase="Failed", schemaUpdatePolicy="Always"), False),
    ],
)
def test_requests_that_follow_their_crds(given: Object, *, expected: bool) -> None:
    assert follows(given) is expected


def test_a_missing_crd_is_named_with_the_label_it_needs() -> None:
    message = conditions(plan(request(), crds=[]).status)["ExportsReady"]["message"]
    assert "spec.resources[0]: widgets.example.org" in message
    assert "kube-bind.io/exported=true" in message


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(request(phase="Failed", permissionClaims=[claim("pods")]), id="failed"),
        pytest.param(
            request(metadata={"deletionTimestamp": NOW, "finalizers": ["x/y"]}), id="deleting"
        ),
    ],
)
def test_finished_and_deleted_requests_are_left_alone(given: Object) -> None:
    assert plan(given) == RequestPlan()


def test_schemas_get_the_export_as_their_owner() -> None:
    result = plan(request(), made=export(), schemas=[bound_schema()])
    ((stored, body),) = result.update_schemas
    assert stored.meta.name == "widgets.example.org"
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["name"], owner["uid"], owner["controller"]) == (
        "widgets",
        "uid-widgets",
        True,
    )


def test_a_schema_of_another_export_is_not_taken() -> None:
    result = plan(request(), schemas=[bound_schema(owner="other")])
    found = conditions(result.status)["ExportsReady"]
    assert found["reason"] == "BoundSchemaConflict"
    assert "APIServiceExport other" in found["message"]
    assert result.create_export is None


def hashed(schema: Object, value: str) -> Object:
    body = schema.to_dict()
    annotations = {"kube-bind.io/source-spec-hash": value}
    return kube(
        "BoundSchema",
        schema.meta.name,
        spec=body["spec"],
        annotations=annotations,
        ownerReferences=body["metadata"]["ownerReferences"],
    )


CURRENT = spec_hash(
    bound_schema_spec(crd().to_dict(), informer_scope="Namespaced", isolation="Prefixed")
)


@pytest.mark.parametrize(
    ("policy", "stored_hash", "updates"),
    [
        pytest.param("Always", "old", 1, id="always, and changed"),
        pytest.param("Always", CURRENT, 0, id="always, and unchanged"),
        pytest.param("Never", "old", 0, id="never"),
    ],
)
def test_schema_update_policy(policy: str, stored_hash: str, updates: int) -> None:
    stored = hashed(bound_schema(owner="widgets"), stored_hash)
    given = request(phase="Succeeded", schemaUpdatePolicy=policy)
    result = plan(given, made=export(), schemas=[stored])
    assert len(result.update_schemas) == updates
    for _, body in result.update_schemas:
        assert body["metadata"]["annotations"]["kube-bind.io/source-spec-hash"] == CURRENT


def test_a_succeeded_request_does_not_need_its_crd_any_more() -> None:
    given = request(phase="Succeeded")
    result = plan(given, made=export(), crds=[], schemas=[bound_schema(owner="widgets")])
    assert conditions(result.status)["Ready"]["status"] == "True"


def test_a_lost_schema_is_made_again() -> None:
    result = plan(request(phase="Succeeded"), made=export())
    (schema,) = result.create_schemas
    assert schema["metadata"]["ownerReferences"][0]["name"] == "widgets"


def test_a_deleted_export_stays_deleted() -> None:
    result = plan(request(phase="Succeeded"))
    assert result.create_export is None
    assert not result.create_schemas
    assert phase(result) == "Succeeded"
    assert conditions(result.status)["Ready"]["reason"] == "APIServiceExportNotFound"


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"resources": [resource(), resource("gadgets")]}, id="resources"),
        pytest.param({"permissionClaims": [claim("configmaps")]}, id="permissionClaims"),
    ],
)
def test_a_request_that_was_widened_later_changes_nothing(changed: JSON) -> None:
    result = plan(request(phase="Succeeded", **changed), made=export())
    found = conditions(result.status)["ExportsReady"]
    assert found["reason"] == "ImmutableFieldChanged"
    assert next(iter(changed)) in found["message"]
    assert not result.create_schemas


def test_namespaces_are_prepared_once_the_export_can_own_them() -> None:
    given = request(namespaces=[{"name": "shop"}, {"name": "known"}])
    assert plan(given).create_namespaces == []
    result = plan(given, made=export(), namespaces=["known"])
    (namespace,) = result.create_namespaces
    assert namespace["metadata"]["name"] == "shop"
    assert namespace["metadata"]["labels"] == {"kube-bind.io/owner": "provider"}
    assert namespace["metadata"]["ownerReferences"][0]["kind"] == "APIServiceExport"


def test_a_settled_request_is_stored_as_it_is() -> None:
    first = plan(request(), made=export(), schemas=[bound_schema(owner="widgets")])
    assert first.status is not None
    stored = kube(
        "APIServiceExportRequest",
        spec={"resources": [resource()]},
        status=first.status["status"],
    )
    again = reconcile(
        RequestState(
            stored,
            export(),
            {"widgets.example.org": crd()},
            {"widgets.example.org": bound_schema(owner="widgets")},
            frozenset(),
        ),
        OPTIONS,
        now="2027-01-01T00:00:00Z",
    )
    assert again == RequestPlan(status=stored.to_dict())


def invited(*plurals: str, versions: tuple[str, ...] = ("v1",)) -> Offer:
    resources = [
        ExportResource(group="example.org", resource=plural, versions=list(versions))
        for plural in plurals
    ]
    spec = TemplateSpec(scope="Namespaced", resources=resources)
    return Offer(InvitationRecord(("postgres",)), {"postgres": spec})


UNRECORDED = Offer(InvitationRecord(), {})
REVOKED = Offer(InvitationRecord((), revoked=True), {})


def refused(result: RequestPlan) -> str:
    """The message of a plan that does nothing but refuse."""
    assert (result.create_schemas, result.update_schemas, result.create_export) == ([], [], None)
    assert phase(result) == "Failed"
    assert result.status is not None
    told = conditions(result.status)["ExportsReady"]
    assert (told["status"], told["severity"], told["reason"]) == ("False", "Error", "NotInvited")
    assert result.status["status"]["terminalMessage"] == told["message"] == result.excess
    message: str = told["message"]
    return message


def test_a_request_within_its_template_is_exported() -> None:
    result = plan(request(), offer=invited("widgets"))
    assert result.create_export is not None
    assert (phase(result), result.excess) == ("Succeeded", "")


@pytest.mark.parametrize(
    ("offer", "told"),
    [
        pytest.param(invited("gadgets"), "template postgres offers gadgets", id="another kind"),
        pytest.param(
            invited("widgets", versions=("v2",)), "invitation has v2", id="another version"
        ),
        pytest.param(UNRECORDED, "there is no record of", id="invited before there was a record"),
        pytest.param(REVOKED, "revoking this", id="being revoked"),
    ],
)
def test_a_request_beyond_its_template_is_refused(offer: Offer, told: str) -> None:
    assert told in refused(plan(request(), offer=offer))


def test_a_refusal_does_not_tell_which_kinds_there_are() -> None:
    there = plan(request(), offer=invited("gadgets"))
    assert refused(there) == refused(plan(request(), crds=[], offer=invited("gadgets")))


def test_a_refused_request_goes_on_once_its_consumer_is_invited() -> None:
    no = plan(request(), offer=invited("gadgets"))
    assert no.status is not None
    stored = kube("APIServiceExportRequest", spec=no.status["spec"], status=no.status["status"])
    assert refused(plan(stored, offer=invited("gadgets")))
    result = plan(stored, offer=invited("widgets"))
    assert result.create_export is not None
    assert phase(result) == "Succeeded"
    assert result.status is not None
    assert "terminalMessage" not in result.status["status"]


def test_a_request_whose_schema_the_crd_refuses_fails_until_the_crd_is_upgraded() -> None:
    body = refused_schema(request(), "Duplicate value", now=NOW)
    assert body["status"]["phase"] == "Failed"
    assert conditions(body)["ExportsReady"]["reason"] == "BoundSchemaRefused"
    assert "Upgrade the provider (Duplicate value)" in body["status"]["terminalMessage"]
    stored = kube("APIServiceExportRequest", spec=body["spec"], status=body["status"])
    assert phase(plan(stored)) == "Succeeded"
    followed = request(phase="Succeeded")
    assert refused_schema(followed, "", now=NOW)["status"]["phase"] == "Succeeded"


def test_a_refused_request_that_is_invited_may_still_have_to_wait() -> None:
    no = plan(request(), offer=invited("gadgets"))
    assert no.status is not None
    stored = kube("APIServiceExportRequest", spec=no.status["spec"], status=no.status["status"])
    result = plan(stored, crds=[], offer=invited("widgets"))
    assert phase(result) == "Pending"
    assert conditions(result.status)["ExportsReady"]["reason"] == "SchemaNotFound"


NEWER = crd(versions=[{"name": "v2", "served": True, "storage": True, "schema": {}}])


@pytest.mark.parametrize(
    ("offer", "policy", "followed", "told"),
    [
        pytest.param(None, "Always", True, "", id="any request is allowed"),
        pytest.param(invited("widgets"), "Always", True, "", id="what it was invited to"),
        pytest.param(UNRECORDED, "Always", True, "", id="invited before there was a record"),
        pytest.param(invited("gadgets"), "Always", False, "stays as it is", id="not any more"),
        pytest.param(REVOKED, "Always", False, "stays as it is", id="being revoked"),
        pytest.param(invited("gadgets"), "Never", False, "", id="nothing to follow"),
    ],
)
def test_an_export_stays_and_its_schemas_follow_as_far_as_the_template_goes(
    offer: Offer | None, policy: str, followed: bool, told: str
) -> None:
    result = plan(
        request(phase="Succeeded", schemaUpdatePolicy=policy),
        made=export(),
        crds=[NEWER],
        schemas=[bound_schema(owner="widgets")],
        offer=offer,
    )
    assert phase(result) == "Succeeded"
    updated = [body["spec"]["versions"][0]["name"] for _, body in result.update_schemas]
    assert updated == (["v2"] if followed else [])
    ready = conditions(result.status)["ExportsReady"]
    assert told in ready.get("message", "")
    assert ready["status"] == ("False" if told else "True")


def test_a_schema_that_an_export_has_lost_is_made_again_whatever_the_template_says() -> None:
    result = plan(request(phase="Succeeded"), made=export(), offer=invited("gadgets"))
    assert len(result.create_schemas) == 1
