"""What a sandbox may be given: who works out heavy requests, and who signs tokens."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import jwt
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from fairlead.api.meta import JSON
from fairlead_sandbox import Sandbox
from fairlead_sandbox.auth.tokens import SIGNATURE_ALONE, TokenError
from fairlead_sandbox.requests import heavy
from fairlead_sandbox.requests.workers import Job, JobResult
from fairlead_sandbox.worker import work


KEY = b"a key of this test, of 256 bits!"
NAMESPACE = "/api/v1/namespaces/default"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LARGE: JSON = {"k": "v" * heavy.HEAVY}


class HmacSigner:
    def sign(self, claims: JSON) -> str:
        return jwt.encode(claims, KEY, "HS256")

    def verify(self, token: str) -> JSON:
        try:
            return jwt.decode(token, KEY, ["HS256"], options=SIGNATURE_ALONE)
        except jwt.PyJWTError:
            raise TokenError("invalid bearer token") from None


class InPlace:
    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.closed = 0

    async def run(self, job: Job) -> JobResult:
        self.kinds.append(job.kind)
        result = await work(job)
        if result.failure is not None:
            raise result.failure.error()
        return result

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_process(*args: Any, **options: Any) -> None:
        raise AssertionError("a process was started")

    def no_key() -> None:
        raise AssertionError("a key was made")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", no_process)
    monkeypatch.setattr(ec, "generate_private_key", no_key)


async def send(
    session: aiohttp.ClientSession, token: str, path: str, body: JSON, method: str = "POST"
) -> tuple[int, JSON]:
    headers = {"Authorization": f"Bearer {token}"}
    async with session.request(method, path, json=body, headers=headers) as response:
        return response.status, await response.json()


def admin_token(sandbox: Sandbox) -> str:
    return str(yaml.safe_load(sandbox.kubeconfig())["users"][0]["user"]["token"])


@pytest.mark.usefixtures("isolated")
async def test_a_token_is_signed_and_accepted_by_the_signer_that_was_given() -> None:
    async with (
        Sandbox(tls=False, signer=HmacSigner()) as sandbox,
        aiohttp.ClientSession(sandbox.url) as session,
    ):
        admin = admin_token(sandbox)
        body: JSON = {"metadata": {"name": "robot"}}
        assert (await send(session, admin, f"{NAMESPACE}/serviceaccounts", body))[0] == 201
        path = f"{NAMESPACE}/serviceaccounts/robot/token"
        code, answer = await send(session, admin, path, {"spec": {}})
        assert code == 201
        token = answer["status"]["token"]
        assert jwt.get_unverified_header(token)["alg"] == "HS256"
        code, answer = await send(session, token, REVIEWS, {})
        assert code == 201
        user = answer["status"]["userInfo"]["username"]
        assert user == "system:serviceaccount:default:robot"
        assert (await send(session, token[:-4], REVIEWS, {}))[0] == 401


@pytest.mark.usefixtures("isolated")
async def test_heavy_requests_are_worked_out_by_what_was_given() -> None:
    workers = InPlace()
    async with (
        Sandbox(tls=False, rbac=False, workers=workers, signer=HmacSigner()) as sandbox,
        aiohttp.ClientSession(sandbox.url) as session,
    ):
        admin, path = admin_token(sandbox), f"{NAMESPACE}/configmaps"
        body: JSON = {"metadata": {"name": "a"}, "data": LARGE}
        code, made = await send(session, admin, path, body)
        assert code == 201
        assert made["data"] == LARGE
        body["metadata"]["resourceVersion"] = "1"
        assert (await send(session, admin, f"{path}/a", body, "PUT"))[0] == 409
        assert workers.kinds == ["write", "write"]
        assert (await send(session, admin, f"{path}/a", LARGE, "DELETE"))[0] == 200
        assert workers.kinds == ["write", "write", "decode"]
    assert workers.closed == 1
