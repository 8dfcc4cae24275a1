"""Events (core/v1) about objects, as ``kubectl describe`` shows them.

Recording never blocks and never fails: an event that cannot be written is dropped and counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Hashable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import structlog

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import EVENTS
from fairlead.api.timestamps import format_time, moment, now
from fairlead.client import limits
from fairlead.client.errors import ClientError, ConnectionFailed, NotFound


if TYPE_CHECKING:
    from fairlead.client import Client


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


_COMBINED = "(combined from similar events): "


class Happening(NamedTuple):
    """Fields by which two events count as the same event, repeated."""

    component: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    message: str

    def digest(self) -> bytes:
        """Return a hash that stands for the event in memory, in place of its full text."""
        text = "\0".join(self).encode(errors="surrogatepass")
        return hashlib.blake2b(text, digest_size=16, usedforsecurity=False).digest()


class Series(NamedTuple):
    """Name of a written event, its count, and the time of the last one in seconds of the loop."""

    namespace: str
    name: str
    times: int
    last: float


class _Similar(NamedTuple):
    messages: tuple[int, ...]
    """Hashes of the different messages."""
    since: float
    combined: Happening | None


class Correlator:
    """Decides which events are worth a write, by the recent writes, in bounded memory.

    The numbers are those of client-go's event correlator
    (https://pkg.go.dev/k8s.io/client-go/tools/record#EventCorrelator). Times are seconds of the
    caller's clock.
    """

    def __init__(self) -> None:
        self._series: OrderedDict[bytes, Series] = OrderedDict()
        self._similar: OrderedDict[bytes, _Similar] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def admit(self, happening: Happening, now: float) -> Happening | None:
        """Return the event to write, perhaps a combined one; None if the budget is used up."""
        happening = self._combine(happening, now)
        source = (happening.component, happening.uid or happening.name)
        # A token bucket for each component and object: time refills it, an event takes one.
        tokens, since = self._budgets.pop(source, (float(limits.EVENTS_BURST), now))
        tokens = min(float(limits.EVENTS_BURST), tokens + (now - since) / limits.REFILL_SECONDS)
        enough = tokens >= 1
        _remember(self._budgets, source, (tokens - enough, now))
        return happening if enough else None

    def series(self, happening: Happening, now: float) -> Series | None:
        """Return the written event whose count this one raises; None if there is no recent one."""
        series = self._series.get(happening.digest())
        return series if series and now - series.last <= limits.SERIES_SECONDS else None

    def written(self, happening: Happening, series: Series) -> None:
        """Remember a written event."""
        _remember(self._series, happening.digest(), series)

    def _combine(self, happening: Happening, now: float) -> Happening:
        common = happening._replace(message="").digest()
        similar = self._similar.pop(common, _Similar((), now, None))
        if now - similar.since > limits.SERIES_SECONDS:
            similar = _Similar((), now, None)
        message = hash(happening.message)
        if message not in similar.messages:
            if len(similar.messages) < limits.SIMILAR_EVENTS:
                similar = similar._replace(messages=(*similar.messages, message))
            else:
                combined = happening._replace(message=_COMBINED + happening.message)
                # From here on all of them are one event, so that its count grows and not the
                # number of events.
                similar = similar._replace(combined=similar.combined or combined)
                happening = similar.combined or combined
        _remember(self._similar, common, similar)
        return happening


def _remember(memory: OrderedDict[K, V], key: K, value: V) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > limits.CORRELATED:
        memory.popitem(last=False)


_log = structlog.get_logger(logger_name="fairlead.runtime.events")


EventType = Literal["Normal", "Warning"]


class EventRecorder:
    """Records events of one component. Messages must not contain secrets.

    Needs create and patch on events, in ``default`` for objects of the cluster's scope.
    """

    def __init__(self, writer: EventWriter, component: str) -> None:
        self._writer = writer
        self._component = component

    def event(
        self, obj: Object, type_: EventType, reason: str, message: str, action: str = ""
    ) -> None:
        """Queue an event about an object; returns at once and never raises."""
        happening = Happening(
            component=self._component,
            api_version=obj.api_version,
            kind=obj.kind,
            namespace=obj.meta.namespace,
            name=obj.meta.name,
            uid=obj.meta.uid,
            type=type_,
            reason=reason,
            action=action,
            message=message[: limits.EVENT_CHARACTERS],
        )
        self._writer.put(happening, obj.meta.resource_version)


class EventWriter:
    """Writes the events of one cluster, one after the other, in its own task."""

    def __init__(self, client: Client) -> None:
        self.dropped = 0
        self._client = client
        self._correlator = Correlator()
        self._waiting: OrderedDict[Happening, tuple[int, str]] = OrderedDict()
        self._arrived = asyncio.Event()

    def put(self, happening: Happening, resource_version: str) -> None:
        """Queue an event; equal events that wait together become one with a count."""
        count, _ = self._waiting.get(happening, (0, ""))
        # Events are a help for people: dropping some is better than delaying a controller.
        if not count and len(self._waiting) >= limits.EVENTS_WAITING:
            self.dropped += 1
            return
        self._waiting[happening] = (count + 1, resource_version)
        self._arrived.set()

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                happening, (count, version) = self._waiting.popitem(last=False)
                if not await self._deliver(happening, count, version):
                    self.dropped += 1

    async def _deliver(self, happening: Happening, count: int, version: str) -> bool:
        at = asyncio.get_running_loop().time()
        admitted = self._correlator.admit(happening, at)
        if admitted is None:
            return False
        for _ in range(limits.EVENT_ATTEMPTS):
            try:
                await self._write(admitted, count, version)
            except ConnectionFailed:
                await asyncio.sleep(limits.EVENT_PAUSE_SECONDS)
            except ClientError as error:
                # A refused event is refused again: only an unreachable server is worth another
                # try.
                _log.debug("event dropped", reason=happening.reason, error=str(error))
                return False
            except Exception:  # noqa: BLE001
                _log.exception("event dropped", reason=happening.reason)
                return False
            else:
                return True
        return False

    async def _write(self, happening: Happening, count: int, version: str) -> None:
        at = asyncio.get_running_loop().time()
        series = self._correlator.series(happening, at)
        if series is not None:
            series = series._replace(times=series.times + count, last=at)
            # The server forgets events after an hour or sooner; then this one is the first again.
            if await self._count(series):
                self._correlator.written(happening, series)
                return
        body = _body(happening, count, version)
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        await self._client.create(EVENTS, body, namespace)
        self._correlator.written(happening, Series(namespace, name, count, at))

    async def _count(self, series: Series) -> bool:
        patch: JSON = {"count": series.times, "lastTimestamp": now()}
        try:
            await self._client.merge_patch(EVENTS, series.name, series.namespace, patch)
        except NotFound:
            return False
        return True


def _body(happening: Happening, count: int, version: str) -> JSON:
    at = moment()
    stamp = format_time(at)
    unique = f"{int(at.timestamp()):x}{secrets.token_hex(4)}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": happening.namespace or "default",
            # Names have 253 characters at most, of which the unique part needs some; before its
            # dot there may be no other dot, and no dash (RFC 1123).
            "name": f"{happening.name[:200].rstrip('-.')}.{unique}",
        },
        "involvedObject": {
            "apiVersion": happening.api_version,
            "kind": happening.kind,
            "namespace": happening.namespace,
            "name": happening.name,
            "uid": happening.uid,
            "resourceVersion": version,
        },
        "type": happening.type,
        "reason": happening.reason,
        "action": happening.action,
        "message": happening.message,
        "source": {"component": happening.component},
        "reportingComponent": happening.component,
        "reportingInstance": "",
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": count,
    }
