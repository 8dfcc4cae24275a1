"""Schema sources of kbind v2 end to end, and faults of the original that they do not have."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tests.support.countingplanes import quiet
from tests.support.kbindbound import OBJECT_VERBS, BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import RULES, KbindWorld, exported_crd, exports
from tests.support.waiting import SECONDS, condition, gone, idle, when

from fairlead.api.kbind import CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.names import (
    ANNOTATION_CONNECTION,
    ANNOTATION_SCHEMA_HASH,
    LABEL_EXPORTED,
    LABEL_MANAGED,
)
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import NotFound
from fairlead.konnector import bounds
from fairlead.konnector.v2.schemas import source


OPENAPI = {"source": "OpenAPI"}
LABELLED = {"metadata": {"labels": {LABEL_EXPORTED: "true"}}}
UNLABELLED = {"metadata": {"labels": {LABEL_EXPORTED: None}}}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have discovery looked at without a long pause."""
    monkeypatch.setattr(bounds, "DISCOVERY_SECONDS", 0.1)
    monkeypatch.setattr(bounds, "DISCOVERY_PAUSE_SECONDS", 0.01)


async def objects_only(bound: BoundWorld, *plurals: str) -> bytes:
    """The kubeconfig of an account without any right on CRDs."""
    objects = rule(bound.provider.group, list(plurals), OBJECT_VERBS)
    rules = (RULES[0], objects, rule("", ["namespaces"], ("create",)))
    return await bound.provider.kubeconfig(rules=rules)


async def crd_names(kbind: KbindWorld) -> set[str]:
    """The names of the consumer's CRDs of the provider's group."""
    crds = (await kbind.consumer.list(CUSTOMRESOURCEDEFINITIONS)).items
    return {crd.meta.name for crd in crds if crd.meta.name.endswith(f".{kbind.provider.group}")}


@pytest.mark.edge
async def test_f8_openapi_pulls_what_is_bound_where_the_original_pulls_all(
    any_kbind: KbindWorld,
) -> None:
    kbind, bound = any_kbind, BoundWorld(any_kbind)
    there, here = kbind.provider.admin, kbind.consumer
    crd = exported_crd(kbind.provider.group, exported=False)
    crd["spec"]["names"] |= {"shortNames": [kbind.provider.group[:5]], "categories": ["wares"]}
    await there.create(CUSTOMRESOURCEDEFINITIONS, crd)
    api = crd["metadata"]["name"]
    other = await kbind.provider.offer("gadgets", exported=False)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await objects_only(bound, "widgets"), schema=OPENAPI)
    body = await when(
        here, CONNECTIONS, kbind.name, until=lambda body: {api, other} <= exports(body)
    )
    assert body["status"]["activeSchemaSource"] == "OpenAPI"
    exported = body["status"]["exportedAPIs"]
    assert [one for one in exported if one["name"] == api] == [
        {
            "name": api,
            "group": kbind.provider.group,
            "resource": "widgets",
            "scope": "Namespaced",
            "versions": ["v1"],
        }
    ]
    assert not {one["group"] for one in exported} & {"", "apps", "rbac.authorization.k8s.io"}
    await bound.bind(kbind.name, api)
    await bound.says("Ready", "True", key=Key("", kbind.name))
    pulled = (await here.get(CUSTOMRESOURCEDEFINITIONS, api)).to_dict()
    assert pulled["metadata"]["labels"] == {LABEL_MANAGED: "true"}
    assert pulled["metadata"]["annotations"][ANNOTATION_CONNECTION] == kbind.name
    assert pulled["spec"]["names"]["shortNames"] == [kbind.provider.group[:5]]
    assert pulled["spec"]["names"]["categories"] == ["wares"]
    assert await crd_names(kbind) == {api}
    resource = widgets(kbind.provider)
    await namespace(here, kbind.name)
    await here.create(resource, widget(resource, "a", kbind.name, spec={"size": 3}))
    await when(
        there, resource, "a", kbind.name, until=lambda body: body.get("spec") == {"size": 3}
    )
    status = {**(await there.get(resource, "a", kbind.name)).to_dict(), "status": {"ready": True}}
    await there.update(resource, status, subresource="status")
    await when(here, resource, "a", kbind.name, until=lambda body: "status" in body)
    for kind in (CLUSTERBINDINGS, CONNECTIONS):
        await here.delete(kind, kbind.name)
        await gone(here, kind, kbind.name)
    with suppress(NotFound):
        await here.delete(CUSTOMRESOURCEDEFINITIONS, api)
    for name in (api, other):
        await there.delete(CUSTOMRESOURCEDEFINITIONS, name)


