from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
import yaml

from fairlead.api.kubebind import (
    APIServiceExportTemplate,
    AuthenticationMethod,
    BindingProvider,
    BoundSchemaSpec,
    Error,
    ErrorCode,
    ExportResource,
    GroupResource,
    Isolation,
    OAuth2CodeGrantMethod,
    bound_schema_spec,
    consumer_crds,
    crd_from_bound_schema,
    decode_binding_response,
    decode_export_requests,
    new_binding_response,
    new_bound_schema,
    provider_crds,
    request_from_template,
)
from fairlead.api.meta import JSON, OwnerReference


SCHEMA: JSON = {"type": "object", "properties": {"spec": {"type": "object"}}}


def crd(*, scope: str = "Namespaced", **spec: Any) -> JSON:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "deprecated": True,
        "deprecationWarning": "use v2",
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
        },
        "additionalPrinterColumns": [{"name": "Age", "type": "date", "jsonPath": ".metadata.x"}],
    }
    names = {
        "kind": "Widget",
        "plural": "widgets",
        "singular": "widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
        "categories": ["all"],
    }
    body = {"group": "example.org", "names": names, "scope": scope, "versions": [version], **spec}
    return {"metadata": {"name": "widgets.example.org", "labels": {"x": "y"}}, "spec": body}


def convert(body: JSON, isolation: Isolation = "Prefixed") -> BoundSchemaSpec:
    return bound_schema_spec(body, informer_scope="Namespaced", isolation=isolation)


def test_a_crd_survives_the_way_to_the_consumer() -> None:
    result = crd_from_bound_schema(convert(crd()))
    assert result["spec"] == crd()["spec"]
    assert result["metadata"] == {"name": "widgets.example.org"}


def test_a_bare_schema_is_wrapped_for_the_crd() -> None:
    spec = msgspec.to_builtins(convert(crd()))
    spec["versions"][0]["schema"] = SCHEMA
    bare = msgspec.convert(spec, BoundSchemaSpec)
    result = crd_from_bound_schema(bare)
    assert result["spec"]["versions"][0]["schema"] == {"openAPIV3Schema": SCHEMA}


@pytest.mark.parametrize(
    ("conversion", "expected"),
    [
        pytest.param({"strategy": "None"}, {"strategy": "None"}, id="none"),
        pytest.param(
            {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"url": "https://x", "caBundle": "Zm8=", "service": {}},
                    "conversionReviewVersions": ["v1"],
                },
            },
            {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"url": "https://x", "caBundle": "Zm8="},
                    "conversionReviewVersions": ["v1"],
                },
            },
            id="webhook by url",
        ),
        pytest.param(
            {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "s"}}}},
            None,
            id="webhook by service is dropped",
        ),
    ],
)
def test_conversion(conversion: JSON, expected: JSON | None) -> None:
    result = crd_from_bound_schema(convert(crd(conversion=conversion)))
    assert result["spec"].get("conversion") == expected


@pytest.mark.parametrize(
    ("scope", "isolation", "expected"),
    [
        ("Namespaced", "Prefixed", "Namespaced"),
        ("Namespaced", "None", "Namespaced"),
        ("Namespaced", "Namespaced", "Cluster"),
        ("Cluster", "Namespaced", "Cluster"),
        ("Cluster", "Prefixed", "Cluster"),
    ],
)
def test_namespaced_isolation_flips_the_scope(
    scope: str, isolation: Isolation, expected: str
) -> None:
    assert convert(crd(scope=scope), isolation).scope == expected


def test_versions_of_a_bound_schema() -> None:
    versions = crd()["spec"]["versions"]
    old = versions[0] | {"name": "v1alpha1", "served": False, "storage": False}
    new = versions[0] | {"name": "v2", "storage": False}
    spec = convert(crd(versions=[old, new, versions[0]]))
    assert spec.served == ["v2", "v1"]
    assert [one.name for one in spec.kind_versions().versions if one.storage] == ["v1"]
    resource = spec.resource("v2")
    assert (resource.version, resource.plural, resource.namespaced) == ("v2", "widgets", True)


def test_a_bound_schema_carries_its_hash_and_owner() -> None:
    owner = OwnerReference("kube-bind.io/v1alpha2", "APIServiceExport", "e", "u", controller=True)
    body = new_bound_schema(convert(crd()), namespace="ns", owner=owner)
    assert body["metadata"]["name"] == "widgets.example.org"
    assert len(body["metadata"]["annotations"]["kube-bind.io/source-spec-hash"]) == 64
    assert body["metadata"]["ownerReferences"][0]["controller"] is True


