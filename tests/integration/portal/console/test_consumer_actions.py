"""What pages do to consumers, with the rights of the one who asks, and which forms they take."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.portal.console.test_consumers import administer
from tests.integration.portal.console.test_live import followed
from tests.integration.portal.console.test_pages import read, shown
from tests.integration.portal.handshake.conftest import (
    ADA,
    BEN,
    House,
    _quiet,
    admin,
    house,
    plane,
)
from tests.support.customers import customer
from tests.support.portal import Answer
from tests.support.provider import example
from tests.support.waiting import eventually

from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.meta import object_from_dict
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    SECRETS,
)
from fairlead.client import Client, NotFound
from fairlead.demo.identity import as_service_account, create_all
from fairlead.portal.console.consumers.actions import ActionWish, UndoneError
from fairlead.portal.console.consumers.ownrights import OwnAccess, OwnRights, allowed
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.handshake.reviews import ReviewedAction
from fairlead.portal.identity.people import Person
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.provider.credentials import stored_kubeconfig
from fairlead.provider.tokens import token_secrets
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

FORM = "application/x-www-form-urlencoded"
BENS = f"{BEN.issuer}/{BEN.subject}"


def acting(client: Client, *, patience: float = 0.2) -> Callable[[Hub], OwnRights]:
    return lambda hub: OwnRights(client, hub, patience=patience, believed=0)


def token(page: str, path: str) -> str:
    """The token of the form that is sent to a path."""
    form = page.split(f'action="{path}"')[1]
    return str(re.findall(r'name="token" value="([^"]+)"', form)[0])


async def send(there: House, namespace: str, action: str, **fields: str) -> Answer:
    """Send the form of an action as its page has it, with more fields or others."""
    path = f"/consumers/{namespace}/{action}"
    page = await there.ask(ADA, path)
    assert page.status == 200
    form = {"token": token(page.text, path)} | fields
    return await there.ask(ADA, path, "POST", data=form)


async def ended(there: House, path: str, word: str) -> str:
    """The text of an action's page, once it says that it has ended so."""
    text = ""

    async def over() -> bool:
        nonlocal text
        text = (await shown(there, ADA, path)).text
        return word in text

    try:
        await eventually(over)
    except TimeoutError:
        raise AssertionError(f"{word} is not in: {text}") from None
    return text


async def bound(there: House, admin: Client) -> str:
    """The cluster namespace of a consumer that Ada has bound."""
    await admin.create(CUSTOMRESOURCEDEFINITIONS, example("crd"))
    await there.template()
    await there.allow("User:oidc:ada")

    async def answered() -> bool:
        return (await there.bind(ADA, identity="cluster-of-ada")).status == 200

    await eventually(answered)
    found: list[str] = []

    async def listed() -> bool:
        page = await shown(there, ADA, "/consumers")
        found[:] = [one for one in page.addresses if one.startswith("/consumers/")]
        return bool(found)

    await eventually(listed)
    return found[0].removeprefix("/consumers/")


