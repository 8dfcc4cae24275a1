"""Two replicas as programs, and a person whom a terminal has sent to sign in and choose."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import urlencode

from tests.integration.portal.conftest import Ada, Provider
from tests.integration.portal.test_metrics import scraped
from tests.support.portal import Answer
from tests.support.portalidentity import CHALLENGE, VERIFIER, told
from tests.support.replicas import EXTERNAL, replica
from tests.support.seat import form
from tests.support.waiting import eventually

from fairlead.api.kubebind import decode_binding_response


BACK = "http://127.0.0.1:2/callback/secret-of-the-path"
PAGE = "/bind/widgets"


async def test_a_terminal_waits_through_the_sign_in_whichever_replica_answers(
    provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    metrics = (*provider.flags(), "--metrics-bind-address", "127.0.0.1:0")
    async with (
        replica(provider.config, tmp_path, "one", *metrics) as one,
        replica(provider.config, tmp_path, "two", *metrics) as two,
    ):
        asked = {"redirect_url": BACK, "session_id": "s-1", "consumer_id": "cluster-1"}
        asked |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
        answer = await ada.browser.get(f"{one.url}/?{urlencode(asked)}")
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        answer = await ada.browser.get(f"{two.url}/")
        assert answer.status == 401
        text = await answer.text()
        assert "A terminal waits" in text
        (sign_in,) = [word for word in text.split('"') if word.startswith("/api/authorize")]
        callback = await ada.browser.to_callback(two.url + sign_in.replace("&amp;", "&"))
        answer = await ada.browser.get(one.at(callback))
        assert answer.headers["Location"] == f"{EXTERNAL}/"
        assert "A terminal waits" in await (await ada.browser.get(f"{one.url}/")).text()

        async def offered() -> bool:
            return (await ada.browser.get(two.url + PAGE)).status == 200

        await eventually(offered)
        answer = await ada.browser.get(two.url + PAGE)
        page = Answer(answer.status, answer.headers, await answer.text())
        answer = await ada.browser.post(
            one.url + PAGE, data=form(page, PAGE), headers={"Origin": EXTERNAL}
        )
        assert answer.status == 303, await answer.text()
        query = told(answer)
        assert query["session_id"] == "s-1"
        assert query.keys() == {"session_id", "consumer_id", "code"}
        body = {"code": query["code"], "code_verifier": VERIFIER}
        answer = await ada.browser.post(f"{two.url}/api/token", json=body)
        assert answer.status == 200, await answer.text()
        found = decode_binding_response((await answer.text()).encode())
        assert await provider.stored("code") == []
        assert await provider.answers() == []
        counted = [await scraped(f"{it.said('running')['metrics']}/metrics") for it in (one, two)]
        assert [it["binds_total"]["done",] for it in counted] == [0, 1]
        logs = one.log() + two.log()
    assert "cluster-1" in logs
    login = base64.b64encode(found.kubeconfig).decode()
    for secret in (query["code"], VERIFIER, "secret-of-the-path", login[:40], "eyJ"):
        assert secret not in logs