def test_core_resources_have_a_name_of_their_own() -> None:
    assert ExportResource(resource="secrets").name == "secrets.core"
    assert GroupResource(resource="secrets").name == "secrets.core"
    body = crd(group="", names={"kind": "Secret", "plural": "secrets"})
    assert convert(body).name == "secrets.core"
    assert new_bound_schema(convert(body), namespace="ns")["metadata"]["name"] == "secrets.core"


def test_each_cluster_has_its_own_crds() -> None:
    consumer = {body["spec"]["names"]["kind"] for body in consumer_crds()}
    assert consumer == {"APIServiceBinding", "APIServiceBindingBundle"}
    assert not consumer & {body["spec"]["names"]["kind"] for body in provider_crds()}


TEMPLATE: JSON = {
    "metadata": {"name": "widgets"},
    "spec": {
        "scope": "Namespaced",
        "resources": [{"group": "example.org", "resource": "widgets", "versions": ["v1"]}],
        "permissionClaims": [
            {"group": "", "resource": "secrets", "selector": {"labelSelector": {}}}
        ],
        "schemaUpdatePolicy": "Always",
    },
}


def test_a_template_becomes_a_request_with_a_name_only() -> None:
    template = msgspec.convert(TEMPLATE, APIServiceExportTemplate)
    request = request_from_template(template.spec, name="mine")
    assert request["metadata"] == {"name": "mine"}
    assert request["kind"] == "APIServiceExportRequest"
    assert request["spec"] == {
        key: TEMPLATE["spec"][key]
        for key in ("resources", "permissionClaims", "schemaUpdatePolicy")
    }


def test_a_binding_response_goes_over_the_wire_and_back() -> None:
    template = msgspec.convert(TEMPLATE, APIServiceExportTemplate)
    body = new_binding_response(
        kubeconfig=b"kube: config",
        requests=[request_from_template(template.spec, name="mine")],
        provider_namespace="ns",
        identity="shop",
    )
    assert body["kubeconfig"] == base64.b64encode(b"kube: config").decode()
    response = decode_binding_response(msgspec.json.encode(body))
    assert response.kubeconfig == b"kube: config"
    assert response.requests[0].metadata.name == "mine"
    assert response.provider_namespace == "ns"
    # kube-bind's `deploy` refuses a response without it.
    assert body["authentication"] == {"oauth2CodeGrant": {"sid": "ns", "id": "shop"}}


ANSWER = """
apiVersion: kube-bind.io/v1alpha2
kind: BindingResourceResponse
authentication: {}
kubeconfig: a3ViZTogY29uZmln
requests: null
"""
REQUEST = """
apiVersion: kube-bind.io/v1alpha2
kind: APIServiceExportRequest
metadata: {name: mine, namespace: theirs, creationTimestamp: null}
spec:
  permissionClaims: null
  resources: [{group: example.org, resource: things, versions: [v1]}]
status: {}
"""
TABBED = json.dumps(yaml.safe_load(ANSWER), indent="\t")
ASKING = ANSWER.replace("requests: null", f"requests: [{json.dumps(yaml.safe_load(REQUEST))}]")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(ANSWER, [], id="YAML, no requests"),
        pytest.param(ANSWER.replace("requests: null", ""), [], id="requests absent"),
        pytest.param(TABBED, [], id="JSON with tabs"),
        pytest.param("\ufeff" + ANSWER, [], id="byte order mark"),
        pytest.param(ANSWER.replace("BindingResource", "Binding"), [], id="the other kind"),
        pytest.param(ASKING, ["mine"], id="as Go writes a request"),
        pytest.param("---\n" + ANSWER + "\n---\n", [], id="with separators"),
    ],
)
def test_both_answers_are_read_from_yaml_and_json(text: str, names: list[str]) -> None:
    response = decode_binding_response(text.encode())
    assert response.kubeconfig == b"kube: config"
    assert [request.metadata.name for request in response.requests] == names