async def test_hand_over_rotate_and_revoke(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    async with house(plane, admin, actions=acting(admin)) as there:
        name = await bound(there, admin)
        path = f"/consumers/{name}"

        answer = await send(there, name, "hand-over", confirm="cluster-of-ada", to=BENS)
        assert (answer.status, answer.headers["Location"]) == (303, f"{path}/hand-over")
        text = await ended(there, f"{path}/hand-over", "before to https://login.example.org/ada")
        assert f"cluster-of-ada belongs to {BENS} now" in text
        stored = await admin.get(NAMESPACES, name)
        assert stored.meta.annotations[ANNOTATION_AUTHOR] == BENS

        before = await stored_kubeconfig(admin, name)
        assert (await send(there, name, "rotate", confirm=name)).status == 303
        # There is no konnector that would tell, so that both tokens stay.
        await ended(there, f"{path}/rotate", "both tokens of cluster-of-ada stay valid")
        # Pages are of caches, which may hear of it a little later.
        await ended(there, path, "kube-binder-2")
        assert (await send(there, name, "rotate", confirm=name, finish="yes")).status == 303
        await ended(there, f"{path}/rotate", "cluster-of-ada has a new token")
        after = await stored_kubeconfig(admin, name)
        assert after.token not in {"", before.token}
        left = token_secrets((await admin.list(SECRETS, name)).items)
        assert [one.token for one in left] == [after.token]

        page = await there.ask(ADA, f"{path}/rotate")
        form = {"token": token(page.text, f"{path}/rotate/kubeconfig")}
        assert after.token not in page.text
        answer = await there.ask(ADA, f"{path}/rotate/kubeconfig", "POST", data=form)
        assert (answer.status, answer.text) == (200, after.content.decode())
        assert answer.headers["Cache-Control"] == "no-store"
        again = await there.ask(ADA, f"{path}/rotate/kubeconfig", "POST", data=form)
        assert again.status == 409
        assert "Download" not in (await shown(there, ADA, f"{path}/rotate")).text

        assert (await send(there, name, "revoke", confirm=name)).status == 303
        text = await ended(there, f"{path}/revoke", "cluster-of-ada is revoked")
        assert "access taken away" in text
        with pytest.raises(NotFound):
            await admin.get(NAMESPACES, name)
        assert "Do it here" not in text

        async def unknown() -> bool:
            return (await there.ask(ADA, path)).status == 404

        await eventually(unknown)


async def test_a_page_shows_how_far_it_is(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    async with house(plane, admin, actions=acting(admin, patience=30)) as there:
        name = await bound(there, admin)
        session, _ = await there.sessions.create(ADA, "browser")
        async with followed(there, session, f"/live/consumers/{name}/rotate") as stream:
            assert "Progress" not in (await stream.told())[1]
            assert (await send(there, name, "rotate", confirm=name)).status == 303

            async def waits() -> bool:
                return "waiting: no konnector has reported yet" in (await stream.told())[1]

            await eventually(waits)
            answer = await send(there, name, "revoke", confirm=name)
            assert answer.status == 422
            assert "rotate of cluster-of-ada is running" in read(answer).text


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        pytest.param({"confirm": "another"}, 422, "type the consumer's name: a", id="name"),
        pytest.param({"confirm": ""}, 422, "type the consumer's name: a", id="no-name"),
        pytest.param({"to": "ben"}, 422, "is neither a person nor a group", id="no-person"),
        pytest.param({"to": ""}, 422, "is neither a person nor a group", id="no-one"),
        pytest.param({"to": "<b>"}, 422, "'<b>' is neither", id="markup"),
        pytest.param({"to": "https://old/ada"}, 422, "it is https://old/ada's", id="the-same"),
        pytest.param({"token": "forged"}, 403, "this form is of another session", id="forged"),
        pytest.param({"token": ""}, 403, "this form is of another session", id="no-token"),
    ],
)
async def test_forms_that_are_refused(
    plane: Sandbox, admin: Client, fields: dict[str, str], status: int, words: str
) -> None:
    await administer(admin)
    await customer(admin, "kb-a", identity="a", author="https://old/ada")
    async with house(plane, admin, provider=False, actions=acting(admin)) as there:
        form = {"confirm": "a", "to": BENS} | fields
        answer = await send(there, "kb-a", "hand-over", **form)
        assert answer.status == status
        assert words in (read(answer).text if status == 422 else answer.text)
        stored = await admin.get(NAMESPACES, "kb-a")
        assert stored.meta.annotations[ANNOTATION_AUTHOR] == "https://old/ada"


