"""The pages, as people with different rights see them, without script."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.metadata import version
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from tests.integration.portal.handshake.conftest import (
    ADA,
    BEN,
    ISSUER,
    House,
    _quiet,
    admin,
    collection,
    house,
    plane,
    template,
)
from tests.support.customers import customer, exported
from tests.support.portal import EXTERNAL, Answer
from tests.support.provider import example
from tests.support.waiting import eventually

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES, COLLECTIONS
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client
from fairlead.portal.identity.guard import Cookies
from fairlead.portal.identity.sessions import Person
from fairlead.portal.options import ExternalURL
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

MARKUP = '<script>alert("1")</script>'


class Read(HTMLParser):
    """A page: its tags, the addresses in them, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.told: list[str] = []
        self.nonces: list[str] = []
        self.streams: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            told = dict(attrs)
            assert told.get("src"), "a script stands in the page"
            self.nonces.append(told.get("nonce") or "")
        for name, value in attrs:
            if name == "hx-sse:connect":
                self.streams.append(value or "")
            assert not name.startswith("on"), f"{tag} has a handler"
            assert name != "style", f"{tag} has a style of its own"
            if name in {"href", "src", "action"}:
                self.addresses.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == ["wbr"]:
            # A place where a line may break is no space.
            self.told[-1] += data
            self.tags.pop()
        else:
            self.told.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.told).split())


def read(answer: Answer) -> Read:
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    page = Read(answer.text)
    assert {"style", "iframe"} & set(page.tags) == set()
    assert all(one and f"script-src 'nonce-{one}';" in policy for one in page.nonces)
    assert page.tags.count("h1") == 1
    for attributes in re.findall(r"<pre[^>]*><code([^>]*)>", answer.text):
        name = re.search(r'id="([^"]+)"', attributes)
        assert name, f"a text has no name to copy it by: {attributes}"
        assert f'data-copy="{name[1]}"' in answer.text
    assert "main" in page.tags
    return page


async def shown(there: House, person: Person, path: str, **more: Any) -> Read:
    answer = await there.ask(person, path, **more)
    assert answer.status == 200, answer.text
    return read(answer)


async def test_each_person_sees_what_they_may_bind(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin, provider=False) as there:
        for name in ("widgets", "gadgets", "others"):
            await there.template(name)
        await admin.create(COLLECTIONS, collection("tools", "widgets", "gadgets"))
        await there.allow("User:oidc:ada", templates=("widgets", "others"))

        async def listed() -> bool:
            return "others" in (await shown(there, ADA, "/")).text

        await eventually(listed)
        page = await shown(there, ADA, "/")
        assert [one for one in ("tools", "widgets", "Others", "others") if one in page.text] == [
            *("tools", "widgets", "Others", "others"),
        ]
        assert "gadgets" not in page.text
        assert "You may not bind any template yet" in (await shown(there, BEN, "/")).text
        assert "others" not in (await shown(there, ADA, "/?q=WIDG")).text.split("Search")[1]
        assert (
            "No template that you may bind matches" in (await shown(there, ADA, "/?q=none")).text
        )
        for person, name in ((ADA, "gadgets"), (BEN, "widgets"), (ADA, "none")):
            answer = await there.ask(person, f"/templates/{name}")
            assert answer.status == 404
            assert f"There is no template {name} for you" in read(answer).text


async def test_who_signed_in_without_groups_learns_why_there_are_no_templates(
    plane: Sandbox, admin: Client
) -> None:
    many = Person(ISSUER, "many", groups_left_out=True)
    async with house(plane, admin, provider=False) as there:
        assert "issuer named no groups" not in (await shown(there, BEN, "/")).text
        text = (await shown(there, many, "/")).text
        assert "At your sign-in the issuer named no groups" in text
        assert "then sign in again." in text
        assert "<code>--oidc-groups-claim</code>" in (await there.ask(many, "/")).text
        missing = await there.ask(many, "/templates/widgets")
        assert missing.status == 404
        assert "at your sign-in the issuer named no groups" in read(missing).text
        assert "<code>--oidc-groups-claim</code>" in missing.text


async def test_a_template_tells_what_it_brings(plane: Sandbox, admin: Client) -> None:
    crd = example("crd")
    crd["metadata"].setdefault("labels", {})["kube-bind.io/exported"] = "true"
    async with house(plane, admin, provider=False) as there:
        await there.allow("User:oidc:ada")
        body = template("widgets")
        body["spec"]["permissionClaims"] = [
            {
                "group": "",
                "resource": "secrets",
                "selector": {"namedResources": [{"name": "token", "namespace": "team"}]},
            }
        ]
        await admin.create(APISERVICEEXPORTTEMPLATES, body)

        async def listed() -> bool:
            return (await there.ask(ADA, "/templates/widgets")).status == 200

        await eventually(listed)
        page = await shown(there, ADA, "/templates/widgets")
        assert "Its fields are unknown" in page.text
        assert "The Secret token of namespace team is copied." in page.text
        await admin.create(CUSTOMRESOURCEDEFINITIONS, crd)

        async def known() -> bool:
            return "Example" in (await shown(there, ADA, "/templates/widgets")).text

        await eventually(known)
        answer = await there.ask(ADA, "/templates/widgets")
        text = re.findall(r"<code[^>]*>(apiVersion.*?)</code>", answer.text, re.DOTALL)[0]
        made = yaml.safe_load(text)
        assert (made["apiVersion"], made["kind"]) == ("example.org/v1", "Widget")
        assert "spec" in read(answer).text


