"""The application and its one middleware, which every request passes."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, runtime_checkable

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.client import ClientError
from fairlead.portal import bounds
from fairlead.portal.http.audit import audit
from fairlead.portal.http.bounds import LIMITER, SIGN_INS, Clock, Deadlines, Limiter
from fairlead.portal.http.errors import Refusal, answer, refusal_of
from fairlead.portal.http.headers import Headers
from fairlead.portal.http.metrics import METRICS, PortalMetrics
from fairlead.portal.http.requests import (
    ADDRESS,
    ENDLESS,
    LIMITS,
    PARAMETERS,
    PATH,
    REQUEST_ID,
    SESSION,
    client_address,
    parse_query,
)
from fairlead.portal.options import ServeOptions


_log = structlog.get_logger(logger_name="fairlead.portal.http")
PROBES = frozenset({"/healthz", "/api/healthz"})
"""Paths without limits: a liveness probe of an overloaded server has to succeed."""
_MACHINES = ("/api/", "/oidc/")
"""Path prefixes of the routes whose errors are JSON."""
Lost = Callable[[web.Request], web.Response]
"""Function that makes the page for a browser at an unknown path."""


@runtime_checkable
class Routed(Protocol):
    """A part with HTTP routes."""

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, relative to the root."""
        ...


def application(
    options: ServeOptions,
    routes: Iterable[web.RouteDef],
    *,
    clock: Clock = time.monotonic,
    metrics: PortalMetrics | None = None,
    lost: Lost | None = None,
) -> web.Application:
    """Return the application; each route is served at the root and below the external path.

    A proxy may strip that path or keep it, and kube-bind's own CLI does not know of it. ``lost``
    makes the page for a browser at an unknown path.
    """
    limits = options.limits
    all_routes = list(routes)
    metrics = metrics or PortalMetrics()
    paths = frozenset(route.path for route in all_routes)
    door = _Door(options, Limiter(limits, clock), metrics, paths, lost)
    app = web.Application(
        middlewares=[door.passed],
        # aiohttp counts a body while it reads it, so one without a Content-Length is bounded, too.
        client_max_size=limits.body,
    )
    app[LIMITS] = limits
    app[LIMITER] = door.limiter
    app[METRICS] = metrics
    app.router.add_routes(all_routes)
    if prefix := options.external_url.path:
        app.router.add_routes(
            # Without its name, which has to be unique within an application.
            web.RouteDef(
                route.method, prefix + route.path, route.handler, route.kwargs | {"name": None}
            )
            for route in all_routes
        )
    return app


