"""Binding by a browser: from a page alone, and for a terminal that waits."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import pytest
import structlog
import yaml
from tests.integration.portal.console.test_pages import MARKUP, read
from tests.integration.portal.handshake.conftest import (
    ADA,
    BEN,
    House,
    _quiet,
    admin,
    house,
    plane,
)
from tests.support.portal import Answer
from tests.support.portalidentity import CHALLENGE, VERIFIER
from tests.support.provider import example
from tests.support.seat import COOKIES, Seat, form, told
from tests.support.waiting import eventually

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    decode_binding_response,
)
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.portal.identity.sessions import Person
from fairlead.portal.options import Limits, Rate
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

BACK = "http://127.0.0.1:4321/callback/secret"
PAGE = "/bind/widgets"
OURS = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}


def unlimited() -> Limits:
    free = Rate(0, 0)
    return Limits(binds_per_person=free, binds=free, per_person=free, per_address=free)


@pytest.fixture
async def there(plane: Sandbox, admin: Client) -> AsyncIterator[House]:
    """Widgets are offered to Ada and Ben."""
    async with house(plane, admin, limits=unlimited()) as found:
        await offered(found, admin)
        yield found


async def offered(there: House, admin: Client) -> None:
    crd = example("crd")
    crd["metadata"].setdefault("labels", {})["kube-bind.io/exported"] = "true"
    await admin.create(CUSTOMRESOURCEDEFINITIONS, crd)
    await admin.create(APISERVICEEXPORTTEMPLATES, example("template"))
    await there.allow("User:oidc:ada", "User:oidc:ben")

    async def listed() -> bool:
        return (await there.ask(ADA, "/templates/widgets")).status == 200

    await eventually(listed)


async def seat(there: House, person: Person = ADA) -> Seat:
    return await Seat.of(there.door, there.sessions, person)


def asked(**more: str) -> str:
    """The address that a terminal opens."""
    known = {"redirect_url": BACK, "session_id": "s-1", "consumer_id": "cluster-1"} | more
    return "/?" + urlencode({name: value for name, value in known.items() if value != "-"})


async def sent(at: Seat, **more: str) -> Answer:
    """The page of the form, after a terminal has sent the browser."""
    assert told(await at.get(asked(**more))) == ("/", {})
    page = await at.get(PAGE)
    assert page.status == 200
    return page


async def requests(admin: Client) -> int:
    return len((await admin.list(BINDABLERESOURCESREQUESTS)).items)


async def consumers(there: House, admin: Client) -> list[str]:
    found = await admin.list(APISERVICEEXPORTREQUESTS)
    return sorted(one.meta.name for one in found.items)


def secretless(*answers: Answer) -> None:
    """Nothing of a login stands in a page, its address or its headers."""
    for one in answers:
        text = one.text + str(dict(one.headers))
        for word in ("kubeconfig:", "certificate-authority", "eyJ", "LS0t", "YXBpVmVyc2lvbjog"):
            assert word not in text, word


async def test_a_page_binds_for_a_new_cluster_and_gives_files_once(
    there: House, admin: Client
) -> None:
    at = await seat(there)
    template = await at.get("/templates/widgets")
    assert f'href="{PAGE}"' in template.text
    page = await at.get(PAGE)
    text = read(page).text
    assert "It may read, write and delete widgets.example.org in the namespaces" in text
    assert "Each ConfigMap with the labels example.org/for-the-factory=true is copied." in text
    assert "It may read, write and delete Secrets in all namespaces" in text
    assert "fairlead cluster-identity" in text
    fields = form(page, PAGE)
    assert fields["name"] == "widgets"
    assert fields["cluster"] == "new"
    with structlog.testing.capture_logs() as lines:
        answer = await at.post(PAGE, fields | {"identity": "cluster-1", "title": "Shop"})
    path, query = told(answer)
    assert (path.rpartition("/")[2], query) == ("widgets", {})
    page = await at.get(path)
    assert read(page).text.count("Shop") >= 1
    assert "FirstHeartbeatPending: no konnector has reported yet" in await says(
        at, path, "FirstHeartbeatPending"
    )
    (line,) = [one for one in lines if one["event"] == "bind"]
    assert (line["who"], line["identity"], line["result"]) == (ADA.author, "cluster-1", "done")
    response = form(page, path, file="response")
    file = await at.post(path, response)
    assert file.status == 200, file.text
    assert file.headers["Content-Disposition"] == "attachment; filename=binding-response.json"
    assert "no-store" in file.headers["Cache-Control"]
    found = decode_binding_response(file.text.encode())
    async with Client(parse_kubeconfig(found.kubeconfig)) as consumer:
        await consumer.list(SECRETS, found.provider_namespace)
    bundle = await at.post(path, form(page, path, file="bundle"))
    assert bundle.status == 200, bundle.text
    documents = list(yaml.safe_load_all(bundle.text))
    kinds = [one["kind"] for one in documents]
    assert kinds == ["Namespace", "Secret", *["ClusterRole"] * 4, "APIServiceBindingBundle"]
    assert base64.b64decode(documents[1]["data"]["kubeconfig"]) == found.kubeconfig
    reference = documents[-1]["spec"]["kubeconfigSecretRef"]
    assert reference["name"] == documents[1]["metadata"]["name"]
    again = await at.post(path, response)
    assert (again.status, "sent before" in read(again).text) == (409, True)
    secretless(template, page, answer, again)
    for one in lines:
        assert "eyJ" not in str(one)
    # The cluster is known from now on, and chosen at first.
    page = await at.get(PAGE)
    assert form(page, PAGE)["cluster"] == found.provider_namespace
    assert "Shop" in read(page).text
    assert await requests(admin) == 0


async def says(at: Seat, path: str, words: str) -> str:
    """The text of a page once it says this."""
    text = ""

    async def said() -> bool:
        nonlocal text
        text = read(await at.get(path)).text
        return words in text

    await eventually(said)
    return text


async def test_the_originals_terminal_gets_the_answer_that_it_decodes(
    there: House, admin: Client
) -> None:
    at = await seat(there)
    answer = await at.get(asked())
    assert told(answer) == ("/", {})
    assert "no-store" in answer.headers["Cache-Control"]
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "secret" not in answer.headers["Set-Cookie"]
    assert all(
        word in answer.headers["Set-Cookie"] for word in ("Secure", "HttpOnly", "SameSite=Lax")
    )
    first = read(await at.get("/")).text
    assert "A terminal waits for your choice: kubectl bind , at port 4321" in first
    page = await at.get(PAGE)
    policy = page.headers["Content-Security-Policy"]
    assert "form-action 'self' http://127.0.0.1:4321;" in policy
    text = read(page).text
    assert "port 4321 of 127.0.0.1" in text
    assert f"You are Ada ({ADA.author})." in text
    assert "Identity cluster-1, sent by the terminal." in text
    assert await consumers(there, admin) == []
    fields = form(page, PAGE)
    assert "identity" not in fields
    # What the terminal has told counts, whatever the form says.
    answer = await at.post(PAGE, fields | {"identity": "cluster-2", "cluster": "new"})
    where, query = told(answer)
    assert where == BACK
    assert (query["session_id"], query["consumer_id"]) == ("s-1", "cluster-1")
    assert query.keys() == {"session_id", "consumer_id", "binding_response"}
    assert "no-store" in answer.headers["Cache-Control"]
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    padded = query["binding_response"]
    assert len(padded) % 4 == 0
    assert not {"+", "/"} & set(padded)
    found = decode_binding_response(base64.urlsafe_b64decode(padded))
    assert [one.metadata.name for one in found.requests] == ["widgets"]
    assert found.authentication.oauth2_code_grant is not None
    async with Client(parse_kubeconfig(found.kubeconfig)) as consumer:
        await consumer.list(SECRETS, found.provider_namespace)
    # It has its answer, and is forgotten.
    assert COOKIES.terminal not in at.cookies
    page = await at.get("/")
    assert "A terminal waits" not in read(page).text
    assert "127.0.0.1" not in page.headers["Content-Security-Policy"]
    # The request is the terminal's to make.
    assert await consumers(there, admin) == []
    assert (await there.ask(ADA, "/api/consumer-status?consumer_id=cluster-1")).json["namespace"]


async def redeem(there: House, code: str, verifier: str = VERIFIER) -> Answer:
    body = {"code": code, "code_verifier": verifier}
    return await there.door.ask("/api/token", "POST", json=body)


async def test_our_own_terminal_gets_a_code_and_fetches_the_rest(
    there: House, admin: Client
) -> None:
    at = await seat(there)
    page = await sent(at, **OURS)
    assert "fairlead bind" in read(page).text
    answer = await at.post(PAGE, form(page, PAGE) | {"name": "db"})
    where, query = told(answer)
    assert where == BACK
    assert query.keys() == {"session_id", "consumer_id", "code"}
    secretless(answer)
    # There are no credentials before they are fetched, nor anything for a terminal that has gone.
    assert (await there.ask(ADA, "/api/consumer-status?consumer_id=cluster-1")).json == {
        "connected": False
    }
    response = await redeem(there, query["code"])
    assert response.status == 200, response.text
    assert "no-store" in response.headers["Cache-Control"]
    found = decode_binding_response(response.text.encode())
    assert [one.metadata.name for one in found.requests] == ["db"]
    async with Client(parse_kubeconfig(found.kubeconfig)) as consumer:
        await consumer.list(SECRETS, found.provider_namespace)
    assert (await redeem(there, query["code"])).status == 400


@pytest.mark.parametrize("how", ["wrong-secret", "signed-out", "no-right", "unknown"])
async def test_a_code_that_is_worth_nothing(how: str, there: House, admin: Client) -> None:
    at = await seat(there)
    page = await sent(at, **OURS)
    _, query = told(await at.post(PAGE, form(page, PAGE)))
    code, verifier, expected = query["code"], VERIFIER, 400
    if how == "wrong-secret":
        verifier = "x" * 43
    elif how == "signed-out":
        assert (await at.post("/sign-out", {})).status == 303
    elif how == "no-right":
        await admin.delete(APISERVICEEXPORTTEMPLATES, "widgets")
        expected = 404
    else:
        code = "c" * 43

    async def refused() -> bool:
        return (await redeem(there, code, verifier)).status == expected

    assert await refused()
    # The attempt has used it up.
    if how != "unknown":
        assert (await redeem(there, query["code"])).status == 400
    assert (await there.ask(ADA, "/api/consumer-status?consumer_id=cluster-1")).json == {
        "connected": False
    }


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"redirect_url": "https://evil.example.org/x"}, id="another-site"),
        pytest.param({"redirect_url": "http://evil.example.org:80/x"}, id="another-host"),
        pytest.param({"redirect_url": "https://127.0.0.1:4321/x"}, id="https"),
        pytest.param({"redirect_url": "javascript:alert(1)"}, id="script"),
        pytest.param({"redirect_url": "//127.0.0.1:4321/x"}, id="no-scheme"),
        pytest.param({"redirect_url": "http://127.0.0.1/x"}, id="no-port"),
        pytest.param({"redirect_url": "http://127.0.0.1:0/x"}, id="port-zero"),
        pytest.param({"redirect_url": "http://127.0.0.1:65536/x"}, id="no-such-port"),
        pytest.param({"redirect_url": "http://127.0.0.1:4321@evil.example.org/"}, id="user"),
        pytest.param({"redirect_url": "http://a@127.0.0.1:4321/"}, id="user-of-loopback"),
        pytest.param({"redirect_url": "http://127.0.0.1.evil.example.org:1/"}, id="suffix"),
        pytest.param({"redirect_url": "http://localhost.evil.example.org:1/"}, id="suffix-name"),
        pytest.param({"redirect_url": "http://127.0.0.2:4321/"}, id="other-loopback"),
        pytest.param({"redirect_url": "http://2130706433:4321/"}, id="number"),
        pytest.param({"redirect_url": f"{BACK}#x"}, id="fragment"),
        pytest.param({"redirect_url": f"{BACK}?code=x"}, id="a-code-of-its-own"),
        pytest.param({"redirect_url": f"{BACK}?binding_response=x"}, id="an-answer-of-its-own"),
        pytest.param({"redirect_url": "http://127.0.0.1:4321\\@evil.example.org"}, id="backslash"),
        pytest.param({"redirect_url": f"{BACK}/{'x' * 1024}"}, id="long"),
        pytest.param({"redirect_url": ""}, id="empty"),
        pytest.param({"session_id": "-"}, id="no-session"),
        pytest.param({"session_id": "s" * 257}, id="long-session"),
        pytest.param({"consumer_id": " x"}, id="blank-identity"),
        pytest.param({"consumer_id": "x" * 513}, id="long-identity"),
        pytest.param({"cluster_id": "other"}, id="another-cluster"),
        pytest.param(OURS | {"code_challenge_method": "plain"}, id="plain-challenge"),
        pytest.param(OURS | {"code_challenge": "short"}, id="short-challenge"),
        pytest.param({"code_challenge_method": "S256"}, id="no-challenge"),
    ],
)
async def test_what_a_terminal_may_not_say(
    wrong: dict[str, str], plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, provider=False) as there:
        for at in (Seat(there.door), await seat(there)):
            answer = await at.get(asked(**wrong))
            assert answer.status == 400, answer.text
            assert "The terminal cannot be answered" in read(answer).text
            assert "Location" not in answer.headers
            assert COOKIES.terminal not in at.cookies


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("http://localhost:4321", "http://localhost:4321"),
        ("http://127.0.0.1:4321/any/path?own=1", "http://127.0.0.1:4321"),
        # No policy can name an address of IPv6.
        ("http://[::1]:4321/", "http:"),
    ],
)
async def test_loopback_in_every_spelling_is_answered(
    url: str, source: str, plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, provider=False) as there:
        at = await seat(there)
        assert told(await at.get(asked(redirect_url=url))) == ("/", {})
        page = await at.get("/")
        assert f"form-action 'self' {source};" in page.headers["Content-Security-Policy"]
        answer = await at.post("/terminal/cancel", form(page, "/terminal/cancel"))
        assert answer.headers["Location"].startswith(url + ("&" if "?" in url else "?"))


async def test_a_stranger_is_told_to_sign_in_and_the_terminal_waits(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, provider=False) as there:
        at = Seat(there.door)
        assert told(await at.get(asked())) == ("/", {})
        page = await at.get("/")
        assert page.status == 401
        assert "Sign in first. Nothing is sent before you agree." in read(page).text
        # The issuer sends the browser back to the page with a session_id of its own.
        at.cookies[COOKIES.session], _ = await there.sessions.create(ADA, "browser")
        assert "A terminal waits" in read(await at.get("/?session_id=x")).text


async def test_a_form_of_one_who_was_signed_out_leads_back_to_its_page(
    plane: Sandbox, admin: Client
) -> None:
    """Also behind a proxy that takes the path of the address away."""
    external = "https://bind.example.org/front"
    async with house(plane, admin, provider=False, external=external) as there:
        for path in (PAGE, f"{PAGE}/ns/tools"):
            for asked_at in (path, f"/front{path}"):
                answer = await Seat(there.door).post(asked_at, {}, "https://bind.example.org")
                assert told(answer) == (f"/front{path}", {})


async def test_a_person_can_send_the_terminal_away(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin, provider=False) as there:
        at = await seat(there)
        await at.get(asked())
        away = "/terminal/cancel"
        assert (await at.post(away, {}, origin="https://elsewhere.example.org")).status == 403
        assert COOKIES.terminal in at.cookies
        where, query = told(await at.post(away, form(await at.get("/"), away)))
        assert where == BACK
        assert (query["error"], query["session_id"]) == ("access_denied", "s-1")
        assert "canceled" in query["error_description"]
        assert COOKIES.terminal not in at.cookies
        assert told(await at.post(away, {})) == ("/", {})


async def test_s1_another_persons_cluster_is_out_of_reach(there: House, admin: Client) -> None:
    at, other = await seat(there), await seat(there, BEN)
    page = await at.get(PAGE)
    path, _ = told(await at.post(PAGE, form(page, PAGE) | {"identity": "cluster-1"}))
    namespace = path.split("/")[3]
    mine = form(await at.get(path), path, file="response")
    # By its namespace, by its identity, by its page, by its files, by what Ada's page has.
    page = await other.get(PAGE)
    assert "cluster-1" not in page.text
    assert namespace not in page.text
    answer = await other.post(PAGE, form(page, PAGE) | {"cluster": namespace})
    assert (answer.status, "no longer yours" in read(answer).text) == (422, True)
    page = await other.get(PAGE)
    answer = await other.post(PAGE, form(page, PAGE) | {"identity": "cluster-1"})
    assert answer.status == 403
    assert "you may not bind this template for this cluster" in read(answer).text
    assert (await other.get(path)).status == 404
    assert (await other.get(f"/live{path}")).status == 404
    assert (await other.post(path, mine)).status == 400
    # A terminal that names it is told in the same words, by either way.
    for more in ({}, OURS):
        page = await sent(other, **more)
        _, query = told(await other.post(PAGE, form(page, PAGE)))
        assert query["error"] == "access_denied"
        assert "binding_response" not in query
        assert "code" not in query
        assert query["error_description"] == "you may not bind this template for this cluster"
        assert COOKIES.terminal not in other.cookies


async def test_forged_and_replayed_forms_bind_nothing(there: House, admin: Client) -> None:
    at, other = await seat(there), await seat(there, BEN)
    page = await at.get(PAGE)
    fields = form(page, PAGE) | {"identity": "cluster-1"}
    cases: list[tuple[Seat, dict[str, str], str, int]] = [
        (at, fields, "https://elsewhere.example.org", 403),
        (at, fields | {"token": ""}, "https://bind.example.org", 403),
        (other, fields, "https://bind.example.org", 403),
        (Seat(there.door), fields, "https://bind.example.org", 303),
    ]
    for who, sent_, origin, status in cases:
        answer = await who.post(PAGE, sent_, origin=origin)
        assert answer.status == status, answer.text
    assert answer.headers["Location"] == PAGE
    # A form for another template, or for a file, is none for this one.
    answer = await at.post("/bind/other", fields)
    assert answer.status in {403, 404}
    assert await consumers(there, admin) == []
    path, _ = told(await at.post(PAGE, fields))
    answer = await at.post(PAGE, fields)
    assert (answer.status, "sent before" in read(answer).text) == (409, True)
    answer = await at.post(path, fields | {"file": "bundle"})
    assert answer.status == 403
    # A file's form is for this template, and for this name.
    file = form(await at.get(path), path, file="bundle")
    for another in (f"{path}2", path.replace("/bind/widgets/", "/bind/gadgets/")):
        assert (await at.post(another, file)).status == 403
    assert (await at.get(f"{path}_")).status == 404
    assert len(await consumers(there, admin)) == 1


async def test_s20_a_terminal_that_came_after_the_page_gets_nothing(
    there: House, admin: Client
) -> None:
    at = await seat(there)
    page = await at.get(PAGE)
    fields = form(page, PAGE) | {"identity": "cluster-9"}
    later = await sent(at)
    answer = await at.post(PAGE, fields)
    assert (answer.status, "another one does" in read(answer).text) == (409, True)
    # The same where one terminal takes another one's place, and where it goes.
    await at.get(asked(redirect_url="http://127.0.0.1:5555/x"))
    answer = await at.post(PAGE, form(later, PAGE))
    assert answer.status == 409
    assert "port 5555" in read(answer).text
    page = await at.get(PAGE)
    del at.cookies[COOKIES.terminal]
    assert (await at.post(PAGE, form(page, PAGE))).status == 409
    assert await consumers(there, admin) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Not A Name"}, "Name: "),
        ({"name": ""}, "Name: "),
        ({"identity": ""}, "Identity of the cluster: it is missing"),
        ({"identity": "a\u200bb"}, "Identity of the cluster: it is missing, or has characters"),
        ({"title": "a\nb"}, "Name for people: it is missing, or has characters"),
        ({"identity": "x" * 600}, "Identity of the cluster: it is longer than 512"),
        ({"cluster": "kube-system"}, "Cluster: it is no longer yours."),
    ],
)
async def test_a_field_that_cannot_be_used_is_named(
    change: dict[str, str], words: str, plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, provider=False) as there:
        await offered(there, admin)
        at = await seat(there)
        page = await at.get(PAGE)
        known = {"identity": "cluster-1", "title": MARKUP}
        # The form comes before what it grants.
        assert page.text.index("Name of the binding") < page.text.index("Copied objects")
        answer = await at.post(PAGE, form(page, PAGE) | known | change)
        assert answer.status == 422
        assert words in read(answer).text
        # The error stands at its field, once, and the field names it.
        (field,) = change
        assert answer.text.count('role="alert"') == 1
        assert re.search(
            rf'<(input|fieldset)[^>]*aria-describedby="{field}-fault[ "]', answer.text
        )
        assert f'id="{field}-fault" role="alert">' in answer.text
        # What was typed is there again, with a token that works.
        again = form(answer, PAGE)
        assert again["title"] == change.get("title", MARKUP).replace("\n", "\n")
        assert again["token"] != form(page, PAGE)["token"]
        assert await requests(admin) == 0


async def test_a_provider_that_is_silent_can_be_asked_again(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin, provider=False, seconds=0.2) as there:
        await offered(there, admin)
        at = await seat(there)
        page = await sent(at)
        answer = await at.post(PAGE, form(page, PAGE))
        assert (answer.status, "has not answered yet" in read(answer).text) == (503, True)
        assert COOKIES.terminal in at.cookies
        # Our own terminal is the one who waits then.
        page = await sent(at, **OURS)
        _, query = told(await at.post(PAGE, form(page, PAGE)))
        assert (await redeem(there, query["code"])).status == 503


async def test_markup_in_names_is_text(there: House, admin: Client) -> None:
    at = await seat(there)
    page = await at.get(PAGE)
    mine = form(page, PAGE) | {"identity": MARKUP, "title": MARKUP}
    path, _ = told(await at.post(PAGE, mine))
    assert MARKUP in read(await at.get(path)).text
    assert MARKUP in read(await at.get(PAGE)).text
    page = await sent(at, consumer_id='"><script>alert(2)</script>')
    assert '"><script>alert(2)</script>' in read(page).text
    answer = await at.get(asked(redirect_url="<script>alert(3)</script>"))
    # Each script of a page has an address, which ``read`` checks.
    assert "<script>alert" not in read(answer).told
    assert "<script>alert" not in answer.text


async def test_what_one_may_not_bind_has_no_form(there: House, admin: Client) -> None:
    nobody: Any = Person(ADA.issuer, "cem")
    at = await seat(there, nobody)
    answer = await at.get(PAGE)
    assert (answer.status, "There is no template widgets for you" in read(answer).text) == (
        404,
        True,
    )