async def test_a_card_names_the_owner_and_says_what_is_bound(
    plane: Sandbox, admin: Client
) -> None:
    author = f"{ADA.issuer}/{ADA.subject}"
    for name, kind in (("kb-ada", "widgets"), ("kb-other", "gadgets")):
        await customer(admin, name, author=author if name == "kb-ada" else "")
        resource = {"group": "example.org", "resource": kind, "versions": ["v1"]}
        await exported(admin, name, kind, resources=[resource])
    async with house(plane, admin, provider=False) as there:
        for name, kind in (("widgets", "widgets"), ("gadgets", "gadgets")):
            body = template(name)
            body["spec"]["resources"][0]["resource"] = kind
            body["metadata"]["annotations"] |= {"a8r.io/owner": f"team {name}"}
            await admin.create(APISERVICEEXPORTTEMPLATES, body)
        await there.allow("User:oidc:ada")

        async def cards() -> bool:
            text = (await shown(there, ADA, "/")).text
            return (
                "gadgets gadgets.example.org Owner: team gadgets" in text
                and "widgets bound widgets.example.org Owner: team widgets" in text
            )

        await eventually(cards)


async def test_markup_is_text(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin, provider=False) as there:
        await there.allow("User:oidc:ada")
        body = template("widgets")
        body["spec"]["description"] = MARKUP
        await admin.create(APISERVICEEXPORTTEMPLATES, body)

        async def listed() -> bool:
            return MARKUP in (await shown(there, ADA, "/")).text

        await eventually(listed)
        for path in ("/", "/templates/widgets"):
            assert MARKUP in (await shown(there, ADA, path)).text
        asked = await shown(there, ADA, '/?q="><script>alert(1)</script>')
        assert "No template that you may bind matches" in asked.text
        odd = await there.ask(ADA, "/templates/%3Cscript%3E")
        assert odd.status == 404
        assert "<script>" in read(odd).text


async def test_strangers_are_offered_to_sign_in(plane: Sandbox, admin: Client) -> None:
    below = f"{EXTERNAL}/below/it"
    async with house(plane, admin, provider=False, external=below) as there:
        for path in ("/", "/templates/widgets", "/bindings"):
            answer = await there.door.ask(f"/below/it{path}")
            assert answer.status == 401
            page = read(answer)
            (sign_in,) = [one for one in page.addresses if "authorize" in one]
            assert sign_in.startswith("/below/it/api/authorize?redirect_url=%2Fbelow%2Fit%2F")
            assert all(one.startswith(("/below/it/", "#")) for one in page.addresses)
        for path, led_to in (
            ("/?q=a%26b&session_id=old&path=c", "/below/it/?q=a%26b&path=c"),
            ("/templates/%C3%A9%25", "/below/it/templates/%C3%A9%25"),
            (f"/?q={'x' * 2000}", "/below/it/"),
        ):
            page = read(await there.door.ask(f"/below/it{path}"))
            (sign_in,) = [one for one in page.addresses if "authorize" in one]
            asked = parse_qs(urlsplit(sign_in).query)
            assert (asked["redirect_url"], asked["client_type"]) == ([led_to], ["page"])
        styles = [one for one in page.addresses if one.endswith(".css")]
        assert styles
        for style in styles:
            sheet = await there.door.ask(style)
            assert (sheet.status, "immutable" in sheet.headers["Cache-Control"]) == (200, True)
            assert "url(" not in sheet.text


async def test_a_person_sees_their_own_bindings(plane: Sandbox, admin: Client) -> None:
    await admin.create(CUSTOMRESOURCEDEFINITIONS, example("crd"))
    async with house(plane, admin) as there:
        await there.template()
        await there.allow("User:oidc:ada", "User:oidc:ben")
        assert "You have bound nothing yet" in (await shown(there, ADA, "/bindings")).text

        async def bound() -> bool:
            return (await there.bind(ADA, identity="cluster-of-ada")).status == 200

        await eventually(bound)

        async def listed() -> bool:
            return "cluster-of-ada" in (await shown(there, ADA, "/bindings")).text

        await eventually(listed)
        assert "cluster-of-ada" not in (await shown(there, BEN, "/bindings")).text


async def test_signing_out_needs_no_script_and_takes_no_foreign_form(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, provider=False) as there:
        token, _ = await there.sessions.create(ADA, "browser")
        cookie = f"{Cookies(ExternalURL.parse(EXTERNAL)).session}={token}"
        form = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
        foreign = form | {"Origin": "https://elsewhere.example.org"}
        answer = await there.door.ask("/sign-out", "POST", headers=foreign)
        assert answer.status == 403
        assert (await there.door.ask("/", headers={"Cookie": cookie})).status == 200
        answer = await there.door.ask("/sign-out", "POST", headers=form | {"Origin": EXTERNAL})
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert (await there.door.ask("/", headers={"Cookie": cookie})).status == 401


async def test_a_browser_that_is_lost_finds_the_way_back(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin, provider=False) as there:
        html = {"Accept": "text/html,*/*;q=0.8"}
        answer = await there.door.ask("/none", headers=html)
        assert answer.status == 404
        page = read(answer)
        assert "There is no page at this address" in page.text
        assert "Back to the first page" in page.text
        assert "/bindings" not in page.addresses
        answer = await there.ask(ADA, "/bindings/kb-a/none")
        assert answer.status == 404
        assert "/bindings" in read(answer).addresses
        assert "Back to My bindings Back to the first page" in read(answer).text
        answer = await there.ask(ADA, "/none")
        assert answer.headers["Content-Type"].startswith("text/plain")
        answer = await there.door.ask("/api/none", headers=html)
        assert answer.headers["Content-Type"].startswith("application/json")


async def test_the_footer_has_the_version_for_who_signed_in(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin, provider=False) as there:
        text = f"Fairlead {version('fairlead')} In a terminal: fairlead --help In the manual: The"
        assert text in (await shown(there, ADA, "/")).text
        assert version("fairlead") not in (await there.door.ask("/")).text
