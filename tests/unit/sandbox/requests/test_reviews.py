from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from fairlead_sandbox import Sandbox


REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default/token"


async def post(path: str, body: Any) -> tuple[int, str]:
    async with (
        Sandbox(tls=False, rbac=False) as sandbox,
        aiohttp.ClientSession() as session,
        session.post(sandbox.url + path, json=body) as response,
    ):
        answer = await response.json()
        return response.status, answer.get("message", "")


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        pytest.param(REVIEWS, {"spec": 5}, "unmarshal number into Go struct field", id="spec"),
        pytest.param(
            REVIEWS,
            {"spec": {"groups": [1], "resourceAttributes": {}}},
            "spec.groups",
            id="groups",
        ),
        pytest.param(
            REVIEWS, {"spec": {"resourceAttributes": 5}}, "resourceAttributes", id="attributes"
        ),
        pytest.param(TOKENS, {"spec": {"audiences": "x"}}, "spec.audiences", id="audiences"),
        pytest.param(ACCOUNT, {"spec": {"audiences": 5}}, "spec.audiences", id="request"),
        pytest.param(
            ACCOUNT, {"spec": {"boundObjectRef": {"kind": {}}}}, "boundObjectRef.kind", id="bound"
        ),
        pytest.param(
            ACCOUNT, {"spec": {"expirationSeconds": "x"}}, "expirationSeconds", id="seconds"
        ),
    ],
)
async def test_wrong_types_are_named(path: str, body: Any, text: str) -> None:
    code, message = await post(path, body)
    assert code == 400
    assert "cannot be handled as a" in message
    assert text in message
