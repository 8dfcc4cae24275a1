"""Forms: whose they are, for which action, and that each is sent once."""

from __future__ import annotations

import time
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.http.bodies import FORM_TYPE, read_body
from fairlead.portal.http.errors import Refusal, bad_request, forbidden
from fairlead.portal.identity.guard import Guard
from fairlead.portal.identity.keys import Sealing
from fairlead.portal.identity.sessions import Session, SessionStore, hashed, random_token


FORM_SECONDS = 3600.0
"""Seconds for which a form can be sent."""
FIELD = "token"
"""The name of the field with a form's token."""
MOST_FIELDS = 2000
"""Fields that a form may have."""
_PURPOSE = "form"


class _Form(msgspec.Struct, frozen=True):
    """The session that a form was made for, what it does, and a name of its own."""

    session: str
    action: str
    once: str


Fields = list[tuple[str, str]]
"""The fields of a form as they were sent, in their order."""


def field(fields: Fields, name: str, most: int = 1000) -> str:
    """A field's text, "" where it is not there."""
    return next((value for key, value in fields if key == name), "")[:most].strip()


class FormTokens:
    """Makes forms' tokens, and takes each of them once."""

    def __init__(self, sealing: Sealing, store: SessionStore, guard: Guard) -> None:
        self._sealing = sealing
        self._store = store
        self._guard = guard

    def token(self, session: Session, action: str) -> str:
        """A token for one form of a session; ``action`` names what it does, and to what.

        Raises:
            Refusal: there is no key yet.
        """
        return self._sealing.seal(_PURPOSE, _Form(session.key, action, random_token()))

    async def fields(self, request: web.Request) -> tuple[Session, Fields]:
        """The sender's session and the fields of a form.

        Raises:
            Refusal: no one has signed in, the form comes from elsewhere, or it is no form.
        """
        session = await self._guard.session(request, content_type=FORM_TYPE)
        content = await read_body(request, content_type=FORM_TYPE)
        try:
            fields = parse_qsl(
                content.decode(),
                keep_blank_values=True,
                max_num_fields=MOST_FIELDS,
                errors="strict",
            )
        except ValueError:
            raise bad_request(
                f"the form has more than {MOST_FIELDS} fields, or is no text in UTF-8"
            ) from None
        return session, fields

    async def check(self, session: Session, fields: Fields, action: str) -> None:
        """Refuse a form that was not made for this session and action, or was sent before.

        Raises:
            Refusal: it is such a one.
        """
        found = self._sealing.open(
            _PURPOSE, field(fields, FIELD, 4000), _Form, seconds=FORM_SECONDS
        )
        if found is None or (found.session, found.action) != (session.key, action):
            raise forbidden("this form is not of this session, or is too old: load its page again")
        free = await self._store.put(
            hashed(found.once),
            b"{}",
            kind="used",
            owner="",
            expires=time.time() + FORM_SECONDS,
        )
        if not free:
            raise Refusal(
                409,
                ErrorCode.BAD_REQUEST,
                "this form was sent before: load its page again to see what it did",
            )
