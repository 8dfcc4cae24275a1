"""The HTTPS server that API servers ask: AdmissionReviews in, verdicts out.

It keeps nothing and writes nothing, so that every replica answers alike and a dry run is a run
like any other. Source: ``admission.k8s.io/v1``.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

import msgspec
import structlog
from aiohttp import web
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.api.meta import JSON
from fairlead.client import limits
from fairlead.client.metrics import Histogram
from fairlead.runtime.manager.health import split_address


Said = Literal["allowed", "changed", "warned", "refused", "failed"]

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of a review's duration in seconds; API servers wait 10 s by default, 30 at most."""
_OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_UNKNOWN = "unknown"
"""Operation of a review that cannot be decoded."""


# Labels have only known values: a client of the server chooses the operation of its review, and
# any client that reaches the server can send one.
class ReviewMetrics(Collector):
    """Counts and times reviews, by the names of the webhooks that were asked.

    Failures of each given webhook begin at zero: without that, ``increase()`` of Prometheus would
    not see the first one.
    """

    def __init__(self, webhooks: Iterable[str] = ()) -> None:
        self._reviews: Counter[tuple[str, str, Said]] = Counter()
        for webhook in webhooks:
            for operation in _OPERATIONS:
                self._reviews[webhook, operation, "failed"] = 0
        self._seconds: dict[str, Histogram] = {}

    def reviewed(self, webhook: str, operation: str, said: Said, seconds: float) -> None:
        """Count a review, answered or not."""
        label = operation if operation in _OPERATIONS else _UNKNOWN
        self._reviews[webhook, label, said] += 1
        self._seconds.setdefault(webhook, Histogram(BUCKETS)).observe(seconds)

    def collect(self) -> Iterable[Metric]:
        """Yield all series; called at each scrape."""
        total = CounterMetricFamily(
            "fairlead_webhook_reviews",
            "Admission reviews, by verdict",
            labels=("webhook", "operation", "verdict"),
        )
        for labels, number in sorted(self._reviews.items()):
            total.add_metric(labels, number)
        yield total
        seconds = HistogramMetricFamily(
            "fairlead_webhook_review_seconds",
            "Duration of an admission review",
            labels=("webhook",),
        )
        for webhook, histogram in sorted(self._seconds.items()):
            seconds.add_metric([webhook], histogram.cumulative(), sum_value=histogram.sum)
        yield seconds


_FAILED: Said = "failed"
_log = structlog.get_logger(logger_name="fairlead.runtime.admission")


class ReviewedNames(msgspec.Struct, frozen=True):
    """Group and version of a request, and its kind or resource."""

    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""


