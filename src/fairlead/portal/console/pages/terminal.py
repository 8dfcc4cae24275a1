"""The terminal that waits for a choice on a page: its program and port (S2, S20).

`bind URL` opens a browser here with the address of a listener on its own machine. The address is
checked at once, and kept in a sealed cookie until the person has signed in and chosen. Each page
says that a terminal waits, and nothing is sent to it before the person agrees.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from fairlead.api.meta import JSON
from fairlead.portal import bounds
from fairlead.portal.handshake.bind import problem_of
from fairlead.portal.http.errors import bad_request
from fairlead.portal.identity import redirects
from fairlead.portal.identity.codes import challenge_in
from fairlead.portal.identity.guard import Cookies
from fairlead.portal.identity.keys import Sealing
from fairlead.portal.options import ExternalURL


_PURPOSE = "terminal"


class Terminal(msgspec.Struct, frozen=True, array_like=True):
    """A waiting program, by its own unproven statements.

    ``consumer`` is the identity of its cluster, "" if it sent none; with a ``challenge`` it
    fetches the answer by a one-time code.
    """

    redirect_url: str
    session_id: str
    consumer: str = ""
    challenge: str = ""

    @property
    def program(self) -> str:
        """The command that sends such parameters; it is not proven."""
        return "fairlead bind" if self.challenge else "kubectl bind"

    @property
    def host(self) -> str:
        """The host of its listener."""
        return urlsplit(self.redirect_url).hostname or ""

    @property
    def port(self) -> int:
        """The port of its listener."""
        return urlsplit(self.redirect_url).port or 0

    @property
    def form_source(self) -> str:
        """The form-action source in a Content-Security-Policy that allows the redirect to it."""
        parts = urlsplit(self.redirect_url)
        # A policy cannot name an IPv6 address.
        return "http:" if parts.hostname == "::1" else f"http://{parts.netloc}"

    @property
    def key(self) -> str:
        """A hash that tells the terminal from others."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:32]

    def answered(self, parameters: Mapping[str, str]) -> web.Response:
        """Return a redirect to the terminal with the parameters."""
        echoed = {"session_id": self.session_id}
        if self.consumer:
            echoed["consumer_id"] = self.consumer
        location = redirects.with_parameters(self.redirect_url, echoed | dict(parameters))
        return web.Response(status=303, headers={"Location": location})

    def refused(self, description: str) -> web.Response:
        """Return a redirect to the terminal that says that nothing was bound."""
        # An error code of OAuth (RFC 6749, 4.1.2.1), as the command reads it at sign-in.
        return self.answered({"error": "access_denied", "error_description": description})


def encoded(response: JSON) -> str:
    """Encode a BindingResponse as kube-bind's CLI decodes it: base64url with padding."""
    return base64.urlsafe_b64encode(msgspec.json.encode(response)).decode()


class Terminals:
    """Stores the waiting terminal in a cookie of the browser."""

    def __init__(self, sealing: Sealing, external: ExternalURL) -> None:
        self._sealing = sealing
        self._cookies = Cookies(external)

    def waiting(self, request: web.Request) -> Terminal | None:
        """Return the terminal that waits for the request's browser, None without one.

        Raises:
            Refusal: there is a cookie, but no key yet.
        """
        sealed = request.cookies.get(self._cookies.terminal, "")
        if not sealed:
            return None
        return self._sealing.open(_PURPOSE, sealed, Terminal, seconds=bounds.TERMINAL_SECONDS)

    def remember(self, response: web.StreamResponse, terminal: Terminal) -> None:
        """Set the cookie of a terminal.

        Raises:
            Refusal: there is no key yet.
        """
        sealed = self._sealing.seal(_PURPOSE, terminal)
        self._cookies.set(
            response, self._cookies.terminal, sealed, seconds=bounds.TERMINAL_SECONDS
        )

    def forget(self, response: web.StreamResponse) -> None:
        """Delete the cookie after the terminal's answer."""
        self._cookies.expire(response, self._cookies.terminal)


def introduced(parameters: Mapping[str, str]) -> Terminal:
    """Read and check the parameters of `bind URL`.

    Raises:
        Refusal: a parameter is invalid; the message names it.
    """
    if parameters.get("cluster_id"):
        raise bad_request("there is no such cluster here: leave cluster_id empty")
    url = redirects.of_cli(parameters.get("redirect_url", ""))
    session = parameters.get("session_id", "")
    if not session or len(session) > bounds.SESSION_ID_CHARACTERS:
        raise bad_request(
            f"session_id is missing, or longer than {bounds.SESSION_ID_CHARACTERS} characters"
        )
    consumer = parameters.get("consumer_id", "")
    if consumer and (problem := problem_of(consumer)):
        raise bad_request(f"consumer_id {problem}")
    return Terminal(url, session, consumer, challenge_in(parameters))
