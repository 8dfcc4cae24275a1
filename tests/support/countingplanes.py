"""Embedded control planes that count what they are asked, and hold it where a test wants."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.support.waiting import SECONDS, idle

from fairlead.api.kubebind import CLUSTERBINDINGS
from fairlead.api.meta import JSON
from fairlead.api.resource import LEASES, NAMESPACES, Resource
from fairlead.api.timestamps import parse_time
from fairlead.client import Client, parse_kubeconfig
from fairlead.client.lookups import list_all
from fairlead_sandbox import Sandbox
from fairlead_sandbox.requests.info import RequestInfo


WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
REVIEWS = frozenset({"subjectaccessreviews", "selfsubjectaccessreviews", "token"})
BEAT = timedelta(seconds=149)
"""Heartbeats are 150 s apart, and told in whole seconds."""
QUIET_SECONDS = 0.4
_LATECOMERS = 2
"""How often something may be written that was begun before the quiet."""


class Hold:
    """The moment of a request: it is kept waiting, or something is done and it goes on."""

    def __init__(self, wanted: tuple[str, str, str], then: Callable[[], None] | None) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()
        self._wanted = wanted
        self._then = then

    def matches(self, info: RequestInfo) -> bool:
        return (info.verb, info.resource, info.subresource) == self._wanted

    async def meet(self) -> None:
        first = not self.reached.is_set()
        self.reached.set()
        if self._then is None:
            await self.released.wait()
        elif first:
            self._then()


class Traffic:
    """What a sandbox is asked, and what of it is held."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.seen: list[RequestInfo] = []
        self._holds: list[Hold] = []
        self._apply = sandbox.faults.apply
        sandbox.faults.apply = self._noted  # type: ignore[method-assign]

    async def _noted(self, info: RequestInfo) -> None:
        self.seen.append(info)
        for hold in self._holds:
            if hold.matches(info):
                await hold.meet()
        await self._apply(info)

    @contextlib.contextmanager
    def hold(
        self,
        verb: str,
        resource: str,
        subresource: str = "",
        *,
        then: Callable[[], None] | None = None,
    ) -> Iterator[Hold]:
        """Hold all such requests while the block runs, or do something at the first of them."""
        hold = Hold((verb, resource, subresource), then)
        self._holds.append(hold)
        try:
            yield hold
        finally:
            self._holds.remove(hold)
            hold.released.set()

    def writing(self) -> list[RequestInfo]:
        """The requests that write."""
        return [
            info
            for info in self.seen
            if info.verb in WRITES and not REVIEWS & {info.resource, info.subresource}
        ]

    def writes(self) -> list[tuple[str, str, str]]:
        return [(info.verb, info.resource, info.name) for info in self.writing()]

    def count(self, *verbs: str, resource: str = "") -> int:
        return sum(
            1
            for info in self.seen
            if (not verbs or info.verb in verbs) and resource in {"", info.resource}
        )


