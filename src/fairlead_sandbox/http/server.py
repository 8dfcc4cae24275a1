"""HTTP handling of one request: faults, authentication, authorization, answer or watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import msgspec
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage

from fairlead_sandbox import errors
from fairlead_sandbox.auth.authorizer import forbidden
from fairlead_sandbox.auth.guard import Guard
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.http.faults import Disconnect, Droppable, Faults
from fairlead_sandbox.http.webhooks import WebhookCaller
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.requests import heavy
from fairlead_sandbox.requests.attempts import answered, prepared
from fairlead_sandbox.requests.calls import Answer, Call, error_answer
from fairlead_sandbox.requests.discovery import DiscoveryDocuments
from fairlead_sandbox.requests.handlers.watch import Watch
from fairlead_sandbox.requests.handlers.write import with_warnings
from fairlead_sandbox.requests.info import RequestInfo, parse_request
from fairlead_sandbox.requests.router import Router, non_resource, page_not_found
from fairlead_sandbox.requests.workers import JobRunner
from fairlead_sandbox.storage.store import StorageError


_log = logging.getLogger(__name__)

Route = Callable[[web.BaseRequest], Answer | None]
"""Answers a path that is no resource, or returns None if the path is not its own."""

BODY_SECONDS = 60.0
"""Seconds in which a request's body must arrive; kube-apiserver's default request timeout."""
MAX_BODY = 3 * 1024 * 1024
"""Maximum size of a request body in bytes; the limit of kube-apiserver."""


class HttpServer:
    """Answers requests, after faults, authentication and authorization, in this order."""

    def __init__(
        self,
        router: Router,
        workers: JobRunner,
        discovery: DiscoveryDocuments,
        guard: Guard,
        faults: Faults,
        webhooks: WebhookCaller,
    ) -> None:
        self._router = router
        self._workers = workers
        self._discovery = discovery
        self._guard = guard
        self._faults = faults
        self._webhooks = webhooks
        self.routes: list[Route] = []
        """Routes that are asked before discovery, in order, about paths that are no resources."""
        self.bookmark_interval = 60.0
        """Seconds between the bookmarks of a watch."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; every error becomes a Status, unless the client has disconnected."""
        info = parse_request(request.method, request.path, request.query)
        try:
            if request.transport is not None:
                self._faults.connected(request.transport)
            await self._faults.apply(info)
            user = await self._guard.authenticate(request, info)
            self._authorize(user, info)
            if info.verb == "watch":
                return await self._watch(request, info, user)
            return respond(await self._answer(request, info, user))
        except StatusError as error:
            return respond(error_answer(error))
        except StorageError as error:
            return respond(error_answer(errors.disk_full(str(error))))
        except Disconnect:
            return cut(request)
        except (ConnectionError, asyncio.CancelledError):
            # The client has gone, so no answer can be sent.
            raise
        # Walks of a deeply nested body exceed Python's stack: a fault of the request.
        except RecursionError:
            return respond(error_answer(errors.too_deep()))
        except Exception:  # noqa: BLE001 - the client gets an answer all the same
            _log.exception("%s %s failed", request.method, request.path)
            text = "the server could not answer; its log says why"
            return respond(error_answer(errors.internal(text)))

    def _authorize(self, user: User, info: RequestInfo) -> None:
        decision = self._guard.authorize(user, info)
        if not decision.allowed:
            raise forbidden(user, info, decision.reason)

    async def _answer(self, request: web.BaseRequest, info: RequestInfo, user: User) -> Answer:
        if not info.is_resource:
            return self._non_resource(request)
        # Read after authorization: a client without the right cannot make the server keep 3 MiB.
        body = await _read(request)
        call = self._call(request, info, user, body)
        if call is None:
            return page_not_found()
        call = replace(
            call,
            ask=self._webhooks.ask,
            require=lambda verb: self._authorize(user, info._replace(verb=verb)),
        )
        call = prepared(call)
        try:
            answer = await answered(call, self._attempt)
        except StatusError as error:
            # Made an answer here and not by the caller, because a refusal carries the warnings of
            # the type and of the webhooks too.
            answer = error_answer(error)
        warnings = [call.type.warning] if call.type.warning else []
        if call.webhooks is not None:
            warnings += call.webhooks.warnings
        return with_warnings(answer, warnings)

    async def _attempt(self, call: Call) -> Answer:
        return await heavy.answer(call, self._router.handler(call), self._workers)

    def _call(
        self, request: web.BaseRequest, info: RequestInfo, user: User, body: bytes
    ) -> Call | None:
        try:
            return self._router.call(info, request.query, request.headers, body, user)
        except StatusError as error:
            # kube-apiserver has no handler for a group without built-in resources unless a CRD
            # serves it: the request falls through to the mux, which answers 404 in plain text.
            if error.code == 404 and not self._router.is_built_in(info):
                return None
            raise

    def _non_resource(self, request: web.BaseRequest) -> Answer:
        for route in self.routes:
            handler = route(request)
            if handler is not None:
                return handler
        path = request.path
        answer = non_resource(path, request.query, healthy=self._router.healthy)
        answer = answer or self._discovery.answer(path, request.headers.get("Accept", "*/*"))
        if answer is not None:
            return answer
        if path == "/":
            return Answer(msgspec.json.encode({"paths": ["/api", "/apis", "/version"]}))
        return page_not_found()

    async def _watch(
        self, request: web.BaseRequest, info: RequestInfo, user: User
    ) -> web.StreamResponse:
        call = self._call(request, info, user, b"")
        if call is None:
            return respond(page_not_found())
        if "watch" not in call.type.verbs:
            raise errors.method_not_allowed()
        watch = Watch(call, self.bookmark_interval)
        stream = WatchStream(request, call, watch)
        # Before the head is sent: a test that has received the head may inject a fault into this
        # watch at once.
        self._faults.watching(stream)
        try:
            await stream.prepare()
            await watch.run(stream)
            await stream.close()
        except ConnectionError:
            _log.debug("the client of a watch on %s is gone", info.resource)
        finally:
            self._faults.unwatching(stream)
        return stream.response


