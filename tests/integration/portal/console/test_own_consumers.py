"""``fairlead console`` at a provider's cluster: consumers, and previews of actions on them."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from tests.integration.portal.handshake.conftest import ADA, _quiet, admin, plane
from tests.support.customers import customer, exported, housed
from tests.support.ownconsole import Page, Shown, console
from tests.support.waiting import eventually

from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLEBINDINGS, NAMESPACES
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.portal.http.server import application
from fairlead.portal.options import ServeOptions
from fairlead.portal.own import administers
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

AUTHOR = f"{ADA.issuer}/{ADA.subject}"
READER = "reader"
RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = f"{RBAC_GROUP}/v1"


async def test_actions_are_previews_with_the_command(admin: Client) -> None:
    await customer(admin, "kb-a", identity="cluster-of-ada", author=AUTHOR)
    await exported(admin, "kb-a")
    await housed(admin, "kb-a", "app-1")
    async with console(admin) as there:
        page = await there.once("/consumers", "cluster-of-ada")
        assert "/consumers/kb-a" in page.links
        page = await there.once("/consumers/kb-a", "Namespaces for its objects app-1")
        assert "Tokens" not in page.text
        for action, effect, command in (
            ("rotate", "cluster-of-ada (kb-a) gets a new token", "rotate kb-a"),
            ("hand-over", f"belongs to {AUTHOR}", "hand-over kb-a --to ISSUER/SUB"),
            ("revoke", "loses its access and 1 export", "revoke kb-a"),
        ):
            page = await there.once("/consumers/kb-a", effect)
            code = f'<code id="command-{action}">fairlead provider {command}</code>'
            assert code in page.body
            assert f'data-copy="command-{action}"' in page.body
        # Nothing on the page can be sent.
        assert "<form" not in page.body
        assert page.fields == {}
        assert (await there.post("/consumers/kb-a", {"confirm": "kb-a"})).status == 405
        lost = await there.get("/none", Accept="text/html")
        assert (lost.status, "Back to the first page" in lost.text) == (404, True)
        assert (await there.get("/consumers/kb-b")).status == 404
    await admin.get(NAMESPACES, "kb-a")


async def test_forms_let_in_and_unbind_alone(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes: list[web.RouteDef] = []

    def record(options: ServeOptions, given: list[web.RouteDef], **more: Any) -> web.Application:
        routes.extend(given)
        return application(options, given, **more)

    monkeypatch.setattr("fairlead.portal.own.application", record)
    async with console(admin) as there:
        assert (await there.get("/consumers")).status == 200
    assert "/consumers/{namespace}" in {one.path for one in routes}
    assert {one.path for one in routes if one.method not in {"GET", "HEAD"}} == {
        "/link",
        "/bindings/{name}/unbind",
    }


async def test_pages_about_consumers_are_for_those_who_may_list_them(
    plane: Sandbox, admin: Client
) -> None:
    assert await administers(admin)
    async with Client(await as_service_account(admin, "default", "default")) as stranger:
        assert not await administers(stranger)
        async with console(stranger) as there:
            assert (await there.get("/consumers")).status == 404
    async with Sandbox() as other, Client(parse_kubeconfig(other.kubeconfig())) as client:
        assert not await administers(client)


async def test_pages_about_consumers_end_with_the_right_to_list_them(admin: Client) -> None:
    await customer(admin, "kb-a", identity="cluster-of-ada")
    await create_all(admin, _reader())
    async with (
        Client(await as_service_account(admin, "default", READER)) as reader,
        console(reader) as there,
    ):
        paths = ("/consumers", "/consumers/kb-a")
        for path in paths:
            await there.once(path, "kb-a")
        await admin.delete(CLUSTERROLEBINDINGS, READER)
        for path in paths:
            page = await _refused(there, path)
            assert "for you" in page.text
            assert "cluster-of-ada" not in page.text


async def _refused(there: Shown, path: str) -> Page:
    """The page of a path, once it is not given any more."""
    page = await there.get(path)

    async def refused() -> bool:
        nonlocal page
        page = await there.get(path)
        return page.status == 404

    await eventually(refused)
    return page


def _reader() -> list[JSON]:
    """A ServiceAccount that may look at consumers, and change nothing."""
    kinds = ["clusterbindings", "apiserviceexports", "apiserviceexporttemplates"]
    verbs = ["get", "list", "watch"]
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": READER, "namespace": "default"},
        },
        {
            "apiVersion": RBAC,
            "kind": "ClusterRole",
            "metadata": {"name": READER},
            "rules": [
                {"apiGroups": ["kube-bind.io"], "resources": kinds, "verbs": verbs},
                {"apiGroups": [""], "resources": ["namespaces"], "verbs": verbs},
            ],
        },
        {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": READER},
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": READER},
            "subjects": [{"kind": "ServiceAccount", "name": READER, "namespace": "default"}],
        },
    ]
