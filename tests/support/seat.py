"""A person's browser at the front door's pages, without script: cookies, links, forms."""

from __future__ import annotations

from html.parser import HTMLParser
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.support.portal import EXTERNAL, Answer, Door

from fairlead.portal.identity.guard import Cookies
from fairlead.portal.identity.sessions import BrowserSessions, Person
from fairlead.portal.options import ExternalURL


COOKIES = Cookies(ExternalURL.parse(EXTERNAL))


class Forms(HTMLParser):
    """The forms of a page by where they end, each with what it says at first."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = True
            self.found.append((told.get("action", ""), {}))
        elif tag == "input" and self._inside and told.get("name"):
            chosen = told.get("type") != "radio" or "checked" in told
            if chosen:
                self.found[-1][1][told["name"]] = told.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False


def form(answer: Answer, ending: str, **holds: str) -> dict[str, str]:
    """The fields of the one form that ends at a path, and that says this."""
    known = [fields for action, fields in Forms(answer.text).found if action == ending]
    (fields,) = [one for one in known if holds.items() <= one.items()]
    return fields


class Seat:
    """One browser of one person, who has signed in."""

    def __init__(self, door: Door, token: str = "") -> None:
        self._door = door
        self.cookies = {COOKIES.session: token} if token else {}

    @classmethod
    async def of(cls, door: Door, sessions: BrowserSessions, person: Person) -> Seat:
        token, _ = await sessions.create(person, "browser")
        return cls(door, token)

    async def get(self, path: str) -> Answer:
        return await self._ask(path)

    async def post(self, path: str, fields: dict[str, str], origin: str = EXTERNAL) -> Answer:
        headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
        return await self._ask(path, "POST", data=urlencode(fields), headers=headers)

    async def _ask(self, path: str, method: str = "GET", **more: Any) -> Answer:
        headers = more.pop("headers", {})
        if self.cookies:
            told = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            headers = headers | {"Cookie": told}
        answer = await self._door.ask(path, method, headers=headers, **more)
        for line in answer.headers.getall("Set-Cookie", []):
            for name, morsel in SimpleCookie(line).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
        return answer


def told(answer: Answer) -> tuple[str, dict[str, str]]:
    """Where an answer sends a browser, and with which parameters."""
    assert answer.status == 303, answer.text
    url = urlsplit(answer.headers["Location"])
    query = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query))
    found = dict(query)
    assert len(found) == len(query)
    return f"{url.scheme}://{url.netloc}{url.path}" if url.netloc else url.path, found
