"""HTTP: the one place where requests come in, are allowed, answered, or broken on purpose."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage

from fairlead.sandbox import errors
from fairlead.sandbox.auth.security import Security
from fairlead.sandbox.errors import GroupResource, StatusError
from fairlead.sandbox.http.faults import Disconnect, Faults
from fairlead.sandbox.http.stream import WatchStream, warning
from fairlead.sandbox.objects.core import Answer, Call, User, error_answer
from fairlead.sandbox.requests.discovery import Discovery
from fairlead.sandbox.requests.handlers.apply import creates
from fairlead.sandbox.requests.handlers.watch import Watch
from fairlead.sandbox.requests.handlers.write import with_warnings
from fairlead.sandbox.requests.info import RequestInfo, parse_request
from fairlead.sandbox.requests.router import Router, non_resource, page_not_found
from fairlead.sandbox.storage.store import StorageError


_log = logging.getLogger(__name__)

Route = Callable[[web.BaseRequest], Answer | None]

MAX_BODY = 3 * 1024 * 1024
"""Bytes of the largest request body, as kube-apiserver has it."""


class HttpServer:
    """Answers requests; faults, authentication and authorization come before everything else."""

    def __init__(
        self, router: Router, discovery: Discovery, security: Security, faults: Faults
    ) -> None:
        self._router = router
        self._discovery = discovery
        self._security = security
        self._faults = faults
        self.routes: list[Route] = []
        """Further paths that are no resources; each answers or gives None."""
        self.bookmark_interval = 60.0
        """Seconds between the bookmarks of a watch."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        info = parse_request(request.method, request.path, request.query)
        try:
            if request.transport is not None:
                self._faults.connected(request.transport)
            await self._faults.apply(info)
            user = await self._security.authenticate(request)
            self._authorize(user, info)
            if info.verb == "watch":
                return await self._watch(request, info, user)
            return respond(await self._answer(request, info, user))
        except StatusError as error:
            return respond(error_answer(error))
        except StorageError as error:
            return respond(error_answer(errors.internal(str(error))))
        except Disconnect:
            return cut(request)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except RecursionError:
            text = "the request is nested too deeply for this server"
            return respond(error_answer(errors.bad_request(text)))
        except Exception:  # noqa: BLE001 - the client gets an answer all the same
            _log.exception("%s %s failed", request.method, request.path)
            text = "the server could not answer; its log says why"
            return respond(error_answer(errors.internal(text)))

    def _authorize(self, user: User, info: RequestInfo) -> None:
        decision = self._security.authorize(user, info)
        if not decision.allowed:
            raise forbidden(user, info, decision.reason)

    async def _answer(self, request: web.BaseRequest, info: RequestInfo, user: User) -> Answer:
        if not info.is_resource:
            return self._non_resource(request)
        body = await _read(request)
        call = self._call(request, info, user, body)
        if call is None:
            return page_not_found()
        if creates(call):
            self._authorize(user, info._replace(verb="create"))
        try:
            answer = await self._router.handler(call)(call)
        except StatusError as error:
            answer = error_answer(error)
        return with_warnings(answer, [call.type.warning] if call.type.warning else [])

    def _call(
        self, request: web.BaseRequest, info: RequestInfo, user: User, body: bytes
    ) -> Call | None:
        try:
            return self._router.call(info, request.query, request.headers, body, user)
        except StatusError as error:
            if error.code == 404 and not self._router.is_built_in(info):
                return None
            raise

    def _non_resource(self, request: web.BaseRequest) -> Answer:
        for route in self.routes:
            found = route(request)
            if found is not None:
                return found
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


def forbidden(user: User, info: RequestInfo, reason: str) -> StatusError:
    """The 403 of a refused request, worded as kube-apiserver words it."""
    if not info.is_resource:
        text = f'User "{user.name}" cannot {info.verb} path "{info.path}"'
        text = f"{text}: {reason}" if reason else text
        details: dict[str, str] = {}
        return StatusError(403, "Forbidden", f"forbidden: {text}", details=details)
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    text = (
        f'User "{user.name}" cannot {info.verb} resource "{resource}" in API group "{info.group}"'
    )
    if info.namespace:
        text += f' in the namespace "{info.namespace}"'
    else:
        text += " at the cluster scope"
    if reason:
        text += f": {reason}"
    return errors.forbidden(GroupResource(info.group, info.resource), info.name, text)


def make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """A request whose body may be as large as Kubernetes allows."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY
    )


async def _read(request: web.BaseRequest) -> bytes:
    if not request.body_exists:
        return b""
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        text = f"Request entity too large: limit is {MAX_BODY}"
        raise StatusError(413, "RequestEntityTooLarge", text) from None


def respond(answer: Answer) -> web.Response:
    """The answer as aiohttp sends it."""
    headers = {
        "Content-Type": answer.content_type,
        "Cache-Control": "no-cache, private",
        **answer.headers,
    }
    response = web.Response(body=answer.body, status=answer.code, headers=headers)
    for text in answer.warnings:
        response.headers.add("Warning", warning(text))
    return response


def cut(request: web.BaseRequest) -> web.Response:
    """Abort the connection; what is returned reaches nobody."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=503)