class _Door:
    """The middleware: checks a request before its handler, and completes the answer."""

    def __init__(
        self,
        options: ServeOptions,
        limiter: Limiter,
        metrics: PortalMetrics,
        paths: frozenset[str],
        lost: Lost | None,
    ) -> None:
        self.limiter = limiter
        self._metrics = metrics
        self._paths = paths
        self._lost = lost
        self._limits = options.limits
        self._trusted = options.trusted_proxies
        self._prefix = options.external_url.path
        self._headers = Headers(options.external_url)
        self._deadlines = Deadlines(options.limits.request_seconds)
        # A request's id is this prefix and a counter: a random id for each would cost more.
        self._name = secrets.token_hex(4)
        self._requests = itertools.count(1)

    @web.middleware
    async def passed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, also if its handler fails or takes too long."""
        request_id = f"{self._name}{next(self._requests):08x}"
        path = self._own_path(request.path) if self._prefix else request.path
        request[REQUEST_ID] = request_id
        request[PATH] = path
        forwarded = request.headers.getall("X-Forwarded-For", ()) if self._trusted else ()
        request[ADDRESS] = client_address(request.remote or "", forwarded, self._trusted)
        # Given, since Python 3.11 finds the running loop by a system call.
        task = asyncio.current_task(request.task.get_loop())
        assert task is not None  # noqa: S101  a handler runs in one
        self._deadlines.begin(task)
        request[ENDLESS] = partial(self._deadlines.end, task)
        try:
            if path not in PROBES:
                self._admit(request, path)
            response = await handler(request)
        except asyncio.CancelledError:
            # Another cancellation, such as that of a server that stops, goes on.
            if not self._deadlines.end(task):
                raise
            response = _failed(TimeoutError("the handler took too long"), request)
        except web.HTTPException as said:
            if self._lost is not None and _is_lost(said, request, path):
                response = self._lost(request)
            else:
                response = _said(said, path, request_id)
        except Refusal as refusal:
            response = _refused(refusal, request)
        except Exception as error:  # noqa: BLE001  # every request gets an answer
            response = _failed(error, request)
        finally:
            self._deadlines.end(task)
        self._headers.complete(response, path=path, request_id=request_id)
        self._metrics.answered(request, response.status, prefix=self._prefix)
        return response

    def _admit(self, request: web.Request, path: str) -> None:
        self.limiter.address(request[ADDRESS], path)
        # Each running request has a deadline, this one included.
        if len(self._deadlines) > self._limits.requests_at_once:
            raise Refusal(
                503,
                ErrorCode.INTERNAL_ERROR,
                "the server is overloaded; try again",
                retry_after=bounds.RETRY_SECONDS,
            )
        if "?" in request.raw_path:
            # The raw text: request.query has replaced invalid UTF-8 already, and keeps broken
            # escapes.
            query = request.raw_path.partition("?")[2]
            request[PARAMETERS] = parse_query(query, self._limits)
        # No handler reads the body of a GET request.
        if request.method != "GET" and request.body_exists:
            self._admit_body(request, path)

    def _admit_body(self, request: web.Request, path: str) -> None:
        """Refuse a body that is too large by its declared length."""
        length, most = request.content_length, self._limits.body
        if path.startswith(SIGN_INS):
            most = self._limits.sign_in_body
            # Checked before a byte is read: these routes serve clients without a session.
            if length is None:
                raise Refusal(411, ErrorCode.BAD_REQUEST, "the body needs a Content-Length header")
        if (length or 0) > most:
            raise _too_large(most)

    def _own_path(self, path: str) -> str:
        """Return the path below the external URL, which a proxy may have stripped or not."""
        # The external path may be the beginning of a route, such as /api.
        if path in self._paths:
            return path
        rest = path.removeprefix(self._prefix)
        return rest if rest.startswith("/") else path


def _is_lost(said: web.HTTPException, request: web.Request, path: str) -> bool:
    """Whether a browser requested a page that does not exist."""
    reads_html = "text/html" in request.headers.get("Accept", "")
    return said.status == 404 and reads_html and not path.startswith(_MACHINES)


def _said(said: web.HTTPException, path: str, request_id: str) -> web.StreamResponse:
    """Turn an HTTPException of aiohttp or a handler into an answer."""
    if said.status < 400:
        response = web.Response(status=said.status, headers=said.headers)
        for cookie in said.cookies.values():
            response.headers.add("Set-Cookie", cookie.OutputString())
        return response
    if isinstance(said, web.HTTPRequestEntityTooLarge):
        return answer(_too_large(0), request_id=request_id)
    headers = {"Allow": said.headers["Allow"]} if "Allow" in said.headers else {}
    if not path.startswith(_MACHINES):
        text = f"{said.status} {said.reason}\n"
        return web.Response(status=said.status, text=text, headers=headers)
    code, text = ErrorCode.BAD_REQUEST, said.reason
    if isinstance(said, web.HTTPNotFound):
        code, text = ErrorCode.RESOURCE_NOT_FOUND, "nothing is served at this path"
    elif isinstance(said, web.HTTPMethodNotAllowed):
        text = f"this path only takes {', '.join(sorted(said.allowed_methods))}"
    elif said.status >= 500:
        code = ErrorCode.INTERNAL_ERROR
    return answer(Refusal(said.status, code, text, headers=headers), request_id=request_id)


def _too_large(limit: int) -> Refusal:
    return Refusal(
        413,
        ErrorCode.BAD_REQUEST,
        "the body is too large",
        details=f"at most {limit} bytes are allowed" if limit else "",
        headers={"Connection": "close"},
    )


def _refused(refusal: Refusal, request: web.Request) -> web.StreamResponse:
    # An audit has to show who was refused what, and nothing about limits or malformed requests;
    # those go to the ordinary log, if there is a reason that the client was not told.
    if refusal.status in {401, 403}:
        session = request.get(SESSION)
        audit(
            "refusal",
            who=session.person.author if session is not None else "",
            what=f"{request.method} {request[PATH]}",
            result=refusal.reason or refusal.message,
            request=request,
        )
    elif refusal.reason:
        _log.warning(
            "a request was refused",
            path=request[PATH],
            status=refusal.status,
            reason=refusal.reason,
            request=request[REQUEST_ID],
        )
    return answer(refusal, request_id=request[REQUEST_ID])


def _failed(error: Exception, request: web.Request) -> web.StreamResponse:
    # The client disconnected, or sent a body that is no HTTP: this is no fault of the server, and
    # would only fill its log.
    gone = request.transport is None and isinstance(error, ConnectionError)
    if gone or isinstance(error, web.RequestPayloadError):
        return answer(
            Refusal(400, ErrorCode.BAD_REQUEST, "the body is incomplete or malformed"),
            request_id=request[REQUEST_ID],
        )
    refusal = refusal_of(error)
    unexpected = refusal.status == 500 and not isinstance(error, ClientError)
    _log.error(
        "a request failed",
        path=request[PATH],
        status=refusal.status,
        reason=refusal.reason,
        request=request[REQUEST_ID],
        # A ClientError tells all by its text; other errors are bugs, and need a traceback.
        exc_info=error if unexpected else None,
    )
    return answer(refusal, request_id=request[REQUEST_ID])
