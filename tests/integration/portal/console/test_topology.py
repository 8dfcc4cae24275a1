"""The provider's topology: what each person sees of it, and where a chain breaks."""

from __future__ import annotations

from tests.integration.portal.console.test_bindings import BAD, OK, TOOLS, ada, tells
from tests.integration.portal.console.test_pages import MARKUP, shown
from tests.integration.portal.handshake.conftest import ADA, BEN, _quiet, admin, house, plane
from tests.support.filled import Filled, condition, gadget

from fairlead.client import Client
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]


async def test_a_person_sees_their_own_chains_and_where_one_breaks(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    await filled.consumer("ben-1", BEN, "cluster of ben")
    await filled.export("ben-1")
    await filled.put(gadget(await filled.namespace("ben-1", "shop"), "bens", OK))
    marked = condition("Ready", "False", "Broken", MARKUP)
    await filled.put(gadget(where, "good", OK), gadget(where, "bad", BAD))
    await filled.put(gadget(where, "marked", marked))
    async with house(plane, admin, provider=False) as there:
        text = await tells(there, ADA, "/topology", "cluster of ada", "tools", "good", "bad")
        assert "it does not turn" in text
        assert MARKUP in text
        assert "ben" not in text
        page = await shown(there, ADA, "/topology")
        assert "details" in page.tags
        assert any(at.endswith("/good") for at in page.addresses)
        assert TOOLS in page.addresses
        page = await shown(there, ADA, "/topology?shown=problems")
        assert not any(at.endswith("/good") for at in page.addresses)
        assert any(at.endswith("/bad") for at in page.addresses)
        page = await shown(there, ADA, "/topology?cluster=none")
        assert "There is nothing to show yet" in page.text
        await tells(there, BEN, "/topology", "bens")
        assert "good" not in (await shown(there, BEN, "/topology")).text


async def test_a_clusters_last_object_gone_leaves_its_binding(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds()
    await ada(filled)
    async with house(plane, admin, provider=False) as there:
        text = await tells(there, ADA, "/topology", "cluster of ada", "tools")
        assert "gadgets" in text
