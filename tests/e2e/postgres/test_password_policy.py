"""A server whose policy on passwords takes no verifiers, as with credcheck."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest
from tests.support.image import ROOT
from tests.support.pki import Authority
from tests.support.postgres import access, credentials, prepare, running, server_profile
from tests.support.servers import certify, embedded, started
from tests.support.waiting import eventually, failed_with, idle, is_ready, when

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import ApiError, Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions
from fairlead_sandbox import Sandbox


OPTIONS = PostgresOptions(pending_interval=0.2, synced_interval=1.0, server_interval=1.0)
NAMES = ("first", "second", "third")
REFUSED = "password type is not a plain text"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("databases")


@pytest.fixture(scope="module")
def strict(authority: Authority) -> Iterator[EmbeddedPostgres]:
    """A server with TLS and the policy; its log has every statement that is not kept out of it."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    for server in started(embedded(15)):
        data = server.folder / "data"
        certify(server, authority, host="127.0.0.1")
        policy = data / "policy.so"
        build = ("gcc", "-shared", "-fPIC", "-O1", "-o", str(policy))
        subprocess.run([*build, str(ROOT / "tests/support/passwordpolicy.c")], check=True)
        policy.chmod(0o755)
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("ALTER SYSTEM SET log_min_duration_sample = 0")
            connection.execute("ALTER SYSTEM SET password_encryption = 'md5'")
            connection.execute(f"ALTER SYSTEM SET session_preload_libraries = '{policy}'")
            connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
async def admin(stack: AsyncExitStack) -> AsyncIterator[Client]:
    plane = await stack.enter_async_context(Sandbox(name="strict"))
    async with Client(parse_kubeconfig(plane.kubeconfig())) as client:
        await prepare(client)
        await client.create(NAMESPACES, {"metadata": {"name": "team"}})
        yield client


async def offer(admin: Client, server: EmbeddedPostgres, authority: Authority) -> None:
    await admin.create(SECRETS, credentials("strict", server))
    ca = {"metadata": {"name": "ca", "namespace": DEFAULT_NAMESPACE}}
    await admin.create(SECRETS, {**ca, "stringData": {"ca.crt": authority.pem.decode()}})
    spec = {"sslMode": "verify-full", "caSecretRef": {"name": "ca"}}
    await admin.create(POSTGRESSERVERS, server_profile("strict", server, **spec))


async def uri(admin: Client, name: str, folder: Path, authority: Authority) -> str:
    found = await admin.get(SECRETS, f"{name}-login", "team")
    ca = folder / "ca.crt"
    ca.write_bytes(authority.pem)
    text = base64.b64decode(found.to_dict()["data"]["uri"]).decode()
    return f"{text}{'&' if '?' in text else '?'}sslrootcert={ca}"


async def password_of(admin: Client, name: str) -> str:
    found = await admin.get(SECRETS, f"{name}-login", "team")
    return base64.b64decode(found.to_dict()["data"]["password"]).decode()


def refusals(server: EmbeddedPostgres) -> int:
    return server.log().count(f"ERROR:  {REFUSED}")


async def secrets(admin: Client) -> set[str]:
    return {one.meta.name for one in (await admin.list(SECRETS, "team")).items}


async def test_a_server_that_takes_no_verifiers_names_the_setting_and_takes_passwords(
    strict: EmbeddedPostgres,
    authority: Authority,
    admin: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The next attempt after a refusal would come later than this test lasts.
    monkeypatch.setattr(bounds, "REFUSED_SECONDS", 3600.0)
    monkeypatch.setattr(bounds, "REFUSED_MOST_SECONDS", 3600.0)
    await offer(admin, strict, authority)
    before = strict.logged()
    async with running(admin, OPTIONS):
        for name in NAMES:
            await admin.create(POSTGRESACCESSES, access(name, "team", "strict"))
        for name in NAMES:
            refused = failed_with("passwordFormat: Plain on the PostgresServer")
            body: JSON = await when(admin, POSTGRESACCESSES, name, "team", until=refused)
            assert "credcheck.encrypted_password_allowed" in str(body["status"])
        # Each has tried once: together with others, and then alone. Others wait for the pace.
        await idle(1.0)
        assert refusals(strict) <= 2 * len(NAMES)
        assert await secrets(admin) == set()
        weak = {"spec": {"passwordFormat": "Plain", "sslMode": "require"}}
        with pytest.raises(ApiError, match="passwordFormat Plain needs sslMode"):
            await admin.merge_patch(POSTGRESSERVERS, "strict", "", weak)
        plain = {"spec": {"passwordFormat": "Plain"}}
        await admin.merge_patch(POSTGRESSERVERS, "strict", "", plain)
        for name in NAMES:
            await when(admin, POSTGRESACCESSES, name, "team", until=is_ready)
        passwords: list[str] = []
        for name in NAMES:
            where = await uri(admin, name, tmp_path, authority)
            async with await psycopg.AsyncConnection.connect(where) as session:
                passwords.append(session.info.password)
        rotate = {"metadata": {"annotations": {"access.k8s.delta10.nl/rotate-at": "now"}}}
        await admin.merge_patch(POSTGRESACCESSES, NAMES[0], "team", rotate)

        async def is_changed() -> bool:
            return await password_of(admin, NAMES[0]) != passwords[0]

        await eventually(is_changed)
        await when(admin, POSTGRESACCESSES, NAMES[0], "team", until=is_ready)
        passwords.append(await password_of(admin, NAMES[0]))
        where = await uri(admin, NAMES[0], tmp_path, authority)
        async with await psycopg.AsyncConnection.connect(where) as session:
            assert session.info.password == passwords[-1]
        await idle(1.0)
        given = {"metadata": {"name": "own", "namespace": "team"}}
        await admin.create(SECRETS, {**given, "stringData": {"password": "fourth-of-all"}})
        spec = {"passwordSecretRef": {"name": "own"}}
        await admin.create(POSTGRESACCESSES, access("fourth", "team", "strict", **spec))
        refused = failed_with("password policy refuses such passwords")
        body = await when(admin, POSTGRESACCESSES, "fourth", "team", until=refused)
        assert "(SQLSTATE 22023)" in str(body["status"])
        passwords.append("fourth-of-all")
    log = strict.log(before)
    assert "COMMENT ON ROLE" in log
    assert not any(word in log for word in passwords)
    async with await psycopg.AsyncConnection.connect(strict.dsn()) as session:
        kept = await session.execute(
            "SELECT rolpassword FROM pg_authid WHERE rolname = ANY (%s)", [[*NAMES]]
        )
        assert all(word.startswith("SCRAM-SHA-256$") for (word,) in await kept.fetchall())
