"""The front door against a bare aiohttp handler that answers bodies of the same size.

Requests are answered from the caches of a program with the rights of its manifests, whose limits
of addresses and people are off. A request is encoded once, and of an answer its status and its
length are read alone, so that the server is what takes the time, whichever it is.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, cast

import aiohttp
from tests.support.realplane import free_ports

from bench.bare import bare_server
from bench.planes import Program, control_plane, cpu, running, scratch
from bench.rows import Row, report, say
from bench.sizes import SERVE_ROUNDS, SERVE_SECONDS
from fairlead.api.kubebind import API_VERSION, APISERVICEEXPORTTEMPLATES, provider_crds
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLEBINDINGS, CLUSTERROLES
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.portal import manifests
from fairlead.portal.identity.embedded.passwords import PasswordHash
from fairlead.portal.identity.secretstore import SecretStore
from fairlead.portal.identity.sessions import BrowserSessions, Person
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead.runtime import Cluster, install_crds


_HEAD = re.compile(
    rb"HTTP/1\.1 200 .*?\r\nContent-Length: ([0-9]+)\r\n.*?\r\n\r\n", re.DOTALL | re.IGNORECASE
)
_END = b"\r\n\r\n"


class Place(NamedTuple):
    """What is asked: a path of a server on loopback, by a token where one is needed."""

    port: int
    path: str
    token: str = ""

    def request(self) -> bytes:
        """Encode the request."""
        lines = [f"GET {self.path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join([*lines, "", ""]).encode()


class Pace(NamedTuple):
    """Answers, and the seconds that they took."""

    answers: int
    seconds: float


class _Turns:
    """How many requests are left to send, and until when."""

    def __init__(self, most: int, until: float) -> None:
        self.answers = 0
        self._left = most
        self._until = until

    def take(self) -> bool:
        """Take one request, and tell whether there was one."""
        if not self._left or time.monotonic() >= self._until:
            return False
        self._left -= 1
        return True


class _Connection(asyncio.Protocol):
    """Sends a request as soon as the one before it is answered."""

    def __init__(self, request: bytes, turns: _Turns) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._turns = turns
        self._head = b""
        self._missing = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclass of it.
        self._transport = cast("asyncio.Transport", transport)

    def begin(self) -> None:
        """Send the next request, if there is one left."""
        if self._turns.take():
            self._transport.write(self._request)
        elif not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            data = self._head + data
            if _END not in data:
                self._head = data
                return
            found = _HEAD.match(data)
            if found is None:
                self._fail(f"the server answered {data[:300]!r}")
                return
            self._head = b""
            self._missing = int(found[1]) + found.end()
        self._missing -= len(data)
        if not self._missing:
            self._turns.answers += 1
            self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the server closed a connection")

    def close(self) -> None:
        self._transport.close()

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


async def ask(
    place: Place, connections: int, *, seconds: float = 3600.0, most: int = 1 << 40
) -> Pace:
    """Ask over so many connections until the seconds are over, or so many are answered.

    Raises:
        RuntimeError: an answer is not 200, or a connection was closed.
    """
    loop = asyncio.get_running_loop()
    turns = _Turns(most, time.monotonic() + seconds)
    request = place.request()
    opened: list[_Connection] = []
    try:
        for _ in range(connections):
            _, one = await loop.create_connection(
                lambda: _Connection(request, turns), "127.0.0.1", place.port
            )
            opened.append(one)
        begun = time.monotonic()
        for one in opened:
            one.begin()
        done = asyncio.gather(*(one.done for one in opened))
        while not done.done():  # noqa: ASYNC110  it is to stay awake
            await asyncio.sleep(0)
        await done
        return Pace(turns.answers, time.monotonic() - begun)
    finally:
        for one in opened:
            one.close()


TEMPLATES = 100
ALL, HALF = "all", "half"
"""Groups of people who may bind all templates, and half of them by name."""


async def install_door(admin: Client) -> ClusterConfig:
    """Create the rights of the front door; its credentials."""
    bodies = manifests.manifests(
        image="bench",
        external_url="https://bind.example.org",
        issuer_url="https://login.example.org",
        client_id="bench",
    )
    await create_all(admin, bodies)
    return await as_service_account(admin, DEFAULT_NAMESPACE, NAME)


def door_flags(folder: Path, port: int) -> tuple[str, ...]:
    """Return the flags of a front door with people of its own."""
    people = folder / "people.yaml"
    people.write_text(f"people: [{{name: bench, password: {PasswordHash.of('bench').line!r}}}]")
    return (
        f"--listen-address=127.0.0.1:{port}",
        "--oidc-type=embedded",
        f"--oidc-people-file={people}",
    )


def template(number: int) -> JSON:
    resources = [{"group": "example.org", "resource": f"widgets{number}", "versions": ["v1"]}]
    claims = [{"group": "", "resource": "secrets", "selector": {"all": True}}]
    return {
        "apiVersion": API_VERSION,
        "kind": APISERVICEEXPORTTEMPLATES.kind,
        "metadata": {"name": f"widgets-{number:03}"},
        "spec": {"scope": "Namespaced", "resources": resources, "permissionClaims": claims},
    }


def _allowed(group: str, names: Sequence[str] = ()) -> list[JSON]:
    """A ClusterRole to bind these templates, or all, and its binding to a group."""
    name, api = f"bench-{group}", CLUSTERROLES.group
    allowed = rule(APISERVICEEXPORTTEMPLATES.group, [APISERVICEEXPORTTEMPLATES.plural], ("bind",))
    if names:
        allowed["resourceNames"] = list(names)
    subject = {"kind": "Group", "apiGroup": api, "name": f"oidc:{group}"}
    return [
        {
            "apiVersion": CLUSTERROLES.api_version,
            "kind": CLUSTERROLES.kind,
            "metadata": {"name": name},
            "rules": [allowed],
        },
        {
            "apiVersion": CLUSTERROLEBINDINGS.api_version,
            "kind": CLUSTERROLEBINDINGS.kind,
            "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": CLUSTERROLES.kind, "name": name},
            "subjects": [subject],
        },
    ]


CONNECTIONS = 16
AIM_PACE = 0.5
_LIFE_SECONDS = 3600.0
_TITLES = {
    "ping": "/api/ping, signed in",
    "all": "/api/templates of a person who may bind all",
    "half": "/api/templates of a person who may bind half of them by name",
}


class Load(NamedTuple):
    """One server under full speed for a round; ``cpu`` is seconds of its CPU."""

    answers: int
    seconds: float
    cpu: float

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds


class Asked(NamedTuple):
    """A route and the bare handler with a body of its size, in rounds that take turns."""

    ours: list[Load]
    bare: list[Load]
    size: int
    """Bytes of a body."""


def route_rows(name: str, asked: Asked) -> Iterator[Row]:
    key, title = f"serve_{name}", _TITLES[name]
    pairs = list(zip(asked.ours, asked.bare, strict=True))
    value = statistics.median(ours.per_second / bare.per_second for ours, bare in pairs)
    speed, limit = (statistics.median(one.per_second for one in of) for of in asked[:2])
    yield Row(
        f"{key}_pace",
        f"{title}: requests/s of the bare handler's",
        value,
        aim=AIM_PACE,
        smaller_is_better=False,
        note=f"{speed:,.0f}/s against {limit:,.0f}/s, {asked.size:,} bytes; "
        f"median of {len(pairs)} rounds",
    )
    ours, bare = (
        1e6 * sum(one.cpu for one in of) / sum(one.answers for one in of) for of in asked[:2]
    )
    yield Row(
        f"{key}_cpu",
        f"{title}: our CPU of a request",
        ours,
        "us",
        note=f"bare handler {bare:,.0f} us",
    )


class Door(NamedTuple):
    """The front door, and whoever asks it."""

    serve: Program
    port: int
    sessions: BrowserSessions

    async def token(self, name: str, group: str) -> str:
        """Sign a person of this group in."""
        person = Person(f"http://127.0.0.1:{self.port}/oidc", name, groups=(group,))
        return (await self.sessions.create(person, "cli"))[0]

    async def rounds(self) -> dict[str, Asked]:
        """Ask each route at full speed, in turns with the bare handler."""
        places = {
            "ping": Place(self.port, "/api/ping", await self.token("one", ALL)),
            "all": Place(self.port, "/api/templates", await self.token("two", ALL)),
            "half": Place(self.port, "/api/templates", await self.token("three", HALF)),
        }
        sizes = {name: await _size(place) for name, place in places.items()}
        measured = {name: Asked([], [], size) for name, size in sizes.items()}
        async with bare_server(*set(sizes.values())) as bare:
            for _ in range(SERVE_ROUNDS):
                for name, place in places.items():
                    # The very same headers: reading them is the library's work for both.
                    limit = Place(bare.port, f"/{sizes[name]}", place.token)
                    measured[name].bare.append(await _load(limit, lambda: cpu(bare.pid)))
                    measured[name].ours.append(await _load(place, self.serve.cpu))
        return measured


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
async def door() -> AsyncIterator[Door]:
    """Run a sandbox with templates, and the front door without limits of who asks how often."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(scratch())
        plane = await stack.enter_async_context(control_plane("sandbox", own))
        admin = await stack.enter_async_context(Client(plane.admin))
        await install_crds(admin, provider_crds())
        templates = [template(number) for number in range(TEMPLATES)]
        half = [one["metadata"]["name"] for one in templates[::2]]
        account = await install_door(admin)
        await create_all(admin, [*templates, *_allowed(ALL), *_allowed(HALF, half)])
        port = free_ports(1)[0]
        flags = (*door_flags(own, port), "--requests-per-address=0", "--requests-per-person=0")
        serve = await stack.enter_async_context(
            running("provider", account, own, *flags, verb="serve")
        )
        # Signing people in is not measured: their sessions are stored as the front door does it.
        store = SecretStore(Cluster("bench", admin), DEFAULT_NAMESPACE)
        yield Door(serve, port, BrowserSessions(store, lifetime=_LIFE_SECONDS))


async def compare() -> list[Row]:
    """Measure the routes."""
    async with door() as one:
        measured = await one.rounds()
        routes = [row for name, asked in measured.items() for row in route_rows(name, asked)]
        for row in routes:
            say(f"{row.title} {row.value:.2f} {row.unit}")
        return routes


if __name__ == "__main__":
    report(compare)
