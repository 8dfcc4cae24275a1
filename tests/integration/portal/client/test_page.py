"""`fairlead bind URL` and `kubectl bind URL` at our own pages, with a konnector at work."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from tests.integration.konnector.test_bind import names
from tests.integration.portal.console.test_binding import PAGE, offered, says, seat, unlimited
from tests.integration.portal.console.test_pages import read
from tests.integration.portal.handshake.conftest import House, _quiet, admin, house, plane
from tests.support.commands import against
from tests.support.frontdoor import browse
from tests.support.konnector import konnector
from tests.support.seat import Seat, form, told
from tests.support.terminals import Ran, begun, run
from tests.support.waiting import eventually

from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import AlreadyExists, Client, parse_kubeconfig
from fairlead.process import INTERRUPTED
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]


@pytest.fixture
async def there(plane: Sandbox, admin: Client) -> AsyncIterator[House]:
    async with house(plane, admin, limits=unlimited()) as found:
        await offered(found, admin)
        yield found


@pytest.fixture
async def here() -> AsyncIterator[Sandbox]:
    async with Sandbox(name="consumer", tls=True, rbac=True) as here:
        yield here


@pytest.fixture
async def client(here: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(here.kubeconfig())) as client, konnector(client):
        yield client


def words(program: str, url: str) -> tuple[str, ...]:
    return ("bind", url) if program == "fairlead" else (url,)


async def opens(at: Seat, bind: Ran) -> None:
    """Follow the address that a command says, as its browser does."""
    url = urlsplit(bind.url)
    assert told(await at.get(f"{url.path}?{url.query}")) == ("/", {})


def back(bind: Ran, code: str) -> str:
    """The address at which a command waits, with a code."""
    asked = {name: one[0] for name, one in parse_qs(urlsplit(bind.url).query).items()}
    return f"{asked['redirect_url']}?session_id={asked['session_id']}&code={code}"


@pytest.mark.parametrize("program", ["fairlead", "kubectl-bind"])
async def test_a_choice_on_our_page_is_bound_by_the_terminal(
    program: str, there: House, here: Sandbox, client: Client, tmp_path: Path
) -> None:
    at = await seat(there)
    arguments = (
        *words(program, there.door.server.url),
        "--skip-browser",
        *against(here, tmp_path),
    )
    async with begun(tmp_path, *arguments, program=program) as bind:
        await opens(at, bind)
        page = await at.get(PAGE)
        uid = (await client.get(NAMESPACES, "kube-system")).meta.uid
        assert f"Identity {uid}, sent by the terminal." in read(page).text
        answer = await at.post(PAGE, form(page, PAGE) | {"name": "db"})
        assert "code=" in answer.headers["Location"]
        status, text, _ = await browse(answer.headers["Location"])
        assert (status, "Go back to the terminal" in text) == (200, True)
    assert bind.code == 0, bind.err
    assert bind.out == "apiservicebinding.kube-bind.io/db is Ready\n"
    assert await names(client) == {"db"}
    # The page that asks again knows the cluster, and another terminal changes nothing.
    async with begun(tmp_path, *arguments, program=program) as bind:
        await opens(at, bind)
        page = await at.get(PAGE)
        assert "a cluster with earlier bindings of yours" in read(page).text
        answer = await at.post(PAGE, form(page, PAGE) | {"name": "db"})
        await browse(answer.headers["Location"])
    assert bind.code == 0, bind.err
    assert await names(client) == {"db"}


@pytest.mark.parametrize("program", ["fairlead", "kubectl-bind"])
async def test_a_person_who_cancels_is_told_in_the_terminal(
    program: str, there: House, here: Sandbox, tmp_path: Path
) -> None:
    at = await seat(there)
    arguments = (
        *words(program, there.door.server.url),
        "--skip-browser",
        *against(here, tmp_path),
    )
    async with begun(tmp_path, *arguments, program=program) as bind:
        await opens(at, bind)
        answer = await at.post("/terminal/cancel", {})
        status, text, _ = await browse(answer.headers["Location"])
        assert (status, "Refused" in text) == (200, True)
    assert bind.code == 1
    assert bind.err.splitlines()[-1] == (
        "Error: the server refused: access_denied: the person at the browser canceled it"
    )


async def test_a_code_that_comes_to_another_terminal_is_worth_nothing_there(
    there: House, here: Sandbox, tmp_path: Path
) -> None:
    """Whoever reads the address of the answer lacks what the challenge was made of."""
    at = await seat(there)
    arguments = ("bind", there.door.server.url, "--skip-browser", *against(here, tmp_path))
    async with begun(tmp_path, *arguments) as bind:
        async with begun(tmp_path, *arguments) as other:
            await opens(at, bind)
            page = await at.get(PAGE)
            _, query = told(await at.post(PAGE, form(page, PAGE)))
            await browse(back(other, query["code"]))
        # The first is told by its own browser, and finds the code used.
        await browse(back(bind, query["code"]))
    for one in (bind, other):
        assert one.code == 1
        assert "the code is unknown, used, expired or not yours" in one.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
async def test_a_terminal_that_is_stopped_leaves_nothing(
    number: signal.Signals, there: House, here: Sandbox, tmp_path: Path
) -> None:
    arguments = ("bind", there.door.server.url, "--skip-browser", *against(here, tmp_path))
    async with begun(tmp_path, *arguments) as bind:
        bind.process.send_signal(number)
    assert bind.code == INTERRUPTED
    assert bind.err[len(bind.said) :].split() == ["Aborted!"]
    async with Client(parse_kubeconfig(here.kubeconfig())) as client:
        spaces = {one.meta.name for one in (await client.list(NAMESPACES)).items}
    assert "kube-bind" not in spaces


async def test_files_of_the_page_bind_with_kubectl_and_the_page_sees_it(
    there: House, client: Client
) -> None:
    at = await seat(there)
    page = await at.get(PAGE)
    identity = (await client.get(NAMESPACES, "kube-system")).meta.uid
    path, _ = told(await at.post(PAGE, form(page, PAGE) | {"identity": identity}))
    text = await says(at, path, "FirstHeartbeatPending: no konnector has reported yet")
    assert "Healthy" not in text
    file = await at.post(path, form(await at.get(path), path, file="bundle"))
    for body in yaml.safe_load_all(file.text):
        resource = await client.discovery.resource_for(body["apiVersion"], body["kind"])
        try:
            await client.create(resource, body, body["metadata"].get("namespace", ""))
        except AlreadyExists:
            assert body["kind"] == "Namespace"
    text = await says(at, path, "Healthy: widgets is bound.")
    assert "healthy" in text
    assert await names(client) == {"widgets"}


async def test_an_answer_of_the_page_is_bound_by_the_command(
    there: House, here: Sandbox, client: Client, tmp_path: Path
) -> None:
    at = await seat(there)
    page = await at.get(PAGE)
    identity = (await client.get(NAMESPACES, "kube-system")).meta.uid
    path, _ = told(await at.post(PAGE, form(page, PAGE) | {"identity": identity}))
    file = await at.post(path, form(await at.get(path), path, file="response"))
    given = tmp_path / "binding-response.json"
    given.write_text(file.text)
    arguments = ("bind", "-f", str(given), "--name", "widgets", *against(here, tmp_path))
    code, out, err = await run(tmp_path, *arguments)
    assert (code, out) == (0, "apiservicebinding.kube-bind.io/widgets is Ready\n"), err
    await says(at, path, "Healthy: widgets is bound.")
    secrets = await client.list(SECRETS, "kube-bind")
    assert any(one.meta.name.startswith("kubeconfig-") for one in secrets.items)


async def test_live_streams_tell_when_the_konnector_comes(there: House, client: Client) -> None:
    at = await seat(there)
    page = await at.get(PAGE)
    path, _ = told(await at.post(PAGE, form(page, PAGE) | {"identity": "cluster-1"}))
    page = await at.get(path)
    (stream,) = read(page).streams
    assert stream.startswith(f"/live{path}")
    file = await at.post(path, form(page, path, file="bundle"))
    told_: list[bytes] = []
    headers = {"Cookie": "; ".join(f"{name}={one}" for name, one in at.cookies.items())}

    async def follow() -> None:
        url = there.door.server.url + stream
        async with there.door.session.get(url, headers=headers) as answer:
            while line := await answer.content.readline():
                told_.append(line)

    following = asyncio.create_task(follow())
    for body in yaml.safe_load_all(file.text):
        resource = await client.discovery.resource_for(body["apiVersion"], body["kind"])
        try:
            await client.create(resource, body, body["metadata"].get("namespace", ""))
        except AlreadyExists:
            continue

    async def ready() -> bool:
        return b"Healthy" in b"".join(told_)

    await eventually(ready)
    following.cancel()
    await asyncio.wait([following])
    assert not [one for one in told_ if b"kubeconfig:" in one or b"eyJ" in one]
