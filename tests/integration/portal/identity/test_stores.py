"""Sessions that replicas share, in Secrets and in Redis."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.integration.portal.identity.conftest import (
    NAMESPACE,
    Store,
    redis_replica,
    secret_replica,
    until,
)
from tests.support.redisserver import RedisServer
from tests.support.waiting import eventually

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import (
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account
from fairlead.portal import bounds
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.keys import SecretKeys
from fairlead.portal.identity.secretstore import ANNOTATION_EXPIRES, LABEL_KIND, owner_label
from fairlead.portal.identity.sessions import BrowserSessions, Person, hashed
from fairlead.runtime import Cluster
from fairlead_sandbox import Sandbox


ADA = Person("https://issuer.example", "ada", groups=("team-a",))
BOB = Person("https://issuer.example", "bob")


def soon(seconds: float = 60.0) -> float:
    return time.time() + seconds


async def _absent(store: Store, name: str) -> bool:
    return await store.get(name, kind="code") is None


async def test_s6_replicas_share_sessions_and_tell_their_true_life(
    replicas: tuple[Store, Store],
) -> None:
    one, other = (BrowserSessions(store, lifetime=60) for store in replicas)
    token, session = await one.create(ADA, "cli")
    assert session.expires - session.created == 60
    assert await other.find(token) == session
    assert await other.find(token[:-1] + ("A" if token[-1] != "A" else "B")) is None
    assert await other.find("") is None
    assert await other.find("x" * 1_000_000) is None


async def test_s7_a_session_that_ends_ends_on_every_replica_at_once(
    replicas: tuple[Store, Store],
) -> None:
    one, other = (BrowserSessions(store, lifetime=60, believed=3600) for store in replicas)
    token, session = await one.create(ADA, "browser")
    assert await other.find(token)
    assert await one.find(token)
    await one.end(session)
    assert await one.find(token) is None
    await until(lambda: session.key not in other._known)
    assert await other.find(token) is None
    # A second time, and of one that never was.
    await one.end(session)


async def test_a_name_is_taken_once_and_a_value_has_one_taker(
    replicas: tuple[Store, Store],
) -> None:
    name = hashed("state")
    put = [store.put(name, b"v", kind="used", owner="", expires=soon()) for store in replicas]
    assert sorted(await asyncio.gather(*put)) == [False, True]
    # The kind is part of the name.
    assert await replicas[0].get(name, kind="session") is None
    assert await replicas[0].take(name, kind="code") is None
    takes = [store.take(name, kind="used") for store in replicas for _ in range(5)]
    assert sorted(await asyncio.gather(*takes), key=bool) == [None] * 9 + [b"v"]


async def test_what_has_expired_is_not_there(replicas: tuple[Store, Store]) -> None:
    name = hashed("code")
    await replicas[0].put(name, b"v", kind="code", owner=ADA.author, expires=soon(0.05))
    await eventually(_absent, replicas[1], name)
    assert await replicas[1].take(name, kind="code") is None


async def test_the_oldest_session_of_a_person_goes_and_all_are_bounded(
    replicas: tuple[Store, Store],
) -> None:
    sessions = BrowserSessions(replicas[0], lifetime=60, of_a_person=2, in_all=3)
    first, _ = await sessions.create(ADA, "cli")
    second, _ = await sessions.create(ADA, "cli")
    third, _ = await sessions.create(ADA, "cli")
    assert await sessions.find(first) is None
    assert await sessions.find(second)
    assert await sessions.find(third)
    await sessions.create(BOB, "cli")
    with pytest.raises(Refusal) as refused:
        await sessions.create(Person("https://issuer.example", "eve"), "cli")
    assert refused.value.status == 503
    assert refused.value.retry_after


async def test_a_secret_lets_no_one_in_and_says_whose_it_is(client: Client) -> None:
    async with secret_replica(client) as store:
        sessions = BrowserSessions(store, lifetime=60)
        token, session = await sessions.create(ADA, "cli")
        secret = await client.get(SECRETS, f"fairlead-portal-session-{session.key}", NAMESPACE)
    assert token.encode() not in secret.raw
    body = secret.to_dict()
    assert body["type"] == "fairlead.dev/portal"
    assert secret.meta.labels == {
        LABEL_KIND: "session",
        "fairlead.dev/owner": owner_label(ADA.author),
    }
    assert ANNOTATION_EXPIRES in secret.meta.annotations


async def test_expired_secrets_are_swept_and_others_are_left_alone(client: Client) -> None:
    labels = {LABEL_KIND: "session"}
    foreign = {"name": "foreign", "namespace": NAMESPACE, "labels": labels}
    foreign |= {"annotations": {ANNOTATION_EXPIRES: "2001-01-01T00:00:00Z"}}
    await client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": foreign})
    async with secret_replica(client) as store:
        kept, over = hashed("kept"), hashed("over")
        await store.put(kept, b"", kind="used", owner="", expires=soon())
        await store.put(over, b"", kind="used", owner="", expires=soon(-1))
        names: set[str] = set()
        async with asyncio.timeout(60):
            while names != {"foreign", f"fairlead-portal-used-{kept}"}:
                listed = await client.list(SECRETS, NAMESPACE)
                names = {one.meta.name for one in listed.items}
                await asyncio.sleep(0.01)


async def test_an_api_server_that_is_away_signs_no_one_out(plane: Sandbox, client: Client) -> None:
    async with secret_replica(client) as store:
        sessions = BrowserSessions(store, lifetime=60, believed=0)
        token, session = await sessions.create(ADA, "cli")
        await plane.stop()
        for ask in (sessions.find(token), sessions.end(session), sessions.create(BOB, "cli")):
            with pytest.raises(Refusal) as refused:
                await ask
            assert refused.value.status == 503
            assert token not in f"{refused.value} {refused.value.reason}"
        await plane.start()
        assert await sessions.find(token) == session


async def test_s17_tokens_that_strangers_make_up_hold_up_no_one_else(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "READS_AT_ONCE", 1)
    async with secret_replica(client) as store:
        sessions = BrowserSessions(store, lifetime=60, believed=0)
        token, session = await sessions.create(ADA, "cli")
        asking, go_on, get = asyncio.Event(), asyncio.Event(), client.get

        async def slow(resource: Resource, name: str, namespace: str = "") -> Object:
            if name.endswith(hashed("x" * 43)):
                asking.set()
                await go_on.wait()
            return await get(resource, name, namespace)

        monkeypatch.setattr(client, "get", slow)
        stranger = asyncio.create_task(sessions.find("x" * 43))
        await until(asking.is_set)
        with pytest.raises(Refusal) as refused:
            await sessions.find("y" * 43)
        assert refused.value.status == 503
        assert await sessions.find(token) == session
        go_on.set()
        assert await stranger is None
        assert await sessions.find("y" * 43) is None


async def test_redis_that_is_away_signs_no_one_out_and_what_was_missed_is_forgotten(
    redis: RedisServer,
) -> None:
    async with redis_replica(redis) as store:
        sessions = BrowserSessions(store, lifetime=60, believed=3600)
        token, _ = await sessions.create(ADA, "cli")
        assert await sessions.find(token)
        await redis.stop()
        await until(store.not_ready)
        with pytest.raises(Refusal) as refused:
            await sessions.create(BOB, "cli")
        assert refused.value.status == 503
        await redis.start()
        # It came back empty: nothing that was believed is any more.
        await until(lambda: not store.not_ready())
        assert await sessions.find(token) is None


async def test_redis_with_what_is_not_ours_signs_no_one_in_and_no_one_out(
    redis: RedisServer,
) -> None:
    from redis.asyncio import Redis

    from fairlead.portal.identity.redisstore import RedisStore

    async with redis_replica(redis) as store, Redis(port=redis.port) as stranger:
        sessions = BrowserSessions(store, lifetime=60, believed=0)
        token, session = await sessions.create(ADA, "cli")
        (ours,) = await stranger.keys("fairlead:portal:of:*")
        for index in (ours, "fairlead:portal:sessions"):
            await stranger.zadd(index, {b"\xff": 9e9, b"session:\xff": 9e9})
        for value in (
            b"",
            b"\xff",
            b"{}",
            await stranger.get(await _session_key(stranger)) or b"",
        ):
            await stranger.set(f"fairlead:portal:session:{hashed('x' * 43)}", value)
            assert await sessions.find("x" * 43) is None
        assert await sessions.find(token) == session
        again, _ = await sessions.create(ADA, "cli")
        assert isinstance(store, RedisStore)
        assert await store.remove_of(ADA.author) >= 2
        assert await sessions.find(again) is None


async def _session_key(stranger: Any) -> bytes:
    found: list[bytes] = await stranger.keys("fairlead:portal:session:*")
    return found[0]


async def test_redis_that_hangs_is_not_held_to_be_ready(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(bounds, "REDIS_SILENT_SECONDS", 0.05)
    monkeypatch.setattr(bounds, "REDIS_SECONDS", 0.2)
    async with redis_replica(redis) as store:
        sessions = BrowserSessions(store, lifetime=60)
        token, session = await sessions.create(ADA, "cli")
        redis.freeze()
        await until(store.not_ready)
        with pytest.raises(Refusal) as refused:
            await sessions.find(token)
        assert refused.value.status == 503
        redis.freeze(thaw=True)
        await until(lambda: not store.not_ready())
        assert await sessions.find(token) == session


async def test_the_rights_that_are_said_to_be_needed_are_enough() -> None:
    rules = [
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "verbs": ["get", "list", "watch", "create", "update", "delete"],
        }
    ]
    kinds: list[tuple[Resource, JSON]] = [
        (NAMESPACES, {"kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        (SERVICEACCOUNTS, {"kind": "ServiceAccount", "metadata": {"name": "serve"}}),
        (ROLES, {"kind": "Role", "metadata": {"name": "serve"}, "rules": rules}),
        (
            ROLEBINDINGS,
            {
                "kind": "RoleBinding",
                "metadata": {"name": "serve"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Role",
                    "name": "serve",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "serve", "namespace": NAMESPACE}],
            },
        ),
    ]
    async with Sandbox() as plane, Client(parse_kubeconfig(plane.kubeconfig())) as admin:
        for resource, body in kinds:
            whole = {"apiVersion": resource.api_version} | body
            await admin.create(resource, whole, NAMESPACE if resource.namespaced else "")
        config = await as_service_account(admin, NAMESPACE, "serve")
        async with Client(config) as client, secret_replica(client) as store:
            sessions = BrowserSessions(store, lifetime=60, believed=0)
            token, session = await sessions.create(ADA, "cli")
            assert await sessions.find(token) == session
            await sessions.end(session)
            assert await sessions.find(token) is None
            keys = SecretKeys(Cluster("keys", client), NAMESPACE, days=0)
            assert await keys.renew()
            assert await keys.renew()
