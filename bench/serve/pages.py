"""Pages of a full provider, to their first byte, against the same rows as bare JSON.

The bare handler keeps the rows in memory and encodes them for each answer. A server is asked for
a page first by a person of whom nothing is known, right after its start, then again and again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

import aiohttp
from tests.support.filled import Filled, condition, gadget

from bench.rows import say
from bench.serve.asking import Place
from fairlead.client import Client
from fairlead.portal.identity.sessions import Person


CONSUMERS = 1000
"""Consumers of the provider, each with one binding."""
OBJECTS = 500
"""Objects of the one consumer whose topology is asked for."""
TIMES = 20
"""Requests for a page after the first."""
ADMINISTRATOR = "administrator"
"""What the names of all who ask begin with."""
_BIG = "consumer-0000"
_AT_ONCE = 16
PAGES = {
    "consumers": ("/consumers", CONSUMERS),
    "bindings": ("/bindings", CONSUMERS),
    "topology": (f"/topology?cluster={_BIG}", OBJECTS),
}
"""Paths, and the rows behind each."""


class Page(NamedTuple):
    """Seconds to the first byte of a page and of the bare rows, in turns."""

    rows: int
    first: float
    """The first request after the server's start."""
    ours: list[float]
    whole: list[float]
    """To the last byte."""
    bare: list[float]
    size: int
    """Bytes of the page."""


async def fill(admin: Client, author: Person) -> None:
    """Write what so many consumers leave on a provider; one of them has many objects."""
    filled = Filled(admin)
    await filled.kinds()
    for number in range(TIMES + 1):
        await filled.lets(
            f"oidc:{ADMINISTRATOR}-{number}",
            *(("kube-bind.io", "*"), ("", "namespaces"), ("", "events")),
            ("example.org", "gadgets"),
            name=f"lets-{number}",
        )
    gate = asyncio.Semaphore(_AT_ONCE)

    async def consumer(number: int) -> None:
        async with gate:
            name = f"consumer-{number:04}"
            await filled.consumer(name, author, f"cluster {number}")
            await filled.export(name)

    # The first one brings the roles that all share.
    await consumer(0)
    await asyncio.gather(*map(consumer, range(1, CONSUMERS)))
    namespace = await filled.namespace(_BIG, "team")

    async def put(number: int) -> None:
        async with gate:
            await filled.put(gadget(namespace, f"gadget-{number}", condition("Ready", "True")))

    await asyncio.gather(*map(put, range(OBJECTS)))


async def time_page(name: str, port: int, tokens: Sequence[str], bare: Place) -> Page:
    """Ask for a page and for the bare rows, one after the other.

    Each time it is another person who asks: after a costly page the same person would wait.
    """
    path = PAGES[name][0]
    async with aiohttp.ClientSession() as session:
        first, _, size = await _fetch(session, Place(port, path, tokens[0]))
        await _fetch(session, bare)
        found = Page(PAGES[name][1], first, [], [], [], size)
        for token in tokens[1:]:
            begun, ended, _ = await _fetch(session, Place(port, path, token))
            found.ours.append(begun)
            found.whole.append(ended)
            found.bare.append((await _fetch(session, bare))[0])
    say(f"{name} {found}")
    return found


async def _fetch(session: aiohttp.ClientSession, place: Place) -> tuple[float, float, int]:
    """Read an answer: seconds to its first byte and to its last, and its bytes."""
    headers = {"Authorization": f"Bearer {place.token}", "Accept-Encoding": "identity"}
    begun = time.monotonic()
    url = f"http://127.0.0.1:{place.port}{place.path}"
    async with session.get(url, headers=headers) as answer:
        answer.raise_for_status()
        head = await answer.content.readany()
        first = time.monotonic() - begun
        rest = await answer.content.read()
        return first, time.monotonic() - begun, len(head) + len(rest)
