"""A server that answers lists and watches from memory, in a process of its own.

It costs the measured process nothing but the bytes that it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator

from aiohttp import web

from bench.widgets import FIELDS, WIDGETS
from fairlead.api.meta import JSON


OBJECTS = 10_000
EVENTS = 20_000

_CHUNK = 65_536


def widget(number: int, version: int) -> bytes:
    """Write a widget of about 2.4 KB as an API server does, managedFields included."""
    uid = f"{number:08x}-9a4f-4a4f-8a8b-{version:012x}"
    managed = {
        "apiVersion": "example.org/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:team": {}}},
            "f:spec": {".": {}, **{f"f:field{index}": {} for index in range(FIELDS)}},
        },
        "manager": "kubectl",
        "operation": "Update",
        "time": "2024-01-01T00:00:00Z",
    }
    body: JSON = {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {
            "annotations": {"example.org/description": f"widget number {number}"},
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "finalizers": ["example.org/widget"],
            "generation": 1,
            "labels": {"app": f"app-{number % 50}", "team": f"team-{number % 7}"},
            "managedFields": [managed],
            "name": f"widget-{number}",
            "namespace": f"namespace-{number % 100}",
            "resourceVersion": str(version),
            "uid": uid[:36],
        },
        "spec": {f"field{index}": f"{version}-{index}".ljust(39, "v") for index in range(FIELDS)},
        "status": {
            "conditions": [
                {
                    "lastTransitionTime": "2024-01-01T00:00:00Z",
                    "message": "everything is as it should be",
                    "reason": "Ready",
                    "status": "True",
                    "type": "Ready",
                }
            ],
            "observedGeneration": 1,
        },
    }
    return json.dumps(body, separators=(",", ":")).encode()


def events(count: int, objects: int) -> Iterator[bytes]:
    """Write watch lines: nine changes in ten, some coming and going."""
    chance = random.Random(7)
    gone: list[int] = []
    for version in range(objects + 1, objects + count + 1):
        if gone and version % 20 == 0:
            yield b'{"type":"ADDED","object":' + widget(gone.pop(), version) + b"}\n"
        elif version % 20 == 10:
            gone.append(chance.randrange(objects))
            yield b'{"type":"DELETED","object":' + widget(gone[-1], version) + b"}\n"
        else:
            number = chance.randrange(objects)
            kind = b"ADDED" if number in gone else b"MODIFIED"
            if number in gone:
                gone.remove(number)
            yield b'{"type":"%s","object":' % kind + widget(number, version) + b"}\n"


class Stream:
    """Handlers: pages of the list, then one watch at full speed."""

    def __init__(self) -> None:
        self._items = [widget(number, number + 1) for number in range(OBJECTS)]
        self._events = b"".join(events(EVENTS, OBJECTS))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await self._watch(request)
        limit = int(request.query.get("limit", OBJECTS))
        start = int(request.query.get("continue", 0))
        end = start + limit
        meta = {"resourceVersion": str(OBJECTS), "continue": str(end) if end < OBJECTS else ""}
        head = {"apiVersion": "example.org/v1", "kind": "WidgetList", "metadata": meta}
        body = json.dumps(head, separators=(",", ":")).encode()
        items = b",".join(self._items[start:end])
        return web.Response(
            body=body[:-1] + b',"items":[' + items + b"]}", content_type="application/json"
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if request.query.get("resourceVersion") == str(OBJECTS):
            # The reader leaves when it has seen enough.
            with contextlib.suppress(ConnectionError):
                for start in range(0, len(self._events), _CHUNK):
                    await response.write(self._events[start : start + _CHUNK])
        await asyncio.sleep(3600)
        return response


async def serve() -> None:
    app = web.Application()
    app.router.add_get(WIDGETS.path(), Stream().answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Run a server until the context is left, and tell its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.runtime.stream"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve())
