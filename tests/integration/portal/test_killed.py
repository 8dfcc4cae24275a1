"""A replica that is killed in the middle of its work; the client goes on at another one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.integration.portal.conftest import Ada, Provider, cut_off
from tests.support.portalidentity import CHALLENGE, VERIFIER
from tests.support.replicas import Replica, after_put, after_take, in_call, replica
from tests.support.waiting import SECONDS, eventually

from fairlead.api.kubebind import BINDABLERESOURCESREQUESTS
from fairlead.client import Client
from fairlead.portal.identity import secretstore
from fairlead.portal.identity.secretstore import SecretStore
from fairlead.portal.options import DEFAULT_NAMESPACE, DEFAULT_TOKEN_EXPIRY
from fairlead.runtime import Cluster


pytestmark = pytest.mark.extended


@asynccontextmanager
async def two(
    provider: Provider, folder: Path, hangs: str = ""
) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas, of which the first one hangs somewhere."""
    flags = provider.flags()
    async with (
        replica(provider.config, folder, "one", *flags, hangs=hangs) as one,
        replica(provider.config, folder, "other", *flags) as other,
    ):
        yield one, other


async def nothing_stays(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that sign-ins have stored goes when its time is over, with nobody who asks for it."""
    later = time.time() + DEFAULT_TOKEN_EXPIRY + 60
    # The store's own clock alone: the control plane's tokens would be over, too.
    monkeypatch.setattr(secretstore, "time", SimpleNamespace(time=lambda: later))
    async with Client(provider.config) as client:
        cluster = Cluster("later", client)
        store = SecretStore(cluster, DEFAULT_NAMESPACE)
        task = asyncio.create_task(cluster.run())
        async with asyncio.timeout(SECONDS):
            for informer in list(cluster.informers()):
                await informer.synced.wait()
        await store.sweep()
        task.cancel()
        await asyncio.wait([task])
    monkeypatch.undo()
    for kind in ("session", "used", "code"):
        assert await provider.stored(kind) == []
    assert len(await provider.stored("keys")) == 1


async def test_a_sign_in_that_one_began_is_ended_by_another(
    provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    async with two(provider, tmp_path) as (one, other):
        callback = await ada.to_callback(one)
        await one.kill()
        await ada.end(other, callback)
        assert await ada.known(other)
        assert len(await provider.stored("session")) == 1


async def test_a_callback_that_dies_before_the_issuer_has_given_anything_is_taken_again(
    provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    async with two(provider, tmp_path) as (one, other):
        callback = await ada.to_callback(one)
        provider.issuer.hold = asyncio.Event()
        asking = asyncio.create_task(ada.browser.get(one.at(callback)))
        await eventually(_asked, provider)
        await cut_off(asking, one)
        provider.issuer.hold.set()
        await ada.end(other, callback)
        assert await ada.known(other)
        assert len(await provider.stored("session")) == 1


async def test_a_callback_that_dies_with_its_code_used_up_has_the_person_sign_in_again(
    provider: Provider, ada: Ada, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(provider, tmp_path) as (one, other):
        callback = await ada.to_callback(one)
        provider.issuer.hold_tokens = asyncio.Event()
        asking = asyncio.create_task(ada.browser.get(one.at(callback)))
        await eventually(_used_up, provider)
        await cut_off(asking, one)
        provider.issuer.hold_tokens.set()
        answered = await ada.browser.get(other.at(callback))
        assert answered.status == 400
        assert "sign in again" in await answered.text()
        assert await provider.stored("session") == []
        await ada.sign_in(other)
        assert len(await provider.stored("session")) == 1
    await nothing_stays(provider, monkeypatch)


@pytest.mark.parametrize(
    ("place", "more"),
    [
        (after_put("used"), {}),
        (after_put("session"), {}),
        (after_put("code"), {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}),
    ],
    ids=["used", "session", "code"],
)
async def test_a_callback_that_dies_with_something_stored_leaves_nothing_that_lasts(
    place: str,
    more: dict[str, str],
    provider: Provider,
    ada: Ada,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with two(provider, tmp_path, place) as (one, other):
        callback = await ada.to_callback(one, **more)
        asking = asyncio.create_task(ada.browser.get(one.at(callback)))
        await one.reached()
        await cut_off(asking, one)
        answered = await ada.browser.get(other.at(callback))
        # The CLI of ours is told at its own address, since it waits there.
        text = str(answered.headers.get("Location")) if more else await answered.text()
        assert (answered.status, "again" in text) == (302 if more else 400, True), text
        await ada.sign_in(other)
    await nothing_stays(provider, monkeypatch)


async def test_a_code_that_one_took_and_gave_nothing_for_is_worth_nothing(
    provider: Provider, ada: Ada, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(provider, tmp_path, after_take("code")) as (one, other):
        more = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}
        found = await ada.end(one, await ada.to_callback(one, **more))
        body = {"code": found["code"], "code_verifier": VERIFIER}
        asking = asyncio.create_task(ada.browser.post(f"{one.url}/api/token", json=body))
        await one.reached()
        await cut_off(asking, one)
        answered = await ada.browser.post(f"{other.url}/api/token", json=body)
        assert answered.status == 400
        assert "sign in again" in await answered.text()
        assert await provider.stored("session") == []
        await ada.sign_in(other)
    await nothing_stays(provider, monkeypatch)


async def test_who_is_signed_in_stays_so_without_the_replica_that_did_it(
    provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    async with two(provider, tmp_path) as (one, other):
        await ada.sign_in(one)
        await one.kill()
        assert await ada.known(other)
        answered = await ada.browser.post(
            f"{other.url}/api/logout", headers={"Authorization": f"Bearer {ada.token}"}
        )
        assert answered.status == 200
        assert not await ada.known(other)
        assert await provider.stored("session") == []


PLACES = {
    "before": in_call("create", "bindableresourcesrequests", after=False),
    "declared": in_call("create", "bindableresourcesrequests", after=True),
    "answered": in_call("get", "secrets", after=False),
    "read": in_call("delete", "bindableresourcesrequests", after=False),
    "half taken away": in_call("delete", "bindableresourcesrequests", after=True),
}
LEFT = {"before": 0, "half taken away": 0}
"""Requests that a killed replica leaves; the provider deletes them with their Secrets."""


@pytest.mark.parametrize("place", PLACES)
async def test_a_bind_that_dies_is_done_again_elsewhere_and_binds_once(
    place: str, provider: Provider, ada: Ada, tmp_path: Path
) -> None:
    async with two(provider, tmp_path, PLACES[place]) as (one, other):
        await ada.sign_in(other)
        asking = asyncio.create_task(ada.bind(one))
        await one.reached()
        await cut_off(asking, one)
        left = await provider.requests()
        assert len(left) == LEFT.get(place, 1)
        answer = await ada.bound(other)
        (consumer,) = await provider.consumers()
        assert consumer[0] == answer["providerNamespace"]
        assert await provider.requests() == left
        # What is left ends by itself, and says when.
        for name in left:
            found = await provider.admin.get(BINDABLERESOURCESREQUESTS, name, DEFAULT_NAMESPACE)
            assert found.to_dict()["spec"]["ttlAfterFinished"] == "3m"
        # A third time changes nothing.
        again = await ada.bound(other)
        assert again["kubeconfig"] == answer["kubeconfig"]
        assert await provider.consumers() == [consumer]
        await eventually(_no_answers_but, provider, left)


async def _asked(provider: Provider) -> bool:
    return "/token" in provider.issuer.asked


async def _no_answers_but(provider: Provider, left: list[str]) -> bool:
    # A Secret goes with its request, and the collector takes its time.
    return set(await provider.answers()) <= set(left)


async def _used_up(provider: Provider) -> bool:
    return not provider.issuer.codes
