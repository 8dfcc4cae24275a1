"""A webhook server that answers as a test says, and the configurations that name it."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from aiohttp import web
from tests.support.pki import Authority
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, NAMESPACES, Resource
from fairlead.client import ApiError, Client


GROUP = "admissionregistration.k8s.io"
MUTATING = Resource(
    GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VALIDATING = Resource(
    GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
PROBE = "are-the-webhooks-there"
LABEL = "webhooks-of"

Review = Callable[[JSON], JSON | web.Response | Awaitable[JSON | web.Response]]


def allow(request: JSON) -> JSON:
    return {"allowed": True}


def deny(**status: Any) -> Review:
    return lambda request: {"allowed": False, "status": status} if status else {"allowed": False}


def patch(*operations: JSON, **more: Any) -> Review:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": encoded,
        **more,
    }


def add(path: str, value: Any) -> JSON:
    return {"op": "add", "path": path, "value": value}


class WebhookServer:
    """Answers each path with its review; remembers the requests of all but probes."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.authority = Authority.create()
        self.reviews: dict[str, Review] = {}
        self.seen: list[tuple[str, JSON]] = []
        self.probed: set[str] = set()
        self.url = ""
        self.port = 0
        self._host = host
        self._folder = TemporaryDirectory()
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        pair = self.authority.issue("webhook", hosts=(self._host, "hooks.default.svc"))
        folder = Path(self._folder.name)
        (folder / "crt").write_bytes(pair.certificate)
        (folder / "key").write_bytes(pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "crt", folder / "key")
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, 0, ssl_context=context).start()
        self.port = self._runner.addresses[0][1]
        self.url = f"https://{self._host}:{self.port}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()
        self._folder.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        asked = body["request"]
        if (asked.get("name") or "").startswith(PROBE):
            self.probed.add(request.path)
            found: Any = allow(asked)
        elif request.path.startswith("/probe-"):
            found = allow(asked)
        else:
            self.seen.append((request.path, asked))
            found = self.reviews.get(request.path, allow)(asked)
            if not isinstance(found, dict | web.Response):
                found = await found
        if isinstance(found, web.Response):
            return found
        answer = {
            "apiVersion": body["apiVersion"],
            "kind": "AdmissionReview",
            "response": {"uid": asked["uid"], **found},
        }
        return web.json_response(answer)

    def asked(self, path: str) -> list[JSON]:
        """The requests of one webhook."""
        return [request for where, request in self.seen if where == path]

    @property
    def bundle(self) -> str:
        """The server's CA, as configurations have it."""
        return base64.b64encode(self.authority.pem).decode()

    def hook(self, path: str, review: Review | None = None, **more: Any) -> JSON:
        """A webhook of a configuration; of ConfigMaps unless ``rules`` says otherwise."""
        if review is not None:
            self.reviews[path] = review
        return {
            "name": f"{path.strip('/')}.hooks.example.org",
            "clientConfig": {"url": self.url + path, "caBundle": self.bundle},
            "rules": [rule()],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }

    @asynccontextmanager
    async def installed(
        self,
        client: Client,
        namespace: str,
        *,
        mutating: list[JSON] | None = None,
        validating: list[JSON] | None = None,
        name: str = "",
    ) -> AsyncIterator[None]:
        """Have the control plane ask about this namespace, and wait until it does."""
        mark = uuid.uuid4().hex[:8]
        name = f"{name}{mark}"
        await client.merge_patch(
            NAMESPACES, namespace, "", {"metadata": {"labels": {LABEL: namespace}}}
        )
        kinds = [(MUTATING, mutating), (VALIDATING, validating)]
        made: list[tuple[Resource, str]] = []
        try:
            for resource, hooks in kinds:
                if hooks is None:
                    continue
                probe = f"/probe-{resource.plural}-{mark}"
                body = configuration(resource, name, namespace, [self.hook(probe), *hooks])
                await client.create(resource, body)
                made.append((resource, probe))
            async with asyncio.timeout(SECONDS):
                while not {probe for _, probe in made} <= self.probed:
                    await self._probe(client, namespace)
            yield
        finally:
            for resource, _ in made:
                await client.delete(resource, name)

    async def _probe(self, client: Client, namespace: str) -> None:
        body: JSON = {"metadata": {"name": f"{PROBE}-{uuid.uuid4().hex[:8]}"}}
        try:
            await client.create(CONFIGMAPS, body, namespace, dry_run=True)
        except ApiError:
            await asyncio.sleep(0.02)


def rule(*operations: str, resources: str = "configmaps", **more: Any) -> JSON:
    return {
        "operations": list(operations) or ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": resources.split(),
        **more,
    }


def configuration(resource: Resource, name: str, namespace: str, hooks: list[JSON]) -> JSON:
    selector = {"namespaceSelector": {"matchLabels": {LABEL: namespace}}}
    return {
        "metadata": {"name": name},
        "webhooks": [{**selector, **hook} for hook in hooks],
    }


def data(made: Object) -> JSON:
    found: JSON = made.to_dict().get("data") or {}
    return found
