"""Former programs beside today's: each with the other, upgraded and rolled back under objects.

What docs/upgrade.md promises, seen with the commit that hack/former-version names.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.support.e2e import Database
from tests.support.former import TODAY, Version, apply_all, former
from tests.support.konnector import Link, invited, secret, widget
from tests.support.postgres import access
from tests.support.provider import WIDGETS, example
from tests.support.waiting import gone, is_ready, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import NAMESPACES, SECRETS, Resource
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


pytestmark = pytest.mark.extended

_KEPT = ("uid", "creationTimestamp", "annotations", "finalizers", "ownerReferences")


class Seen:
    """What one watch tells, from the first program to the last."""

    def __init__(self, admin: Client, resource: Resource) -> None:
        self._admin = admin
        self._resource = resource
        self.names: set[str] = set()

    async def run(self, version: str) -> None:
        async for event in self._admin.watch(self._resource, resource_version=version):
            if event.type != "BOOKMARK":
                self.names.add(event.object.meta.name)


class Market:
    """A consumer and a provider of widgets, whose programs are exchanged one by one."""

    def __init__(self, provider: Client, consumer: Client, folder: Path) -> None:
        self.provider = provider
        self.consumer = consumer
        self.link: Link
        self.former = former()
        self._folder = folder

    async def prepare(self, version: Version) -> None:
        """Manifests and CRDs of a version on both sides, and the widgets that are offered."""
        await self.install(version, "provider")
        await self.install(version, "konnector")
        await install_crds(self.provider, [example("crd")])
        await apply_all(self.provider, [example("template")])

    async def install(self, version: Version, program: str) -> None:
        """What an administrator applies before a program of this version is started."""
        admin, flags = self.consumer, []
        if program == "provider":
            flags = ["--export", "widgets.example.org", "--claim", "secrets"]
            flags += ["--claim", "configmaps"]
            admin = self.provider
        group = "provider" if program == "provider" else "consumer"
        await install_crds(admin, version.prints("crds", group))
        await apply_all(admin, version.prints("manifests", program, "--image", "fairlead", *flags))

    @contextlib.asynccontextmanager
    async def selling(self, version: Version) -> AsyncIterator[None]:
        """The provider's program of a version at work."""
        async with version.runs(
            self.provider,
            "provider",
            self._folder,
            namespace="fairlead-provider",
            account="fairlead-provider",
        ):
            yield

    @contextlib.asynccontextmanager
    async def buying(self, version: Version) -> AsyncIterator[None]:
        """The konnector of a version at work."""
        async with version.runs(
            self.consumer, "konnector", self._folder, namespace="kube-bind", account="konnector"
        ):
            yield

    async def crosses(self, name: str) -> None:
        """An object crosses with its Secret, in a namespace that the provider has to make first.

        A change of it crosses as well, and its status comes back.
        """
        await self.consumer.create(NAMESPACES, {"metadata": {"name": name}})
        await self.consumer.create(SECRETS, secret(f"{name}-origin", name))
        body = widget(name)
        body["metadata"]["namespace"] = name
        await self.consumer.create(WIDGETS, body)
        await self.labelled(name, name)
        there = await self.link.provider_namespace(name)
        await when(self.provider, SECRETS, f"{name}-origin", there, until=bool)
        await self.answered(name, f"made {name}")

    async def labelled(self, name: str, value: str) -> None:
        """A change of the consumer's arrives."""
        labels = {"metadata": {"labels": {"order": value}}}
        await self.consumer.merge_patch(WIDGETS, name, name, labels)
        await when(
            self.provider,
            WIDGETS,
            name,
            await self.link.provider_namespace(name),
            until=lambda body: body and body["metadata"].get("labels") == {"order": value},
        )

    async def answered(self, name: str, text: str) -> None:
        """A status of the provider's comes back."""
        there = await self.link.provider_namespace(name)
        await self.provider.merge_patch(
            WIDGETS, name, there, {"status": {"factory": text}}, subresource="status"
        )
        await when(
            self.consumer,
            WIDGETS,
            name,
            name,
            until=lambda body: body.get("status") == {"factory": text},
        )

    async def taken_away(self, name: str) -> None:
        """A deletion crosses."""
        there = await self.link.provider_namespace(name)
        await self.consumer.delete(WIDGETS, name, name)
        await gone(self.provider, WIDGETS, name, there)
        await gone(self.consumer, WIDGETS, name, name)
        await self.consumer.delete(NAMESPACES, name)
        await gone(self.provider, NAMESPACES, there)

    async def goes_on(self, older: str, newer: str) -> None:
        """What was there is served, what comes new is, and what goes goes."""
        await self.labelled(older, newer)
        await self.answered(older, f"seen with {newer}")
        await self.crosses(newer)
        await self.taken_away(f"{older}-left")
        await self.crosses(f"{newer}-left")
        await self.link.condition("Ready", lambda found: found.get("status") == "True")

    async def objects(self) -> dict[tuple[str, str, str], JSON]:
        """What may change by nothing that a program does when it is exchanged."""
        kinds = [
            (self.consumer, APISERVICEBINDINGS),
            (self.consumer, WIDGETS),
            (self.provider, APISERVICEEXPORTREQUESTS),
            (self.provider, APISERVICEEXPORTS),
            (self.provider, APISERVICENAMESPACES),
            (self.provider, BOUNDSCHEMAS),
            (self.provider, CLUSTERBINDINGS),
            (self.provider, WIDGETS),
        ]
        return {
            (resource.kind, f"{one.meta.namespace}/{one.meta.name}", admin.config.server): kept(
                one.to_dict()
            )
            for admin, resource in kinds
            for one in (await admin.list(resource)).items
        }

    async def exchanged(self, before: dict[tuple[str, str, str], JSON]) -> None:
        """Nothing that was there has lost a field, nor been made anew."""
        now = await self.objects()
        before = {key: body for key, body in before.items() if not _left(key[1])}
        assert before.keys() <= now.keys()
        for key, body in before.items():
            assert contains(now[key], body), (key, body, now[key])


