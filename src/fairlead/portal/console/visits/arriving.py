"""Browsers that a terminal sends: its parameters are checked and removed from the address."""

from __future__ import annotations

from aiohttp import web

from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.terminal import Terminals, introduced
from fairlead.portal.console.visits.entering import Entering
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import Refusal
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.http.requests import PATH, parameters
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.sessions import BrowserSession, BrowserSessions
from fairlead.portal.options import ExternalURL


CANCEL_PATH = "/terminal/cancel"
"""Path of the form that tells a terminal that the person refused."""
_CANCELED = "the person at the browser canceled it"


class Arriving(Entering):
    """The entrance of a front door, also for people whom a terminal sends."""

    def __init__(
        self,
        pages: Pages,
        guard: SessionGuard,
        sessions: BrowserSessions,
        external: ExternalURL,
        terminals: Terminals,
    ) -> None:
        super().__init__(pages, guard, sessions, external)
        self._terminals = terminals

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of sign-out, and of the form that cancels a terminal's request."""
        return [*super().routes(), web.post(CANCEL_PATH, self.cancel)]

    async def session(self, request: web.Request) -> BrowserSession | web.Response:
        """See :class:`Entrance`; a redirect first moves a terminal's parameters to a cookie.

        Raises:
            Refusal: the request is not served.
        """
        asked = parameters(request)
        if request.get(PATH, request.path) == "/" and "redirect_url" in asked:
            try:
                terminal = introduced(asked)
            except Refusal as refusal:
                return self._pages.page(
                    request, "terminal.html", status=refusal.status, told=refusal.message
                )
            # A redirect at once: the parameters must not stay in the address bar, the history or a
            # Referer.
            headers = {**PRIVATE, "Location": self._pages.path("/")}
            response = web.Response(status=303, headers=headers)
            self._terminals.remember(response, terminal)
            return response
        return await super().session(request)

    async def cancel(self, request: web.Request) -> web.Response:
        """Redirect to the terminal with the refusal.

        Raises:
            Refusal: the form may be another site's, or the store is unavailable.
        """
        self._guard.check_origin(request)
        session = await self._guard.session_if_any(request)
        terminal = self._terminals.waiting(request)
        if terminal is None:
            response = web.Response(status=303, headers={"Location": self._pages.path("/")})
        else:
            who = session.person.author if session is not None else ""
            audit("bind", who=who, what="terminal", result="canceled", request=request)
            response = terminal.refused(_CANCELED)
        response.headers.update(PRIVATE)
        self._terminals.forget(response)
        return response
