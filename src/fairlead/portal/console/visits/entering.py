"""Sessions of pages: sign-in, sign-out, and browsers that a terminal sends.

A terminal's parameters are checked and removed from the address.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from urllib.parse import quote, urlencode

from aiohttp import web

from fairlead.portal import bounds
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.terminal import Terminals, introduced
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import Refusal
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.http.requests import PATH, parameters
from fairlead.portal.identity import redirects
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.options import AUTHORIZE_PATH


class Entrance(ABC):
    """Finds the session of a page's request; a request without one gets :meth:`stranger`."""

    def __init__(self, guard: SessionGuard) -> None:
        self._guard = guard

    async def session(self, request: web.Request) -> BrowserSession | web.Response:
        """Return the session of a request, or the page of a person without one.

        Raises:
            Refusal: the request is refused for another reason.
        """
        try:
            return await self._guard.session(request)
        except Refusal as refusal:
            if refusal.status != web.HTTPUnauthorized.status_code:
                raise
        return self.stranger(request)

    @abstractmethod
    def stranger(self, request: web.Request) -> web.Response:
        """Return the page of a person without a session."""


CANCEL_PATH = "/terminal/cancel"
"""Path of the form that tells a terminal that the person refused."""
_CANCELED = "the person at the browser canceled it"


class Arriving(Entrance):
    """The entrance of a front door: sign-in and sign-out, also of people whom a terminal sends."""

    def __init__(self, pages: Pages, guard: SessionGuard, terminals: Terminals) -> None:
        super().__init__(guard)
        self._pages = pages
        self._terminals = terminals

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of sign-out, and of the form that cancels a terminal's request."""
        return [web.post("/sign-out", self.leave), web.post(CANCEL_PATH, self.cancel)]

    def stranger(self, request: web.Request) -> web.Response:
        """Return the sign-in page."""
        sign_in = self._pages.path(
            AUTHORIZE_PATH,
            redirect_url=self._here(request),
            # The route demands one, as kube-bind's does, and sends it back to others than pages.
            session_id=secrets.token_urlsafe(16),
            client_type="page",
        )
        return self._pages.page(request, "signin.html", status=401, sign_in=sign_in)

    def _here(self, request: web.Request) -> str:
        """Return the requested path with its query, without parameters that sign-in adds."""
        parameters = [
            (name, value) for name, value in request.query.items() if name not in redirects.ADDED
        ]
        path = self._pages.path(quote(request.get(PATH, request.path)))
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        return target if len(target) <= bounds.RETURN_CHARACTERS else path

    async def session(self, request: web.Request) -> BrowserSession | web.Response:
        """See :class:`Entrance`; a redirect first moves a terminal's parameters to a cookie.

        Raises:
            Refusal: the request is not served.
        """
        query = parameters(request)
        if request.get(PATH, request.path) == "/" and "redirect_url" in query:
            try:
                terminal = introduced(query)
            except Refusal as refusal:
                return self._pages.page(
                    request, "terminal.html", status=refusal.status, told=refusal.message
                )
            # A redirect at once: the parameters must not stay in the address bar, the history or a
            # Referer.
            response = self._pages.redirect("/", PRIVATE)
            self._terminals.remember(response, terminal)
            return response
        return await super().session(request)

    async def leave(self, request: web.Request) -> web.Response:
        """End the sender's session, and redirect to the first page.

        Raises:
            Refusal: the form may be another site's, or the store is unavailable.
        """
        self._guard.check_origin(request)
        response = self._pages.redirect("/")
        await self._guard.sign_out(request)
        self._guard.cookies.expire(response, self._guard.cookies.session)
        return response

    async def cancel(self, request: web.Request) -> web.Response:
        """Redirect to the terminal with the refusal.

        Raises:
            Refusal: the form may be another site's, or the store is unavailable.
        """
        self._guard.check_origin(request)
        session = await self._guard.session_if_any(request)
        terminal = self._terminals.waiting(request)
        if terminal is None:
            response = self._pages.redirect("/")
        else:
            who = session.person.author if session is not None else ""
            audit("bind", who=who, what="terminal", result="canceled", request=request)
            response = terminal.refused(_CANCELED)
        response.headers.update(PRIVATE)
        self._terminals.forget(response)
        return response
