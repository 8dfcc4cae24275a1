"""Whatever is asked: an answer, never a fault of ours, and never a way to another place."""

from __future__ import annotations

import asyncio
from typing import TypeAlias
from urllib.parse import quote, quote_from_bytes

import aiohttp
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.issuers import TestIssuer
from tests.support.portalidentity import MemoryStore, browser, door
from yarl import URL


NAMES = (
    *("redirect_url", "session_id", "cluster_id", "client_type", "consumer_id"),
    *("code_challenge", "code_challenge_method", "state", "code", "error", "iss"),
)
VALUES = st.one_of(
    st.text(max_size=40).map(lambda text: quote(text, safe="", errors="replace")),
    st.binary(max_size=20).map(quote_from_bytes),
    st.sampled_from(
        [
            *("", "cli", "ui", "S256", "/", "//x", "http://127.0.0.1:1/", "x" * 5000, "w" * 43),
            *("%00", "%", "%zz", "+", "%ff%fe", "%ed%a0%80", "http%3A%2F%2Fevil.example"),
        ]
    ),
)
QUERIES = st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=8).map(
    lambda pairs: "&".join(f"{name}={value}" for name, value in pairs)
)
HEADERS = st.dictionaries(
    st.sampled_from(["Authorization", "Cookie", "Origin", "Sec-Fetch-Site", "Content-Type"]),
    st.one_of(
        st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=40),
        st.sampled_from(
            ["Bearer x", "fairlead-session=x", "fairlead-session=", '="', "application/json"]
        ),
    ),
)
PATHS = st.sampled_from(["authorize", "callback", "token", "logout", "ping", "protected"])
Call: TypeAlias = tuple[str, str, str, dict[str, str], bytes]
CALLS = st.tuples(st.sampled_from(["GET", "POST"]), PATHS, QUERIES, HEADERS, st.binary())


@settings(max_examples=20)
@given(st.lists(CALLS, min_size=20, max_size=40))
def test_any_request_has_an_answer(
    calls: list[Call],
) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_ask(calls))


async def _ask(calls: list[Call]) -> None:
    store = MemoryStore()
    async with TestIssuer("") as there, door(there, store) as server, browser() as someone:
        for method, path, query, headers, body in calls:
            url = URL(f"{server.url}/api/{path}?{query}", encoded=True)
            sent = {name: v.encode("latin-1").decode("latin-1") for name, v in headers.items()}
            try:
                answered = await (someone.get if method == "GET" else someone.post)(
                    url, headers=sent, **({"data": body} if method == "POST" else {})
                )
            except (aiohttp.InvalidURL, ValueError):
                continue
            assert answered.status < 500
            if answered.status == 302:
                assert answered.headers["Location"].startswith(f"{there.url}/authorize?")
        assert not store.there
