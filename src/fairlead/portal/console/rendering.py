"""Pages from Jinja2 templates, with what all of them have: head, navigation, policy."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from fairlead.portal.http.context import PATH, REQUEST_ID
from fairlead.portal.identity.people import Person
from fairlead.portal.options import ServeOptions


_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)
_STYLE = (files("fairlead.portal.console") / "static" / "console.css").read_bytes()
_STYLE_PATH = f"/static/console.{hashlib.sha256(_STYLE).hexdigest()[:16]}.css"
"""Its name changes with its content, so that browsers may keep it for ever."""


class Pages:
    """Renders templates; whatever people wrote is shown as text."""

    def __init__(self, options: ServeOptions) -> None:
        self._external = options.external_url
        self._provider = options.pretty_name
        self._embedded = options.oidc.type == "embedded"
        self._environment = Environment(
            loader=PackageLoader("fairlead.portal.console"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals["path"] = self.path

    def routes(self) -> list[web.RouteDef]:
        """The style sheet's."""
        return [web.get(_STYLE_PATH, self._style)]

    def path(self, path: str, **query: str) -> str:
        """The address of a page of ours, below the path of the external URL."""
        told = {name: value for name, value in query.items() if value}
        return f"{self._external.path}{path}{'?' + urlencode(told) if told else ''}"

    def page(
        self,
        request: web.Request,
        template: str,
        *,
        person: Person | None = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> web.Response:
        """Render one page."""
        text = self._environment.get_template(template).render(
            person=person,
            provider=self._provider,
            embedded=self._embedded,
            style=self.path(_STYLE_PATH),
            external=self._external.absolute(""),
            here=request.get(PATH, request.path),
            request_id=request.get(REQUEST_ID, ""),
            **values,
        )
        own = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-store"}
        return web.Response(
            text=text, status=status, content_type="text/html", headers=own | dict(headers or {})
        )

    async def _style(self, request: web.Request) -> web.Response:
        return web.Response(
            body=_STYLE,
            content_type="text/css",
            headers={"Cache-Control": "public, max-age=31536000, immutable"},
        )