async def test_forms_of_others_and_for_others(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    await customer(admin, "kb-a", identity="a")
    await customer(admin, "kb-b", identity="b")
    async with house(plane, admin, provider=False, actions=acting(admin)) as there:
        page = (await there.ask(ADA, "/consumers/kb-a/hand-over")).text
        form = {"token": token(page, "/consumers/kb-a/hand-over"), "to": BENS}

        async def put(person: Person, path: str, confirm: str, **more: Any) -> int:
            data = form | {"confirm": confirm}
            return (await there.ask(person, path, "POST", data=data, **more)).status

        assert await put(ADA, "/consumers/kb-b/hand-over", "b") == 403
        assert await put(ADA, "/consumers/kb-a/revoke", "a") == 403
        assert await put(BEN, "/consumers/kb-a/hand-over", "a") == 404
        once = await there.ask(
            *(ADA, "/consumers/kb-a/hand-over", "POST"),
            data=form | {"confirm": "a"},
        )
        assert once.status == 303
        assert await put(ADA, "/consumers/kb-a/hand-over", "a") == 409
        # The same name, and another consumer.
        page = (await there.ask(ADA, "/consumers/kb-a/hand-over")).text
        form["token"] = token(page, "/consumers/kb-a/hand-over")
        await admin.delete(NAMESPACES, "kb-a")

        async def gone() -> bool:
            return (await there.ask(ADA, "/consumers/kb-a")).status == 404

        await eventually(gone)
        await customer(admin, "kb-a", identity="a")

        async def back() -> bool:
            return (await there.ask(ADA, "/consumers/kb-a")).status == 200

        await eventually(back)
        assert await put(ADA, "/consumers/kb-a/hand-over", "a") == 403


async def test_buttons_are_there_for_what_one_may(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    await customer(admin, "kb-a", identity="a")
    await _keeper(admin)
    config = await as_service_account(admin, "default", "keeper")
    async with (
        Client(config) as keeper,
        house(plane, admin, provider=False, actions=acting(keeper)) as there,
    ):
        for action, may in (("hand-over", True), ("rotate", False), ("revoke", False)):
            page = await shown(there, ADA, f"/consumers/kb-a/{action}")
            assert ("Do it here" in page.text) is may
            assert f"fairlead provider {action} kb-a" in page.text
        assert "Unknown" in (await shown(there, ADA, "/consumers/kb-a")).text
        text = (await there.ask(ADA, "/consumers/kb-a/hand-over")).text
        form = {"token": token(text, "/consumers/kb-a/hand-over"), "confirm": "a", "to": BENS}
        await admin.delete(CLUSTERROLEBINDINGS, "keeper")

        async def lost() -> bool:
            return not await allowed(keeper, ReviewedAction.on(NAMESPACES, "update", name="kb-a"))

        await eventually(lost)
        answer = await there.ask(ADA, "/consumers/kb-a/hand-over", "POST", data=form)
        assert (answer.status, "you may not hand-over kb-a" in answer.text) == (403, True)
        access = OwnAccess(keeper)
        _, session = await there.sessions.create(ADA, "browser")
        assert await access.administers(session) is False
        assert await OwnAccess(admin).administers(session) is True


async def test_a_consumer_that_changes_hands_is_not_taken_for_another(
    plane: Sandbox, admin: Client
) -> None:
    await customer(admin, "kb-a", identity="a")
    work = OwnRights(admin, Hub())
    session = BrowserSession(key="k", person=ADA, kind="browser", created=0.0, expires=0.0)
    before = await admin.get(NAMESPACES, "kb-a")
    body = before.to_dict()
    body["metadata"]["uid"] = "another"
    other = object_from_dict(body)
    work.begin(session, "revoke", other, ActionWish())
    with pytest.raises(UndoneError, match="is running"):
        work.begin(session, "revoke", before, ActionWish())

    async def over() -> bool:
        progress = work.progress("kb-a")
        return progress is not None and bool(progress.told)

    await eventually(over)
    progress = work.progress("kb-a")
    assert progress is not None
    assert (progress.state, "another consumer's by now" in progress.told) == ("failed", True)
    await admin.get(NAMESPACES, "kb-a")


async def test_what_ends_with_the_program_can_be_done_again(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    async with house(plane, admin, actions=acting(admin, patience=30)) as there:
        name = await bound(there, admin)
        consumer = await admin.get(NAMESPACES, name)
        session = BrowserSession(key="k", person=ADA, kind="browser", created=0.0, expires=0.0)
        work = OwnRights(admin, Hub(), patience=30)
        running = asyncio.create_task(work.run())
        work.begin(session, "rotate", consumer, ActionWish())

        async def handed_out() -> bool:
            progress = work.progress(name)
            return progress is not None and "there for cluster" in " ".join(progress.lines)

        await eventually(handed_out)
        running.cancel()
        await asyncio.wait({running})
        progress = work.progress(name)
        assert progress is not None
        assert "it was interrupted" in progress.told
        assert (await send(there, name, "rotate", confirm=name, finish="yes")).status == 303
        await ended(there, f"/consumers/{name}/rotate", "cluster-of-ada has a new token")


async def _keeper(admin: Client) -> None:
    """A ServiceAccount that may hand consumers over, and nothing else."""
    version = "rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "update"]}]
    subject = {"kind": "ServiceAccount", "name": "keeper", "namespace": "default"}
    await create_all(
        admin,
        [
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "keeper", "namespace": "default"},
            },
            {
                "apiVersion": version,
                "kind": "ClusterRole",
                "metadata": {"name": "keeper"},
                "rules": rules,
            },
            {
                "apiVersion": version,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "keeper"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "keeper",
                },
                "subjects": [subject],
            },
        ],
    )
