"""The front door against a bare aiohttp handler, and a bind against its API calls made bare.

Requests are answered from the caches of a program with the rights of its manifests, whose limits
of addresses and people are off. Binds are measured on each kind of plane, all else on the first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

import aiohttp
from tests.support.realplane import free_ports, missing_assets

from bench import planes, processes
from bench.loading import loader, side
from bench.processes import Program, running
from bench.rows import Row, report, say
from bench.serve.asking import Place, ask
from bench.serve.bare import bare_server
from bench.serve.calls import BARE_REQUESTS, BareBind
from bench.serve.figures import CONNECTIONS, Asked, Bound, Cold, Figures, Load, rows
from bench.serve.furnishing import ALL, HALF, TEMPLATES, furnish, serving, template
from bench.serve.pages import ADMINISTRATOR, PAGES, TIMES, Page, fill, time_page
from bench.serve.screens import Screens, watch
from bench.sizes import BINDS, CHANGES, PARTS, PLANES, SERVE_ROUNDS, SERVE_SECONDS, STREAMS
from fairlead.api.kubebind import (
    APISERVICEEXPORTTEMPLATES,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES
from fairlead.client import Client
from fairlead.demo.identity import as_service_account
from fairlead.portal.handshake.reviews import BELIEVED_SECONDS
from fairlead.portal.identity.secretstore import SecretStore
from fairlead.portal.identity.sessions import BrowserSessions, Person
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead.provider import manifests as providing
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.runtime import Cluster


COLD = 1000
"""Requests of a person of whom nothing is known."""
WARM = 3
"""Binds that are not counted, and those of the bare client."""
_SECONDS = 3600.0
_OF_A_PERSON = 20
"""Streams of one person."""


class Door(NamedTuple):
    """The front door and the provider's controllers, and whoever asks them."""

    serve: Program
    provider: Program
    port: int
    sessions: BrowserSessions
    issuer: str
    bare: BareBind
    admin: Client

    async def token(self, name: str, group: str) -> str:
        """Sign a person of this group in."""
        person = Person(self.issuer, name, groups=(group,))
        return (await self.sessions.create(person, "cli"))[0]

    async def rounds(self) -> dict[str, Asked]:
        """Ask each route at full speed, in turns with the bare handler."""
        places = {
            "ping": Place(self.port, "/api/ping", await self.token("one", ALL)),
            "all": Place(self.port, "/api/templates", await self.token("two", ALL)),
            "half": Place(self.port, "/api/templates", await self.token("three", HALF)),
        }
        sizes = {name: await _size(place) for name, place in places.items()}
        found = {name: Asked([], [], size) for name, size in sizes.items()}
        async with bare_server(*set(sizes.values())) as bare:
            for _ in range(SERVE_ROUNDS):
                for name, place in places.items():
                    # The very same headers: reading them is the library's work for both.
                    limit = Place(bare.port, f"/{sizes[name]}", place.token)
                    found[name].bare.append(await _load(limit, lambda: processes.cpu(bare.pid)))
                    found[name].ours.append(await _load(place, self.serve.cpu))
        for name, asked in found.items():
            say(f"{name:4} {_line(asked)}")
        return found

    async def cold(self) -> Cold:
        """Ask for templates as a person of whom nothing is known, and count what that costs."""
        place = Place(self.port, "/api/templates", await self.token("four", HALF))
        before = await self.serve.metrics()
        pace = await ask(place, CONNECTIONS, most=COLD)
        after = await self.serve.metrics()
        writes = after.writes - before.writes
        others = after.requests - before.requests - writes
        return Cold(pace.answers, pace.seconds, writes, others, TEMPLATES, BELIEVED_SECONDS)

    async def screens(self) -> Screens:
        """Open catalogues of many people, and change a template again and again."""
        name = template(0)["metadata"]["name"]
        people = [
            await self.token(f"reader-{number}", ALL)
            for number in range(-(-STREAMS // _OF_A_PERSON))
        ]
        places = [
            Place(self.port, "/live", people[number // _OF_A_PERSON]) for number in range(STREAMS)
        ]

        async def change(mark: str) -> None:
            patch = {"spec": {"description": mark}}
            await self.admin.merge_patch(APISERVICEEXPORTTEMPLATES, name, "", patch)

        found = await watch(places, change, self.serve.resident, changes=CHANGES)
        say(f"screens {found}")
        return found

    async def binds(self) -> Bound:
        """Bind for new clusters, in turns with the bare client."""
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self.port}") as session:
            ours: list[float] = []
            bare: list[float] = []
            before = 0.0
            for number in range(WARM + BINDS):
                if number == WARM:
                    before = await self._requests()
                ours.append(await self._bind(session, f"cluster-{number}"))
                bare.append(await self.bare.bind(f"bare-{number}"))
            requests = await self._requests() - before
        calls = len(list(self.bare.calls("")))
        found = Bound(ours[WARM:], bare[WARM:], calls, requests / BINDS)
        say(f"bind {found}")
        return found

    async def _bind(self, session: aiohttp.ClientSession, identity: str) -> float:
        """Time a bind of a person who has just looked at what is offered."""
        # Each has a person of its own: one may bind so often and no more.
        token = await self.token(identity, ALL)
        headers = {"Authorization": f"Bearer {token}"}
        async with session.get("/api/templates", headers=headers) as answer:
            await answer.read()
        body: JSON = {
            "metadata": {"name": "shop"},
            "spec": {
                "templateRef": {"name": template(0)["metadata"]["name"]},
                "clusterIdentity": {"identity": identity},
            },
        }
        begun = time.monotonic()
        async with session.post("/api/bind", json=body, headers=headers) as answer:
            text = await answer.text()
            if answer.status != 200:
                raise RuntimeError(f"a bind was answered by {answer.status}: {text}")
        return time.monotonic() - begun

    async def _requests(self) -> float:
        """Count the requests of both programs so far."""
        told = await asyncio.gather(self.serve.metrics(), self.provider.metrics())
        return sum(one.requests for one in told)


async def _load(place: Place, cpu: Callable[[], float]) -> Load:
    """Ask at full speed for the time of a round."""
    await ask(place, CONNECTIONS, most=CONNECTIONS)
    before = cpu()
    pace = await ask(place, CONNECTIONS, seconds=SERVE_SECONDS)
    return Load(pace.answers, pace.seconds, cpu() - before)


async def _size(place: Place) -> int:
    """Find the bytes of an answer."""
    headers = {"Authorization": f"Bearer {place.token}"}
    url = f"http://127.0.0.1:{place.port}{place.path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        answer.raise_for_status()
        return len(await answer.read())


@asynccontextmanager
async def door(kind: str) -> AsyncIterator[Door]:
    """Run a control plane, the front door and the provider's controllers, and a bare client."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(planes.scratch())
        plane = await stack.enter_async_context(planes.plane(kind, own))
        admin = await stack.enter_async_context(Client(plane.admin))
        await furnish(admin)
        account = await as_service_account(admin, PROVIDER_NAMESPACE, providing.NAME)
        provider = await stack.enter_async_context(running("provider", account, own))
        port = free_ports(1)[0]
        account = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
        serve = await stack.enter_async_context(serving(account, own, port))
        groups = ("", CLUSTERROLES.group, APISERVICEEXPORTTEMPLATES.group, BARE_REQUESTS.group)
        loading = await stack.enter_async_context(side(await loader(admin, *groups)))
        # Signing people in is not measured: their sessions are stored as the front door does it.
        store = SecretStore(Cluster("bench", admin), DEFAULT_NAMESPACE)
        sessions = BrowserSessions(store, lifetime=_SECONDS)
        issuer = f"http://127.0.0.1:{port}/oidc"
        bare = BareBind(loading, DEFAULT_NAMESPACE, template(0)["metadata"]["name"])
        yield Door(serve, provider, port, sessions, issuer, bare, admin)


async def show(kind: str) -> dict[str, Page]:
    """Fill a provider, and ask for its pages."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(planes.scratch())
        plane = await stack.enter_async_context(planes.plane(kind, own))
        admin = await stack.enter_async_context(Client(plane.admin))
        port = free_ports(1)[0]
        issuer = f"http://127.0.0.1:{port}/oidc"
        await furnish(admin)
        await fill(admin, Person(issuer, "author"))
        account = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
        await stack.enter_async_context(serving(account, own, port))
        sessions = BrowserSessions(
            SecretStore(Cluster("bench", admin), DEFAULT_NAMESPACE), lifetime=_SECONDS
        )
        people = [Person(issuer, f"{ADMINISTRATOR}-{number}") for number in range(TIMES + 1)]
        tokens = [(await sessions.create(person, "cli"))[0] for person in people]
        bare = await stack.enter_async_context(bare_server())
        return {
            name: await time_page(name, port, tokens, Place(bare.port, f"/rows/{most}"))
            for name, (_, most) in PAGES.items()
        }


async def compare() -> list[Row]:
    """Measure all parts, or the chosen ones."""
    figures = Figures({}, None, {}, {})
    for kind in PLANES:
        if kind == "real" and (missing := missing_assets()):
            say(f"real planes left out: {missing}")
            continue
        if not figures.pages and _chosen("pages"):
            figures = figures._replace(pages=await show(kind))
        if {"pages"} == PARTS:
            continue
        async with door(kind) as one:
            if not figures.routes and _chosen("requests"):
                figures = figures._replace(routes=await one.rounds(), cold=await one.cold())
            if figures.screens is None and _chosen("screens"):
                figures = figures._replace(screens=await one.screens())
            if _chosen("bind"):
                figures = figures._replace(binds={**figures.binds, kind: await one.binds()})
    return list(rows(figures))


def _chosen(part: str) -> bool:
    return not PARTS or part in PARTS


def _line(asked: Asked) -> str:
    ours, bare = (max(one.per_second for one in of) for of in asked[:2])
    return f"{ours:,.0f}/s, bare {bare:,.0f}/s at best"


if __name__ == "__main__":
    report(compare)