def _left(key: str) -> bool:
    """Whether it is an object, or of a namespace, that goes with the next program."""
    return "-left" in key


def kept(body: JSON) -> JSON:
    """What an object has that no exchange of programs may take from it."""
    metadata = {name: value for name, value in body["metadata"].items() if name in _KEPT}
    conditions = [one["type"] for one in (body.get("status") or {}).get("conditions", [])]
    return {"metadata": metadata, "spec": body.get("spec"), "conditions": sorted(conditions)}


def contains(now: object, before: object) -> bool:
    """Whether all fields and items of the one are in the other, with their values."""
    if isinstance(before, dict):
        return isinstance(now, dict) and all(
            name in now and contains(now[name], value) for name, value in before.items()
        )
    if isinstance(before, list):
        return isinstance(now, list) and all(
            any(contains(one, item) for one in now) for item in before
        )
    return now == before


async def cluster(stack: AsyncExitStack, name: str) -> Client:
    """The administrator of a new cluster."""
    plane = await stack.enter_async_context(Sandbox(name=name))
    return await stack.enter_async_context(Client(parse_kubeconfig(plane.kubeconfig())))


@pytest.fixture
async def market(stack: AsyncExitStack, tmp_path: Path) -> Market:
    provider, consumer = [await cluster(stack, name) for name in ("provider", "consumer")]
    return Market(provider, consumer, tmp_path)


async def test_konnector_and_provider_of_two_versions_work_with_each_other(
    market: Market, stack: AsyncExitStack
) -> None:
    """Upgraded in turn under objects, and rolled back, with one watch all the while."""
    await market.prepare(market.former)
    async with market.buying(market.former):
        async with market.selling(market.former):
            market.link = await invited(market.consumer, market.provider)
            await market.link.bind()
            listed = await market.consumer.list(WIDGETS)
            seen = Seen(market.consumer, WIDGETS)
            watching = asyncio.create_task(seen.run(listed.resource_version))
            stack.callback(watching.cancel)
            await market.crosses("first")
            await market.crosses("first-left")
            before = await market.objects()
        # The provider goes first: new CRDs and rights under live objects.
        await market.install(TODAY, "provider")
        async with market.selling(TODAY):
            await market.goes_on("first", "former-konnector")
            await market.exchanged(before)
            before = await market.objects()
    await market.install(TODAY, "konnector")
    async with market.buying(TODAY):
        async with market.selling(TODAY):
            await market.goes_on("former-konnector", "both-of-today")
            await market.exchanged(before)
            before = await market.objects()
        # Back to the former provider, with the rights that today's has got; then the konnector.
        await market.install(market.former, "provider")
        async with market.selling(market.former):
            await market.goes_on("both-of-today", "former-provider")
            await market.exchanged(before)
            before = await market.objects()
    await market.install(market.former, "konnector")
    async with market.selling(market.former), market.buying(market.former):
        await market.goes_on("former-provider", "rolled-back")
        await market.exchanged(before)
    assert seen.names >= {"first", "former-konnector", "both-of-today", "rolled-back"}
    assert not watching.done()


