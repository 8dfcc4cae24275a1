"""``fairlead console`` at a provider's cluster: consumers, and what the caller may do to them."""

from __future__ import annotations

from tests.integration.portal.handshake.conftest import ADA, BEN, _quiet, admin, plane
from tests.support.customers import customer
from tests.support.ownconsole import console

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account
from fairlead.portal.own import administers
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

BENS = f"{BEN.issuer}/{BEN.subject}"


async def test_an_administrator_hands_a_consumer_over(admin: Client) -> None:
    name = "kube-bind-ada"
    await customer(admin, name, identity="cluster-of-ada", author=f"{ADA.issuer}/{ADA.subject}")
    async with console(admin) as there:
        page = await there.once("/consumers", "cluster-of-ada")
        assert "Consumers" in page.text
        path = f"/consumers/{name}/hand-over"
        page = await there.once(path, "cluster-of-ada")
        answer = await there.post(path, page.fields | {"confirm": name, "to": BENS})
        assert (answer.status, answer.headers["Location"]) == (303, path)
        await there.once(path, f"cluster-of-ada belongs to {BENS} now")
    stored = await admin.get(NAMESPACES, name)
    assert stored.meta.annotations[ANNOTATION_AUTHOR] == BENS


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
