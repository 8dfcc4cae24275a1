"""Forms are taken from their own session, for their own action, and once."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from aiohttp import web
from tests.support.portal import EXTERNAL, Door, opened, serve_options
from tests.support.portalidentity import MemoryStore

from fairlead.portal.console.visits.formtokens import FIELD, FormTokens, field
from fairlead.portal.identity.guard import Cookies, SessionGuard
from fairlead.portal.identity.keys import Sealing, local_keys
from fairlead.portal.identity.sessions import BrowserSessions, Person
from fairlead.portal.options import ExternalURL


ACTION = "unbind/shop"
COOKIE = Cookies(ExternalURL.parse(EXTERNAL)).session


@pytest.mark.parametrize(
    ("change", "status"),
    [
        pytest.param({}, 200, id="as-it-was-made"),
        pytest.param({"token": "another session's"}, 403, id="of-another-session"),
        pytest.param({"token": "another action's"}, 403, id="for-another-action"),
        pytest.param({"token": ""}, 403, id="without-a-token"),
        pytest.param({"token": "x" * 5000}, 403, id="with-a-long-token"),
        pytest.param({"origin": "https://elsewhere.example.org"}, 403, id="of-another-site"),
        pytest.param({"cookie": ""}, 303, id="of-a-stranger"),
        pytest.param({"type": "text/plain"}, 415, id="no-form"),
        pytest.param({"body": b"a=%ff"}, 400, id="no-text"),
        pytest.param({"body": b"a&" * 3000}, 400, id="too-many-fields"),
    ],
)
async def test_which_forms_are_taken(change: dict[str, str | bytes], status: int) -> None:
    store, sealing = MemoryStore(), Sealing(local_keys())
    sessions = BrowserSessions(store, lifetime=3600)
    tokens = FormTokens(sealing, store, SessionGuard(sessions, ExternalURL.parse(EXTERNAL)))

    async def take(request: web.Request) -> web.Response:
        session, fields = await tokens.fields(request)
        await tokens.check(session, fields, ACTION)
        return web.Response(text=field(fields, "name"))

    cookie, mine = await sessions.create(Person("https://issuer", "ada"), "browser")
    _, other = await sessions.create(Person("https://issuer", "ada"), "browser")
    made = {
        "another session's": tokens.token(other, ACTION),
        "another action's": tokens.token(mine, "unbind/other"),
    }
    told = str(change["token"]) if "token" in change else tokens.token(mine, ACTION)
    body = urlencode({"name": "shop", FIELD: made.get(told, told)})
    headers = {
        "Origin": str(change.get("origin", EXTERNAL)),
        "Cookie": f"{COOKIE}={change.get('cookie', cookie)!s}",
        "Content-Type": str(change.get("type", "application/x-www-form-urlencoded")),
    }

    async def send(door: Door) -> int:
        content = change.get("body", body)
        return (await door.ask("/take", "POST", data=content, headers=headers)).status

    async with opened(serve_options(), [web.post("/take", take)]) as door:
        assert await send(door) == status
        if status == 200:
            assert await send(door) == 409
