"""Conversion webhooks: which URLs can be accepted, and what a binding installs of them."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import msgspec
import pytest
from tests.unit.konnector.test_apiservicebinding import (
    BINDING,
    CRD_NAME,
    FOREIGN,
    NOW,
    OWNER,
    SCHEMA,
    connected,
    state,
)

from fairlead.api.definitions import CRDNames, CRDSpec, CRDVersion
from fairlead.api.kubebind import (
    APIServiceBinding,
    BoundSchemaSpec,
    ConversionWebhook,
    crd_from_bound_schema,
)
from fairlead.api.kubebind.conditions import get_condition
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.konnector.controllers.apiservicebinding.reconcile import (
    BindingState,
    adopted_conversions,
    reconcile,
    status,
)
from fairlead.konnector.controllers.conversions.reconcile import (
    FailingWebhook,
    failed_conversion,
    held_namespaces,
)
from fairlead.konnector.controllers.conversions.reconcile import reconcile as dead
from fairlead.konnector.conversions import (
    acceptance,
    lacks_conversion,
    refused_webhook,
    shown_url,
)


A = "https://convert.example.org/things"
B = "https://169.254.169.254/latest"


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(A, id="host"),
        pytest.param("https://convert:8443", id="short host and port"),
        pytest.param("https://8.8.8.8/x", id="public IPv4"),
        pytest.param("https://[2606:4700:4700::1111]:443/x", id="public IPv6"),
        pytest.param("https://10.0.0.7.example.org", id="host that begins like an address"),
    ],
)
def test_a_url_that_can_be_accepted(url: str) -> None:
    assert refused_webhook(url) == ""


@pytest.mark.parametrize(
    ("url", "why"),
    [
        pytest.param("", "an https URL", id="empty"),
        pytest.param("http://convert.example.org", "an https URL", id="http"),
        pytest.param("https://convert.example.org/?a=1", "an https URL", id="query"),
        pytest.param("https://convert.example.org#a", "an https URL", id="fragment"),
        pytest.param("https://a:b@convert.example.org", "an https URL", id="user"),
        pytest.param("https://127.0.0.1\t.example.org", "an https URL", id="control character"),
        pytest.param("https://exam\u200bple.org", "an https URL", id="invisible character"),
        pytest.param("https://[fe80::1%25eth0]/", "an https URL", id="zone"),
        pytest.param("https://" + "a" * 1100, "longer than", id="too long"),
        pytest.param("https://127.0.0.1/x", "loopback", id="loopback"),
        pytest.param("https://127.0.0.1.:6443", "loopback", id="loopback with a dot"),
        pytest.param("https://[::1]", "loopback", id="IPv6 loopback"),
        pytest.param("https://[::ffff:127.0.0.1]", "loopback", id="loopback in IPv6"),
        pytest.param("https://[64:ff9b::7f00:1]", "loopback", id="loopback by NAT64"),
        pytest.param("https://LocalHost:6443", "loopback", id="localhost"),
        pytest.param("https://a.localhost.", "loopback", id="name below localhost"),
        pytest.param(B, "metadata", id="metadata service"),
        pytest.param("https://127.1", "is not an address", id="short address"),
        pytest.param("https://2130706433", "is not an address", id="address as a number"),
        pytest.param("https://0x7f.0.0.0x1", "is not an address", id="address in hex"),
        pytest.param("https://0177.0.0.1", "is not an address", id="address in octal"),
        pytest.param("https://10.0.0.7", "private", id="private"),
        pytest.param("https://[fd00::7]", "private", id="private IPv6"),
    ],
)
def test_a_url_that_cannot_be_accepted(url: str, why: str) -> None:
    assert why in refused_webhook(url)


def test_a_private_address_needs_its_network() -> None:
    networks = (ip_network("10.0.0.0/24"),)
    assert refused_webhook("https://10.0.0.7", networks) == ""
    assert "private" in refused_webhook("https://10.0.1.7", networks)
    assert "loopback" in refused_webhook("https://127.0.0.1", (ip_network("127.0.0.0/8"),))


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        pytest.param(A, f"`fairlead accept b --conversion-webhook {A}`", id="host"),
        pytest.param("https://10.0.0.7", "--conversion-allow-cidr NETWORK`", id="private"),
        pytest.param(B, "cannot be accepted", id="never"),
    ],
)
def test_the_remedy_says_whether_it_can_be_accepted(url: str, remedy: str) -> None:
    assert remedy in acceptance("b", url)


def test_a_url_is_shown_without_what_a_terminal_obeys() -> None:
    assert shown_url("https://a\x1b[2J\n") == "https://a?[2J?"
    assert len(shown_url("https://" + "a" * 100_000)) < 300


def schema(url: str, **more: Any) -> BoundSchemaSpec:
    body = msgspec.to_builtins(SCHEMA) | more
    if url:
        body["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": url}}}
    return msgspec.convert(body, BoundSchemaSpec)


def installed(url: str, owner: Any = OWNER, **metadata: Any) -> dict[str, Object]:
    body = crd_from_bound_schema(schema(url), owner=owner)
    body["metadata"] |= metadata
    body["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    return {CRD_NAME: object_from_dict(body)}


def binding(*accepted: str, known: bool = True) -> APIServiceBinding:
    webhooks = [{"group": "example.org", "resource": "things", "url": url} for url in accepted]
    found: JSON = {"boundSchemas": [{"group": "example.org", "resource": "things"}]}
    if known:
        found["conversionWebhooks"] = webhooks
    return msgspec.convert({**BINDING, "status": found}, APIServiceBinding)


def wished(found: BindingState) -> str:
    """The URL that the plan writes into the CRD; "-" if it writes none."""
    writes = reconcile(found).writes
    if not writes:
        return "-"
    conversion = writes[0].body["spec"].get("conversion") or {}
    return str(conversion.get("webhook", {}).get("clientConfig", {}).get("url", ""))


def differ(wanted: JSON, found: Object) -> bool:
    return bool(wanted["spec"] == found.to_dict()["spec"])


def urls(found: BindingState) -> list[str]:
    webhooks = status(found, reconcile(found), [], now=NOW).conversion_webhooks
    assert webhooks is not None
    return [known.url for known in webhooks]


NEW: dict[str, Any] = {"crds": {}}
DELETING = {"deletionTimestamp": NOW, "finalizers": ["customresourcecleanup"]}


@pytest.mark.parametrize(
    ("given", "written", "said", "recorded"),
    [
        pytest.param(
            {"binding": binding(known=False), "schemas": schema(A), **NEW},
            "-",
            ("Connected", A),
            [],
            id="first-bind-asked",
        ),
        pytest.param(
            {"binding": binding(A), "schemas": schema(A), **NEW},
            A,
            None,
            [A],
            id="first-bind-accepted",
        ),
        pytest.param(
            {"binding": binding(B), "schemas": schema(A), **NEW},
            "-",
            ("Connected", A),
            [B],
            id="first-bind-another-accepted",
        ),
        pytest.param(
            {"binding": binding(), "schemas": schema(A), "crds": installed("")},
            "-",
            ("SchemaInSync", A),
            [],
            id="webhook-after-the-bind-asked",
        ),
        pytest.param(
            {"binding": binding(A), "schemas": schema(A), "crds": installed("")},
            A,
            None,
            [A],
            id="webhook-after-the-bind-accepted",
        ),
        pytest.param(
            {"binding": binding(A), "schemas": schema(B), "crds": installed(A)},
            "-",
            ("SchemaInSync", "169.254.169.254"),
            [A],
            id="another-webhook-asked-the-accepted-one-stays",
        ),
        pytest.param(
            {"binding": binding(A), "schemas": schema(""), "crds": installed(A)},
            "",
            None,
            [A],
            id="webhook-gone-needs-no-acceptance",
        ),
        pytest.param(
            {"binding": binding(), "schemas": schema(A), "crds": installed(A)},
            "",
            ("SchemaInSync", A),
            [],
            id="withdrawn-is-taken-away",
        ),
        pytest.param(
            {"binding": binding(), "schemas": schema(B), "crds": installed(A)},
            "",
            ("SchemaInSync", "169.254.169.254"),
            [],
            id="withdrawn-and-another-named",
        ),
        pytest.param(
            {"binding": binding(known=False), "schemas": schema(A), "crds": installed(A)},
            "-",
            None,
            [A],
            id="former-version-counts-as-accepted",
        ),
        pytest.param(
            {"binding": binding(known=False), "schemas": schema(B), "crds": installed(A)},
            "-",
            ("SchemaInSync", "169.254.169.254"),
            [A],
            id="former-version-and-another-named",
        ),
        pytest.param(
            {"binding": binding(known=False), "export": None, "crds": installed(A)},
            "-",
            ("Connected", ""),
            [A],
            id="former-version-without-export",
        ),
        pytest.param(
            {"binding": binding(known=False), "schemas": schema(A), "crds": FOREIGN},
            "-",
            ("Connected", ""),
            [],
            id="former-version-foreign-crd-counts-for-nothing",
        ),
        pytest.param(
            {
                "binding": binding(),
                "schemas": schema(A),
                "crds": installed("", ownerReferences=[]),
            },
            "",
            ("SchemaInSync", A),
            [],
            id="restored-gets-its-owner-and-no-webhook",
        ),
        pytest.param(
            {"binding": binding(), "schemas": schema(A), "crds": installed(A, **DELETING)},
            "-",
            ("SchemaInSync", A),
            [],
            id="crd-in-deletion-is-not-written",
        ),
    ],
)
def test_a_webhook_is_installed_only_after_it_was_accepted(
    given: dict[str, Any], written: str, said: tuple[str, str] | None, recorded: list[str]
) -> None:
    schemas = {CRD_NAME: given["schemas"]} if "schemas" in given else {}
    found = state(**{**given, "schemas": schemas, "converged": differ})
    assert wished(found) == written
    told = status(found, reconcile(found), [], now=NOW).conditions
    if said is None:
        assert connected(reconcile(found)).status == "True"
        assert all(one.reason != "WebhookNotAccepted" for one in told)
    else:
        type_, text = said
        condition = get_condition(told, type_)
        assert condition is not None
        assert condition.status == "False"
        assert text in condition.message
        assert (condition.reason == "WebhookNotAccepted") == bool(text)
    assert urls(found) == recorded


def test_nothing_of_a_schema_is_taken_over_before_its_webhook_is_accepted() -> None:
    """The server would convert to new versions without the webhook, and drop fields."""
    version = msgspec.to_builtins(SCHEMA)["versions"][0]
    both = [version | {"name": "v2"}, version | {"served": True, "storage": False}]
    found = state(
        binding=binding(),
        schemas={CRD_NAME: schema(A, versions=both)},
        crds=installed(""),
        converged=differ,
    )
    assert reconcile(found).writes == []
    agreed = msgspec.structs.replace(found, binding=binding(A))
    assert len(reconcile(agreed).writes[0].body["spec"]["versions"]) == 2


def test_what_a_former_version_installed_is_told_once() -> None:
    found = state(binding=binding(known=False), schemas={CRD_NAME: schema(A)}, crds=installed(A))
    assert [known.url for known in adopted_conversions(found)] == [A]
    recorded = status(found, reconcile(found), [], now=NOW)
    body = {**BINDING, "status": msgspec.to_builtins(recorded)}
    again = state(
        binding=msgspec.convert(body, APIServiceBinding),
        schemas={CRD_NAME: schema(A)},
        crds=installed(A),
    )
    assert adopted_conversions(again) == []


def test_an_acceptance_for_one_kind_is_none_for_another() -> None:
    other = ConversionWebhook(group="example.org", resource="others", url=A)
    known = binding()
    known.status = msgspec.structs.replace(known.status, conversion_webhooks=[other])
    found = state(binding=known, schemas={CRD_NAME: schema(A)}, crds={})
    assert reconcile(found).writes == []
    assert connected(reconcile(found)).reason == "WebhookNotAccepted"


def test_what_a_person_accepts_in_between_is_kept() -> None:
    """A pass that began before the acceptance writes its status after it."""
    began = state(binding=binding(known=False), schemas={CRD_NAME: schema(A)}, crds={})
    later = msgspec.structs.replace(began, binding=binding(A))
    found = status(later, reconcile(began), [], now=NOW)
    assert [known.url for known in found.conversion_webhooks or []] == [A]


KIND = CRDSpec("example.org", CRDNames("things", "Thing"), [CRDVersion("v1", served=True)])
REFUSED = 'Post "https://convert.example.org/?timeout=30s": connection refused'
FAILED = f"conversion webhook for example.org/v1, Kind=Thing failed: {REFUSED}"


@pytest.mark.parametrize(
    ("message", "part"),
    [
        pytest.param(FAILED, FAILED, id="object"),
        pytest.param(f"object not decodable: {FAILED}", FAILED, id="within-another-message"),
        pytest.param(FAILED.replace("Thing", "ThingList"), "Kind=ThingList", id="list"),
        pytest.param(FAILED.replace("example.org/", "other.org/"), "", id="another-group"),
        pytest.param(FAILED.replace("Kind=Thing", "Kind=Other"), "", id="another-kind"),
        pytest.param("etcdserver: request timed out", "", id="another-fault"),
    ],
)
def test_a_failed_conversion_is_known_by_the_servers_message(message: str, part: str) -> None:
    found = failed_conversion(message, KIND)
    assert bool(found) == bool(part)
    assert part in found
    assert found == "" or found.startswith("conversion webhook for example.org/v1")


def going(name: str, message: str, *, status: str = "True", deleting: bool = True) -> Object:
    condition = {"type": "NamespaceDeletionContentFailure", "status": status, "message": message}
    metadata: JSON = {"name": name} | ({"deletionTimestamp": NOW} if deleting else {})
    return object_from_dict(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": metadata,
            "status": {"conditions": [condition]},
        }
    )


def test_only_namespaces_that_wait_for_the_webhook_are_held_by_it() -> None:
    found = [
        going("b", FAILED),
        going("a", f"Failed to delete all resource types, 1 remaining: {FAILED}"),
        going("other", FAILED.replace("Thing", "Other")),
        going("well", FAILED, status="False"),
        going("stays", FAILED, deleting=False),
        object_from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}),
    ]
    assert held_namespaces(found, KIND) == ["a", "b"]


@pytest.mark.parametrize(
    ("held", "said"),
    [
        pytest.param([], "refused. Until", id="none"),
        pytest.param(["a"], "It holds namespace a. Until", id="one"),
        pytest.param(list("abcde"), "It holds namespace a, b, c and 2 more. Until", id="many"),
    ],
)
def test_a_dead_webhook_is_told_with_the_command_that_removes_it(
    held: list[str], said: str
) -> None:
    assert dead("db", []) is None
    condition = dead("db", [FailingWebhook(CRD_NAME, A, FAILED, held)])
    assert condition is not None
    assert (condition.type, condition.status) == ("ConversionFailing", "True")
    assert said in condition.message
    assert f"`fairlead accept db --remove-conversion-webhook {A}`" in condition.message


def versioned(url: str, stored: list[str], **schemas: JSON) -> Object:
    body = next(iter(installed(url).values())).to_dict()
    body["spec"]["versions"] = [
        {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": one}}
        for name, one in schemas.items()
    ]
    body["status"]["storedVersions"] = stored
    return object_from_dict(body)


SAME: dict[str, JSON] = {"v1": {"type": "object"}, "v2": {"type": "object"}}
OTHER: dict[str, JSON] = {"v1": {"type": "object"}, "v2": {"type": "object", "title": "2"}}


@pytest.mark.parametrize(
    ("named", "accepted", "crd", "lacks"),
    [
        pytest.param(A, [A], versioned(A, ["v1", "v2"], **OTHER), False, id="converted"),
        pytest.param(A, [], versioned("", ["v1", "v2"], **OTHER), True, id="withdrawn"),
        pytest.param(A, [], versioned(A, ["v2"], **OTHER), True, id="withdrawn-a-moment-ago"),
        pytest.param(A, [], versioned("", ["v1"], **OTHER), False, id="only-our-own-is-stored"),
        pytest.param(A, [], versioned("", ["v1", "v2"], **SAME), False, id="equal-schemas"),
        pytest.param(B, [A], versioned(A, ["v2"], **OTHER), False, id="the-accepted-one-stays"),
        pytest.param("", [], versioned("", ["v2"], **OTHER), False, id="never-converted"),
    ],
)
def test_objects_lack_fields_where_their_conversion_is_missing(
    named: str, accepted: list[str], crd: Object, lacks: bool
) -> None:
    assert lacks_conversion(binding(*accepted).status, schema(named), crd) is lacks
    former = binding(known=False).status
    assert not lacks_conversion(former, schema(A), versioned(A, ["v2"], **OTHER))
