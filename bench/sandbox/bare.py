"""A server that answers every request with what it was sent: the limit of the sandbox's figures.

It speaks TLS over aiohttp as the sandbox does; it decodes, checks and stores nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import sys
from pathlib import Path

import uvloop
from aiohttp import web
from tests.support.pki import Authority


BODY = b'{"metadata":{"name":"widget-1"},"spec":{"field":"' + b"v" * 1900 + b'"}}'


async def answer(request: web.BaseRequest) -> web.Response:
    body = await request.read() if request.body_exists else BODY
    return web.Response(body=body, content_type="application/json")


async def serve() -> None:
    folder = Path(sys.argv[1])
    authority = Authority.create()
    server = web.Server(answer, access_log=None)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(server, "127.0.0.1", 0, ssl=_context(folder, authority))
    address = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    (folder / "sandbox.kubeconfig").write_text(_kubeconfig(address, authority.pem))
    print("ready", flush=True)
    await asyncio.Event().wait()


def _context(folder: Path, authority: Authority) -> ssl.SSLContext:
    pair = authority.issue("bare")
    path = folder / "server.pem"
    path.touch(mode=0o600)
    path.write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def _kubeconfig(server: str, authority: bytes) -> str:
    cluster = {
        "server": server,
        "certificate-authority-data": base64.b64encode(authority).decode(),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bare",
        "clusters": [{"name": "bare", "cluster": cluster}],
        "users": [{"name": "bare", "user": {"token": "none"}}],
        "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": "bare"}}],
    }
    return json.dumps(config)


if __name__ == "__main__":
    uvloop.run(serve())
