"""A watch's HTTP response: chunks that are whole events, unless a fault cuts one."""

from __future__ import annotations

from aiohttp import web

from fairlead.sandbox.http.faults import Droppable
from fairlead.sandbox.objects.core import Call
from fairlead.sandbox.requests.handlers.watch import Watch


def warning(text: str) -> str:
    """The value of a Warning header."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


class WatchStream(Droppable):
    """Writes events, and lets faults drop, end or cut the stream."""

    def __init__(self, request: web.BaseRequest, call: Call, watch: Watch) -> None:
        self.resource = call.type.resource.plural
        self._request = request
        self._watch = watch
        headers = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        if call.type.warning:
            headers["Warning"] = warning(call.type.warning)
        self.response = web.StreamResponse(headers=headers)
        self._dropped = False

    async def prepare(self) -> None:
        """Send the head."""
        self.response.enable_chunked_encoding()
        await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Send some events."""
        if self.cut_next:
            first = data[: data.index(b"\n")]
            await self.response.write(first[: len(first) // 2])
            self.drop()
        if self._dropped:
            raise ConnectionResetError("the watch was dropped on purpose")
        await self.response.write(data)

    async def close(self) -> None:
        """Send the end."""
        if not self._dropped:
            await self.response.write_eof()

    def drop(self) -> None:
        """Cut the connection."""
        self._dropped = True
        self._watch.stop()
        if self._request.transport is not None:
            self._request.transport.abort()

    def end(self) -> None:
        """End the stream in good order."""
        self._watch.stop()
