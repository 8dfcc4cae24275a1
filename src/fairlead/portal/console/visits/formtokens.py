"""Tokens of forms against CSRF: bound to a session and an action, valid once.

A sealed token in a hidden field names the session, so a page of another site cannot make one, and
the action, so a token cannot be moved to another form. Its random part is stored when it is used.
"""

from __future__ import annotations

import time
from urllib.parse import parse_qsl, quote

import msgspec
from aiohttp import web

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal import bounds
from fairlead.portal.http.errors import Refusal, bad_request, forbidden
from fairlead.portal.http.requests import FORM_TYPE, PATH, read_body
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.keys import Sealing
from fairlead.portal.identity.sessions import BrowserSession, SessionStore, hashed, random_token


FIELD = "token"
"""Name of the field with the token."""
_PURPOSE = "form"


class _Form(msgspec.Struct, frozen=True):
    """A token's content: the session, the action, and a random part for single use."""

    session: str
    action: str
    once: str


Fields = list[tuple[str, str]]
"""The fields of a form, in order."""


def field(fields: Fields, name: str, most: int = 1000) -> str:
    """Return a field's text, "" without the field."""
    return next((value for key, value in fields if key == name), "")[:most].strip()


class FormTokens:
    """Makes tokens of forms, and accepts each of them once."""

    def __init__(self, sealing: Sealing, store: SessionStore, guard: SessionGuard) -> None:
        self._sealing = sealing
        self._store = store
        self._guard = guard

    def token(self, session: BrowserSession, action: str) -> str:
        """Return a token for one form of a session; ``action`` names its effect and object.

        Raises:
            Refusal: there is no key yet.
        """
        return self._sealing.seal(_PURPOSE, _Form(session.key, action, random_token()))

    async def fields(self, request: web.Request) -> tuple[BrowserSession, Fields]:
        """Return the sender's session and the fields of a form.

        Raises:
            HTTPSeeOther: there is no session; the page shows how to sign in.
            Refusal: the form is another site's, or it is malformed.
        """
        # The guard checks Origin; the token is a second defense, and holds a form to one use.
        try:
            session = await self._guard.session(request, content_type=FORM_TYPE)
        except Refusal as refusal:
            if refusal.status != web.HTTPUnauthorized.status_code:
                raise
            # Its external address, since a proxy may strip a prefix.
            path = quote(request.get(PATH, request.path))
            raise web.HTTPSeeOther(f"{self._guard.external.path}{path}") from None
        content = await read_body(request, content_type=FORM_TYPE)
        try:
            fields = parse_qsl(
                content.decode(),
                keep_blank_values=True,
                max_num_fields=bounds.FORM_FIELDS,
                errors="strict",
            )
        except ValueError:
            raise bad_request(
                f"the form has more than {bounds.FORM_FIELDS} fields, or is not in UTF-8"
            ) from None
        return session, fields

    async def check(self, session: BrowserSession, fields: Fields, action: str) -> None:
        """Refuse a form that is not for this session and action, or was sent before.

        Raises:
            Refusal: the token is missing, forged, expired, another form's, or used.
        """
        content = self._sealing.open(
            _PURPOSE, field(fields, FIELD, 4000), _Form, seconds=bounds.FORM_SECONDS
        )
        if content is None or (content.session, content.action) != (session.key, action):
            raise forbidden(
                "this form belongs to another session or is too old: load its page again"
            )
        free = await self._store.put(
            hashed(content.once),
            b"{}",
            kind="used",
            owner="",
            expires=time.time() + bounds.FORM_SECONDS,
        )
        if not free:
            raise Refusal(
                409,
                ErrorCode.BAD_REQUEST,
                "this form was sent before: load its page again to see what it did",
            )
