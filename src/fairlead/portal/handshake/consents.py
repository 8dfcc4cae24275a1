"""Consents to binds, given on a page and redeemed by a program with a one-time code.

Only the consent is stored. Credentials are created when the program proves by its verifier
that it asked, so none are created for a terminal that has been closed.
"""

from __future__ import annotations

import msgspec
from aiohttp import web

from fairlead.portal.handshake.bind import AskedBind, Bind
from fairlead.portal.http.audit import audit
from fairlead.portal.http.bounds import count
from fairlead.portal.http.errors import bad_request
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.identity.codes import Codes
from fairlead.portal.identity.sessions import BrowserSession, Person, SessionStore


class _Consent(msgspec.Struct, frozen=True):
    """A consent: the bind, and the session that it was given in."""

    session: str
    asked: AskedBind


class Consents:
    """Makes codes for consents, and binds when they are redeemed."""

    def __init__(self, bind: Bind, store: SessionStore) -> None:
        self._bind = bind
        self._store = store
        self._codes = Codes(store)

    async def agree(self, session: BrowserSession, asked: AskedBind, challenge: str) -> str:
        """Return a code for the program that has the challenge's verifier.

        Raises:
            Refusal: the person may not bind this, or the store is unavailable.
            ClientError: the API server refused or is unavailable.
        """
        await self._bind.check(session.person, asked)
        grant = msgspec.json.encode(_Consent(session.key, asked)).decode()
        return await self._codes.make(session.person, challenge, grant)

    async def redeem(self, request: web.Request, person: Person, grant: str) -> web.Response:
        """Bind what the person consented to, and answer with a BindingResponse.

        Raises:
            Refusal: the session has ended, the right was revoked, or the bind is refused.
            ClientError: the API server refused or is unavailable.
        """
        consent = msgspec.json.decode(grant, type=_Consent)
        # A sign-out between the consent and its redemption withdraws the consent.
        if await self._store.get(consent.session, kind="session") is None:
            audit("bind", who=person.author, what="code", result="refused", request=request)
            raise bad_request("the person who agreed to this has signed out: start again")
        count(request, person.author, "bind")
        response = await self._bind.bound(request, person, consent.session, consent.asked)
        return web.json_response(response, headers=PRIVATE)
