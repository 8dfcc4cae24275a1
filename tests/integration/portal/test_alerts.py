"""The alert about sign-ins, by a replica that refuses most of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.portal.conftest import Ada, Provider
from tests.support.alerts import Scraped, assert_well, firing, names
from tests.support.replicas import replica

from fairlead.portal.http.metrics import PortalMetrics


pytestmark = pytest.mark.extended


async def test_sign_ins_that_are_refused_are_told_of(
    provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    flags = (*provider.flags(), "--metrics-bind-address", "127.0.0.1:0")
    async with replica(provider.config, tmp_path, "one", *flags) as one:
        served = Scraped("front-door", lambda: str(one.said("running")["metrics"]))
        await assert_well(await served.scrape())
        said = {f"{family.name}_total" for family in PortalMetrics().collect()}
        assert said <= await served.served()
        await ada.sign_in(one)
        before = await served.scrape()
        for _ in range(8):
            callback = await ada.to_callback(one)
            code = callback.replace("state=", "state=another-", 1)
            answered = await ada.browser.get(one.at(code))
            assert answered.status == 400
        after = await served.tells(
            "fairlead_portal_sign_ins_total", lambda value: value == 8, result="refused"
        )
    assert names(await firing((30, before), (10, after))) == {"FairleadSignInsRefused"}