class Plane:
    """A sandbox, its administrator and its traffic."""

    def __init__(self, sandbox: Sandbox, admin: Client) -> None:
        self.sandbox = sandbox
        self.admin = admin
        self.traffic = Traffic(sandbox)

    @property
    def faults(self) -> Any:
        return self.sandbox.faults

    async def restart(self) -> None:
        await self.sandbox.stop()
        await self.sandbox.start()

    async def heartbeats(self) -> dict[str, datetime]:
        """When each ClusterBinding had its last heartbeat, by its namespace."""
        found = {item.meta.namespace: item for item in await list_all(self.admin, CLUSTERBINDINGS)}
        status = {name: item.to_dict().get("status") or {} for name, item in found.items()}
        return {
            name: parse_time(one["lastHeartbeatTime"])
            for name, one in status.items()
            if one.get("lastHeartbeatTime")
        }

    async def unrest(
        self, before: dict[str, datetime], *, entered: bool = False
    ) -> tuple[int, list[RequestInfo]]:
        """How many heartbeats fell due since ``before`` and came, and what else was written.

        Konnectors that have ``entered`` since have written their names, each with a heartbeat.
        """
        now = await self.heartbeats()
        due = {
            name for name, beat in before.items() if entered or now.get(name, beat) - beat >= BEAT
        }
        number = 0
        written = []
        for info in self.traffic.writing():
            beat = (info.verb, info.resource) == ("patch", CLUSTERBINDINGS.plural)
            if beat and info.namespace in due:
                due.remove(info.namespace)
                number += 1
            else:
                written.append(info)
        return number, written

    async def told(self, written: list[RequestInfo]) -> list[str]:
        """What was written, each with the object as it is by now; without a name the newest."""
        found: list[str] = []
        for info in written:
            resource = Resource(info.group, info.version, info.resource, "", bool(info.namespace))
            items = (await self.admin.list(resource, info.namespace)).items
            named = [one for one in items if not info.name or one.meta.name == info.name]
            last = max(named, key=lambda one: int(one.meta.resource_version), default=None)
            found.append(f"{info}: {last.to_dict() if last is not None else 'gone'}")
        return found

    async def version(self) -> str:
        """The version of the newest object: equal versions mean that nothing was written."""
        return (await self.admin.list(NAMESPACES)).resource_version

    async def everybody_lists(self) -> str:
        """Drop all watches and what they could be resumed from, and wait until all are back.

        Returns:
            the version of the newest object when they were dropped.
        """
        dropped, wanted = set(self.sandbox.faults._watches), self.watched()
        # With something newer than all that is watched, no watch can be resumed.
        marker: JSON = {"metadata": {"generateName": "marker-"}}
        newest = await self.admin.create(LEASES, marker, "kube-public")
        self.traffic.seen.clear()
        self.faults.drop_watches()
        self.faults.compact()

        def away() -> str:
            listed = Counter(info.resource for info in self.traffic.seen if info.verb == "list")
            running = self.sandbox.faults._watches.keys()
            if unlisted := wanted - listed:
                return f"not listed: {unlisted}"
            if dropped & running:
                return "a dropped watch still runs"
            running_ = self.watched()
            return f"watches {running_} instead of {wanted}" if running_ != wanted else ""

        try:
            async with asyncio.timeout(SECONDS):
                while away():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{self.sandbox.name}: {away()}") from None
        return newest.meta.resource_version

    async def no_more_watches_than(self, before: Counter[str]) -> None:
        """Wait until whoever has come since has left."""
        async with asyncio.timeout(SECONDS):
            while self.watched() - before:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    def watched(self) -> Counter[str]:
        """The watches that run, by resource."""
        return Counter(watch.resource for watch in self.sandbox.faults._watches)


@contextlib.asynccontextmanager
async def plane(name: str) -> AsyncIterator[Plane]:
    async with (
        Sandbox(name=name) as sandbox,
        Client(parse_kubeconfig(sandbox.kubeconfig())) as admin,
    ):
        yield Plane(sandbox, admin)


async def steady(*planes: Plane) -> None:
    """Wait until nothing is asked, have everybody list again, and see nothing written.

    Heartbeats that fall due meanwhile are none of it. What was begun before may come after the
    quiet, where a PostgreSQL is late on a busy machine; whoever writes because it listed does so
    each time.
    """
    for _ in range(_LATECOMERS):
        if not (late := await _written_at_listing(*planes)):
            return
        warnings.warn(f"written late: {late}", stacklevel=2)
    written = await _written_at_listing(*planes)
    assert not written, written


async def _written_at_listing(*planes: Plane) -> list[str]:
    beats = [await one.heartbeats() for one in planes]
    await quiet(*planes)
    watched = [one.watched() for one in planes]
    before = await asyncio.gather(*(one.everybody_lists() for one in planes))
    await quiet(*planes, forget=False)
    counts = [one.traffic.count() for one in planes]
    after = [int(await one.version()) for one in planes]
    unrest = [await one.unrest(known) for one, known in zip(planes, beats, strict=True)]
    written = [
        text
        for one, (_, infos) in zip(planes, unrest, strict=True)
        for text in await one.told(infos)
    ]
    due = [number for number, _ in unrest]
    if not written:
        assert after == [int(old) + number for old, number in zip(before, due, strict=True)]
        # What comes late reads, too.
        for asked, watches in zip(counts, watched, strict=True):
            assert asked <= 4 * watches.total(), (asked, watches)
    return written


async def quiet(*planes: Plane, forget: bool = True, window: float = QUIET_SECONDS) -> None:
    """Wait until nothing has been asked for ``window`` seconds."""
    async with asyncio.timeout(SECONDS):
        known = [-1]
        while (now := [len(one.traffic.seen) for one in planes]) != known:
            known = now
            await idle(window)
    if forget:
        for one in planes:
            one.traffic.seen.clear()
