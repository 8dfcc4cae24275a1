"""Binds that a person has agreed to on a page, for a program that fetches the answer itself.

What is kept meanwhile is the consent and no credential: these are made for the program that
proves that it has asked, and for no terminal that has gone.
"""

from __future__ import annotations

import msgspec
from aiohttp import web

from fairlead.portal.handshake.bind import Asked, Bind
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import bad_request
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.http.limits import count
from fairlead.portal.identity.codes import Codes
from fairlead.portal.identity.people import Person
from fairlead.portal.identity.sessions import Session, SessionStore


class _Consent(msgspec.Struct, frozen=True):
    """What was agreed to, and in which session."""

    session: str
    asked: Asked


class Consents:
    """Gives codes for consents, and binds when they are redeemed."""

    def __init__(self, bind: Bind, store: SessionStore) -> None:
        self._bind = bind
        self._store = store
        self._codes = Codes(store)

    async def agree(self, session: Session, asked: Asked, challenge: str) -> str:
        """A code for the program with the secret of a challenge.

        Raises:
            Refusal: the person may not bind this, or the store is away.
            ClientError: the API server refused or is away.
        """
        await self._bind.check(session.person, asked)
        grant = msgspec.json.encode(_Consent(session.key, asked)).decode()
        return await self._codes.make(session.person, challenge, grant)

    async def redeem(self, request: web.Request, person: Person, grant: str) -> web.Response:
        """Bind what a person has agreed to, and answer a BindingResponse.

        Raises:
            Refusal: the session is over, the person may not any more, or the bind is refused.
            ClientError: the API server refused or is away.
        """
        consent = msgspec.json.decode(grant, type=_Consent)
        if await self._store.get(consent.session, kind="session") is None:
            audit("bind", who=person.author, what="code", result="refused", request=request)
            raise bad_request("who agreed to this has signed out: begin again")
        count(request, person.author, "bind")
        response = await self._bind.bound(request, person, consent.session, consent.asked)
        return web.json_response(response, headers=PRIVATE)
