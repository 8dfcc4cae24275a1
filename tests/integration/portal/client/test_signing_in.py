"""Signing in, looking and signing out, as processes, at a front door of the tests."""

from __future__ import annotations

import json
import ssl
import stat
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from aiohttp import web
from tests.support.frontdoor import LIFE, TOKEN, FrontDoor, browse, template
from tests.support.pki import Authority
from tests.support.terminals import COMMANDS, begun, run, started

from fairlead.api.timestamps import moment, parse_time


async def signed_in(home: Path, door: FrontDoor) -> None:
    async with begun(home, "login", door.url, "--skip-browser") as login:
        assert (await browse(login.url))[0] == 200
    assert login.code == 0, login.err


def config(home: Path) -> Path:
    return home / ".kube-bind" / "config"


@pytest.mark.parametrize("program", list(COMMANDS))
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "original"])
async def test_signing_in_keeps_a_token_as_the_original_does(
    ours: bool, program: str, tmp_path: Path
) -> None:
    async with FrontDoor(ours=ours) as door:
        arguments = ("login", door.url, "--skip-browser", "--show-token")
        async with begun(tmp_path, *arguments, program=program) as login:
            status, page, _ = await browse(login.url)
        assert (status, "Go back to the terminal" in page) == (200, True)
        assert login.code == 0, login.err
        assert TOKEN not in login.out + login.err
        assert f"token: {TOKEN[:20]}...\n" in login.out
        assert f"signed in to {door.url}" in login.out
        assert stat.S_IMODE(config(tmp_path).stat().st_mode) == 0o600
        document = json.loads(config(tmp_path).read_text())
        kept = document["servers"][door.url]
        assert document["current"] == door.url
        assert (kept["url"], kept["accessToken"], kept["tokenType"]) == (door.url, TOKEN, "Bearer")
        assert kept.get("username") == ("ann" if ours else None)
        # What was kept is enough for all that comes after.
        code, out, _ = await run(tmp_path, "templates", "-o", "name", program=program)
        expected = "apiserviceexporttemplate.kube-bind.io/postgres\n"
        assert (code, out) == (0, expected)


async def test_s2_the_redirect_is_to_loopback_and_nothing_else(tmp_path: Path) -> None:
    async with (
        FrontDoor() as door,
        begun(tmp_path, "login", door.url, "--skip-browser") as login,
    ):
        asked = parse_qs(urlsplit(login.url).query)
        target = urlsplit(asked["redirect_url"][0])
        await browse(login.url)
    assert (target.scheme, target.hostname, target.username) == ("http", "127.0.0.1", None)
    assert (target.query, target.fragment) == ("", "")
    assert asked["client_type"] == ["cli"]
    assert login.code == 0


