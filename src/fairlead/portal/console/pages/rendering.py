"""Pages from Jinja2 templates, with the common head, navigation and security policy."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from fairlead.api.durations import rough_duration
from fairlead.api.timestamps import moment, parse_time
from fairlead.portal.console.pages.terminal import Terminal
from fairlead.portal.http.headers import Headers
from fairlead.portal.http.requests import PATH, REQUEST_ID
from fairlead.portal.identity.sessions import BrowserSession, Person
from fairlead.portal.model.thing import WORDS
from fairlead.portal.options import ExternalURL


_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_KEPT: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_TIME: Final = re.compile(r"(<time [^>]*>)[^<]*</time>")
"""A relative time such as "5s ago", which changes although its object does not."""
_ILLEGIBLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, marks that change the direction of writing, and surrogates."""


_PARTS: Final = re.compile(r"(?<=\w[./])(?=[^\W\d])|(?<=[a-z]{3})(?=[A-Z][a-z]{2})")
"""Ends of the parts of names such as ``buckets.example.org`` and ``DatabaseSyncFailed``."""


class _File(NamedTuple):
    """A static file that browsers cache without limit: its path changes with its content."""

    path: str
    content: bytes
    type: str


def _file(name: str) -> _File:
    content = (files("fairlead.portal.console") / "static" / name).read_bytes()
    stem, _, ending = name.rpartition(".")
    digest = hashlib.sha256(content).hexdigest()[:16]
    return _File(f"/static/{stem}.{digest}.{ending}", content, _TYPES[ending])


_STYLES: Final = [_file(name) for name in ("console.css", "topology.css")]
_ICON: Final = _file("icon.svg")
_LIVE_SCRIPTS: Final = [_file(name) for name in ("htmx.min.js", "hx-sse.min.js")]
_SCRIPT: Final = _file("console.js")


class Tab(NamedTuple):
    """A page in the navigation; it is the current one of paths that begin with ``beginnings``.

    ``may`` decides whether the session's person sees the tab; without it everyone does.
    """

    path: str
    title: str
    beginnings: tuple[str, ...] = ()
    may: Callable[[BrowserSession], Awaitable[bool]] | None = None


