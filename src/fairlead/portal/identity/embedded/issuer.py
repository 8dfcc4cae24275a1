"""The embedded issuer: a form for name and password, whose codes this process redeems itself.

Codes are in the memory of one process: with several replicas, or after a restart in the middle
of a sign-in, people have to sign in again. Sessions are stored elsewhere and last.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

import structlog
from aiohttp import web
from jinja2 import Environment
from markupsafe import Markup

from fairlead.api.addresses import is_loopback
from fairlead.portal import bounds
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import bad_request
from fairlead.portal.http.requests import (
    ADDRESS,
    FORM_TYPE,
    LIMITS,
    parameters,
    parse_query,
    read_body,
)
from fairlead.portal.identity.codes import is_challenge
from fairlead.portal.identity.embedded.passwords import EmbeddedPerson, People, TooManyTriesError
from fairlead.portal.identity.guard import is_of_own_page
from fairlead.portal.identity.oidc.issuers import challenge_of
from fairlead.portal.identity.redirects import with_parameters
from fairlead.portal.identity.sessions import Person, hashed, random_token
from fairlead.portal.options import CALLBACK_PATH, ISSUER_PATH, ExternalURL


_PATH = f"{ISSUER_PATH}/authorize"
_STYLE, _HTML = ((files(__package__) / name).read_text() for name in ("page.css", "page.html"))
_PAGE = Environment(autoescape=True, trim_blocks=True).from_string(_HTML)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
# Some browsers apply form-action to each redirect after the form: to the callback, and on to a
# CLI on this machine. A policy cannot name an IPv6 address.
_LEADS = "'self' http://127.0.0.1:* http://localhost:*"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {_LEADS};"
        " base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
}
"""The headers of every page."""
_log = structlog.get_logger(logger_name="fairlead.portal.embedded")


class _Issued(NamedTuple):
    challenge: str
    person: EmbeddedPerson
    expires: float


class EmbeddedIssuer:
    """Signs people in with a form, where an external issuer would; this server is its only client.

    Args:
        external: the server's address; the issuer is ``/oidc`` below it.
        people: the people who may sign in.
        beyond_loopback: whether other machines may use it.
    """

    def __init__(
        self,
        external: ExternalURL,
        people: Sequence[EmbeddedPerson],
        *,
        beyond_loopback: bool = False,
    ) -> None:
        self.url = external.absolute(ISSUER_PATH)
        self._external = external
        self._people = People(people)
        self._beyond_loopback = beyond_loopback
        self._codes: OrderedDict[str, _Issued] = OrderedDict()
        _log.warning("the embedded issuer is for laptops and demonstrations", issuer=self.url)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, relative to the root."""
        return [
            web.get(_PATH, self.authorize, allow_head=False),
            web.post(_PATH, self.authorize),
        ]

    def authorization_url(self, *, state: str, verifier: str, **_token: object) -> str:
        """Return the address of the form; the verifier alone binds the code to this sign-in."""
        query = {"state": state, "code_challenge": challenge_of(verifier)}
        return with_parameters(self._external.absolute(_PATH), query)

    async def person(self, code: str, *, verifier: str, **_token: object) -> Person:
        """Redeem a code; other arguments are for an id_token, of which there is none.

        Raises:
            Refusal: the code is unknown, used, expired, or of another sign-in.
        """
        # Popped before any check, so that a stolen code allows no second try.
        issued = self._codes.pop(hashed(code), None)
        if (
            issued is None
            or issued.expires <= time.time()
            or not hmac.compare_digest(challenge_of(verifier), issued.challenge)
        ):
            raise bad_request("the issuer does not take this code: sign in again")
        person = issued.person
        subject = person.subject or person.name
        return Person(self.url, subject, person.name, tuple(dict.fromkeys(person.groups)))

    async def authorize(self, request: web.Request) -> web.StreamResponse:
        """Show the sign-in form, or check a submitted one."""
        if not (self._beyond_loopback or is_loopback(request[ADDRESS])):
            return _refused("this issuer serves only its own machine", status=403)
        form = parameters(request)
        if request.method == "POST":
            # Some browsers send neither of them with a form.
            is_browser = "Origin" in request.headers or "Sec-Fetch-Site" in request.headers
            if is_browser and not is_of_own_page(request, self._external):
                return _refused("this form was not sent from its own page", status=403)
            content = await read_body(request, content_type=FORM_TYPE)
            form = parse_query(content.decode("latin-1"), request.config_dict[LIMITS])
        if not form.get("state") or not is_challenge(form.get("code_challenge", "")):
            return _refused("no sign-in leads to this page: sign in again", status=400)
        if request.method == "GET":
            return self._form(form)
        return await self._sign_in(request, form)

    async def _sign_in(self, request: web.Request, form: Mapping[str, str]) -> web.Response:
        """Check name and password, and redirect to the callback with a code."""
        name = form.get("name", "")[: bounds.PERSON_CHARACTERS]
        try:
            person = await self._people.find(name, form.get("password", ""))
        except TooManyTriesError as error:
            audit("password", who=name, what="embedded", result="limited", request=request)
            page = self._form(form, fault=str(error), status=429)
            page.headers["Retry-After"] = str(max(1, round(error.seconds)))
            return page
        result = "done" if person else "refused"
        audit("password", who=name, what="embedded", result=result, request=request)
        if person is None:
            fault = "Wrong name or password."
            return self._form(form, fault=fault, status=401)
        code = random_token()
        expires = time.time() + bounds.CODE_SECONDS
        self._codes[hashed(code)] = _Issued(form["code_challenge"], person, expires)
        if len(self._codes) > bounds.ISSUED_CODES:
            self._codes.popitem(last=False)
        query = {"code": code, "state": form["state"], "iss": self.url}
        location = with_parameters(self._external.absolute(CALLBACK_PATH), query)
        # 303 and not 302 or 307: the browser must not post the password to the callback.
        return web.Response(status=303, headers=HEADERS | {"Location": location})

    def _form(
        self, form: Mapping[str, str], *, fault: str = "", status: int = 200
    ) -> web.Response:
        action = f"{self._external.path}{_PATH}"
        shown = {**form, "name": form.get("name", "")[: bounds.PERSON_CHARACTERS]}
        return _page("Sign in", status, fault=fault, action=action, form=shown)


def _refused(text: str, *, status: int) -> web.Response:
    """Return a page that says why there is no form."""
    return _page("No sign-in", status, fault=text)


def _page(title: str, status: int, **values: object) -> web.Response:
    text = _PAGE.render(title=title, style=Markup(_STYLE), **values)  # noqa: S704  our own file
    return web.Response(status=status, text=text, content_type="text/html", headers=HEADERS)