async def test_s6_the_life_of_a_token_is_what_the_server_says(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        before = moment()
        await signed_in(tmp_path, door)
        kept = json.loads(config(tmp_path).read_text())["servers"][door.url]
        left = (parse_time(kept["expiresAt"]) - before).total_seconds()
        assert LIFE - 1 <= left <= LIFE + 180
        # Within five minutes of its end it is over, and the server is not even asked.
        document = json.loads(config(tmp_path).read_text())
        soon = moment().timestamp() + 200
        document["servers"][door.url]["expiresAt"] = (
            moment().fromtimestamp(soon, moment().tzinfo).isoformat()
        )
        config(tmp_path).write_text(json.dumps(document))
        asked = len(door.asked)
        code, _, err = await run(tmp_path, "templates")
        assert (code, len(door.asked)) == (1, asked)
        assert f"your sign-in to {door.url} is over: fairlead login {door.url}" in err


async def test_s14_our_own_server_sends_no_token_through_the_browser(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        async with begun(tmp_path, "login", door.url, "--skip-browser") as login:
            _, _, visited = await browse(login.url)
        assert login.code == 0
    assert "code=" in visited[-1]
    for address in [*visited, *(path for _, path, _ in door.asked)]:
        assert TOKEN not in address
        assert "verifier" not in address
    assert door.paths().count("/api/token") == 1


async def test_s14_a_code_that_another_client_began_is_refused(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        async with begun(tmp_path, "login", door.url, "--skip-browser") as login:
            changed = login.url.replace("code_challenge=", "code_challenge=x")
            await browse(changed)
        assert login.code == 1
        assert "the code is of another client" in login.err
        assert not config(tmp_path).exists()


async def test_s20_the_callback_takes_the_answer_to_its_own_question_alone(
    tmp_path: Path,
) -> None:
    async with FrontDoor(ours=False) as door:
        async with begun(tmp_path, "login", door.url, "--skip-browser") as login:
            query = parse_qs(urlsplit(login.url).query)
            ours = query["redirect_url"][0]
            origin = ours.partition("/callback")[0]
            forged = "access_token=forged&token_type=Bearer&expires_in=86400"
            wrong = {
                f"{origin}/callback?{forged}": 404,
                f"{origin}/callback/guess?{forged}": 404,
                f"{ours}/?{forged}": 404,
                f"{ours}?{forged}&session_id=another": 401,
                f"{ours}?{forged}&access_token=twice": 400,
            }
            async with aiohttp.ClientSession() as session:
                for address, expected in wrong.items():
                    async with session.get(address) as answer:
                        assert answer.status == expected, address
                async with session.post(ours, data={"access_token": "forged"}) as answer:
                    assert answer.status == 405
            await browse(login.url)
        assert login.code == 0, login.err
        kept = json.loads(config(tmp_path).read_text())["servers"][door.url]
        assert kept["accessToken"] == TOKEN


async def test_a_refusal_at_sign_in_is_told(tmp_path: Path) -> None:
    async with (
        FrontDoor() as door,
        begun(tmp_path, "login", door.url, "--skip-browser") as login,
    ):
        ours = parse_qs(urlsplit(login.url).query)["redirect_url"][0]
        _, page, _ = await browse(f"{ours}?error=access_denied&error_description=<b>no</b>")
    assert (login.code, "&lt;b&gt;no" in page) == (1, True)
    assert "the server refused: access_denied: <b>no</b>" in login.err


async def test_nobody_who_signs_in_is_told_in_time(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        arguments = ("login", door.url, "--skip-browser", "--timeout", "1s")
        async with begun(tmp_path, *arguments) as login:
            pass
    assert login.code == 1
    assert "no answer came within 1 s" in login.err
    assert not config(tmp_path).exists()


@pytest.mark.parametrize("how", ["authority", "insecure"])
async def test_s19_an_authority_of_ones_own_counts_for_signing_in_too(
    how: str, tmp_path: Path
) -> None:
    authority = Authority.create()
    pair = authority.issue("door")
    for name, content in (("crt", pair.certificate), ("key", pair.key), ("ca", authority.pem)):
        (tmp_path / name).write_bytes(content)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    trust = ssl.create_default_context(cadata=authority.pem.decode())
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    flags = {
        "authority": ("--server-ca-file", str(tmp_path / "ca")),
        "insecure": ("--insecure-skip-tls-verify",),
    }[how]
    async with FrontDoor(tls=tls, says_http=True) as door:
        code, _, err = await run(tmp_path, "login", door.url, "--skip-browser")
        assert (code, len(err.splitlines())) == (1, 1)
        assert "was refused" in err
        assert "--server-ca-file" in err
        async with begun(tmp_path, "login", door.url, "--skip-browser", *flags) as login:
            assert login.url.startswith("https://")
            await browse(login.url, trust=trust)
        assert login.code == 0, login.err
        code, _, err = await run(tmp_path, "templates")
        # That no certificate was looked at is kept nowhere.
        assert code == (0 if how == "authority" else 1), err
        assert (await run(tmp_path, "templates", *flags))[0] == 0


async def test_a_redirect_is_not_followed_with_the_token(tmp_path: Path) -> None:
    async with FrontDoor() as door, FrontDoor() as other:
        await signed_in(tmp_path, door)

        async def elsewhere(_request: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"{other.url}/api/templates?secret=1")

        door.answers["/api/templates"] = elsewhere
        code, _, err = await run(tmp_path, "templates")
        assert (code, other.asked) == (1, [])
        assert f"redirects (307) to {other.url}: if you trust that" in err
        assert "secret" not in err


async def test_signing_out_ends_the_session_and_forgets_the_token(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        await signed_in(tmp_path, door)
        assert (await run(tmp_path, "whoami"))[0] == 0
        code, out, _ = await run(tmp_path, "logout")
        assert (code, out) == (0, f"signed out of {door.url}\n")
        assert not door.sessions
        assert TOKEN not in config(tmp_path).read_text()
        code, _, err = await run(tmp_path, "whoami")
        assert (code, "you are not signed in" in err) == (1, True)
        assert (await run(tmp_path, "logout"))[1].startswith("you are not signed in")


async def test_a_server_that_cannot_be_told_keeps_nobody_signed_in_here(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        await signed_in(tmp_path, door)
    code, _, err = await run(tmp_path, "logout")
    assert code == 1
    assert "the token is removed here, but not ended on the server" in err
    assert TOKEN not in config(tmp_path).read_text()


async def test_whoami_says_where_and_until_when(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        await signed_in(tmp_path, door)
        code, out, _ = await run(tmp_path, "whoami", "--json")
        told = json.loads(out)
        assert (code, told["server"], told["username"]) == (0, door.url, "ann")
        assert parse_time(told["expires"]) > moment()
        door.sessions.clear()
        code, _, err = await run(tmp_path, "whoami")
        assert code == 1
        assert f"does not know you, or your sign-in has ended: fairlead login {door.url}" in err


async def test_tables_of_what_is_offered(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        await signed_in(tmp_path, door)
        door.templates = [template("zebra"), template("ant\x1b[31m", permissionClaims=None)]
        door.collections = [
            {
                "metadata": {"name": "data"},
                "spec": {"description": "Two words", "templates": [{"name": "a"}, {"name": "b"}]},
            }
        ]
        _, out, _ = await run(tmp_path, "templates")
        lines = out.splitlines()
        assert lines[0].split() == ["NAME", "RESOURCES", "PERMISSIONCLAIMS", "AGE"]
        assert lines[1].split()[:3] == ["ant?[31m", "things.example.org", "-"]
        assert lines[2].split()[:3] == ["zebra", "things.example.org", "secrets"]
        _, out, _ = await run(tmp_path, "collections", program="kubectl-bind")
        assert out.splitlines()[1].split() == ["data", "Two", "words", "a,b", "-"]
        _, out, _ = await run(tmp_path, "collections", "-o", "json")
        (item,) = json.loads(out)["items"]
        assert (item["kind"], item["metadata"]) == ("Collection", {"name": "data"})
        door.templates = []
        code, out, err = await run(tmp_path, "templates")
        assert (code, out, err) == (0, "", f"{door.url} offers you nothing\n")


async def test_warnings_of_the_server_are_printed_at_login_and_with_templates(
    tmp_path: Path,
) -> None:
    async with FrontDoor() as door:
        door.warning = '299 - "the issuer named no groups"'
        door.templates = []
        async with begun(tmp_path, "login", door.url, "--skip-browser") as login:
            await browse(login.url)
        assert login.code == 0
        assert "note: the issuer named no groups\n" in login.err
        code, out, err = await run(tmp_path, "templates")
        nothing = f"{door.url} offers you nothing\n"
        assert (code, out, err) == (0, "", f"note: the issuer named no groups\n{nothing}")
        _, out, err = await run(tmp_path, "templates", "-o", "json")
        assert (json.loads(out)["items"], err) == ([], "note: the issuer named no groups\n")


async def test_a_cluster_of_a_server_is_asked_for(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        arguments = ("login", f"one@{door.url}", "--skip-browser")
        async with begun(tmp_path, *arguments) as login:
            assert parse_qs(urlsplit(login.url).query)["cluster_id"] == ["one"]
            await browse(login.url)
        assert login.code == 0
        assert json.loads(config(tmp_path).read_text())["current"] == f"one@{door.url}"
        for server in (f"{door.url}@one", f"one@{door.url}"):
            assert (await run(tmp_path, "templates", "--server", server))[0] == 0
        assert (await run(tmp_path, "templates", "--server", door.url, "--cluster", "one"))[0] == 0
        assert {path for _, path, _ in door.asked if "templates" in path} == {
            "/api/templates?cluster_id=one"
        }
        assert (await run(tmp_path, "templates", "--server", door.url))[0] == 1


async def test_a_browser_opens_where_there_is_one(tmp_path: Path) -> None:
    script = tmp_path / "browser.py"
    script.write_text("import sys, urllib.request\nurllib.request.urlopen(sys.argv[-1]).read()\n")
    browser = f"{sys.executable} {script} %s"
    async with FrontDoor() as door:
        process = await started(tmp_path, "login", door.url, BROWSER=browser)
        out, err = await process.communicate()
    assert process.returncode == 0, err
    assert f"signed in to {door.url} as ann until" in out.decode()
    assert "a browser opens" in err.decode()