async def test_f8_a_connection_with_the_defaults_installs_nothing_over_crds_of_others(
    kbind: KbindWorld,
) -> None:
    """The original overwrites each CRD of the consumer that the provider serves too."""
    bound = BoundWorld(kbind)
    api = await kbind.provider.offer(exported=False)
    mine = exported_crd(kbind.provider.group, exported=False)
    mine["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Mine."
    before = await kbind.consumer.create(CUSTOMRESOURCEDEFINITIONS, mine)
    await kbind.provider.offer("gadgets", exported=False)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await bound.kubeconfig("widgets"))
    body = await kbind.offers(api)
    assert body["status"]["activeSchemaSource"] == "OpenAPI"
    await bound.bind("all", api)
    await bound.says("Ready", "False", "ForeignCustomResourceDefinition", api)
    assert await crd_names(kbind) == {api}
    after = await kbind.consumer.get(CUSTOMRESOURCEDEFINITIONS, api)
    assert after.to_dict()["spec"] == before.to_dict()["spec"]
    assert not after.meta.annotations


async def test_auto_follows_the_first_label_and_does_not_leave_labels_again(
    kbind: KbindWorld,
) -> None:
    """In the original a provider that takes its last label off offers all that it serves."""
    api = await kbind.provider.offer(exported=False)
    other = await kbind.provider.offer("gadgets", exported=False)
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    await when(
        kbind.consumer, CONNECTIONS, kbind.name, until=lambda body: exports(body) == {api, other}
    )
    await kbind.provider.admin.merge_patch(CUSTOMRESOURCEDEFINITIONS, api, "", LABELLED)
    body = await when(
        kbind.consumer, CONNECTIONS, kbind.name, until=lambda body: exports(body) == {api}
    )
    assert body["status"]["activeSchemaSource"] == "CRD"
    await kbind.provider.admin.merge_patch(CUSTOMRESOURCEDEFINITIONS, api, "", UNLABELLED)
    await when(kbind.consumer, CONNECTIONS, kbind.name, until=lambda body: not exports(body))
    spec: JSON = {"spec": {"schema": OPENAPI}}
    await kbind.consumer.merge_patch(CONNECTIONS, kbind.name, "", spec)
    body = await kbind.offers(other)
    assert body["status"]["activeSchemaSource"] == "OpenAPI"


async def test_auto_after_a_restart_does_not_leave_labels_either(kbind: KbindWorld) -> None:
    api = await kbind.provider.offer()
    konnector = await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    await kbind.offers(api)
    await konnector.stop()
    await kbind.provider.admin.merge_patch(CUSTOMRESOURCEDEFINITIONS, api, "", UNLABELLED)
    await kbind.konnector()
    body = await when(
        kbind.consumer, CONNECTIONS, kbind.name, until=lambda body: not exports(body)
    )
    assert body["status"]["activeSchemaSource"] == "CRD"


async def test_auto_without_the_right_to_list_crds_names_both_remedies(kbind: KbindWorld) -> None:
    api = await kbind.provider.offer(exported=False)
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig(rules=RULES[:1]))
    await kbind.says("PermissionDenied", "True", "Forbidden", "customresourcedefinitions")
    await kbind.says("Ready", "False", "Forbidden", "set schema.source OpenAPI")
    spec: JSON = {"spec": {"schema": OPENAPI}}
    await kbind.consumer.merge_patch(CONNECTIONS, kbind.name, "", spec)
    await kbind.says("Ready", "True")
    await kbind.says("PermissionDenied", "False", "AsExpected")
    await kbind.offers(api)


async def test_a_server_without_crds_is_read_by_openapi(kbind: KbindWorld) -> None:
    """The original ends with an error."""
    api = await kbind.provider.offer()
    assert kbind.provider.plane is not None
    kubeconfig = await kbind.provider.kubeconfig()
    kbind.provider.plane.faults.fail("list", "customresourcedefinitions", 404, times=-1)
    await kbind.konnector()
    await kbind.connect(kubeconfig)
    body = await kbind.offers(api)
    assert body["status"]["activeSchemaSource"] == "OpenAPI"
    await kbind.says("Ready", "True")


async def test_at_rest_one_small_request_is_made_for_each_look(kbind: KbindWorld) -> None:
    """F24: the original reads discovery and all documents at each pass, every 30 seconds."""
    bound = BoundWorld(kbind)
    api = await kbind.provider.offer(exported=False)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await objects_only(bound, "widgets"), schema=OPENAPI)
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    await quiet(kbind.consumer_plane)
    assert kbind.provider.plane is not None
    traffic = kbind.provider.plane.traffic

    def paths() -> list[str]:
        return [info.path for info in traffic.seen if info.resource != "leases"]

    # The last look at what was new may still be on its way.
    assert not await idle(SECONDS / 2, lambda: paths()[-3:] == ["/openapi/v3"] * 3)
    traffic.seen.clear()
    assert not await idle(SECONDS / 2, lambda: len(paths()) >= 5)
    assert set(paths()) == {"/openapi/v3"}
    assert not kbind.consumer_plane.traffic.writing()


