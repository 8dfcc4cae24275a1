"""The page of one consumer, and what would go with it."""

from __future__ import annotations

import asyncio
import re

import pytest
from tests.integration.portal.console.test_consumers import (
    administer,
    let_count,
    told,
    widget,
)
from tests.integration.portal.console.test_live import followed
from tests.integration.portal.console.test_pages import MARKUP, read
from tests.integration.portal.handshake.conftest import (
    ADA,
    BEN,
    _quiet,
    admin,
    house,
    plane,
)
from tests.support.customers import customer, exported, housed
from tests.support.provider import example
from tests.support.waiting import SECONDS, eventually

from fairlead.api.kubebind import CLUSTERBINDINGS
from fairlead.api.resource import CLUSTERROLEBINDINGS, CUSTOMRESOURCEDEFINITIONS, NAMESPACES
from fairlead.client import Client
from fairlead.portal.manifests import CONSOLE_ADMIN
from fairlead.provider.commands.overview import consumers
from fairlead.provider.commands.revoke.inventory import inventory
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

AUTHOR = f"{ADA.issuer}/{ADA.subject}"


@pytest.mark.parametrize(
    "path",
    ["/consumers/kb-a", "/live/consumers/kb-a"],
)
async def test_only_administrators_see_one(plane: Sandbox, admin: Client, path: str) -> None:
    await administer(admin)
    await customer(admin, "kb-a", identity="a", author=f"{BEN.issuer}/{BEN.subject}")
    async with house(plane, admin, provider=False) as there:
        if not path.startswith("/live"):
            assert (await there.ask(ADA, path)).status == 200
        # A stream that is let through has no end.
        async with asyncio.timeout(SECONDS):
            answer = await there.ask(BEN, path)
        assert answer.status == 404
        assert "id-of" not in answer.text
        for wrong in ("kb-b", "fairlead-serve", "%3Cscript%3E"):
            assert (await there.ask(ADA, path.replace("kb-a", wrong))).status == 404


async def test_what_the_page_tells(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    await let_count(admin)
    await admin.create(CUSTOMRESOURCEDEFINITIONS, example("crd"))
    failed = {
        "type": "Healthy",
        "status": "False",
        "reason": "ClusterBindingUpdateFailed",
        "message": MARKUP,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    await customer(admin, "kb-a", identity="a", pretty=MARKUP, author=AUTHOR, conditions=(failed,))
    claims = [
        {
            "group": "",
            "resource": "secrets",
            "selector": {"namedResources": [{"name": "token", "namespace": "team"}]},
        }
    ]
    await exported(admin, "kb-a", permissionClaims=claims)
    await housed(admin, "kb-a", "app-1")
    await widget(admin, "one", "app-1")
    async with house(plane, admin, provider=False) as there:
        await there.template()
        text = await told(there, "/consumers/kb-a", "1 widgets.example.org")
        for words in (
            f"Consumers {MARKUP} failed",
            f"Owner {AUTHOR}",
            "Konnector v1.2.3",
            "Invited to widgets",
            "Namespaces for its objects app-1",
            "The Secret token of namespace team is copied.",
            "widgets.example.org v1; informers of scope Namespaced, isolation None.",
            "ClusterBindingUpdateFailed",
            f"{MARKUP} see that the provider's API server answers at the address in the",
            "exceeds the consumer's invitations",
        ):
            assert words in text, text
        assert re.search(r"Last sign-in \d+s ago", text), text


async def test_previews_have_the_numbers_of_the_command_and_of_the_server(
    plane: Sandbox, admin: Client
) -> None:
    await administer(admin)
    await let_count(admin)
    await admin.create(CUSTOMRESOURCEDEFINITIONS, example("crd"))
    await customer(admin, "kb-a", identity="a", author=AUTHOR)
    await customer(admin, "kb-b", identity="b")
    for name in ("kb-a", "kb-b"):
        await exported(admin, name)
        await housed(admin, name, f"{name}-app")
        await widget(admin, "one", f"{name}-app")
    await housed(admin, "kb-a", "kb-a-more")
    await widget(admin, "two", "kb-a-more")
    async with house(plane, admin, provider=False) as there:
        await there.template()
        found = await inventory(admin, await admin.get(NAMESPACES, "kb-a"))
        assert (found.exports, found.namespaces, found.objects) == (1, 2, 2)
        sentence = found.text(keep_data=False)
        text = await told(there, "/consumers/kb-a", sentence, "Objects 2: 2 widgets.example.org")
        for words in (
            "Namespaces for its objects kb-a-app",
            "kb-a-more",
            "fairlead provider revoke kb-a",
            f"belongs to {AUTHOR}",
            "fairlead provider hand-over kb-a --to ISSUER/SUB",
            "fairlead provider rotate kb-a",
            "Its konnector reports which credentials it uses",
        ):
            assert words in text, text
        (row, _) = await consumers(admin)
        assert (row.objects, len(row.exports)) == (2, 1)
        page = await there.ask(ADA, "/consumers/kb-a")
        assert "<form" not in page.text.split("<main")[1]


async def test_a_konnector_that_does_not_tell_keeps_both_tokens(
    plane: Sandbox, admin: Client
) -> None:
    await administer(admin)
    await customer(admin, "kb-a", identity="a", original=True)
    await exported(admin, "kb-a", isolation="Namespaced")
    async with house(plane, admin, provider=False) as there:
        await there.template()
        text = await told(there, "/consumers/kb-a", "kube-bind's", "Both tokens stay valid")
        assert "does not report which credentials it uses" in text
        assert "it watches widgets.example.org in all namespaces without the right" in text


async def test_a_page_of_one_is_live_and_ends_with_the_right(
    plane: Sandbox, admin: Client
) -> None:
    await administer(admin)
    await customer(admin, "kb-a", identity="a")
    async with house(plane, admin, provider=False) as there:
        token, _ = await there.sessions.create(ADA, "browser")
        async with followed(there, token, "/live/consumers/kb-a") as stream:
            assert "gadgets" not in (await stream.told())[1]
            await exported(admin, "kb-a", "gadgets")

            async def exports() -> bool:
                return "gadgets" in (await stream.told())[1]

            await eventually(exports)
            await admin.delete(CLUSTERROLEBINDINGS, CONSOLE_ADMIN)

            async def over() -> bool:
                return await stream.told() == ("over", "over")

            await eventually(over)


async def test_a_consumer_without_much(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    long = "x" * 253
    await customer(admin, "k" * 63, identity=long, author="group:oidc:team-a")
    await exported(admin, "k" * 63, long)
    await admin.delete(CLUSTERBINDINGS, "cluster", "k" * 63)
    async with house(plane, admin, provider=False) as there:
        text = await told(there, f"/consumers/{'k' * 63}", long)
        assert "it has no ClusterBinding: invite it again, or revoke it" in text
        assert "Owner group:oidc:team-a Last sign-in unknown" in text
        answer = await there.ask(ADA, f"/consumers/{'k' * 63}", "POST", data={"a": "b"})
        assert answer.status == 405
        assert read(await there.ask(ADA, "/consumers/none")).text
