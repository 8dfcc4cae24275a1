"""Programs that are scraped as Prometheus does it, and promtool, which says what fires then.

No series is made up: what promtool is given is what a program has served, once or several times.
Only time is advanced: each scrape stands for as many minutes as a test says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.support.waiting import SECONDS

from fairlead.client import Client
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.programs import StoryProgram
from fairlead.runtime import Cluster, LeaderElection, Manager, Metrics, strip_managed_fields


ROOT = Path(__file__).parents[2]
RULES = sorted((ROOT / "config" / "alerts").glob("*.yaml"))
_UNPACKED = "fairlead-promtool/usr/bin/promtool"
"""Below the user's cache; ``hack/promtool`` puts it there."""

_LAG = "fairlead_event_loop_lag_seconds"
_CALM_SECONDS = 0.25

Scrape = dict[str, float]
"""Values by series, in Prometheus' notation."""


class Alert(NamedTuple):
    """An alert that fires; annotations are as people read them."""

    name: str
    labels: str
    annotations: str


def promtool() -> str:
    """The program that checks rules; a test that cannot have it is skipped."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for found in (os.environ.get("PROMTOOL"), shutil.which("promtool"), str(cache / _UNPACKED)):
        if found and os.access(found, os.X_OK):
            return found
    pytest.skip("promtool is not installed (hack/promtool unpacks it)")


class Scraped:
    """A program at work; ``job`` is what Prometheus calls it."""

    def __init__(self, job: str, url: Callable[[], str]) -> None:
        self.job = job
        self._url = url

    async def scrape(self, *, calm: bool = True) -> Scrape:
        """What it serves now; ``calm`` waits for a moment in which the machine is not busy.

        Each scrape stands for many minutes, and so would a moment that others have taken.
        """
        async with asyncio.timeout(SECONDS):
            while True:
                found = await self._scrape()
                lags = (value for series, value in found.items() if series.startswith(_LAG))
                if not calm or max(lags) < _CALM_SECONDS:
                    return found
                await asyncio.sleep(0.1)

    async def text(self) -> str:
        """What it serves now, as it is."""
        url = f"{self._url()}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.status == 200
            return await answer.text()

    async def served(self) -> set[str]:
        """The names of all metrics that it has, those without a series too."""
        return set(re.findall(r"^# TYPE (\S+) ", await self.text(), re.MULTILINE))

    async def _scrape(self) -> Scrape:
        text = await self.text()
        target = {"job": self.job, "instance": f"{self.job}-0"}
        return {
            _series(sample.name, {**target, **sample.labels}): float(sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            # No rule asks for these, and they are most of all.
            if not sample.name.endswith(("_bucket", "_created"))
        }

    async def tells(self, name: str, until: Callable[[float], bool], **labels: str) -> Scrape:
        """What it serves once a series with these labels has such a value."""
        found: Scrape = {}
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    found = await self.scrape()
                    if any(
                        series.startswith(f"{name}{{")
                        and all(label in series for label in wanted)
                        and until(value)
                        for series, value in found.items()
                    ):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            shown = {series: value for series, value in found.items() if series.startswith(name)}
            raise AssertionError(f"{name} {labels} does not come: {shown}") from None


def _series(name: str, labels: dict[str, str]) -> str:
    shown = ", ".join(f"{label}={_quoted(value)}" for label, value in sorted(labels.items()))
    return f"{name}{{{shown}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@contextlib.asynccontextmanager
async def at_work(
    admin: Client,
    program: StoryProgram,
    *,
    election: Callable[[Client], LeaderElection] | None = None,
) -> AsyncIterator[Scraped]:
    """A program with the rights of its manifests, put together as its command does."""
    await create_all(admin, program.manifests)
    await program.install_crds(admin)
    config = await as_service_account(admin, program.namespace, program.name)
    metrics = Metrics()
    async with Client(
        config, user_agent=program.name, field_manager=program.name, metrics=metrics.requests
    ) as client:
        manager = Manager(
            metrics=metrics, leader_election=election(client) if election is not None else None
        )
        await program.build(manager, Cluster(program.name, client, transform=strip_managed_fields))
        async with manager.listening():
            task = asyncio.create_task(manager.run())
            try:
                yield Scraped(program.name, lambda: manager.metrics_url)
            finally:
                task.cancel()
                await asyncio.wait([task])


async def firing(*scrapes: tuple[int, Scrape]) -> list[Alert]:
    """The alerts that fire after scrapes that each stand for so many minutes."""
    return await asyncio.to_thread(_firing, scrapes)


def _firing(scrapes: Sequence[tuple[int, Scrape]]) -> list[Alert]:
    rules = {str(path): yaml.safe_load(path.read_text()) for path in RULES}
    names = [
        rule["alert"]
        for file in rules.values()
        for group in file["groups"]
        for rule in group["rules"]
    ]
    end = sum(minutes for minutes, _ in scrapes) - 1
    found = sorted({series for _, scrape in scrapes for series in scrape})
    body = {
        "rule_files": list(rules),
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": _values(series, scrapes)} for series in found
                ],
                # None is expected, so that promtool names all that fire.
                "alert_rule_test": [
                    {"eval_time": f"{end}m", "alertname": name, "exp_alerts": []} for name in names
                ],
            }
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "test.yaml")
        file.write_text(yaml.safe_dump(body))
        done = subprocess.run(
            [promtool(), "test", "rules", str(file)], capture_output=True, text=True, check=False
        )
    told = done.stdout + done.stderr
    alerts = [Alert(*one) for one in _GOT.findall(told)]
    assert bool(alerts) != ("SUCCESS" in told), told
    return alerts


_GOT = re.compile(r'Labels:\{alertname="(\w+)"(.*?)\}\n?\s*Annotations:\{(.*?)\}\n', re.DOTALL)


def _values(series: str, scrapes: Sequence[tuple[int, Scrape]]) -> str:
    parts = []
    for minutes, scrape in scrapes:
        value = scrape.get(series)
        if value is None or not isfinite(value):
            parts.append(f"_x{minutes}")
        else:
            parts.append(f"{value!r}+0x{minutes - 1}")
    return " ".join(parts)


def at_least(limit: float) -> Callable[[float], bool]:
    """Whether a value has come as far."""
    return lambda value: value >= limit


def names(alerts: Sequence[Alert]) -> set[str]:
    """What fires, whatever it is about."""
    return {alert.name for alert in alerts}


async def assert_well(scrape: Scrape) -> None:
    """Nothing fires where a program goes on like this."""
    assert await firing((90, scrape)) == []
