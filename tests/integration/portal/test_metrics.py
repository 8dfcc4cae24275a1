"""What a scrape of a replica tells, as Prometheus reads it."""

from __future__ import annotations

from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.portal.conftest import Ada, Provider
from tests.support.portalidentity import CHALLENGE, VERIFIER
from tests.support.replicas import replica


Series = dict[tuple[str, ...], float]
LABELS = ("route", "method", "code", "result", "reason")


async def scraped(url: str) -> dict[str, Series]:
    """The series of the front door, by name, then by the values of their labels."""
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    found: dict[str, Series] = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith("fairlead_portal_"):
            for sample in family.samples:
                name = sample.name.removeprefix("fairlead_portal_")
                labels = tuple(sample.labels[label] for label in LABELS if label in sample.labels)
                found.setdefault(name, {})[labels] = sample.value
    return found


async def test_a_replica_tells_what_it_has_answered(
    provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    flags = (*provider.flags(), "--metrics-bind-address", "127.0.0.1:0")
    async with replica(provider.config, tmp_path, "one", *flags) as one:
        url = one.said("running")["metrics"]
        before = await scraped(f"{url}/metrics")
        assert before["binds_total"] == {("done",): 0, ("refused",): 0, ("failed",): 0}
        await ada.sign_in(one)
        # On a busy machine the first attempts come before what they need of the API server.
        refused = (await scraped(f"{url}/metrics"))["sign_ins_total"]["refused",]
        # The CLI of ours signs in by a code, and that counts as once.
        more = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
        told = await ada.end(one, await ada.to_callback(one, **more))
        body = {"code": told["code"], "code_verifier": VERIFIER}
        answered = await ada.browser.post(f"{one.url}/api/token", json=body)
        ada.token = (await answered.json())["access_token"]
        again = await ada.browser.post(f"{one.url}/api/token", json=body)
        assert again.status == 400
        await ada.bound(one)
        await ada.bound(one)
        token, ada.token = ada.token, "guessed"
        assert (await ada.bind(one))[0] == 401
        for path in ("/nothing", "/api/nothing", "/api/templates/x"):
            assert (await ada.browser.get(f"{one.url}{path}")).status == 404
        lost = await ada.browser.get(f"{one.url}/nothing", headers={"Accept": "text/html"})
        assert (lost.status, "Back to the first page" in await lost.text()) == (404, True)
        headers = {"Authorization": f"Bearer {token}"}
        assert (await ada.browser.post(f"{one.url}/api/logout", headers=headers)).status == 200
        strange = await ada.browser._ask("MOVE", f"{one.url}/api/bind")
        assert strange.status == 405
        found = await scraped(f"{url}/metrics")
    assert found["sign_ins_total"] == {("done",): 2, ("refused",): refused + 1}
    assert found["sign_outs_total"] == {(): 1}
    assert found["binds_total"] == {("done",): 2, ("refused",): 1, ("failed",): 0}
    assert found["refusals_total"] == {
        ("unauthenticated",): 1,
        ("forbidden",): 0,
        ("too_large",): 0,
        ("too_many",): 0,
    }
    requests = found["requests_total"]
    assert requests["/api/bind", "POST", "200"] == 2
    assert requests["/api/bind", "POST", "401"] == 1
    assert requests["/api/authorize", "GET", "302"] == 2
    assert requests["/api/callback", "GET", "302"] == 2
    # What strangers make up makes no series.
    assert requests["", "GET", "404"] == 4
    assert requests["", "other", "405"] == 1
    shown = str(found)
    for secret in (token, "ada", "cluster-1", "nothing"):
        assert secret not in shown
