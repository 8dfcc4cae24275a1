"""What the flags of ``fairlead konnector run`` become."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from fairlead.cli import main
from fairlead.cli.kubebind import konnector
from fairlead.cli.running import RunOptions
from fairlead.client import Bounds
from fairlead.konnector import app
from fairlead.konnector.options import Options
from fairlead.runtime import Manager


class Started:
    """What would have been run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lease_namespace = ""
        self.lease = ""
        self.shared: RunOptions | None = None
        self._build: Any = None
        self.options: Options | None = None
        self.bounds: Bounds | None = None
        monkeypatch.setattr(konnector, "run_program", self._run_program)
        monkeypatch.setattr(app, "build", self._built)

    def _run_program(
        self,
        _name: str,
        namespace: str,
        shared: RunOptions,
        _install: Any,
        build: Any,
        **more: Any,
    ) -> None:
        self.lease_namespace, self.shared, self._build = namespace, shared, build
        self.lease = shared.lease_name or more["lease"]
        coroutine = build(Manager(), None)
        with pytest.raises(StopIteration):
            coroutine.send(None)

    async def _built(self, _manager: Any, _cluster: Any, options: Options, bounds: Bounds) -> None:
        self.options, self.bounds = options, bounds


def start(monkeypatch: pytest.MonkeyPatch, *arguments: str, **env: str) -> Started:
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    started = Started(monkeypatch)
    result = CliRunner().invoke(main, ["konnector", "run", *arguments], env=env)
    assert result.exit_code == 0, result.output
    return started


@pytest.mark.parametrize(
    ("arguments", "env", "namespace"),
    [
        pytest.param([], {}, "kube-bind", id="default"),
        pytest.param(["--namespace", "own"], {}, "own", id="as-namespace"),
        pytest.param(["--namespace", "own"], {"POD_NAMESPACE": "pod"}, "pod", id="of-the-pod"),
        pytest.param(["--namespace", "own"], {"POD_NAMESPACE": ""}, "own", id="empty-environment"),
        pytest.param(["--lease-namespace", "x"], {"POD_NAMESPACE": "pod"}, "x", id="given"),
    ],
)
def test_where_the_lease_is(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], env: dict[str, str], namespace: str
) -> None:
    assert start(monkeypatch, *arguments, **env).lease_namespace == namespace


@pytest.mark.parametrize(
    ("arguments", "name"), [([], "kube-bind"), (["--lease-name", "other"], "other")]
)
def test_how_the_lease_is_called(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    assert start(monkeypatch, *arguments).lease == name


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        pytest.param([], None, id="default"),
        pytest.param(["--health-probe-bind-address", ":1"], ":1", id="our-own-name"),
        pytest.param(["--server-address", ":8090"], "127.0.0.1:8090", id="loopback"),
        pytest.param(["--server-address", "0.0.0.0:8090"], "0.0.0.0:8090", id="explicit"),
        pytest.param(["--server-address", ""], "", id="off"),
    ],
)
def test_where_health_is_served(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], address: str | None
) -> None:
    shared = start(monkeypatch, *arguments).shared
    assert shared is not None
    assert shared.health_address == address


@pytest.mark.parametrize(
    ("arguments", "polling", "unbind"),
    [
        pytest.param([], 15.0, 600.0, id="defaults"),
        pytest.param(["--provider-polling-interval", "1s"], 1.0, 600.0, id="polling"),
        pytest.param(["--unbind-timeout", "1h30m"], 15.0, 5400.0, id="unbind"),
    ],
)
def test_times(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], polling: float, unbind: float
) -> None:
    options = start(monkeypatch, *arguments).options
    assert options is not None
    assert (options.provider_polling_interval, options.unbind_timeout) == (polling, unbind)


def test_help_says_how_an_address_without_a_host_is_taken() -> None:
    text = " ".join(CliRunner().invoke(main, ["konnector", "run", "--help"]).output.split())
    assert "Without a host it listens on loopback only" in text


@pytest.mark.parametrize(
    ("arguments", "bounds"),
    [
        pytest.param([], Bounds(objects=1000 * 3 // 10), id="defaults"),
        pytest.param(
            [
                *("--provider-answer-limit", "16Mi"),
                *("--provider-event-limit", "32Mi"),
                *("--provider-objects-limit", "1Gi"),
            ],
            Bounds(answer=16 << 20, event=32 << 20, objects=1 << 30),
            id="given",
        ),
    ],
)
def test_what_a_provider_may_answer(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], bounds: Bounds
) -> None:
    monkeypatch.setattr(konnector, "memory_limit", lambda: 1000)
    assert start(monkeypatch, *arguments).bounds == bounds


@pytest.mark.parametrize(("arguments", "workers"), [([], 32), (["--workers", "4"], 4)])
def test_how_many_objects_are_worked_on_at_once(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], workers: int
) -> None:
    options = start(monkeypatch, *arguments).options
    assert options is not None
    assert options.workers == workers