class Pages:
    """Renders templates; values are always escaped.

    Args:
        external: the server's external address.
        provider: its display name, "" for none.
        embedded: whether people sign in at the embedded issuer.
        tabs: the pages in the navigation.
        leave: the path of the form that signs out, "" without one.
        manual: the titles of the manual's pages about these pages.
        waiting: returns the terminal that waits for a request's browser.
    """

    def __init__(
        self,
        external: ExternalURL,
        *,
        provider: str = "",
        embedded: bool = False,
        tabs: Iterable[Tab] = (),
        leave: str = "/sign-out",
        manual: str = "",
        waiting: Callable[[web.Request], Terminal | None] = lambda _request: None,
    ) -> None:
        self._external = external
        self.headers = Headers(external)
        """The headers for streams, whose answers start before the middleware can add them."""
        self._tabs = list(tabs)
        self._waiting = waiting
        self._environment = Environment(
            loader=PackageLoader("fairlead.portal.console"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            finalize=unturned,
            # A misspelled variable fails in tests, and does not leave a gap in a page.
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {
            "path": self.path,
            "provider": provider,
            "embedded": embedded,
            "tabs": [tab for tab in self._tabs if tab.may is None],
            "tab_of": {tab.path: tab.title for tab in self._tabs}.get,
            "leave": leave,
            "manual": manual,
            "version": version("fairlead"),
            "external": external.absolute(""),
            "icon": self.path(_ICON.path),
            "styles": [self.path(one.path) for one in _STYLES],
            "live_scripts": [self.path(one.path) for one in _LIVE_SCRIPTS],
            "script": self.path(_SCRIPT.path),
        }
        self._environment.filters |= {
            "ago": ago,
            "code": code,
            "dotted": dotted,
            "word": WORDS.__getitem__,
            "segment": segment,
            "pair": lambda state: (state, WORDS[state]),
            "same": lambda text: (text, text),
        }
        # Blocks that are rendered alone see only globals, not a template's imports.
        self._environment.globals["ui"] = self._environment.get_template("macros.html").module

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the static files."""
        static = (_ICON, *_STYLES, *_LIVE_SCRIPTS, _SCRIPT)
        return [web.get(file.path, _serve(file)) for file in static]

    async def tabs(self, session: BrowserSession) -> list[Tab]:
        """Return the tabs that the session's person may see."""
        return [tab for tab in self._tabs if tab.may is None or await tab.may(session)]

    def path(self, path: str, **query: str) -> str:
        """Return the path of a page, with the prefix of the external URL and a query."""
        parameters = {name: value for name, value in query.items() if value}
        return f"{self._external.path}{path}{'?' + urlencode(parameters) if parameters else ''}"

    def redirect(self, path: str, headers: Mapping[str, str] | None = None) -> web.Response:
        """Return a redirect to a page after a form."""
        return web.Response(status=303, headers={**(headers or {}), "Location": self.path(path)})

    def page(
        self,
        request: web.Request,
        template: str,
        *,
        person: Person | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        form_to: str = "",
        live: str = "",
        tabs: Sequence[Tab] | None = None,
        **values: Any,
    ) -> web.Response:
        """Render a page.

        Args:
            request: the request.
            template: the template's file.
            person: the person who is signed in.
            status: the answer's status.
            headers: headers of the answer, beside the common ones.
            form_to: another origin that the page's form may redirect to; that of a waiting
                terminal is always allowed.
            live: the address of its stream, "" for none.
            tabs: the tabs in the navigation; by default those that everyone sees.
            values: the template's variables.
        """
        nonce = secrets.token_urlsafe(16)
        if tabs is not None:
            values["tabs"] = tabs
        terminal = self._waiting(request)
        if terminal is not None:
            form_to = terminal.form_source
        text = self._environment.get_template(template).render(
            person=person,
            here=request.get(PATH, request.path),
            request_id=request.get(REQUEST_ID, ""),
            nonce=nonce,
            live=live,
            terminal=terminal,
            **values,
        )
        policy = (
            # The nonce is new for each answer, so that injected markup cannot run a script. Some
            # browsers apply form-action to each redirect after a form, also to one to a terminal.
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self'; img-src 'self';"
            f" connect-src 'self'; form-action 'self'{form_to and ' ' + form_to};"
            " base-uri 'none'; frame-ancestors 'none'"
        )
        own = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
        return web.Response(
            text=text, status=status, content_type="text/html", headers=own | dict(headers or {})
        )

    def lost(self, request: web.Request) -> web.Response:
        """Return the page for a browser at a path without a page; it reads no session."""
        text = "There is no page at this address"
        return self.page(request, "missing.html", status=404, told=text, helps="")

    def part(self, template: str, values: Mapping[str, Any]) -> str:
        """Render a template's block ``live``, which its stream keeps up to date."""
        parsed = self._environment.get_template(template)
        context = parsed.new_context(dict(values))
        return "".join(parsed.blocks["live"](context))


def legible(text: str) -> str:
    """Replace characters that could affect other text with a visible mark; keep lines."""
    return _ILLEGIBLE.sub("\N{REPLACEMENT CHARACTER}", text)


def unturned(value: Any) -> Any:
    """Neutralize control characters of a value, which could reorder the text around it.

    The filter ``e`` skips this, for values that are sent back or copied.
    """
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def digest(text: str) -> str:
    """Return a digest of a live part that ignores its relative times."""
    return hashlib.sha256(_TIME.sub(r"\1</time>", text).encode()).hexdigest()[:16]


def ago(time: str | datetime | None, missing: str = "never") -> Markup:
    """Return a relative time with the exact one on hover; a script updates it."""
    if not time:
        return Markup("<span>{}</span>").format(missing)
    try:
        then = time if isinstance(time, datetime) else parse_time(time)
        passed = rough_duration(moment() - then)
    except (ValueError, OverflowError):
        return Markup("<span>{}</span>").format(unturned(time))
    exact = then.strftime("%Y-%m-%dT%H:%M:%SZ")
    return Markup('<time datetime="{0}" title="{0}" data-ago>{1} ago</time>').format(exact, passed)


def code(text: str) -> Markup:
    """Escape a text as :func:`dotted` does, and set its parts between backticks as code."""
    parts = text.split("`")
    # An odd number of backticks: one has no partner.
    if len(parts) % 2 == 0:
        return dotted(text)
    marked = (
        Markup("<code>{}</code>").format(dotted(part)) if number % 2 else dotted(part)
        for number, part in enumerate(parts)
    )
    return Markup("").join(marked)


def dotted(text: str) -> Markup:
    """Escape a text, and let lines end inside its names where a part of a name ends.

    Else a browser breaks a long name wherever the line is full.
    """
    return Markup("<wbr>").join(_PARTS.split(unturned(text)))


def segment(text: str) -> str:
    """Encode a name as one segment of a path."""
    return quote(text, safe="")


def _serve(file: _File) -> Any:
    async def serve(request: web.Request) -> web.Response:
        return web.Response(body=file.content, content_type=file.type, headers=_KEPT)

    return serve
