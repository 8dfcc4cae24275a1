"""The listener that a browser is sent to."""

from __future__ import annotations

import asyncio
import base64
import json
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.frontdoor import browse

from fairlead.api.kubebind import new_binding_response
from fairlead.portal.client.addresses import FrontDoorError
from fairlead.portal.client.handshakes import Callback, decode_page_response


async def test_a_whole_response_of_a_large_provider_arrives() -> None:
    document = new_binding_response(
        kubeconfig=b"k" * 200_000, requests=[], provider_namespace="n", identity="i"
    )
    text = base64.b64encode(json.dumps(document).encode()).decode()
    async with Callback(strict=True) as callback:
        query = {"session_id": callback.session_id, "binding_response": text}
        assert (await browse(f"{callback.url}?{urlencode(query)}"))[0] == 200
        found = await callback.answer(1.0)
    assert len(decode_page_response(found["binding_response"]).kubeconfig) == 200_000


async def test_the_first_answer_counts() -> None:
    async with Callback(strict=False) as callback:
        await browse(f"{callback.url}?code=first")
        await browse(f"{callback.url}?code=second")
        assert (await callback.answer(1.0))["code"] == "first"


async def test_s20_addresses_are_not_guessed_from_others() -> None:
    async with Callback(strict=False) as one, Callback(strict=False) as other:
        mine, theirs = (each.url.rpartition("/")[2] for each in (one, other))
        assert mine != theirs
        assert len(mine) >= 32
        crossed = one.url.replace(mine, theirs)
        assert (await browse_status(f"{crossed}?code=x")) == 404
        with pytest.raises(FrontDoorError, match="no answer came"):
            await one.answer(0.05)


async def browse_status(url: str) -> int:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status


@settings(max_examples=30)
@given(st.binary(max_size=300))
def test_noise_ends_nothing(noise: bytes) -> None:
    async def main() -> None:
        async with Callback(strict=False) as callback:
            port = int(callback.url.split(":")[2].partition("/")[0])
            path = callback.url.partition(f":{port}")[2].encode()
            for line in (noise, b"GET " + path + b"?" + noise + b" HTTP/1.1\r\nHost: x\r\n\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(line)
                writer.write_eof()
                await reader.read()
                writer.close()
                await writer.wait_closed()
            await browse(f"{callback.url}?code=ours")
            await callback.answer(5.0)

    asyncio.run(main())