BOMB = "a: &a [1]\nb: &b [*a, *a]\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "^it is empty$", id="empty"),
        pytest.param(b" \n\t", "^it is empty$", id="blank"),
        pytest.param(b"# nothing\n---\n", "^it is empty$", id="comments"),
        pytest.param(b"{", "^it is not valid YAML: .*line 2", id="cut off"),
        pytest.param(b"\xff\xfe{\x00", "is not UTF-8", id="UTF-16"),
        pytest.param(b"a: \x00", "unacceptable character", id="binary"),
        pytest.param(b"[]", "not an object", id="not an object"),
        pytest.param(b"hello", "not an object", id="a word"),
        pytest.param(b"[" * 100, "nested more than 64", id="deep"),
        pytest.param(b'{"a":' * 9000, "nested more than 64", id="deep and cut off"),
        pytest.param(BOMB.encode(), "aliases", id="aliases"),
        pytest.param(b"a: !!python/name:os.system x", "it is not valid YAML", id="tags"),
        pytest.param(b'{"apiVersion":"v1","kind":"Secret"}', "'Secret'.*-o js", id="Secret"),
        pytest.param(b"apiVersion: v1\nkind: Config\n", "it is a kubeconfig", id="kubeconfig"),
        pytest.param(REQUEST.encode(), "--request", id="a request"),
        pytest.param(f"{ANSWER}---{ANSWER}".encode(), "2 documents", id="two of them"),
        pytest.param(
            ANSWER.replace("v1alpha2", "v1alpha1").encode(),
            "apiVersion 'kube-bind.io/v1alpha1'$",
            id="other version",
        ),
        pytest.param(
            ANSWER.replace("a3ViZTog", "???").encode(), "kubeconfig", id="kubeconfig no base64"
        ),
        pytest.param(
            ANSWER.replace("requests: null", "requests: [{}]").encode(),
            r"requests\[0\]",
            id="request without spec",
        ),
        pytest.param(
            ASKING.replace("APIServiceExportRequest", "Other").encode(),
            r"requests\[0\] is not an APIServiceExportRequest.*'Other'",
            id="request of another kind",
        ),
    ],
)
def test_what_is_no_binding_response_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        decode_binding_response(data)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(REQUEST, ["mine"], id="one"),
        pytest.param(f"{REQUEST}---{REQUEST}", ["mine", "mine"], id="two documents"),
        pytest.param(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(REQUEST)]}),
            ["mine"],
            id="as kubectl lists them",
        ),
    ],
)
def test_requests_are_read_as_a_person_keeps_them(text: str, names: list[str]) -> None:
    assert [one.metadata.name for one in decode_export_requests(text.encode())] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "it is empty", id="empty"),
        pytest.param(ANSWER, "no APIServiceExportRequest", id="an answer"),
        pytest.param("kind: List\nitems: [1]\n", "not an object", id="list of numbers"),
        pytest.param(REQUEST.replace("spec:", "x:"), "spec", id="without spec"),
        pytest.param(
            REQUEST.replace("resources:", "resource:"),
            r"APIServiceExportRequest mine: spec\.resource: .* did you mean resources\?",
            id="unknown field",
        ),
    ],
)
def test_what_is_no_request_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_export_requests(text.encode())


def test_a_provider_says_how_to_be_let_in() -> None:
    grant = OAuth2CodeGrantMethod(authenticated_url="https://p.example/api/authorize")
    method = AuthenticationMethod(method="OAuth2CodeGrant", oauth2_code_grant=grant)
    provider = BindingProvider(
        version="v1", provider_pretty_name="Acme", authentication_methods=[method]
    )
    assert msgspec.to_builtins(provider) == {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BindingProvider",
        "version": "v1",
        "providerPrettyName": "Acme",
        "authenticationMethods": [
            {
                "method": "OAuth2CodeGrant",
                "oauth2CodeGrant": {"authenticatedURL": "https://p.example/api/authorize"},
            }
        ],
    }


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_goes_over_the_wire_and_back(code: ErrorCode) -> None:
    error = Error(message="no", code=code, details="because")
    data = msgspec.json.encode(error)
    assert msgspec.json.decode(data) == {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "Error",
        "message": "no",
        "code": code.value,
        "details": "because",
    }
    assert msgspec.json.decode(data, type=Error) == error


def test_an_error_of_a_later_provider_is_still_read() -> None:
    data = b'{"kind":"Error","message":"slow down","code":"TOO_MANY"}'
    assert msgspec.json.decode(data, type=Error).code == "TOO_MANY"


def test_the_empty_group_is_written_so_that_a_default_is_no_difference() -> None:
    assert msgspec.to_builtins(ExportResource(resource="secrets")) == {
        "group": "",
        "resource": "secrets",
    }
