"""Two replicas of ``provider serve``, real processes, and pages that one of them leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.browser import Browsing
from tests.support.countingplanes import plane
from tests.support.issuers import TestIssuer
from tests.support.replicas import replica
from tests.support.switch import Switch
from tests.support.visits import heading, stayed, stays

from fairlead.api.kubebind import API_VERSION, APISERVICEEXPORTTEMPLATES, provider_crds
from fairlead.api.meta import JSON
from fairlead.demo.identity import as_service_account, create_all
from fairlead.portal.manifests import manifests
from fairlead.portal.options import CALLBACK_PATH, DEFAULT_NAMESPACE, NAME
from fairlead.runtime import install_crds


pytestmark = pytest.mark.asyncio(loop_scope="session")


def template(name: str) -> JSON:
    resource = {"group": "example.org", "resource": "things", "versions": ["v1"]}
    return {
        "apiVersion": API_VERSION,
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": name},
        "spec": {"scope": "Namespaced", "description": f"About {name}", "resources": [resource]},
    }


async def test_open_pages_go_on_at_the_other_replica_when_one_is_killed(
    browser: Browsing, tmp_path: Path
) -> None:
    async with (
        plane("provider") as provider,
        Switch() as switch,
        TestIssuer(f"{switch.url}{CALLBACK_PATH}") as issuer,
    ):
        admin = provider.admin
        await install_crds(admin, provider_crds())
        bodies = manifests(
            image="fairlead",
            external_url="https://bind.example.org",
            issuer_url="https://issuer.example.org",
            client_id="fairlead",
            allowed_users=["ada"],
        )
        await create_all(admin, bodies)
        await admin.create(APISERVICEEXPORTTEMPLATES, template("first"))
        config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
        flags = ("--oidc-issuer-url", issuer.url, "--external-url", switch.url)
        async with (
            replica(config, tmp_path, "one", *flags) as one,
            replica(config, tmp_path, "other", *flags) as other,
        ):
            switch.targets = (one.url, other.url)
            page = await browser.page()
            await page.goto(switch.url)
            # The issuer knows who it is, and asks for nothing.
            async with page.expect_request("**/live?*"):
                await page.get_by_role("link", name="Sign in").click()
            await heading(page, "Catalogue")
            second = await page.context.new_page()
            async with second.expect_request("**/live/templates/first?*"):
                await second.goto(f"{switch.url}/templates/first")
            await admin.create(APISERVICEEXPORTTEMPLATES, template("before"))
            await page.get_by_role("link", name="before").wait_for()
            assert set(switch.led) == {one.url}
            await stays(page)
            await stays(second)
            await one.kill()
            await admin.create(APISERVICEEXPORTTEMPLATES, template("after"))
            changed = {"spec": {"description": "It goes on"}}
            await admin.merge_patch(APISERVICEEXPORTTEMPLATES, "first", "", changed)
            await page.get_by_role("link", name="after").wait_for()
            await second.get_by_text("It goes on").wait_for()
            assert await stayed(page)
            assert await stayed(second)
            assert other.url in switch.led
            # Who was signed in there is signed in here.
            await page.reload()
            await page.get_by_role("link", name="after").wait_for()
            await browser.close()
    # The browser tells of streams that broke off, and of nothing else.
    told = [one for one in browser.faults if "/live" not in one and "htmx:sse:error" not in one]
    browser.faults.clear()
    assert not told
