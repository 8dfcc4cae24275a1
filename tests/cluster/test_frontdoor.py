"""The front door in Pods: a team of another cluster signs in and binds, by its own command.

The issuer is a program of the consumer's node, with a certificate of the company's own CA; the
door ends TLS itself, so that no Ingress is needed.
"""

from __future__ import annotations

import base64
import ctypes
import socket
import ssl
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml
from hack.nodes.clusters import Cluster
from tests.support.helm import CHART, MISSING, NAMESPACE, RELEASE, Helm, program
from tests.support.issuers import CLIENT_SECRET, TestIssuer
from tests.support.pki import Authority
from tests.support.portal import Answer
from tests.support.portalidentity import Browser
from tests.support.seat import form
from tests.support.terminals import begun
from tests.support.waiting import condition, when

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICEEXPORTTEMPLATES
from fairlead.api.meta import JSON
from fairlead.api.resource import EVENTS, NAMESPACES, PODS, SECRETS, SERVICES, Resource
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo import objects


pytestmark = pytest.mark.skipif(not program("helm"), reason=MISSING)

DOOR = "fairlead-serve"
"""The front door's namespace and Deployment."""
NODE_PORT = 30443
ACCESSES = Resource(objects.ACCESS_GROUP, "v1", "postgresaccesses", "PostgresAccess")
PAGE = f"/bind/{objects.TEMPLATE}"
# The namespace of the front door is there, with the Secret of the issuer's client.
WAITING = ("--wait", "--timeout", "150s", "--take-ownership")


@pytest.fixture
async def provider(planes: list[Cluster]) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(planes[0].kubeconfig.read_bytes())) as client:
        yield client


@pytest.fixture
async def consumer(planes: list[Cluster]) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(planes[1].kubeconfig.read_bytes())) as client:
        yield client


def listening(cluster: Cluster) -> socket.socket:
    """A socket that listens on a cluster's node.

    Raises:
        OSError: the cluster has ended.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{cluster.first_process()}/ns/net").open() as namespace:
        if libc.setns(namespace.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns failed")
    return socket.create_server((cluster.networks.node, 0))


def server_context(authority: Authority, folder: Path, host: str) -> ssl.SSLContext:
    """TLS of a server of this address."""
    pair = authority.issue("server", hosts=(host,))
    (folder / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem")
    return context


async def prepare(provider: Client, authority: Authority, host: str) -> None:
    """What the platform's team has besides the chart: keys, a NodePort, a template."""
    pair = authority.issue(DOOR, hosts=(host,))
    files = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    secret = base64.b64encode(CLIENT_SECRET.encode()).decode()
    port = {"port": 443, "targetPort": "http", "nodePort": NODE_PORT}
    selector = {"app.kubernetes.io/name": DOOR}
    await provider.create(NAMESPACES, {"metadata": {"name": DOOR}})
    for resource, body in (
        (SECRETS, {"metadata": {"name": "door"}, "data": data}),
        (SECRETS, {"metadata": {"name": f"{DOOR}-oidc"}, "data": {"client-secret": secret}}),
        (
            SERVICES,
            {
                "metadata": {"name": "door"},
                "spec": {"type": "NodePort", "selector": selector, "ports": [port]},
            },
        ),
    ):
        await provider.create(resource, body, DOOR)


def values(door: str, issuer: str, **more: Any) -> JSON:
    """Of the provider's release."""
    found: JSON = yaml.safe_load((CHART / "ci" / "provider.yaml").read_text())
    del found["provider"]["externalAddress"]
    found["provider"] |= more
    found["image"] = {"pullPolicy": "Never"}
    found["serve"] = {
        "enabled": True,
        "externalUrl": door,
        "oidc": {"issuerUrl": issuer, "clientId": "fairlead", "allowedGroups": ["team-a"]},
        "extraArgs": [
            "--oidc-scopes=openid,groups",
            "--oidc-ca-file=/door/ca.crt",
            "--tls-cert-file=/door/tls.crt",
            "--tls-key-file=/door/tls.key",
        ],
        "extraVolumes": [{"name": "door", "secret": {"secretName": "door"}}],
        "extraVolumeMounts": [{"name": "door", "mountPath": "/door", "readOnly": True}],
    }
    return found


