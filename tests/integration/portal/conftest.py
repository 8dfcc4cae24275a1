"""A provider with its controllers, an issuer, and what replicas of the front door leave behind."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.integration.portal.handshake.conftest import ISSUER, template
from tests.support.issuers import TestIssuer
from tests.support.portalidentity import Browser, browser, told
from tests.support.replicas import EXTERNAL, Replica

from fairlead.api.kubebind import (
    ANNOTATION_IDENTITY,
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    CLUSTERBINDINGS,
    provider_crds,
)
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, ClusterConfig, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.portal.identity.secretstore import LABEL_KIND
from fairlead.portal.manifests import manifests
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead.provider.app import controllers
from fairlead.runtime import Cluster, install_crds
from fairlead_sandbox import Sandbox


CALLBACK = f"{EXTERNAL}/api/callback"


class Provider:
    """What replicas share, as their administrator sees it."""

    def __init__(
        self, plane: Sandbox, admin: Client, config: ClusterConfig, issuer: TestIssuer
    ) -> None:
        self.plane = plane
        self.admin = admin
        self.config = config
        self.issuer = issuer
        self._tasks: list[asyncio.Task[None]] = []

    def flags(self) -> tuple[str, ...]:
        return "--oidc-issuer-url", self.issuer.url

    def start(self) -> None:
        """Let binds be answered."""
        cluster = Cluster("provider", self.admin)
        self._tasks = [asyncio.create_task(one.run()) for one in controllers(cluster)]
        self._tasks.append(asyncio.create_task(cluster.run()))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def stored(self, kind: str) -> list[str]:
        """The names of what sign-ins have stored, of this kind."""
        labels = f"{LABEL_KIND}={kind}"
        found = await self.admin.list(SECRETS, DEFAULT_NAMESPACE, labels=labels)
        return sorted(one.meta.name for one in found.items)

    async def requests(self) -> list[str]:
        found = await self.admin.list(BINDABLERESOURCESREQUESTS)
        return sorted(one.meta.name for one in found.items)

    async def answers(self) -> list[str]:
        """The Secrets of binds, which have credentials."""
        found = await self.admin.list(SECRETS, DEFAULT_NAMESPACE)
        names = (one.meta.name for one in found.items)
        return sorted(name for name in names if name.startswith("fairlead-bind-"))

    async def consumers(self) -> list[tuple[str, str]]:
        """Namespaces of consumers, and the bindings in them."""
        spaces = (await self.admin.list(NAMESPACES)).items
        named = sorted(
            one.meta.name for one in spaces if ANNOTATION_IDENTITY in one.meta.annotations
        )
        bindings = (await self.admin.list(CLUSTERBINDINGS)).items
        found = sorted((one.meta.namespace, one.meta.name) for one in bindings)
        assert [space for space, _ in found] == named
        return found


class Ada:
    """A person with a browser, who signs in as the original's CLI does."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.token = ""

    def begin(self, at: Replica, **more: str) -> str:
        """The address of a replica to begin at."""
        known = {"redirect_url": "http://127.0.0.1:2/callback", "session_id": "client-1"}
        query = "&".join(
            f"{k}={v}" for k, v in (known | {"client_type": "cli"} | more).items() if v
        )
        return f"{at.url}/api/authorize?{query}"

    async def to_callback(self, at: Replica, **more: str) -> str:
        """Through the issuer, to the external address of the callback."""
        return await self.browser.to_callback(self.begin(at, **more))

    async def end(self, at: Replica, callback: str) -> dict[str, str]:
        """Present the callback to a replica, which takes it."""
        answered = await self.browser.get(at.at(callback))
        assert answered.status == 302, await answered.text()
        found = told(answered)
        self.token = found.get("access_token", "")
        return found

    async def sign_in(self, at: Replica) -> None:
        await self.end(at, await self.to_callback(at))
        assert await self.known(at)

    async def known(self, at: Replica) -> bool:
        """Whether a replica takes the token."""
        answered = await self.browser.get(f"{at.url}/api/ping", headers=self._headers())
        return answered.status == 200

    async def bind(self, at: Replica) -> tuple[int, dict[str, Any]]:
        body = {
            "metadata": {"name": "shop"},
            "spec": {
                "templateRef": {"name": "widgets"},
                "clusterIdentity": {"identity": "cluster-1"},
            },
        }
        async with self.browser.session.post(
            f"{at.url}/api/bind", json=body, headers=self._headers()
        ) as answered:
            return answered.status, await answered.json()

    async def bound(self, at: Replica) -> dict[str, Any]:
        """Bind, and have a kubeconfig that works."""
        status, answer = await self.bind(at)
        assert status == 200, answer
        kubeconfig = base64.b64decode(answer["kubeconfig"])
        async with Client(parse_kubeconfig(kubeconfig)) as consumer:
            await consumer.list(SECRETS, answer["providerNamespace"])
        return answer

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    """Template ``widgets`` is offered to Ada, and controllers answer."""
    async with (
        Sandbox(tls=True, rbac=True) as plane,
        Client(parse_kubeconfig(plane.kubeconfig())) as admin,
        TestIssuer(CALLBACK) as issuer,
    ):
        await install_crds(admin, provider_crds())
        bodies = manifests(
            image="fairlead",
            external_url="https://bind.example.org",
            issuer_url=ISSUER,
            client_id="fairlead",
            allowed_users=["ada"],
        )
        await create_all(admin, bodies)
        await admin.create(APISERVICEEXPORTTEMPLATES, template("widgets"))
        config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
        found = Provider(plane, admin, config, issuer)
        found.start()
        yield found
        await found.stop()


@pytest.fixture
async def ada() -> AsyncIterator[Ada]:
    async with browser() as opened:
        yield Ada(opened)


async def cut_off(asking: asyncio.Task[Any], by: Replica) -> None:
    """Kill a replica under a request, whose sender hears nothing."""
    assert not asking.done()
    await by.kill()
    with pytest.raises(aiohttp.ClientError):
        await asking
