from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import yaml

from fairlead.api.meta import Key
from fairlead_sandbox import Sandbox
from fairlead_sandbox.auth.tokens import ISSUER


async def status(sandbox: Sandbox, token: str) -> int:
    context = ssl.create_default_context(cadata=sandbox.ca_pem.decode())
    url = f"{sandbox.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.post(url, json={}, headers=headers) as response,
    ):
        return response.status


async def test_credentials_outlive_a_restart(tmp_path: Path) -> None:
    sandbox = Sandbox(name="kept", data=tmp_path)
    async with sandbox:
        ca = sandbox.ca_pem
        accounts = sandbox.core.store.collection("serviceaccounts")
        account = accounts.get(Key("default", "default"))
        if account is None:
            kept = sandbox.core.registry.by_collection("serviceaccounts")
            assert kept is not None
            from fairlead_sandbox.objects import writes

            body = {"metadata": {"name": "default"}}
            account = writes.create(sandbox.core, kept, "default", body)
        guard = sandbox._guard
        assert guard is not None
        token, _ = guard._tokens.issue(account, [ISSUER], 600, None)
        assert await status(sandbox, token) == 201
    async with Sandbox(name="kept", data=tmp_path) as again:
        assert again.ca_pem == ca
        assert await status(again, token) == 201
        assert await status(again, token[:-2]) == 401


async def test_the_kubeconfig_carries_its_trust() -> None:
    async with Sandbox() as sandbox:
        config = yaml.safe_load(sandbox.kubeconfig("x"))
    assert config["clusters"][0]["cluster"]["certificate-authority-data"]
    assert set(config["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert config["contexts"][0]["context"]["namespace"] == "x"


async def test_without_tls_the_administrator_has_a_token() -> None:
    async with Sandbox(tls=False) as sandbox:
        config = yaml.safe_load(sandbox.kubeconfig())
        assert sandbox.url.startswith("http://")
    assert "certificate-authority-data" not in config["clusters"][0]["cluster"]
    assert set(config["users"][0]["user"]) == {"token"}
