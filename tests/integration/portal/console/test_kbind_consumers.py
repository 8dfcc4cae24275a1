"""Consumers of kbind v2 in the list of consumers: their Leases, and the right to read them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.integration.portal.console.test_consumers import administer, told
from tests.integration.portal.console.test_pages import MARKUP, shown
from tests.integration.portal.handshake.conftest import ADA, _quiet, admin, house, plane
from tests.support.customers import customer
from tests.support.ownconsole import console

from fairlead.api.kbind import lease_name
from fairlead.api.kbind.names import CONSUMER_CLUSTER_UID, LEASE_ACCOUNT_PREFIX, LEASE_NAMESPACE
from fairlead.api.resource import LEASES, NAMESPACES, ROLEBINDINGS, ROLES
from fairlead.api.timestamps import format_micro_time, moment
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account
from fairlead.portal import bounds
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead.portal.own import hosts_mirrors
from fairlead.provider.v2.record import home_body, home_of
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

RBAC_GROUP = "rbac.authorization.k8s.io"
RBAC = f"{RBAC_GROUP}/v1"


async def leased(
    admin: Client, uid: str, seconds: float = 0, name: str = "", **annotations: str
) -> None:
    """The Lease of a consumer, renewed some seconds ago."""
    await admin.create(
        LEASES,
        {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {
                "name": name or lease_name(uid),
                "namespace": LEASE_NAMESPACE,
                "annotations": {CONSUMER_CLUSTER_UID: uid, **annotations},
            },
            "spec": {
                "holderIdentity": MARKUP,
                "leaseDurationSeconds": 60,
                "renewTime": format_micro_time(moment() - timedelta(seconds=seconds)),
            },
        },
    )


async def with_leases(admin: Client) -> None:
    """The namespace of the Leases."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
    await admin.create(NAMESPACES, body)


async def let_read(admin: Client) -> None:
    """Let the server read the Leases, as the note of its page says."""
    placed = {"name": "read-leases", "namespace": LEASE_NAMESPACE}
    leases = {"apiGroups": [LEASES.group], "resources": ["leases"]}
    await admin.create(
        ROLES,
        {
            "apiVersion": RBAC,
            "kind": "Role",
            "metadata": placed,
            "rules": [leases | {"verbs": ["list", "watch"]}],
        },
    )
    await admin.create(
        ROLEBINDINGS,
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": placed,
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": "read-leases"},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": DEFAULT_NAMESPACE}],
        },
    )


async def test_they_are_among_the_consumers_with_their_sign_of_life(
    plane: Sandbox, admin: Client
) -> None:
    await administer(admin)
    await with_leases(admin)
    await let_read(admin)
    await customer(admin, "kb-a", identity="a", pretty="Shop")
    await leased(admin, "1111-alive", 5)
    await leased(admin, "2222-silent", 7200)
    async with house(plane, admin, provider=False) as there:
        text = await told(there, "/consumers", "3 consumers", "1111-alive", "2222-silent", "Shop")
        assert "kbind v2 healthy" in text
        assert "failed HeartbeatTimeout: the last heartbeat was at" in text
        assert "Remedy:" in text
        assert "may not list and watch" not in text
        assert MARKUP not in text
        page = await shown(there, ADA, "/consumers?q=kbind&state=failed")
        assert "2222-silent" in page.text
        assert "1111-alive" not in page.text
        await leased(admin, "3333-new")
        await told(there, "/consumers", "4 consumers", "3333-new")


async def test_an_invited_one_has_its_name(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    await with_leases(admin)
    await let_read(admin)
    async with house(plane, admin, provider=False) as there:
        await told(there, "/consumers", "There are no consumers yet")
        # A home wakes the page, too.
        await admin.create(NAMESPACES, home_body("shop"))
        text = await told(there, "/consumers", "1 consumer", "FirstHeartbeatPending")
        assert "fairlead provider consumers" in text
        account = f"{LEASE_ACCOUNT_PREFIX}{home_of('shop')}"
        await leased(admin, "1111-alive", 5, **{account: ""})
        text = await told(there, "/consumers", "1111-alive", "healthy")
        assert f"shop {home_of('shop')}" in text


async def test_any_number_of_leases_makes_a_page(
    plane: Sandbox, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "OBJECTS", 2)
    await administer(admin)
    await with_leases(admin)
    await let_read(admin)
    for number in range(4):
        await leased(admin, f"{number}-uid")
    async with house(plane, admin, provider=False) as there:
        text = await told(there, "/consumers", "2 consumers", "Only the first 2 Leases")
        assert "0-uid" in text
        assert "2-uid" not in text


async def test_a_server_without_the_right_says_which_one_is_missing(
    plane: Sandbox, admin: Client
) -> None:
    await administer(admin)
    await with_leases(admin)
    await leased(admin, "1111-alive")
    async with house(plane, admin, provider=False) as there:
        text = await told(
            there, "/consumers", "list and watch leases.coordination.k8s.io in namespace kbind"
        )
        assert "1111" not in text


async def test_nothing_is_said_of_it_where_nobody_uses_it(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    await customer(admin, "kb-a", identity="a", pretty="Shop")
    async with house(plane, admin, provider=False) as there:
        text = await told(there, "/consumers", "1 consumer", "Shop")
        assert "kbind v2" not in text
        assert "leases" not in text


async def test_they_are_in_the_console_of_who_runs_it_too(admin: Client) -> None:
    await with_leases(admin)
    await leased(admin, "1111-alive")
    async with console(admin) as there:
        await there.once("/consumers", "1111-alive", "kbind v2", "healthy")


async def test_a_provider_with_nothing_installed_lists_them_in_its_own_console() -> None:
    async with Sandbox() as box, Client(parse_kubeconfig(box.kubeconfig())) as provider:
        await with_leases(provider)
        # Of a konnector that runs here, and of none that runs elsewhere.
        await leased(provider, "none", name="konnector.kbind.io")
        async with console(provider) as there:
            page = await there.get("/bindings")
            assert "/consumers" not in page.links
            assert (await there.get("/consumers")).status == 404
        await leased(provider, "1111-alive")
        async with console(provider) as there:
            assert "/consumers" in (await there.get("/bindings")).links
            await there.once("/consumers", "1 consumer", "1111-alive", "healthy")
            assert (await there.get("/consumers/1111-alive")).status == 404
        stranger = await as_service_account(provider, "default", "default")
        async with Client(stranger) as client:
            assert not await hosts_mirrors(client)
