"""kbind v2 in one's own console: Connections, bindings, and their objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.integration.portal.console.test_pages import MARKUP
from tests.support.kbindbound import BoundWorld, namespace, widget, widgets
from tests.support.kbindworld import NAMESPACE, RBAC, KbindWorld
from tests.support.ownconsole import console

from fairlead.api.kbind import CONNECTIONS, GROUP
from fairlead.api.manifests import rule
from fairlead.api.meta import Key
from fairlead.client import Client
from fairlead.demo.identity import as_service_account, create_all
from fairlead.portal import bounds


@pytest.fixture
async def world() -> AsyncIterator[KbindWorld]:
    """A consumer and a provider of kbind v2, both sandboxes."""
    async with AsyncExitStack() as stack:
        world = KbindWorld(stack)
        await world.start()
        yield world


async def bound_world(world: KbindWorld) -> tuple[BoundWorld, str]:
    """A world with a konnector, a Connection, and rights on widgets; and the API's name."""
    bound = BoundWorld(world)
    api = await world.provider.offer()
    await bound.accept("widgets")
    await world.konnector()
    await world.connect(await bound.kubeconfig("widgets"))
    await world.says("Ready", "True")
    return bound, api


async def test_the_pages_of_a_connection_a_binding_and_an_object(world: KbindWorld) -> None:
    bound, api = await bound_world(world)
    related = {
        "resource": "secrets",
        "direction": "FromProvider",
        "selector": {"names": ["login"], "labelSelector": {"matchLabels": {"app": "shop"}}},
    }
    await namespace(world.consumer, "shop")
    await bound.bind("all", api, relatedResources=[related])
    await bound.bind("all", api, namespace="shop")
    await bound.says("Ready", "True")
    resource = widgets(world.provider)
    await world.consumer.create(resource, widget(resource, "a", "shop"))
    way = f"/bindings/connections.core.kbind.io/-/{world.name}"
    whole = "/bindings/clusterbindings.core.kbind.io/-/all"
    part = "/bindings/bindings.core.kbind.io/shop/all"
    async with console(world.consumer) as there:
        page = await there.once("/bindings", "1/1 in sync")
        assert {way, whole, part} <= set(page.links)
        assert "ClusterBinding" in page.text
        rows = {row[0]: row for row in page.rows if row}
        assert rows[f"all ClusterBinding {api}"][1].startswith(f"{world.name} (127.0.0.1:")
        assert rows[f"shop/all Binding {api}"][2].startswith("healthy")
        assert rows[f"{world.name} Connection {api}"][3] == ""
        narrowed = await there.get("/bindings?namespace=shop")
        assert part in narrowed.links
        assert whole not in narrowed.links
        assert "None of 3" in (await there.get("/bindings?q=nonesuch")).text
        page = await there.get(way)
        secret = f"/objects/secrets/{NAMESPACE}/{world.name}"
        assert {secret, whole, part} <= set(page.links)
        for text in (
            f"Secret {NAMESPACE}/{world.name} , key kubeconfig",
            "source Auto, read from CRD; pull policy Bound, update policy Always",
            "Lease kbind/consumer-",
            f"{api} ClusterBinding all",
            f"fairlead explain connections.core.kbind.io/{world.name}",
            f"kubectl delete connections.core.kbind.io {world.name}",
            "It waits until no binding names it",
        ):
            assert text in page.text, text
        assert "token" not in page.body
        uid = (await world.consumer.get(CONNECTIONS, world.name)).to_dict()["status"]
        assert uid["remoteClusterUID"] in page.text
        page = await there.get(whole)
        assert way in page.links
        assert (
            "Secrets named login and with the labels app=shop in all namespaces, from the"
            in page.text
        )
        assert "Conflict policy Fail" in page.text
        row = next(row for row in page.rows if row[0] == api)
        assert row[1:3] == ["1 1 healthy", "0"]
        assert f"/objects/{api}/shop/a" in page.links
        page = await there.get(part)
        assert "namespace shop" in page.text
        page = await there.get(f"/objects/{api}/shop/a")
        assert whole in page.links
        assert "Differences None" in page.text
        text = (await there.get(secret)).text
        assert "Values are not shown." in text
        assert "certificate-authority-data" not in text
        page = await there.get("/topology")
        assert {way, whole} <= set(page.links)
        assert page.text.index("Connection") < page.text.index("ClusterBinding")
        page = await there.get("/overview")
        assert page.status == 200


