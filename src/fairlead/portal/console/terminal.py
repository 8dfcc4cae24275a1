"""The terminal that waits for a choice on our pages: which program, at which port (S2, S20).

`bind URL` sends a browser here with the address of a listener on its own machine. It is checked
at once, and travels in a sealed cookie until the person has signed in and chosen. What may go
to it is said on each page, and nothing goes before the person agrees.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from fairlead.api.meta import JSON
from fairlead.portal.handshake.bind import problem_of
from fairlead.portal.http.errors import bad_request
from fairlead.portal.identity import redirects
from fairlead.portal.identity.codes import challenge_in
from fairlead.portal.identity.cookies import Cookies
from fairlead.portal.identity.keys import Sealing
from fairlead.portal.identity.redirects import RedirectError
from fairlead.portal.options import ExternalURL


TERMINAL_SECONDS = 900.0
"""Seconds for which a terminal is remembered."""
_MOST_SESSION = 256
"""Characters of a terminal's own session_id."""
_PURPOSE = "terminal"


class Terminal(msgspec.Struct, frozen=True, array_like=True):
    """A program that waits, as it has introduced itself.

    ``consumer`` is the identity of its cluster, "" where it has told none; with a ``challenge``
    it fetches the answer itself.
    """

    redirect_url: str
    session_id: str
    consumer: str = ""
    challenge: str = ""

    @property
    def program(self) -> str:
        """The command that asks so; nothing proves it."""
        return "fairlead bind" if self.challenge else "kubectl bind"

    @property
    def host(self) -> str:
        """Where it listens."""
        return urlsplit(self.redirect_url).hostname or ""

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return urlsplit(self.redirect_url).port or 0

    @property
    def form_source(self) -> str:
        """What lets a form of ours end there, in a Content-Security-Policy."""
        parts = urlsplit(self.redirect_url)
        # Such policies know no addresses of IPv6.
        return "http:" if parts.hostname == "::1" else f"http://{parts.netloc}"

    @property
    def key(self) -> str:
        """What tells it from other terminals."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:32]

    def answered(self, told: Mapping[str, str]) -> web.Response:
        """Send the browser to it, with what it is told."""
        echoed = {"session_id": self.session_id}
        if self.consumer:
            echoed["consumer_id"] = self.consumer
        location = redirects.with_parameters(self.redirect_url, echoed | dict(told))
        return web.Response(status=303, headers={"Location": location})

    def refused(self, description: str) -> web.Response:
        """Send the browser to it, with the news that nothing was bound."""
        return self.answered({"error": "access_denied", "error_description": description})


def encoded(response: JSON) -> str:
    """A BindingResponse as kube-bind's own CLI decodes it: base64url with padding."""
    return base64.urlsafe_b64encode(msgspec.json.encode(response)).decode()


class Terminals:
    """Remembers, in each browser, the terminal that waits for it."""

    def __init__(self, sealing: Sealing, external: ExternalURL) -> None:
        self._sealing = sealing
        self._cookies = Cookies(external)

    def waiting(self, request: web.Request) -> Terminal | None:
        """The terminal that waits for a browser.

        Raises:
            Refusal: there is a cookie, and no key yet.
        """
        sealed = request.cookies.get(self._cookies.terminal, "")
        if not sealed:
            return None
        return self._sealing.open(_PURPOSE, sealed, Terminal, seconds=TERMINAL_SECONDS)

    def remember(self, response: web.StreamResponse, terminal: Terminal) -> None:
        """Have the browser bring it with all that comes.

        Raises:
            Refusal: there is no key yet.
        """
        sealed = self._sealing.seal(_PURPOSE, terminal)
        self._cookies.set(response, self._cookies.terminal, sealed, seconds=TERMINAL_SECONDS)

    def forget(self, response: web.StreamResponse) -> None:
        """Have the browser forget it: it has its answer."""
        self._cookies.expire(response, self._cookies.terminal)


def introduced(asked: Mapping[str, str]) -> Terminal:
    """The terminal of an address as `bind URL` opens it.

    Raises:
        Refusal: something in it cannot be used; the message names the parameter.
    """
    if asked.get("cluster_id"):
        raise bad_request("there is no such cluster here: leave cluster_id empty")
    try:
        url = redirects.of_cli(asked.get("redirect_url", ""))
    except RedirectError as error:
        raise bad_request(str(error)) from None
    session = asked.get("session_id", "")
    if not session or len(session) > _MOST_SESSION:
        raise bad_request(f"session_id is missing, or longer than {_MOST_SESSION} characters")
    consumer = asked.get("consumer_id", "")
    if consumer and (problem := problem_of(consumer)):
        raise bad_request(f"consumer_id {problem}")
    return Terminal(url, session, consumer, challenge_in(asked))
