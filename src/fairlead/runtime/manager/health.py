"""``/healthz``, ``/readyz`` and ``/metrics`` over HTTP, in Kubernetes' own words."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from aiohttp import web


if TYPE_CHECKING:
    from fairlead.runtime.manager.metrics import Metrics


Check = Callable[[], str]
"""Function that returns the fault of a part of the program, "" if there is none."""


class AddressError(ValueError):
    """A text is no address to listen on; the message shows the form ``host:port``."""


class Checks:
    """Checks of health, ``alive`` and ``ready``, each by name."""

    def __init__(self) -> None:
        self.alive: dict[str, Check] = {"ping": lambda: ""}
        self.ready: dict[str, Check] = {"ping": lambda: ""}


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port`` into both; an empty host means every interface.

    Raises:
        AddressError: the address has no port, or it is no number from 0 to 65535.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise AddressError(f"{address!r} is not an address to listen on; write host:port")
    return host.strip("[]"), int(port)


def report(name: str, checks: dict[str, Check], *, verbose: bool) -> tuple[bool, str]:
    """Return whether all checks hold, and the answer's text in the form of kube-apiserver."""
    lines: list[str] = []
    healthy = True
    for check, ask in checks.items():
        try:
            wrong = ask()
        except Exception as error:  # noqa: BLE001
            # A check that raises counts as failed: a probe gets an answer in any case.
            wrong = str(error) or type(error).__name__
        healthy = healthy and not wrong
        lines.append(f"[-]{check} failed: {wrong}" if wrong else f"[+]{check} ok")
    if healthy and not verbose:
        return True, "ok"
    lines.append(f"{name} check {'passed' if healthy else 'failed'}")
    return healthy, "\n".join(lines) + "\n"


class HealthServer:
    """An HTTP server for probes, for metrics, or for both; an async context manager.

    Raises:
        AddressError: the address is not ``host:port``.
    """

    def __init__(
        self, address: str, checks: Checks | None, metrics: Metrics | None = None
    ) -> None:
        self.address = address
        self.metrics = metrics
        self.url = ""
        self._checks = checks
        self._where = split_address(address) if address else None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        if self._where is None:
            return self
        app = web.Application()
        if self._checks is not None:
            app.router.add_get("/healthz", self._healthz)
            app.router.add_get("/readyz", self._readyz)
        if self.metrics is not None:
            app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        host, port = self._where
        try:
            await web.TCPSite(self._runner, host or None, port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        name, number = self._runner.addresses[0][:2]
        self.url = f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _healthz(self, request: web.Request) -> web.Response:
        return _answer("healthz", self._checks.alive if self._checks else {}, request)

    async def _readyz(self, request: web.Request) -> web.Response:
        return _answer("readyz", self._checks.ready if self._checks else {}, request)

    async def _metrics(self, request: web.Request) -> web.Response:
        if self.metrics is None:
            raise web.HTTPNotFound
        body, content_type = self.metrics.render()
        return web.Response(body=body, headers={"Content-Type": content_type})


def _answer(name: str, checks: dict[str, Check], request: web.Request) -> web.Response:
    healthy, text = report(name, checks, verbose="verbose" in request.query)
    return web.Response(status=200 if healthy else 500, text=text)
