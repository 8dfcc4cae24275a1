from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from fairlead.api.kubebind import ExportResource, Isolation, PermissionClaim, Selector
from fairlead.api.kubebind import SelectorReference as Reference
from fairlead.api.kubebind.claims import (
    check_claims,
    matches,
    reference_allowed,
    reference_versions,
)
from fairlead.api.meta import JSON, ObjectMeta


def selector(**fields: Any) -> Selector:
    return msgspec.convert(fields, Selector)


def claim(resource: str, group: str = "", **fields: Any) -> PermissionClaim:
    return PermissionClaim(group=group, resource=resource, selector=selector(**fields))


def reference(name: str = "spec.secret", namespace: str = "", **fields: Any) -> JSON:
    path = {"name": name, "namespace": namespace}
    return {"group": "example.org", "resource": "widgets", "jsonPath": path, **fields}


def referrer(namespace: str = "shop", **spec: Any) -> JSON:
    return {"metadata": {"name": "w", "namespace": namespace}, "spec": spec}


SECRET = ObjectMeta(name="db", namespace="shop", labels={"app": "web"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(selector(), False, id="an empty selector matches nothing"),
        pytest.param(selector(labelSelector={"matchLabels": {"app": "web"}}), True, id="label"),
        pytest.param(selector(labelSelector={"matchLabels": {"app": "no"}}), False, id="no label"),
        pytest.param(selector(labelSelector={}), True, id="an empty label selector matches all"),
        pytest.param(
            selector(
                labelSelector={
                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]
                }
            ),
            True,
            id="expression",
        ),
        pytest.param(
            selector(labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]}),
            False,
            id="a broken label selector matches nothing",
        ),
        pytest.param(
            selector(namedResources=[{"name": "db", "namespace": "shop"}]), True, id="named"
        ),
        pytest.param(
            selector(namedResources=[{"name": "db", "namespace": "x"}]), False, id="elsewhere"
        ),
        pytest.param(selector(namedResources=[{"name": "db"}]), True, id="named anywhere"),
        pytest.param(
            selector(
                labelSelector={"matchLabels": {"app": "no"}}, namedResources=[{"name": "db"}]
            ),
            True,
            id="any way is enough",
        ),
    ],
)
def test_labels_and_names(given: Selector, expected: bool) -> None:
    assert matches(given, SECRET, referrers=lambda _: []) is expected


REFS = reference("spec.refs.#.name", "spec.refs.#.in")


@pytest.mark.parametrize(
    ("paths", "objects", "expected"),
    [
        pytest.param(reference(), [referrer(secret="db")], True, id="by name"),
        pytest.param(reference(), [referrer(secret="x")], False, id="other name"),
        pytest.param(reference(), [], False, id="nobody refers"),
        pytest.param(
            reference(), [referrer("far", secret="db")], False, id="the referrer's namespace"
        ),
        pytest.param(
            reference(), [referrer("", secret="db")], True, id="any where the referrer has none"
        ),
        pytest.param(
            reference(namespace="metadata.namespace"),
            [referrer("far", secret="db")],
            False,
            id="namespace by path",
        ),
        pytest.param(
            REFS,
            [referrer(refs=[{"name": "db", "in": "far"}, {"name": "x", "in": "shop"}])],
            False,
            id="of one array, another item's namespace",
        ),
        pytest.param(
            REFS,
            [referrer("far", refs=[{"name": "x", "in": "far"}, {"name": "db", "in": "shop"}])],
            True,
            id="of one array, its own namespace",
        ),
        pytest.param(
            REFS,
            [referrer("shop", refs=[{"name": "x", "in": "far"}, {"name": "db"}])],
            True,
            id="of one array, without a namespace",
        ),
        pytest.param(
            REFS, [referrer("far", refs=[{"name": "db"}])], False, id="and the referrer is far"
        ),
        pytest.param(
            reference("spec.names", "spec.namespaces"),
            [referrer("far", names=["db", "x"], namespaces=["x", "shop"])],
            True,
            id="of two arrays, each with each",
        ),
        pytest.param(
            reference(namespace="spec.missing"),
            [referrer(secret="db")],
            False,
            id="a namespace path that leads nowhere matches nothing",
        ),
    ],
)
def test_references(paths: JSON, objects: list[JSON], expected: bool) -> None:
    given = selector(references=[paths])
    assert matches(given, SECRET, referrers=lambda _: objects) is expected


def test_referring_objects_are_not_asked_for_when_labels_are_enough() -> None:
    def never(_: Reference) -> Iterable[JSON]:
        raise AssertionError

    given = selector(labelSelector={}, references=[reference()])
    assert matches(given, SECRET, referrers=never)


WIDGETS = ExportResource(group="example.org", resource="widgets", versions=["v1"])
OTHERS = ExportResource(group="example.org", resource="others")


@pytest.mark.parametrize(
    ("resources", "isolation", "expected"),
    [
        pytest.param([WIDGETS], "Prefixed", True, id="exported"),
        pytest.param([OTHERS], "Prefixed", False, id="not exported"),
        pytest.param([OTHERS], "None", True, id="anything without isolation"),
    ],
)
def test_allowed_references(
    resources: list[ExportResource], isolation: Isolation, expected: bool
) -> None:
    given = msgspec.convert(reference(), Reference)
    assert reference_allowed(given, resources, isolation=isolation) is expected


@pytest.mark.parametrize(
    ("fields", "resources", "expected"),
    [
        pytest.param({"versions": ["v2"]}, [WIDGETS], ["v2"], id="its own"),
        pytest.param({}, [OTHERS, WIDGETS], ["v1"], id="the export's"),
        pytest.param({}, [OTHERS], [], id="none"),
    ],
)
def test_versions_of_references(
    fields: JSON, resources: list[ExportResource], expected: list[str]
) -> None:
    given = msgspec.convert(reference(**fields), Reference)
    assert reference_versions(given, resources) == expected


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        pytest.param([claim("secrets"), claim("configmaps")], "", id="fine"),
        pytest.param([claim("serviceaccounts")], "", id="service accounts"),
        pytest.param([claim("pods")], "InvalidPermissionClaim", id="not claimable"),
        pytest.param([claim("secrets", "x.org")], "InvalidPermissionClaim", id="other group"),
        pytest.param(
            [claim("secrets"), claim("secrets")], "DuplicatePermissionClaim", id="duplicate"
        ),
        pytest.param(
            [claim("secrets", labelSelector={"matchLabels": {"a b": "c"}})],
            "InvalidPermissionClaim",
            id="broken label selector",
        ),
    ],
)
def test_claims_that_can_never_be_granted(claims: list[PermissionClaim], reason: str) -> None:
    error = check_claims(claims)
    assert (error.reason if error else "") == reason
