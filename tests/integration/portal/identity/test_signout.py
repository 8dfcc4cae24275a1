"""`fairlead provider sign-out`, as a process, beside replicas that hold sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.portal.identity.conftest import (
    NAMESPACE,
    redis_replica,
    secret_replica,
    until,
)
from tests.support.commands import fairlead
from tests.support.pki import Authority
from tests.support.redisserver import RedisServer, redis_server

from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    NAMESPACES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import Client, Forbidden, parse_kubeconfig
from fairlead.demo.identity import as_service_account
from fairlead.portal.identity.secretstore import sign_out
from fairlead.portal.identity.sessions import BrowserSessions, Person, SessionStore, hashed
from fairlead_sandbox import Sandbox


ADA = Person("https://issuer.example", "ada")
BOB = Person("https://issuer.example", "bob")
PASSWORD = "not for any eyes"


class People:
    """Ada is signed in twice and about to be once more, Bob is once; a replica knows them all."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.sessions = BrowserSessions(store, lifetime=60, believed=3600)
        self.hers: list[str] = []
        self.his = ""

    async def sign_in(self) -> None:
        for _ in range(2):
            token, session = await self.sessions.create(ADA, "cli")
            self.hers.append(token)
        await self.store.put(
            hashed("code"), b"{}", kind="code", owner=ADA.author, expires=session.expires
        )
        self.his, _ = await self.sessions.create(BOB, "browser")
        assert await self.known() == (2, 1)

    async def known(self) -> tuple[int, int]:
        found = [await self.sessions.find(token) for token in self.hers]
        return sum(one is not None for one in found), int(
            await self.sessions.find(self.his) is not None
        )

    async def until_known(self, number: int) -> None:
        await until(lambda: len(self.sessions._known) <= number)


async def told(
    plane: Sandbox, folder: Path, *arguments: str, **environ: str
) -> tuple[int, str, str]:
    return await fairlead(plane, folder, "provider", "sign-out", *arguments, environ=environ)


async def story(people: People, plane: Sandbox, folder: Path, *flags: str, **environ: str) -> None:
    """A look that changes nothing, one person, all people, and none any more."""
    await people.sign_in()
    person = ("--author", ADA.author)
    found = await told(plane, folder, *person, "--dry-run", *flags, **environ)
    assert found == (0, f"2 sessions of {ADA.author} would be ended\n", "")
    found = await told(plane, folder, "--all", "--dry-run", *flags, **environ)
    assert found == (0, "3 sessions of all people would be ended\n", "")
    assert await people.known() == (2, 1)
    found = await told(plane, folder, *person, *flags, **environ)
    assert found == (0, f"2 sessions of {ADA.author} ended\n", "")
    await people.until_known(1)
    assert await people.known() == (0, 1)
    assert await people.store.get(hashed("code"), kind="code") is None
    found = await told(plane, folder, "--all", *flags, **environ)
    assert found == (0, "1 session of all people ended\n", "")
    await people.until_known(0)
    assert await people.known() == (0, 0)
    code, out, err = await told(plane, folder, "--all", *flags, **environ)
    assert (code, out) == (0, "0 sessions of all people ended\n")
    assert err.startswith("there are none in ")
    assert len(err.splitlines()) == 1


async def test_s7_people_whose_sessions_are_secrets(
    plane: Sandbox, client: Client, tmp_path: Path
) -> None:
    foreign = {
        "name": "foreign",
        "namespace": NAMESPACE,
        "labels": {"fairlead.dev/portal": "keys"},
    }
    await client.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": foreign})
    async with secret_replica(client) as store:
        await story(People(store), plane, tmp_path, "--namespace", NAMESPACE)
    left = [one.meta.name for one in (await client.list(SECRETS, NAMESPACE)).items]
    assert left == ["foreign"]


async def test_s7_people_whose_sessions_are_in_redis(
    plane: Sandbox, redis: RedisServer, tmp_path: Path
) -> None:
    async with redis_replica(redis) as store:
        await story(People(store), plane, tmp_path, "--redis-addr", redis.address)


async def test_s7_people_whose_redis_speaks_tls(plane: Sandbox, tmp_path: Path) -> None:
    authority = Authority.create()
    async with (
        redis_server(tmp_path, password=PASSWORD, authority=authority) as redis,
        redis_replica(redis) as store,
    ):
        await People(store).sign_in()
        ca_file = str(redis.options.ca_file)
        flags = ("--all", "--redis-addr", redis.address, "--redis-ca-file", ca_file)
        code, out, err = await told(plane, tmp_path, *flags, REDIS_PASSWORD="guessed")
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert f"--redis-addr {redis.address}" in err
        assert "$REDIS_PASSWORD" in err
        assert "guessed" not in err
        found = await told(plane, tmp_path, *flags, REDIS_PASSWORD=PASSWORD)
        assert found == (0, "3 sessions of all people ended\n", "")


async def test_an_api_server_that_is_away_is_told(plane: Sandbox, tmp_path: Path) -> None:
    await told(plane, tmp_path, "--all")
    await plane.stop()
    file = tmp_path / f"{plane.name}.kubeconfig"
    assert file.exists()
    code, out, err = await told(plane, tmp_path, "--all")
    assert (code, out, len(err.splitlines())) == (1, "", 1)


async def test_who_may_delete_no_secrets_is_told() -> None:
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}
    bodies: list[tuple[Resource, JSON]] = [
        (NAMESPACES, {"kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        (SERVICEACCOUNTS, {"kind": "ServiceAccount", "metadata": {"name": "reader"}}),
        (CLUSTERROLES, {"kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": rules}),
        (
            CLUSTERROLEBINDINGS,
            {
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "reader"},
                "roleRef": role,
                "subjects": [subject],
            },
        ),
    ]
    async with Sandbox() as plane, Client(parse_kubeconfig(plane.kubeconfig())) as admin:
        for resource, body in bodies:
            whole = {"apiVersion": resource.api_version} | body
            await admin.create(resource, whole, NAMESPACE if resource is SERVICEACCOUNTS else "")
        async with secret_replica(admin) as store:
            people = People(store)
            await people.sign_in()
            config = await as_service_account(admin, NAMESPACE, "reader")
            async with Client(config) as reader:
                assert await sign_out(reader, NAMESPACE, None, dry_run=True) == 3
                with pytest.raises(Forbidden):
                    await sign_out(reader, NAMESPACE, None)
            assert await people.known() == (2, 1)
