"""The site: each view as a page and as the stream that updates it, each person in turn.

A page of thousands of objects takes a tenth of a second to render, and rate limits only count
requests. So a person's pages are rendered one by one, with a pause after an expensive one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from functools import partial

import structlog
from aiohttp import ClientConnectionResetError, web
from markupsafe import Markup

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.client import ClientError
from fairlead.portal import bounds
from fairlead.portal.console.pages.live import Hub, Live, Subscription, message
from fairlead.portal.console.pages.rendering import Pages, digest
from fairlead.portal.console.pages.viewing import (
    AskedPage,
    FormError,
    FormView,
    MissingError,
    View,
    asked_of,
)
from fairlead.portal.console.visits.entering import Entrance
from fairlead.portal.http.errors import Refusal
from fairlead.portal.http.requests import ENDLESS, REQUEST_ID
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.sessions import BrowserSession


class _Queue:
    """One person's turns: ``asked`` pages render or wait, and no page begins before ``until``."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.asked = 0
        self.until = 0.0


class PageTurns:
    """Gives each person one page at a time; ``cost`` returns the CPU seconds used so far."""

    def __init__(self, cost: Callable[[], float] = time.thread_time) -> None:
        self._cost = cost
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def of(self, author: str) -> AsyncIterator[None]:
        """Wait for a person's turn; the block renders the page.

        Raises:
            Refusal: too many pages of the person are waiting.
        """
        queue = self._queues.setdefault(author, _Queue())
        if queue.asked >= bounds.PAGES_WAITING:
            raise Refusal(
                429,
                ErrorCode.BAD_REQUEST,
                "too many pages at a time; wait before the next",
                retry_after=bounds.PAGE_PAUSE_SECONDS,
            )
        queue.asked += 1
        loop = asyncio.get_running_loop()
        try:
            async with queue.lock:
                await asyncio.sleep(max(0.0, queue.until - loop.time()))
                # After the wait, during which the thread works for other people.
                before = self._cost()
                try:
                    yield
                finally:
                    cost = self._cost() - before
                    rest = bounds.SHARE * cost if cost > bounds.PAGE_FREE_SECONDS else 0.0
                    queue.until = loop.time() + min(rest, bounds.PAGE_PAUSE_SECONDS)
        finally:
            queue.asked -= 1
            self._forget(loop.time())

    def _forget(self, now: float) -> None:
        for author in [
            author
            for author, queue in self._queues.items()
            if not queue.asked and queue.until <= now
        ]:
            del self._queues[author]


STREAMS = "/live"
"""Path prefix of the pages' streams."""
_SEEN = "seen"
"""Name of the parameter with the digest of the part that a page already shows."""
_OVER = b"event: over\ndata: over\n\n"
"""Event after which a page does not connect again."""
_ALIVE = b": alive\n\n"
"""Comment of a stream, which browsers ignore."""
_log = structlog.get_logger(logger_name="fairlead.portal.console")