class Accesses:
    """An operator's cluster, of which versions take over from one another, and its server."""

    def __init__(self, admin: Client, server: EmbeddedPostgres, folder: Path) -> None:
        self.admin = admin
        self.database = Database(server)
        self.former = former()
        self._server = server
        self._folder = folder
        self._id = uuid.uuid4().hex[:6]

    async def prepare(self) -> None:
        """A database, a server profile and a team's namespace, as of the former version."""
        await self.database.create()
        await self.install(self.former)
        await self.admin.create(NAMESPACES, {"metadata": {"name": "team"}})
        await self.database.offer(self.admin)

    async def install(self, version: Version) -> None:
        """What an administrator applies before the operator of this version is started."""
        await install_crds(self.admin, version.prints("crds", "postgres"))
        await apply_all(self.admin, version.prints("manifests", "postgres", "--image", "fairlead"))

    @contextlib.asynccontextmanager
    async def operating(self, version: Version) -> AsyncIterator[None]:
        async with version.runs(
            self.admin,
            "postgres",
            self._folder,
            namespace="fairlead-postgres",
            account="fairlead-postgres",
        ):
            yield

    async def order(self, name: str, **more: object) -> None:
        grants = [{"database": self.database.name, "schema": "public", "privileges": ["SELECT"]}]
        spec = {"username": self.role(name), "grants": grants, **more}
        await self.admin.create(POSTGRESACCESSES, access(name, "team", "main", **spec))
        await when(self.admin, POSTGRESACCESSES, name, "team", until=is_ready)

    async def looked_at(self, *names: str, limit: int) -> None:
        """Have the operator compare each with its server, and change just this."""
        for name in names:
            patch = {"spec": {"attributes": {"connectionLimit": limit}}}
            await self.admin.merge_patch(POSTGRESACCESSES, name, "team", patch)
            await when(self.admin, POSTGRESACCESSES, name, "team", until=is_ready)

    def role(self, name: str) -> str:
        return f"{name}-{self._id}"

    async def state(self) -> tuple[dict[str, JSON], list[object]]:
        """Secrets with their data, and roles with what makes them the same ones."""
        roles = await self.database.query(
            "SELECT oid::text, rolname::text, rolpassword, rolcanlogin FROM pg_authid "
            "WHERE rolname LIKE %s ORDER BY 2",
            f"%-{self._id}%",
            database="postgres",
        )
        secrets = (await self.admin.list(SECRETS, "team")).items
        data = {one.meta.name: {"uid": one.meta.uid, **one.to_dict()["data"]} for one in secrets}
        return data, [tuple(row) for row in roles]


async def test_operators_of_two_versions_hand_over_without_a_new_password(
    postgres: EmbeddedPostgres, stack: AsyncExitStack, tmp_path: Path
) -> None:
    admin = await cluster(stack, "operator")
    accesses = Accesses(admin, postgres, tmp_path)
    await accesses.prepare()
    names = ("plain", "turns", "kept")
    async with accesses.operating(accesses.former):
        await accesses.order("plain")
        await accesses.order("turns", passwordPolicy={"rotation": "TwoLogins"})
        await accesses.order("kept", cleanupPolicy="Retain")
        secrets, roles = await accesses.state()
    await accesses.install(TODAY)
    async with accesses.operating(TODAY):
        await accesses.looked_at(*names, limit=7)
        assert await accesses.state() == (secrets, roles)
        await accesses.order("new")
        secrets, roles = await accesses.state()
    await accesses.install(accesses.former)
    async with accesses.operating(accesses.former):
        await accesses.looked_at(*names, "new", limit=8)
        # The former version puts no TLS mode into URIs.
        for key in ("uri", "jdbc-uri"):
            text = base64.b64decode(secrets["new-login"][key]).decode()
            plain = text.partition("sslmode=")[0][:-1]
            assert plain != text
            secrets["new-login"][key] = base64.b64encode(plain.encode()).decode()
        assert await accesses.state() == (secrets, roles)
        for name in (*names, "new"):
            await admin.delete(POSTGRESACCESSES, name, "team")
            await gone(admin, POSTGRESACCESSES, name, "team")
    _, left = await accesses.state()
    assert [row[1] for row in left] == [accesses.role("kept")]  # type: ignore[index]
    await accesses.database.query(
        f'DROP OWNED BY "{accesses.role("kept")}"; DROP ROLE "{accesses.role("kept")}"'
    )