async def test_discovery_that_fails_is_told_and_mended(
    kbind: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "ANSWER_SECONDS", 0.2)
    bound = BoundWorld(kbind)
    api = await kbind.provider.offer(exported=False)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await objects_only(bound, "widgets"), schema=OPENAPI)
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    assert kbind.provider.plane is not None
    faults = kbind.provider.plane.faults
    # Of what has no resource, discovery and OpenAPI alone are asked for.
    faults.fail("get", "", 403, times=-1)
    # A hash that has changed leads to discovery.
    await kbind.provider.offer("gadgets", exported=False)
    body = await kbind.says("PermissionDenied", "True", "Forbidden")
    assert condition(body, "Ready")["reason"] == "Forbidden"
    faults.clear()
    await kbind.says("Ready", "True")
    await kbind.says("PermissionDenied", "False", "AsExpected")
    faults.fail("get", "", 503, times=-1)
    await kbind.provider.offer("doodads", exported=False)
    body = await kbind.says("Connected", "False", "Pending")
    assert api in exports(body)
    faults.clear()
    await kbind.says("Ready", "True")
    await bound.says("Ready", "True")


async def test_f13_new_credentials_stop_no_api_of_openapi(kbind: KbindWorld) -> None:
    bound = BoundWorld(kbind)
    resource = widgets(kbind.provider)
    api = await kbind.provider.offer(exported=False)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await objects_only(bound, "widgets"), schema=OPENAPI)
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    await namespace(kbind.consumer, "shop")
    await quiet(kbind.consumer_plane)
    assert kbind.provider.plane is not None
    planes = (kbind.provider.plane, kbind.consumer_plane)
    for plane in planes:
        plane.traffic.seen.clear()
    await kbind.rotate(await objects_only(bound, "widgets"))
    provider = kbind.provider.plane.traffic
    assert not await idle(SECONDS / 2, lambda: provider.count("watch", resource="widgets") > 0)
    await kbind.consumer.create(resource, widget(resource, "a", "shop"))
    await when(kbind.provider.admin, resource, "a", "shop", until=bool)
    written = kbind.consumer_plane.traffic.writing()
    assert not [info for info in written if info.resource == CLUSTERBINDINGS.plural]


def described(text: str) -> Any:
    """Whether a CRD's schema has a description."""

    def until(body: JSON) -> bool:
        schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        return bool(schema["properties"]["spec"].get("description") == text)

    return until


async def describe(kbind: KbindWorld, api: str, text: str) -> None:
    """Change the schema of a provider's CRD."""
    crd = (await kbind.provider.admin.get(CUSTOMRESOURCEDEFINITIONS, api)).to_dict()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["description"] = text
    await kbind.provider.admin.update(CUSTOMRESOURCEDEFINITIONS, crd)


@pytest.mark.parametrize("origin", ["CRD", "OpenAPI"])
async def test_a_schema_that_changes_comes_always_or_once(kbind: KbindWorld, origin: str) -> None:
    """With Once the original reports the hash of the provider's schema, which is not installed."""
    bound = BoundWorld(kbind)
    apis = [await kbind.provider.offer(plural) for plural in ("widgets", "gadgets")]
    await bound.accept("widgets", "gadgets")
    await kbind.konnector()
    policies = {"always": "Always", "once": "Once"}
    for api, (name, policy) in zip(apis, policies.items(), strict=True):
        schema = {"source": origin, "updatePolicy": policy}
        await kbind.connect(await bound.kubeconfig("widgets", "gadgets"), name, schema=schema)
        await bound.bind(name, api, connection=name)
        await bound.says("Ready", "True", key=Key("", name))
    before = await kbind.consumer.get(CUSTOMRESOURCEDEFINITIONS, apis[1])
    for api in reversed(apis):
        await describe(kbind, api, "Newer.")
    updated = await when(
        kbind.consumer, CUSTOMRESOURCEDEFINITIONS, apis[0], until=described("Newer.")
    )
    await when(
        kbind.consumer,
        CLUSTERBINDINGS,
        "always",
        until=lambda body: (
            hash_of(body) == updated["metadata"]["annotations"][ANNOTATION_SCHEMA_HASH]
        ),
    )
    after = await kbind.consumer.get(CUSTOMRESOURCEDEFINITIONS, apis[1])
    assert after.meta.resource_version == before.meta.resource_version
    once = (await kbind.consumer.get(CLUSTERBINDINGS, "once")).to_dict()
    assert hash_of(once) == before.meta.annotations[ANNOTATION_SCHEMA_HASH]


