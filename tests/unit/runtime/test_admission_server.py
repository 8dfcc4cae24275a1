"""The webhook server, asked what no API server would ask."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON
from fairlead.client import limits
from fairlead.runtime.admission import certificates
from fairlead.runtime.admission.server import (
    AdmissionRequest,
    AdmissionServer,
    UnansweredError,
    Verdict,
)


def judge(request: AdmissionRequest) -> Verdict | Awaitable[Verdict]:
    match request.name:
        case "bad":
            return Verdict(refusal="no", warnings=["twice"])
        case "changed":
            return Verdict(patch=[{"op": "add", "path": "/a", "value": 1}])
        case "broken":
            raise RuntimeError("s3cret")
        case "unanswered":
            raise UnansweredError("nobody knows")
        case "warned":
            return Verdict(warnings=["look"])
        case "later":
            return later()
    return Verdict()


async def later() -> Verdict:
    await asyncio.sleep(0)
    return Verdict()


class Asked:
    """A server with a certificate, and who asks it."""

    def __init__(self, running: AdmissionServer, session: aiohttp.ClientSession) -> None:
        self.running = running
        self.session = session

    async def post(self, body: Any, path: str = "/judge") -> tuple[int, str]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(self.running.url + path, data=data) as response:
            return response.status, await response.text()


def made() -> dict[str, str]:
    return certificates.renewed({}, ["127.0.0.1"], datetime.now(UTC), published=False)


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    running = AdmissionServer("127.0.0.1:0", {"/judge": judge}, {"/judge": "judging"})
    data = made()
    running.use(data[certificates.CERTIFICATE], data[certificates.KEY])
    task = asyncio.create_task(running.run())
    async with asyncio.timeout(SECONDS):
        while running.not_ready():  # noqa: ASYNC110 - it is another task that changes it
            await asyncio.sleep(0.01)
    context = ssl.create_default_context(cadata=certificates.bundle(data))
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Asked(running, session)
    task.cancel()
    await asyncio.wait([task])


def review(name: str, **more: Any) -> JSON:
    request = {"uid": "7", "name": name, "operation": "CREATE", **more}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("fine", {"uid": "7", "allowed": True}),
        (
            "bad",
            {
                "uid": "7",
                "allowed": False,
                "status": {"code": 403, "reason": "Forbidden", "message": "no"},
                "warnings": ["twice"],
            },
        ),
        (
            "changed",
            {
                "uid": "7",
                "allowed": True,
                "patchType": "JSONPatch",
                "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6MX1d",
            },
        ),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_verdicts(asked: Asked, version: str, name: str, response: JSON) -> None:
    body = review(name) | {"apiVersion": f"admission.k8s.io/{version}"}
    code, text = await asked.post(body)
    assert code == 200
    assert json.loads(text) == {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": response,
    }


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"", 400, id="nothing"),
        pytest.param(b"{", 400, id="half"),
        pytest.param(b"\xff\xfe", 400, id="no text"),
        pytest.param([], 400, id="list"),
        pytest.param({}, 400, id="no review"),
        pytest.param(review("fine", object=[]), 400, id="odd object"),
        pytest.param(b"[" * 100_000, 400, id="deep"),
        pytest.param(review("broken"), 500, id="broken"),
        pytest.param(review("unanswered"), 503, id="unanswered"),
    ],
)
async def test_what_is_no_review_is_refused(asked: Asked, body: Any, code: int) -> None:
    found, text = await asked.post(body)
    assert found == code
    assert "s3cret" not in text
    assert (await asked.post(review("fine")))[0] == 200


async def test_other_paths_and_methods(asked: Asked) -> None:
    assert (await asked.post(review("fine"), "/other"))[0] == 404
    async with asked.session.get(asked.running.url + "/judge") as response:
        assert response.status == 405


async def test_a_body_has_so_many_bytes(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REVIEW_BYTES", 1000)
    assert (await asked.post(review("x" * 2000)))[0] == 413


async def test_a_body_has_so_much_time(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REVIEW_SECONDS", 0.1)

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async with asked.session.post(asked.running.url + "/judge", data=never()) as response:
        assert response.status == 408


def series(running: AdmissionServer, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(one.labels.values()): one.value
        for family in running.metrics.collect()
        for one in family.samples
        if one.name == name and one.value
    }


async def test_reviews_are_counted_by_what_was_said(asked: Asked) -> None:
    for name in ("fine", "bad", "bad", "changed", "warned", "broken"):
        await asked.post(review(name))
    await asked.post(review("later", operation="UPDATE"))
    await asked.post(b"{")
    await asked.post(review("fine"), "/other")
    assert series(asked.running, "fairlead_webhook_reviews_total") == {
        ("judging", "CREATE", "allowed"): 1,
        ("judging", "CREATE", "refused"): 2,
        ("judging", "CREATE", "changed"): 1,
        ("judging", "CREATE", "warned"): 1,
        ("judging", "CREATE", "failed"): 1,
        ("judging", "UPDATE", "allowed"): 1,
        ("judging", "unknown", "failed"): 1,
    }
    assert series(asked.running, "fairlead_webhook_review_seconds_count") == {("judging",): 8}
    assert 0 < series(asked.running, "fairlead_webhook_review_seconds_sum")["judging",] < SECONDS


async def test_failures_are_told_of_before_there_are_any(asked: Asked) -> None:
    failed = {
        one.labels["operation"]: one.value
        for family in asked.running.metrics.collect()
        for one in family.samples
        if one.labels.get("verdict") == "failed" and one.labels["webhook"] == "judging"
    }
    assert failed == dict.fromkeys(("CREATE", "UPDATE", "DELETE", "CONNECT"), 0)


async def test_nobody_makes_series_with_words_of_their_own(asked: Asked) -> None:
    for number in range(10):
        await asked.post(review("fine", operation=f"odd-{number}"))
        await asked.post(review("fine"), f"/odd-{number}")
    assert list(series(asked.running, "fairlead_webhook_reviews_total")) == [
        ("judging", "unknown", "allowed")
    ]


async def test_a_new_certificate_counts_from_the_next_connection(asked: Asked) -> None:
    data = made()
    asked.running.use(data[certificates.CERTIFICATE], data[certificates.KEY])
    context = ssl.create_default_context(cadata=certificates.bundle(data))
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(connector=connector) as session:
        assert (await Asked(asked.running, session).post(review("fine")))[0] == 200


def test_a_certificate_that_is_none_is_not_taken() -> None:
    running = AdmissionServer("127.0.0.1:0", {})
    with pytest.raises((ssl.SSLError, ValueError)):
        running.use("odd", made()[certificates.KEY])
    assert running.not_ready() == "it does not listen yet"