class Ada:
    """A person of the consumer's team: a terminal and a browser."""

    def __init__(self, door: str, consumer: Cluster, folder: Path, authority: Authority) -> None:
        self._door = door
        self._folder = folder
        (folder / "ca.pem").write_bytes(authority.pem)
        self._command = (
            *("bind", door, "--skip-browser", "--server-ca-file", str(folder / "ca.pem")),
            *("--kubeconfig", str(consumer.kubeconfig)),
        )
        self._trust = ssl.create_default_context(cadata=authority.pem.decode())

    async def binds(self) -> tuple[int, str, str]:
        """Have the command's address opened, sign in, choose; what page and command say."""
        jar = aiohttp.CookieJar(unsafe=True)
        connector = aiohttp.TCPConnector(ssl=self._trust)
        async with (
            aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session,
            begun(self._folder, *self._command) as bind,
        ):
            browser = Browser(session)
            answer = await browser.get(bind.url)
            # Who is known goes on at once.
            answer = await browser.get(f"{self._door}/")
            if answer.status == 401:
                text = await answer.text()
                (path,) = [word for word in text.split('"') if word.startswith("/api/authorize")]
                await browser.sign_in(self._door + path.replace("&amp;", "&"))
            page = await browser.get(self._door + PAGE)
            fields = form(Answer(page.status, page.headers, await page.text()), PAGE)
            origin = {"Origin": self._door}
            answer = await browser.post(self._door + PAGE, data=fields, headers=origin)
            back = answer.headers["Location"]
            assert urlsplit(back).hostname == "127.0.0.1", back
            said = await (await browser.get(back)).text()
        return bind.code, said, bind.out + bind.err


async def test_a_team_of_another_cluster_binds_by_itself(
    planes: list[Cluster], provider: Client, consumer: Client, tmp_path: Path
) -> None:
    here, there = planes
    authority = Authority.create()
    door = f"https://{here.networks.node}:{NODE_PORT}"
    tls = server_context(authority, tmp_path, there.networks.node)
    # In a thread of its own, which alone goes into the node's network.
    with ThreadPoolExecutor(1) as thread:
        at = thread.submit(listening, there).result()
    callback = f"{door}/api/callback"
    issuer = TestIssuer(callback, secret=CLIENT_SECRET, tls=tls, listening=at)
    async with issuer:
        await prepare(provider, authority, here.networks.node)
        helms = [Helm(_made(tmp_path / one.name), one.kubeconfig.read_bytes()) for one in planes]

        async def install(helm: Helm, given: JSON) -> None:
            words = ("upgrade", "--install", RELEASE, str(CHART), *NAMESPACE, *WAITING)
            await helm.does(*words, values=given)

        await install(helms[0], values(door, issuer.url))
        await provider.create(APISERVICEEXPORTTEMPLATES, objects.template())
        konnector = {"konnector": {"enabled": True}, "image": {"pullPolicy": "Never"}}
        await install(helms[1], konnector)

        ada = Ada(door, there, tmp_path, authority)
        # The address that Pods have of their API server leads no other cluster there.
        code, said, told = await ada.binds()
        assert (code, "Done" in said) == (1, True)
        assert "the provider could not bind this; its log says why" in told
        events = (await provider.list(EVENTS, DOOR)).items
        assert any("provider.externalAddress" in one.to_dict()["message"] for one in events)
        address = f"https://{here.networks.node}:6443"
        await install(helms[0], values(door, issuer.url, externalAddress=address))
        code, said, told = await ada.binds()
        assert code == 0, (said, told)

    bound = await consumer.get(APISERVICEBINDINGS, objects.TEMPLATE)
    assert condition(bound.to_dict(), "Ready")["status"] == "True"
    access = objects.access(["CONNECT"], in_namespace="default")
    await consumer.create(ACCESSES, access, "default")
    # The provider's operator has seen it by way of the address that the team was given.
    await when(
        consumer,
        ACCESSES,
        objects.ACCESS,
        "default",
        until=lambda body: "ServerNotFound" in condition(body, "Ready").get("message", ""),
    )
    # Either replica answered, and neither had to start again.
    for pod in (await provider.list(PODS, DOOR)).items:
        (status,) = pod.to_dict()["status"]["containerStatuses"]
        assert (status["ready"], status["restartCount"]) == (True, 0)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
