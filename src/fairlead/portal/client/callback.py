"""A listener on loopback for the answer that a browser brings from a front door.

Other answers are refused: the callback's path contains a secret, and a returned session id has
to be the one that was sent.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from html import escape
from typing import Self

from aiohttp import web

from fairlead.portal.client.errors import FrontDoorError


_MOST_BYTES = 1 << 20
"""Longest request line, in bytes: it may contain a whole BindingResponse."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Fairlead</title>
<style>:root{{color-scheme:light dark;font:1.1rem system-ui;text-align:center}}</style>
<h1>{title}</h1><p>{text}</p></html>
"""


class Callback:
    """A context manager that listens at ``url``, which the front door sends the browser back to.

    Args:
        strict: whether an answer without our session id is refused. kube-bind's page sends the
        id back, and its sign-in does not.
    """

    def __init__(self, *, strict: bool) -> None:
        self.session_id = secrets.token_urlsafe(24)
        self.url = ""
        self._strict = strict
        self._secret = secrets.token_urlsafe(24)
        self._answer: asyncio.Future[dict[str, str]] | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        self._answer = asyncio.get_running_loop().create_future()
        app = web.Application()
        app.router.add_get(f"/callback/{self._secret}", self._called, allow_head=False)
        # No access log: request lines contain tokens and kubeconfigs.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=2.0,
            max_line_size=_MOST_BYTES,
            max_field_size=_MOST_BYTES,
        )
        await self._runner.setup()
        try:
            # The address and not localhost, which may resolve to another one (RFC 8252, 8.3); any
            # free port.
            site = web.TCPSite(self._runner, "127.0.0.1", 0)
            await site.start()
        except BaseException:
            await self._runner.cleanup()
            raise
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/callback/{self._secret}"
        return self

    async def __aexit__(self, *_exc: object) -> None:
        assert self._runner is not None  # noqa: S101
        await self._runner.cleanup()

    async def answer(self, seconds: float) -> dict[str, str]:
        """Wait for the browser, and return its parameters.

        Raises:
            FrontDoorError: the server refused, or no answer came in time.
        """
        assert self._answer is not None  # noqa: S101
        try:
            async with asyncio.timeout(seconds):
                found = await self._answer
        except TimeoutError:
            raise FrontDoorError(
                f"no answer came within {seconds:g} s: look at the page in the browser"
            ) from None
        if found.get("success") == "false" and not found.get("error"):
            found["error"] = found.get("message") or "it gave no reason"
        if error := found.get("error"):
            told = found.get("error_description") or ""
            raise FrontDoorError(
                f"the server refused: {error[:300]}" + (told and f": {told[:600]}")
            )
        return found

    async def _called(self, request: web.Request) -> web.Response:
        assert self._answer is not None  # noqa: S101
        query = request.query
        found = {name: query.getall(name)[0] for name in query}
        given = found.get("session_id", "")
        # Another page in the browser could guess the port, and send an answer of its own.
        mine = hmac.compare_digest(given.encode(), self.session_id.encode())
        if not mine and (given or self._strict):
            return _page(401, "Not for this terminal", "This answer belongs to another command.")
        if len(found) != len(query):
            return _page(400, "Not understood", "A parameter is given twice.")
        if not self._answer.done():
            self._answer.set_result(found)
        if found.get("error") or found.get("success") == "false":
            told = found.get("error_description") or found.get("error") or found.get("message")
            return _page(200, "Refused", escape(told or "The terminal says more."))
        return _page(200, "Done", "Go back to the terminal; this page can be closed.")


def _page(status: int, title: str, text: str) -> web.Response:
    response = web.Response(
        status=status,
        text=_PAGE.format(title=title, text=text),
        content_type="text/html",
        headers=_HEADERS,
    )
    response.force_close()
    return response
