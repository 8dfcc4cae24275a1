"""Metrics of the front door: requests by route, sign-ins, binds and refusals.

Each label has few values, so clients cannot make series: a path without a route has the empty
label, and no label names people or consumers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from aiohttp import web
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.portal.http.requests import BIND_RESULT


BIND_PATH = "/api/bind"
"""Path of the route whose POST requests count as binds."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_RESULTS = ("done", "refused", "failed")
_REASONS = {
    401: "unauthenticated",
    403: "forbidden",
    413: "too_large",
    429: "too_many",
}
"""Label of a refused request, by its status."""


class PortalMetrics(Collector):
    """Counts the answers of one replica."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._routes: dict[web.AbstractResource | None, str] = {None: ""}
        self._sign_ins: Counter[str] = Counter()
        self._sign_outs = 0
        self._binds: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()

    def answered(self, request: web.Request, status: int, *, prefix: str = "") -> None:
        """Count an answered request; ``prefix`` is the path of the external URL."""
        resource = request.match_info.route.resource
        # A label for each resource, made once: the same route below the external path is the same
        # series.
        route = self._routes.get(resource)
        if route is None and resource is not None:
            route = self._routes[resource] = resource.canonical.removeprefix(prefix)
        method = request.method
        if method not in _METHODS:
            method = "other"
        self._requests[route or "", method, status] += 1
        if BIND_RESULT in request:
            self._binds[request[BIND_RESULT]] += 1
        elif route == BIND_PATH and method == "POST":
            self._binds[result_of(status)] += 1
        if status in _REASONS:
            self._refusals[_REASONS[status]] += 1

    def signed_in(self, result: str) -> None:
        """Count a finished sign-in; each ``result`` but refused is a success."""
        self._sign_ins["refused" if result == "refused" else "done"] += 1

    def signed_out(self) -> None:
        """Count a sign-out."""
        self._sign_outs += 1

    def collect(self) -> Iterable[Metric]:
        """Return all series; called at each scrape."""
        requests = CounterMetricFamily(
            "fairlead_portal_requests",
            "Answered requests; route is empty for a path without a route",
            labels=("route", "method", "code"),
        )
        for (route, method, status), number in sorted(self._requests.items()):
            requests.add_metric((route, method, str(status)), number)
        yield requests
        yield _counted(
            "sign_ins", "Completed and refused sign-ins", "result", _RESULTS[:2], self._sign_ins
        )
        yield CounterMetricFamily("fairlead_portal_sign_outs", "Sign-outs", value=self._sign_outs)
        yield _counted("binds", "Binds, by result", "result", _RESULTS, self._binds)
        yield _counted(
            "refusals",
            "Requests that the front door refused with 401, 403, 413 or 429",
            "reason",
            _REASONS.values(),
            self._refusals,
        )


METRICS: web.AppKey[PortalMetrics] = web.AppKey("METRICS", PortalMetrics)


def _counted(
    name: str, help_: str, label: str, values: Iterable[str], counter: Counter[str]
) -> Metric:
    """Return a family with all label values, so that each rate starts from 0."""
    family = CounterMetricFamily(f"fairlead_portal_{name}", help_, labels=(label,))
    for value in values:
        family.add_metric((value,), counter[value])
    return family


def result_of(status: int) -> str:
    """Return the outcome of a request (done, refused or failed) from the answer's status."""
    if status < 400:
        return "done"
    return "refused" if status < 500 else "failed"
