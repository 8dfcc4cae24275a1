"""The overviews of both consoles."""

from __future__ import annotations

from tests.integration.portal.console.test_bindings import BAD, OK, WAITS, ada, tells
from tests.integration.portal.console.test_live import followed
from tests.integration.portal.console.test_pages import shown
from tests.integration.portal.handshake.conftest import ADA, BEN, _quiet, admin, house, plane
from tests.support.filled import GADGETS, Filled, condition, gadget

from fairlead.api.kubebind import CLUSTERBINDINGS
from fairlead.api.meta import JSON
from fairlead.client import Client
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]


def bad(reason: str, day: int) -> JSON:
    since = {"lastTransitionTime": f"2026-01-{day:02}T00:00:00Z"}
    return condition("Ready", "False", reason, "it does not turn") | since


async def test_the_front_doors_overview_counts_and_names_what_failed_last(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    failed = [gadget(where, f"bad-{day}", bad("BuildFailed", day)) for day in range(1, 8)]
    await filled.put(gadget(where, "good", OK), gadget(where, "slow", WAITS), *failed)
    # The second cluster's konnector has gone silent.
    await filled.consumer("ada-2", ADA, "second")
    await filled.export("ada-2", "parts")
    heartbeat = {"status": {"lastHeartbeatTime": "2026-01-01T00:00:00Z"}}
    await admin.merge_patch(
        CLUSTERBINDINGS, "cluster", "ada-2", patch=heartbeat, subresource="status"
    )
    await filled.consumer("ben-1", BEN, "cluster of ben")
    await filled.export("ben-1", "hidden", BAD)
    async with house(plane, admin, provider=False) as there:
        text = await tells(
            there,
            ADA,
            "/overview",
            "Objects 7 failed 1 waiting 1 healthy",
            "Bindings 1 failed 1 healthy",
        )
        page = await shown(there, ADA, "/overview")
        # The title has the number, which is that of the lists below it.
        assert text.startswith("(8) Overview · ")
        assert "3 more failed" in text
        # The latest first.
        links = [at for at in page.addresses if at.startswith("/objects/ada-1/")]
        assert [at.rpartition("/")[2] for at in links] == [f"bad-{day}" for day in (7, 6, 5, 4, 3)]
        assert "BuildFailed: it does not turn" in text
        assert "Remedy:" in text
        assert "second" in text.split("Silent konnectors")[1]
        assert "ben" not in text
        assert "hidden" not in text
        token, _ = await there.sessions.create(ADA, "browser")
        async with followed(there, token, page.streams[0]) as stream:
            await admin.delete(GADGETS, "bad-7", where)
            _, part = await stream.told()
            assert "bad-2" in part
            assert 'data-title="(7) Overview"' in part