class Site:
    """Serves views; run it as a task, so that streams end with the server."""

    name = "console"

    def __init__(
        self,
        pages: Pages,
        entrance: Entrance,
        guard: SessionGuard,
        hub: Hub,
        views: Iterable[View],
    ) -> None:
        self._pages = pages
        self._entrance = entrance
        self._guard = guard
        self._hub = hub
        self._live = Live(pages, hub)
        self._turns = PageTurns()
        self._views = list(views)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of each view's page and stream, relative to the root."""
        routes: list[web.RouteDef] = []
        for view in self._views:
            stream = STREAMS + view.route.rstrip("/")
            routes.append(web.get(view.route, partial(self._page, view)))
            routes.append(web.get(stream, partial(self._stream, view)))
            if isinstance(view, FormView):
                routes.append(web.post(view.route, partial(self._submit, view)))
        return routes

    async def run(self) -> None:
        """Wait until canceled, and end all streams then."""
        try:
            await asyncio.Event().wait()
        finally:
            self._hub.close()

    async def show(
        self,
        view: View,
        request: web.Request,
        session: BrowserSession,
        *,
        status: int = 200,
        **more: object,
    ) -> web.Response:
        """Render a view's page with further values, for example the errors of a form.

        Raises:
            Refusal: the request is refused.
            ClientError: the API server refused or is unavailable.
        """
        page = asked_of(request)
        tabs = await self._pages.tabs(session)
        try:
            scope = await view.scope(session, page)
            async with self._turns.of(session.person.author):
                values = dict(await view.values(scope, page))
                own = await view.own(session, scope, page)
                part = self._pages.part(view.template, values)
        except MissingError as missing:
            return await self.missing(request, session, missing)
        stream = ""
        if view.topics(scope):
            query = dict(page.query) | {_SEEN: digest(part)}
            stream = self._pages.path(STREAMS + page.path.rstrip("/"), **query)
        return self._pages.page(
            request,
            view.template,
            person=session.person,
            status=status,
            live=stream,
            tabs=tabs,
            part=Markup(part),  # noqa: S704  rendered with autoescape
            **(values | dict(own) | more),
        )

    async def missing(
        self, request: web.Request, session: BrowserSession, missing: MissingError
    ) -> web.Response:
        """Return the page that says what does not exist for the person."""
        return self._pages.page(
            request,
            "missing.html",
            person=session.person,
            status=404,
            tabs=await self._pages.tabs(session),
            told=str(missing),
            helps=missing.helps,
        )

    async def _page(self, view: View, request: web.Request) -> web.Response:
        session = await self._entrance.session(request)
        if isinstance(session, web.Response):
            return session
        return await self.show(view, request, session)

    async def _submit(self, view: FormView, request: web.Request) -> web.Response:
        try:
            return await view.submit(request)
        except FormError as error:
            return await self.show(
                view, request, error.session, status=error.status, **error.values
            )

    async def _stream(self, view: View, request: web.Request) -> web.StreamResponse:
        """Answer with server-sent events, until the person leaves or loses the right."""
        session = await self._guard.session(request)
        page = asked_of(request, _SEEN)
        page_asked = page._replace(path=page.path.removeprefix(STREAMS) or "/")
        with self._hub.subscribed(session.person.author) as subscription:
            try:
                scope = await view.scope(session, page_asked)
            except MissingError as missing:
                raise web.HTTPNotFound from missing
            # Rights are checked before the headers are sent; later refusals end the stream.
            response = web.StreamResponse(
                headers={
                    "Content-Type": "text/event-stream",
                    "Cache-Control": "no-store",
                    # Otherwise a buffering proxy would delay the events.
                    "X-Accel-Buffering": "no",
                }
            )
            self._pages.headers.complete(
                response, path=request.path, request_id=request.get(REQUEST_ID, "")
            )
            # The deadline of requests would cut it off; hub.subscribed limits the number of
            # streams.
            request[ENDLESS]()
            await response.prepare(request)
            last_seen = request.headers.get("Last-Event-ID") or request.query.get(_SEEN, "")
            try:
                await self._follow(
                    view, session, scope, page_asked, request, response, subscription, last_seen
                )
            except (ClientConnectionResetError, ConnectionResetError):
                pass
            except (ClientError, Refusal) as error:
                # The browser reconnects, and its page load shows the error.
                _log.info("a stream ends", page=page_asked.path, reason=str(error))
            return response

    async def _follow(
        self,
        view: View,
        session: BrowserSession,
        scope: Hashable,
        page: AskedPage,
        request: web.Request,
        response: web.StreamResponse,
        subscription: Subscription,
        digest: str,
    ) -> None:
        """Send the part after each change; check session and rights in between."""
        while True:
            subscription.take(frozenset(view.topics(scope)))
            if not subscription.rests:
                try:
                    part = await self._live.part(view, scope, page)
                except MissingError:
                    # The object was deleted since the check of rights.
                    await response.write(_OVER)
                    return
                # A page that shows this part already does not get it again, also after a new
                # connection.
                await response.write(_ALIVE if part.digest == digest else message(part))
                digest = part.digest
                subscription.rest(part.seconds)
            else:
                # Only a write shows whether the browser is still connected.
                await response.write(_ALIVE)
            await subscription.wait()
            if self._hub.closed:
                return
            if await self._guard.session_if_any(request) is None:
                await response.write(_OVER)
                return
            try:
                scope = await view.scope(session, page)
            except MissingError:
                await response.write(_OVER)
                return