def make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """Return a request whose body may have :data:`MAX_BODY` bytes; aiohttp's default is 1 MiB."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY
    )


async def _read(request: web.BaseRequest) -> bytes:
    if not request.body_exists:
        return b""
    try:
        # Most bodies have arrived together with the headers; they need no timer.
        if request.content.is_eof():
            return await request.read()
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise errors.too_slow(BODY_SECONDS) from None
    except web.HTTPRequestEntityTooLarge:
        raise errors.too_large(f"limit is {MAX_BODY}") from None


def respond(answer: Answer) -> web.Response:
    """Return aiohttp's response for an answer, with a Warning header for each warning."""
    # As in kube-apiserver: answers depend on the rights of their user, so no proxy may keep them.
    headers = {
        "Content-Type": answer.content_type,
        "Cache-Control": "no-cache, private",
        **answer.headers,
    }
    response = web.Response(body=answer.body, status=answer.code, headers=headers)
    for text in answer.warnings:
        response.headers.add("Warning", _warning(text))
    return response


def cut(request: web.BaseRequest) -> web.Response:
    """Abort the connection; return the response that aiohttp requires, which is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)


def _warning(text: str) -> str:
    """Return the value of a Warning header; 299 is kube-apiserver's code for it (KEP-1693)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


class WatchStream(Droppable):
    """Writes the events of a watch; faults can drop, end or cut it."""

    def __init__(self, request: web.BaseRequest, call: Call, watch: Watch) -> None:
        self.resource = call.type.resource.plural
        self._request = request
        self._watch = watch
        headers = {"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        if call.type.warning:
            headers["Warning"] = _warning(call.type.warning)
        self.response = web.StreamResponse(headers=headers)
        self._dropped = False

    async def prepare(self) -> None:
        """Send the response's head."""
        self.response.enable_chunked_encoding()
        await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Send events, each a line of JSON.

        Raises:
            ConnectionResetError: a fault has dropped the watch.
        """
        if self.cut_next:
            first = data[: data.index(b"\n")]
            await self.response.write(first[: len(first) // 2])
            self.drop()
        if self._dropped:
            raise ConnectionResetError("the watch was dropped on purpose")
        await self.response.write(data)

    async def close(self) -> None:
        """Send the last chunk, unless the connection was dropped."""
        if not self._dropped:
            await self.response.write_eof()

    def drop(self) -> None:
        """Abort the connection."""
        self._dropped = True
        self._watch.stop()
        if self._request.transport is not None:
            self._request.transport.abort()

    def end(self) -> None:
        """End the stream with its last chunk."""
        self._watch.stop()

    def lose(self, times: int) -> None:
        """Leave out the next ``times`` events."""
        self._watch.lose(times)
