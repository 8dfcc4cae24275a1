"""Events: what happened to an object, where ``kubectl describe`` shows it.

Recording never blocks and never fails: what cannot be written is dropped. Repetitions are counted
on the first event, floods of similar ones are combined and each object has a budget, as client-go
does it (its correlator's numbers).
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import structlog

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import EVENTS
from fairlead.api.timestamps import now
from fairlead.client.errors import ApiError, ClientError, ConnectionFailed, NotFound


if TYPE_CHECKING:
    from fairlead.client import Client


_log = structlog.get_logger(logger_name="fairlead.runtime.events")

QUEUE_LIMIT = 1000
"""So many events may wait; more are dropped."""

SERIES_SECONDS = 600.0
"""Within this time the same event again is counted on the first one."""

SIMILAR_LIMIT = 10
"""So many events that differ only in their message are written, then they are combined."""

BURST = 25
"""So many events about one object are written at once."""

REFILL_SECONDS = 300.0
"""After the burst one more is written in this time."""

_REMEMBERED = 4096
_MESSAGE_LIMIT = 1024
_ATTEMPTS = 3
_PAUSE_SECONDS = 2.0

EventType = Literal["Normal", "Warning"]


class _Happening(NamedTuple):
    """What makes two events the same."""

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


class _Series(msgspec.Struct):
    """An event that was written, and how often it has happened."""

    namespace: str
    name: str
    count: int
    last: float


class EventRecorder:
    """Records events of one component. Messages must not contain secrets."""

    def __init__(self, writer: EventWriter, component: str) -> None:
        self._writer = writer
        self._component = component

    def event(
        self, obj: Object, type_: EventType, reason: str, message: str, action: str = ""
    ) -> None:
        """Say that something happened to an object; returns at once and never raises."""
        self._writer.put(
            _Happening(
                self._component,
                obj.api_version,
                obj.kind,
                obj.meta.namespace,
                obj.meta.name,
                obj.meta.uid,
                type_,
                reason,
                action,
                message[:_MESSAGE_LIMIT],
            ),
            obj.meta.resource_version,
        )


class EventWriter:
    """Writes the events of one cluster, one after the other, in its own task."""

    def __init__(self, client: Client) -> None:
        self.dropped = 0
        self._client = client
        self._waiting: OrderedDict[_Happening, tuple[int, str]] = OrderedDict()
        self._arrived = asyncio.Event()
        self._series: OrderedDict[_Happening, _Series] = OrderedDict()
        self._similar: OrderedDict[_Happening, tuple[set[str], float]] = OrderedDict()
        self._budgets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def put(self, happening: _Happening, resource_version: str) -> None:
        """Have an event written; repetitions that wait together are counted."""
        count, _ = self._waiting.get(happening, (0, ""))
        if not count and len(self._waiting) >= QUEUE_LIMIT:
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
                await self._deliver(happening, count, version)

    async def _deliver(self, happening: _Happening, count: int, version: str) -> None:
        moment = asyncio.get_running_loop().time()
        happening = self._combine(happening, moment)
        if not self._afford(happening, moment):
            self.dropped += 1
            return
        for _ in range(_ATTEMPTS):
            try:
                await self._write(happening, count, version, moment)
            except ConnectionFailed:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            except ClientError as error:
                _log.debug("event dropped", reason=happening.reason, error=str(error))
            except Exception:  # noqa: BLE001
                _log.exception("event dropped", reason=happening.reason)
            else:
                return
            break
        self.dropped += 1

    def _combine(self, happening: _Happening, moment: float) -> _Happening:
        common = happening._replace(message="")
        messages, since = self._similar.pop(common, (set[str](), moment))
        if moment - since > SERIES_SECONDS:
            messages, since = set(), moment
        if happening.message not in messages:
            if len(messages) >= SIMILAR_LIMIT:
                text = f"(combined from similar events): {happening.message}"
                happening = self._combined(common) or happening._replace(message=text)
            else:
                messages.add(happening.message)
        _remember(self._similar, common, (messages, since))
        return happening

    def _combined(self, common: _Happening) -> _Happening | None:
        """The combined event that was written already for these, so that it is counted on."""
        return next(
            (
                known
                for known in reversed(self._series)
                if known._replace(message="") == common and known.message.startswith("(combined")
            ),
            None,
        )

    def _afford(self, happening: _Happening, moment: float) -> bool:
        source = (happening.component, happening.uid or happening.name)
        tokens, since = self._budgets.pop(source, (float(BURST), moment))
        tokens = min(float(BURST), tokens + (moment - since) / REFILL_SECONDS)
        enough = tokens >= 1
        _remember(self._budgets, source, (tokens - enough, moment))
        return enough

    async def _write(self, happening: _Happening, count: int, version: str, moment: float) -> None:
        series = self._series.pop(happening, None)
        if series is not None and moment - series.last <= SERIES_SECONDS:
            try:
                await self._repeat(happening, series, count, moment)
            except NotFound:
                pass
            else:
                return
        body = _body(happening, count, version)
        namespace: str = body["metadata"]["namespace"]
        await self._client.create(EVENTS, body, namespace)
        written = _Series(namespace, body["metadata"]["name"], count, moment)
        _remember(self._series, happening, written)

    async def _repeat(
        self, happening: _Happening, series: _Series, count: int, moment: float
    ) -> None:
        series.count += count
        series.last = moment
        patch: JSON = {
            "count": series.count,
            "lastTimestamp": now(),
            "message": happening.message,
        }
        try:
            await self._client.merge_patch(EVENTS, series.name, series.namespace, patch)
        except ApiError as error:
            if isinstance(error, NotFound):
                raise
            _log.debug("event not counted", reason=happening.reason, error=str(error))
        _remember(self._series, happening, series)


def _body(happening: _Happening, count: int, version: str) -> JSON:
    namespace = happening.namespace or "default"
    moment = datetime.now(UTC)
    stamp = now()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": namespace,
            "name": f"{happening.name[:200]}.{int(moment.timestamp()):x}{secrets.token_hex(4)}",
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


def _remember(memory: OrderedDict, key: object, value: object) -> None:  # type: ignore[type-arg]
    memory[key] = value
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)