class AdmissionRequest(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The part of ``admission.k8s.io/v1`` AdmissionRequest that verdicts are based on."""

    uid: str
    kind: ReviewedNames = ReviewedNames()
    resource: ReviewedNames = ReviewedNames()
    operation: str = ""
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    user_info: JSON = {}
    object: JSON | None = None
    old_object: JSON | None = None


class Verdict(msgspec.Struct, frozen=True):
    """Answer to a write: a refusal, or changes to make first."""

    refusal: str = ""
    """Why the write is refused; "" lets it through."""
    patch: Sequence[JSON] = ()
    """JSON patch operations (RFC 6902)."""
    warnings: Sequence[str] = ()


ALLOWED = Verdict()


class UnansweredError(Exception):
    """A review cannot be answered now; the text gives the reason, without any Secret's content."""


Reviewer = Callable[[AdmissionRequest], Verdict | Awaitable[Verdict]]
"""Function that decides about a write; it returns an awaitable if it has to ask the cluster."""


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest


class AdmissionServer:
    """Serves reviewers by path; a runnable of every replica.

    ``names`` gives the label of each webhook in ``metrics``, by path.

    Raises:
        AddressError: the address is not ``host:port``.
    """

    name = "admission webhooks"

    def __init__(
        self,
        address: str,
        reviewers: Mapping[str, Reviewer],
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.url = ""
        self.metrics = ReviewMetrics(names.get(path, path) for path in reviewers)
        self._names = names
        self._where = split_address(address)
        self._reviewers = dict(reviewers)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._certificate = ""

    def use(self, certificate: str, key: str) -> None:
        """Answer with this certificate from the next connection on; both are PEM.

        Raises:
            ssl.SSLError: they cannot be used, or do not belong together.
        """
        if certificate == self._certificate:
            return
        with tempfile.TemporaryDirectory() as folder:
            # Python loads keys from files alone. Only this user can read it, and it is deleted at
            # once.
            path = Path(folder, "tls.pem")
            path.touch(mode=0o600)
            path.write_text(certificate + key)
            self._context.load_cert_chain(path)
        self._certificate = certificate
        _log.info("serving with a new certificate", url=self.url)

    def not_ready(self) -> str:
        """Return the reason why no review can be answered yet, "" if reviews are answered."""
        if not self.url:
            return "it does not listen yet"
        return "" if self._certificate else "it waits for its certificate"

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            OSError: the address cannot be listened on.
        """
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1.0)
        await runner.setup()
        try:
            host, port = self._where
            await web.TCPSite(runner, host or None, port, ssl_context=self._context).start()
            address = runner.addresses[0]
            shown = f"[{address[0]}]" if ":" in address[0] else address[0]
            self.url = f"https://{shown}:{address[1]}"
            _log.info("serving admission webhooks", url=self.url)
            await asyncio.Event().wait()
        finally:
            self.url = ""
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        reviewer = self._reviewers.get(request.path)
        if reviewer is None:
            return web.Response(status=404, text="no webhook has this path")
        if request.method != "POST":
            return web.Response(status=405, text="send the review with POST")
        begun = time.perf_counter()
        operation, said = "", _FAILED
        try:
            answer, operation, said = await self._reviewed(request, reviewer)
            return answer
        finally:
            name = self._names.get(request.path, request.path)
            self.metrics.reviewed(name, operation, said, time.perf_counter() - begun)

    async def _reviewed(self, request: web.BaseRequest, reviewer: Reviewer) -> _Answer:
        try:
            async with asyncio.timeout(limits.REVIEW_SECONDS):
                content = await _content(request)
        except TimeoutError:
            return _unread(408, f"the request was not complete within {limits.REVIEW_SECONDS:g} s")
        if content is None:
            return _unread(413, f"the limit is {limits.REVIEW_BYTES} bytes")
        try:
            review = msgspec.json.decode(content, type=_Review)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _unread(400, f"this is not an AdmissionReview: {error}")
        operation = review.request.operation
        try:
            verdict = reviewer(review.request)
            if not isinstance(verdict, Verdict):
                verdict = await verdict
        # The configuration's failurePolicy tells the API server how to go on.
        except UnansweredError as error:
            name = review.request.name
            _log.warning("no answer", path=request.path, name=name, reason=str(error))
            return web.Response(status=503, text=str(error)), operation, _FAILED
        except Exception:  # noqa: BLE001
            _log.exception("a review failed", path=request.path, name=review.request.name)
            text = "the review failed; the program's log says why"
            return web.Response(status=500, text=text), operation, _FAILED
        answer = web.json_response(
            body=msgspec.json.encode(
                {
                    "apiVersion": review.api_version,
                    "kind": review.kind,
                    "response": _response(review.request.uid, verdict),
                }
            )
        )
        return answer, operation, _said(verdict)


_Answer: TypeAlias = tuple[web.Response, str, Said]
"""HTTP answer, operation of the review (such as CREATE), and verdict for the metrics."""


def _unread(status: int, text: str) -> _Answer:
    return web.Response(status=status, text=text), "", _FAILED


def _said(verdict: Verdict) -> Said:
    if verdict.refusal:
        return "refused"
    if verdict.patch:
        return "changed"
    return "warned" if verdict.warnings else "allowed"


async def _content(request: web.BaseRequest) -> bytes | None:
    """Read the body; return None if it is too large."""
    content = bytearray()
    async for chunk in request.content.iter_any():
        content += chunk
        if len(content) > limits.REVIEW_BYTES:
            return None
    return bytes(content)


def _response(uid: str, verdict: Verdict) -> JSON:
    response: JSON = {"uid": uid, "allowed": not verdict.refusal}
    if verdict.refusal:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": verdict.refusal}
    elif verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(list(verdict.patch))).decode()
    if verdict.warnings:
        response["warnings"] = list(verdict.warnings)
    return response
