"""Entry by a link in the terminal, which is valid once and for a minute."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal import bounds
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.visits.entering import Entrance
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.sessions import (
    BrowserSessions,
    Person,
    SessionStore,
    hashed,
    random_token,
)
from fairlead.portal.options import ExternalURL


_KIND = "link"
_ENTER, _LINK = "/enter", "/link"


class Links:
    """Makes links; only the newest is valid, and only once."""

    def __init__(self, store: SessionStore, external: ExternalURL) -> None:
        self._store = store
        self._external = external
        self._last = ""

    async def make(self) -> str:
        """Return a link for one browser, and invalidate the one before.

        Raises:
            Refusal: the store is unavailable.
        """
        # An older link may have been read by others in the meantime.
        if self._last:
            await self._store.remove(self._last, kind=_KIND)
        code = random_token()
        self._last = hashed(code)
        await self._store.put(
            self._last, b"{}", kind=_KIND, owner="", expires=time.time() + bounds.CODE_SECONDS
        )
        return self._external.absolute(f"{_ENTER}?code={code}")

    async def use(self, code: str) -> bool:
        """Use up a link's code; return False if it is invalid, expired or used.

        Raises:
            Refusal: the store is unavailable.
        """
        return await self._store.take(hashed(code), kind=_KIND) is not None


class ByLink(Entrance):
    """An entrance for the one person who runs the program.

    Args:
        pages: renders the page without a session.
        guard: finds sessions.
        sessions: stores sessions.
        links: makes and checks links.
        person: the person who runs the program.
        tell: prints a link in the terminal.
    """

    def __init__(
        self,
        pages: Pages,
        guard: SessionGuard,
        sessions: BrowserSessions,
        links: Links,
        person: Person,
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(guard)
        self._pages = pages
        self._sessions = sessions
        self._links = links
        self._person = person
        self._tell = tell
        self._told = -bounds.LINK_PAUSE_SECONDS

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of a link, and of the form that requests a new one."""
        # A HEAD request would use a link up.
        return [web.get(_ENTER, self.enter, allow_head=False), web.post(_LINK, self.ask)]

    async def enter(self, request: web.Request) -> web.Response:
        """Use a link: create a session, and redirect to the first page.

        Raises:
            Refusal: the store is unavailable.
        """
        code = request.query.get("code", "")
        if not await self._links.use(code):
            audit("enter", who="", what="link", result="used, over or none", request=request)
            return self._stranger(request, text="This link was used before, or has expired.")
        token, session = await self._sessions.create(self._person, "browser")
        audit("enter", who=session.person.author, what="link", result="done", request=request)
        response = self._pages.redirect("/")
        seconds = self._sessions.lifetime
        cookies = self._guard.cookies
        cookies.set(response, cookies.session, token, seconds=seconds)
        return response

    async def ask(self, request: web.Request) -> web.Response:
        """Print a new link in the terminal, where only the person can read it.

        Raises:
            Refusal: the form may be another site's, or a link was printed just now.
        """
        self._guard.check_origin(request)
        now = time.monotonic()
        if now - self._told < bounds.LINK_PAUSE_SECONDS:
            raise Refusal(
                429,
                ErrorCode.BAD_REQUEST,
                "a link was printed just now: look at the terminal",
                retry_after=bounds.LINK_PAUSE_SECONDS,
            )
        self._told = now
        self._tell(await self._links.make())
        return self._stranger(request, status=200, text="A new link was printed in the terminal.")

    def stranger(self, request: web.Request) -> web.Response:
        """Return the page that asks for a new link."""
        return self._stranger(request)

    def _stranger(
        self, request: web.Request, *, status: int = 401, text: str = ""
    ) -> web.Response:
        return self._pages.page(request, "own/enter.html", status=status, told=text)


def at_home(external: ExternalURL) -> Middleware:
    """Return a middleware that refuses requests with another Host header (DNS rebinding).

    Another site's name may resolve to this machine; for the browser its pages would have the
    same origin as ours.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        hosts = request.headers.getall("Host", [])
        if hosts != [external.authority]:
            raise Refusal(
                # Misdirected Request (RFC 9110, 15.5.20).
                421,
                ErrorCode.BAD_REQUEST,
                f"this is {external.origin}, and answers only requests to that name",
                reason=f"Host {hosts!r:.200}",
            )
        return await handler(request)

    return check