async def test_a_conflict_stands_on_the_pages_of_its_binding_and_its_object(
    world: KbindWorld,
) -> None:
    bound, api = await bound_world(world)
    resource = widgets(world.provider)
    await bound.bind("all", api)
    await bound.says("Ready", "True")
    for admin in (world.provider.admin, world.consumer):
        await namespace(admin, "shop")
        await admin.create(resource, widget(resource, "a", "shop"))
    await bound.says("Conflicts", "True", "ForeignObjectExists")
    async with console(world.consumer) as there:
        page = await there.once("/bindings", "1 in conflict", "1 failed")
        page = await there.get("/bindings/clusterbindings.core.kbind.io/-/all")
        row = next(row for row in page.rows if row[0] == api)
        assert row[1:3] == ["1 1 failed", "1"]
        page = await there.get(f"/objects/{api}/shop/a")
        assert "ForeignObjectExists" in page.text
        assert "set conflictPolicy: Adopt on the binding" in page.text
        assert "Conflict ForeignObjectExists" in page.text


async def test_names_cannot_be_confused_and_what_is_not_there_has_no_page(
    world: KbindWorld,
) -> None:
    await bound_world(world)
    async with console(world.consumer) as there:
        await there.once("/bindings", world.name)
        for path in (
            f"/bindings/{world.name}",
            "/bindings/clusterbindings.core.kbind.io/-/all",
            f"/bindings/connections.core.kbind.io/shop/{world.name}",
            f"/bindings/clusterbindings.core.kbind.io/-/{world.name}",
            f"/bindings/clusterbindings.kube-bind.io/-/{world.name}",
            "/bindings/%3Cscript%3E/-/all",
        ):
            page = await there.get(path)
            assert page.status == 404, path
            assert "<script>alert" not in page.body


async def test_what_others_write_is_escaped(world: KbindWorld) -> None:
    bound, api = await bound_world(world)
    await world.consumer.merge_patch(
        CONNECTIONS,
        world.name,
        "",
        {"metadata": {"annotations": {"fairlead.dev/binding-namespaces": MARKUP}}},
    )
    await bound.bind("all", api, MARKUP)
    await bound.says("Ready", "False")
    async with console(world.consumer) as there:
        for path in (
            "",
            f"/connections.core.kbind.io/-/{world.name}",
            "/clusterbindings.core.kbind.io/-/all",
        ):
            page = await there.once(f"/bindings{path}", MARKUP)
            assert MARKUP not in page.body


async def test_nothing_of_it_is_shown_where_its_kinds_are_not_served_or_seen(
    world: KbindWorld,
) -> None:
    async with console(world.provider.admin) as there:
        page = await there.once("/bindings", "Nothing is bound here")
        assert "kbind" not in page.text
    async with (
        Client(await as_service_account(world.provider.admin, "default", "default")) as stranger,
        console(stranger) as there,
    ):
        page = await there.once("/bindings", "You may not list")
        assert "core.kbind.io" not in page.text
    bound, api = await bound_world(world)
    await bound.bind("all", api)
    await bound.says("Ready", "True", key=Key("", "all"))
    async with (
        Client(await as_service_account(world.consumer, "default", "default")) as stranger,
        console(stranger) as there,
    ):
        page = await there.once("/bindings", "You may not list connections.core.kbind.io")
        assert page.rows == []


async def test_who_may_not_read_a_secret_sees_all_but_copies(
    world: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, api = await bound_world(world)
    await namespace(world.consumer, "shop")
    await bound.bind("all", api)
    await bound.bind("all", api, namespace="shop")
    await bound.says("Ready", "True")
    resource = widgets(world.provider)
    await world.consumer.create(resource, widget(resource, "a", "shop"))
    verbs = ("get", "list")
    rules = [
        rule(GROUP, ["*"], verbs),
        rule(resource.group, ["*"], verbs),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], verbs),
    ]
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
    role = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": "look"}}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "look"}
    await create_all(
        world.consumer,
        [
            role | {"rules": rules},
            role | {"kind": "ClusterRoleBinding", "roleRef": ref, "subjects": [subject]},
        ],
    )
    monkeypatch.setattr(bounds, "ROWS_OF_A_PAGE", 1)
    async with (
        Client(await as_service_account(world.consumer, "default", "default")) as reader,
        console(reader) as there,
    ):
        whole = "/bindings/clusterbindings.core.kbind.io/-/all"
        page = await there.once(whole, f"you may not read Secret {NAMESPACE}/{world.name}")
        assert "not seen" in page.text
        assert f"/objects/{api}/shop/a" in page.links
        # A page of many bindings leads to the list.
        page = await there.get(f"/bindings/connections.core.kbind.io/-/{world.name}")
        assert "1 more are in the list of bindings" in page.text
        rest = next(link for link in page.links if link.startswith("/bindings?cluster="))
        # With the Connection itself.
        assert "of 3 bindings" in (await there.get(rest)).text