def hash_of(body: JSON) -> str:
    """The crdHash of the first API of a binding."""
    return str(body["status"]["boundAPIs"][0]["crdHash"])


async def test_a_bound_api_that_is_not_found_has_discovery_looked_at_at_once(
    kbind: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = BoundWorld(kbind)
    api = await kbind.provider.offer(exported=False)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await objects_only(bound, "widgets"), schema=OPENAPI)
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    assert kbind.provider.plane is not None
    traffic = kbind.provider.plane.traffic

    # From now on no look is due.
    monkeypatch.setattr(bounds, "DISCOVERY_SECONDS", 3600.0)
    await quiet(kbind.provider.plane)
    traffic.seen.clear()
    await kbind.provider.admin.delete(CUSTOMRESOURCEDEFINITIONS, api)
    assert not await idle(SECONDS / 2, lambda: any(i.path == "/openapi/v3" for i in traffic.seen))


async def test_f9_an_api_that_a_provider_stops_serving_goes_after_two_looks(
    kbind: KbindWorld,
) -> None:
    bound = BoundWorld(kbind)
    resource: Resource = widgets(kbind.provider)
    api = await kbind.provider.offer(exported=False)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await objects_only(bound, "widgets"), schema=OPENAPI)
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    await namespace(kbind.consumer, "shop")
    await kbind.consumer.create(resource, widget(resource, "a", "shop"))
    await when(kbind.provider.admin, resource, "a", "shop", until=bool)
    await kbind.provider.admin.delete(CUSTOMRESOURCEDEFINITIONS, api)
    await bound.says("Ready", "False", "APINotExported", "the provider has to serve it")
    await when(kbind.consumer, CONNECTIONS, kbind.name, until=lambda body: not exports(body))
    assert await crd_names(kbind) == {api}
    await kbind.provider.offer(exported=False)
    await bound.says("Ready", "True")
    await when(kbind.provider.admin, resource, "a", "shop", until=bool)


async def test_f21_the_version_that_is_served_is_bound_where_the_stored_one_is_not(
    kbind: KbindWorld,
) -> None:
    """The original installs the stored version, and synchronises nothing."""
    bound = BoundWorld(kbind)
    crd = exported_crd(kbind.provider.group)
    (v1,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [
        {**v1, "name": "v2", "served": False},
        {**v1, "name": "v1", "storage": False},
    ]
    await kbind.provider.admin.create(CUSTOMRESOURCEDEFINITIONS, crd)
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await bound.kubeconfig("widgets"))
    await bound.bind("all", crd["metadata"]["name"])
    await bound.says("Ready", "True")
    resource = widgets(kbind.provider)
    await namespace(kbind.consumer, "shop")
    await kbind.consumer.create(resource, widget(resource, "a", "shop"))
    await when(kbind.provider.admin, resource, "a", "shop", until=bool)


async def test_f21_a_provider_that_moves_on_to_another_version_is_followed(
    kbind: KbindWorld,
) -> None:
    bound = BoundWorld(kbind)
    api = await kbind.provider.offer()
    await bound.accept("widgets")
    await kbind.konnector()
    await kbind.connect(await bound.kubeconfig("widgets"))
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    old = widgets(kbind.provider)
    await namespace(kbind.consumer, "shop")
    await kbind.consumer.create(old, widget(old, "a", "shop"))
    await when(kbind.provider.admin, old, "a", "shop", until=bool)
    crd = (await kbind.provider.admin.get(CUSTOMRESOURCEDEFINITIONS, api)).to_dict()
    (v1,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [
        {**v1, "name": "v2"},
        {**v1, "served": False, "storage": False},
    ]
    await kbind.provider.admin.update(CUSTOMRESOURCEDEFINITIONS, crd)
    new = Resource(old.group, "v2", old.plural, old.kind)
    await when(
        kbind.consumer,
        CUSTOMRESOURCEDEFINITIONS,
        api,
        until=lambda body: body["spec"]["versions"][0]["name"] == "v2",
    )
    await bound.says("Ready", "True")
    await when(kbind.consumer, new, "a", "shop", until=bool)
    size: JSON = {"spec": {"size": 7}}
    await kbind.consumer.merge_patch(new, "a", "shop", size)
    await when(
        kbind.provider.admin, new, "a", "shop", until=lambda body: body["spec"]["size"] == 7
    )
