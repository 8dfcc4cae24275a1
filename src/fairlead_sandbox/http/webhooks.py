"""HTTPS calls of admission webhooks; the sandbox opens no other connection.

A ``clientConfig`` names a URL or a Service. The sandbox has no network of Services, so it
connects to the first ready address of the Service's Endpoints, or to its ``externalName``. The
certificate must be valid for ``<name>.<namespace>.svc`` all the same.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import aiohttp

from fairlead.api import resource as names
from fairlead.api.meta import JSON, Key
from fairlead_sandbox.storage.store import ObjectStore
from fairlead_sandbox.webhooks import reviews
from fairlead_sandbox.webhooks.conversation import Conversation
from fairlead_sandbox.webhooks.reviews import Question, WebhookAnswer


MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of a webhook's answer in bytes; a patch for the largest object fits."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    # aiohttp offers gzip by itself. Answers are read as they come, for a small one could unpack to
    # any size.
    "Accept-Encoding": "identity",
}


class _Target(NamedTuple):
    url: str
    """URL that the request is sent to."""
    shown: str
    """URL as error messages name it."""
    server: str
    """Host that the certificate must be valid for; "" means the URL's host."""


class UnreachableError(Exception):
    """A webhook has no address to call; the text says why."""


class WebhookCaller:
    """Calls admission webhooks; the questions of one write are sent at the same time."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, conversation: Conversation, questions: Sequence[Question]) -> None:
        """Call the webhooks; put each answer, or why a call failed, into the conversation."""
        answers = await asyncio.gather(*map(self._answer, questions))
        for question, answer in zip(questions, answers, strict=True):
            conversation.learn(question, answer)

    async def close(self) -> None:
        """Close the connections to webhooks."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _answer(self, question: Question) -> WebhookAnswer:
        shown = ""
        try:
            target = self._target(question.client)
            shown = f'Post "{target.shown}?timeout={question.seconds}s": '
            async with asyncio.timeout(question.seconds):
                code, content = await self._send(question, target)
        except UnreachableError as error:
            return WebhookAnswer(f"failed to call webhook: {error}")
        except TimeoutError:
            return WebhookAnswer(f"failed to call webhook: {shown}context deadline exceeded")
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            return WebhookAnswer(f"failed to call webhook: {shown}{_error_text(error)}")
        return reviews.read(question, code, content)

    async def _send(self, question: Question, target: _Target) -> tuple[int, bytes]:
        if self._session is None:
            # Without limit: with one, a call would wait behind those to a server that hangs.
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        async with self._session.post(
            target.url,
            data=question.body,
            params={"timeout": f"{question.seconds}s"},
            headers=_HEADERS,
            ssl=_context(question.client.get("caBundle") or ""),
            server_hostname=target.server or None,
            allow_redirects=False,
            # Without aiohttp's own timeouts: timeoutSeconds of the webhook, which the caller sets
            # with asyncio.timeout, covers connecting, answer and body together.
            timeout=aiohttp.ClientTimeout(),
        ) as response:
            return response.status, await _content(response)

    def _target(self, client: JSON) -> _Target:
        if client.get("url"):
            return _Target(client["url"], client["url"], "")
        service = client.get("service") or {}
        name, namespace = service.get("name", ""), service.get("namespace", "")
        port, path = service.get("port") or 443, service.get("path") or "/"
        path = path if path.startswith("/") else f"/{path}"
        host = f"{name}.{namespace}.svc"
        address = self._address(Key(namespace, name), port)
        return _Target(f"https://{address}{path}", f"https://{host}:{port}{path}", host)

    def _address(self, key: Key, port: int) -> str:
        """Return ``host:port`` of a Service: its external name, or the first ready endpoint.

        Raises:
            UnreachableError: the Service, its port or a ready endpoint is missing.
        """
        record = self._store.collection(names.SERVICES.group_resource).get(key)
        if record is None:
            raise UnreachableError(f'service "{key.name}" not found')
        spec = record.to_dict().get("spec") or {}
        if spec.get("type") == "ExternalName":
            return f"{spec.get('externalName')}:{port}"
        given = next((one for one in spec.get("ports") or [] if one.get("port") == port), None)
        if given is None:
            raise UnreachableError(f'no service port {port} found for service "{key.name}"')
        record = self._store.collection(names.ENDPOINTS.group_resource).get(key)
        for subset in (record.to_dict().get("subsets") or []) if record is not None else []:
            for target in subset.get("ports") or []:
                if target.get("name", "") == given.get("name", "") and subset.get("addresses"):
                    return f"{_host(subset['addresses'][0]['ip'])}:{target['port']}"
        raise UnreachableError(f'no endpoints available for service "{key.name}"')


def _host(address: str) -> str:
    # An IPv6 address stands in brackets in a URL (RFC 3986, section 3.2.2).
    return f"[{address}]" if ":" in address else address


async def _content(response: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_any():
        content += chunk
        if len(content) > MOST_BYTES:
            raise ValueError(f"the answer has more than {MOST_BYTES} bytes")
    return bytes(content)


@lru_cache(maxsize=64)
def _context(ca_bundle: str) -> ssl.SSLContext:
    """Return a TLS context that trusts a CA bundle (base64 of PEM); the machine's CAs if ""."""
    # Cached, because aiohttp uses a connection again only for the same context object.
    context = ssl.create_default_context()
    if ca_bundle:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=base64.b64decode(ca_bundle).decode())
    return context


def _error_text(error: Exception) -> str:
    """Return the text of a failed call; common failures are worded as by Go's HTTP client."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        inner = error.certificate_error
        text = getattr(inner, "verify_message", "") or str(inner)
        if re.search("issuer|self.signed|signature", text):
            text = "certificate signed by unknown authority"
        return f"tls: failed to verify certificate: x509: {text}"
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"dial tcp {error.host}:{error.port}: connect: connection refused"
        return f"dial tcp {error.host}:{error.port}: {error.os_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__
