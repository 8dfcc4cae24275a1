"""One-time codes, by which a program receives the result of a page in a browser (S14).

The browser carries a code, and the program proves by a secret verifier that it began the sign-in
or bind (RFC 7636, S256). The store has only hashes of codes, so its readers can redeem none.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Mapping

import msgspec
import structlog

from fairlead.portal import bounds
from fairlead.portal.http.errors import bad_request
from fairlead.portal.identity.oidc.issuers import challenge_of
from fairlead.portal.identity.sessions import Person, SessionStore, hashed, random_token


_log = structlog.get_logger(logger_name="fairlead.portal.codes")
_code = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch
is_verifier = re.compile(r"[A-Za-z0-9._~-]{43,128}").fullmatch
is_challenge = re.compile(r"[A-Za-z0-9_-]{43}").fullmatch


class Code(msgspec.Struct, frozen=True):
    """A stored one-time code: the person, and a session or a grant to give for it.

    ``grant`` is the consent to a bind, encoded by its owner; "" stands for a session.
    """

    person: Person
    challenge: str
    grant: str = ""


class Codes:
    """Makes one-time codes, and redeems each of them once."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    async def make(self, person: Person, challenge: str, grant: str = "") -> str:
        """Return a new code for the program that knows the challenge's verifier.

        Raises:
            Refusal: the store is unavailable.
        """
        code = random_token()
        await self._store.put(
            hashed(code),
            msgspec.json.encode(Code(person, challenge, grant)),
            kind="code",
            owner=person.author,
            expires=time.time() + bounds.CODE_SECONDS,
        )
        return code

    async def take(self, code: str, verifier: str) -> tuple[Code | None, bool]:
        """Use up a code; return its record, and whether the verifier matches its challenge.

        Raises:
            Refusal: the store is unavailable.
        """
        value = None
        if _code(code) and is_verifier(verifier):
            value = await self._store.take(hashed(code), kind="code")
        if value is None:
            return None, False
        try:
            stored = msgspec.json.decode(value, type=Code)
        except ValueError as error:
            _log.warning("a stored code cannot be read", error=str(error))
            return None, False
        # The code is used up even if the verifier is wrong: no second try of a stolen code.
        given = challenge_of(verifier).encode()
        return stored, hmac.compare_digest(given, stored.challenge.encode())


def challenge_in(parameters: Mapping[str, str]) -> str:
    """Return the PKCE challenge among the parameters, "" if there is none.

    Raises:
        Refusal: the challenge is malformed, or its method is not S256.
    """
    challenge, method = (
        parameters.get("code_challenge", ""),
        parameters.get("code_challenge_method", ""),
    )
    if not challenge and not method:
        return ""
    if method != "S256" or not is_challenge(challenge):
        raise bad_request(
            "code_challenge has to be the base64url of a SHA-256, without padding, and"
            " code_challenge_method S256"
        )
    return challenge
