"""What the ``run`` commands give to the programs that they start."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import structlog
from click.testing import CliRunner
from tests.support.process import config_file
from tests.unit.runtime.fakes import WIDGETS

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import NAMESPACES
from fairlead.cli import main
from fairlead.cli.logs import logger
from fairlead.cli.running import Addresses, LogLevel, RunOptions, outlasting, run_program
from fairlead.client import (
    Client,
    ClusterConfig,
    ConnectionFailed,
    Forbidden,
    parse_kubeconfig,
)
from fairlead.runtime import Cluster, Manager, ManagerError
from fairlead.runtime.backoff import BackoffPolicy
from fairlead_sandbox import Sandbox


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    """Have later tests log elsewhere than into what one here has captured."""
    yield
    structlog.reset_defaults()


def test_programs_keep_no_managed_fields(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(ClusterConfig(server="https://127.0.0.1:1", namespace="default")))
    kept: list[JSON] = []

    async def build(manager: Manager, cluster: Cluster) -> None:
        cluster.informer(WIDGETS)
        for shared in cluster.informers():
            shared.put(_object())
            kept.extend(found.to_dict() for found in shared.store)
        raise ManagerError("enough was seen")

    with pytest.raises(ManagerError, match="enough"):
        run_program("konnector", "default", _options(file), (), build)
    assert [sorted(body["metadata"]) for body in kept] == [["name", "namespace"]]


def _object() -> Object:
    fields = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    metadata = {"name": "a", "namespace": "b", "managedFields": fields}
    return object_from_dict({"apiVersion": "v1", "kind": "Widget", "metadata": metadata})


def _options(file: Path) -> RunOptions:
    return RunOptions(
        kubeconfig=str(file),
        context=None,
        install_crds=False,
        health_address="",
        metrics_address="",
        log_format="json",
    )


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.mark.parametrize(
    ("health", "metrics", "environ", "expected"),
    [
        pytest.param(None, None, {}, ("127.0.0.1:0", ""), id="a laptop: one free port"),
        pytest.param(None, None, POD, ("127.0.0.1:8081", "127.0.0.1:8080"), id="a Pod"),
        pytest.param("", "", POD, ("", ""), id="nowhere"),
        pytest.param("0", "0", {}, ("", ""), id="nowhere, as kubebuilder says it"),
        pytest.param(":1", None, {}, (":1", ""), id="health alone"),
        pytest.param(None, ":1", {}, ("127.0.0.1:0", ":1"), id="metrics alone"),
    ],
)
def test_where_programs_listen(
    health: str | None, metrics: str | None, environ: dict[str, str], expected: tuple[str, str]
) -> None:
    assert Addresses.of(health, metrics, environ) == expected


PATIENCE = BackoffPolicy(initial=0.001, maximum=0.002)


class Starting:
    """A program that installs into a sandbox, which begins to answer after some attempts."""

    def __init__(self, sandbox: Sandbox, starts_at: int) -> None:
        self.attempts = 0
        self._sandbox = sandbox
        self._starts_at = starts_at

    async def install(self, client: Client) -> None:
        self.attempts += 1
        if self.attempts == self._starts_at:
            await self._sandbox.start()
        await client.list(NAMESPACES)


@pytest.fixture
async def away() -> AsyncIterator[tuple[Sandbox, Client]]:
    """A sandbox that is not there, and a client of it."""
    async with Sandbox() as sandbox:
        config = parse_kubeconfig(sandbox.kubeconfig())
        await sandbox.stop()
        async with Client(config) as client:
            yield sandbox, client


async def test_a_start_in_a_pod_outlasts_an_api_server_that_is_away(
    away: tuple[Sandbox, Client],
) -> None:
    sandbox, client = away
    program = Starting(sandbox, starts_at=3)
    await outlasting(PATIENCE, lambda: program.install(client))
    assert program.attempts == 3


async def test_a_start_elsewhere_says_at_once_that_the_api_server_is_away(
    away: tuple[Sandbox, Client],
) -> None:
    sandbox, client = away
    program = Starting(sandbox, starts_at=3)
    with pytest.raises(ConnectionFailed):
        await outlasting(None, lambda: program.install(client))
    assert program.attempts == 1


async def test_a_refusal_is_not_outlasted(away: tuple[Sandbox, Client]) -> None:
    sandbox, client = away
    await sandbox.start()
    sandbox.faults.fail("list", "namespaces", 403)
    program = Starting(sandbox, starts_at=0)
    with pytest.raises(Forbidden):
        await outlasting(PATIENCE, lambda: program.install(client))
    assert program.attempts == 1


@pytest.mark.parametrize("flag", ["--health-probe-bind-address", "--metrics-bind-address"])
def test_what_is_no_address_is_told_with_its_flag(flag: str) -> None:
    result = CliRunner().invoke(main, ["konnector", "run", flag, "here"])
    assert result.exit_code == 2
    assert f"{flag}: 'here' is not an address" in result.output


@pytest.mark.parametrize("flag", ["--health-probe-bind-address", "--metrics-bind-address"])
def test_an_address_that_is_taken_is_told_with_its_flag_before_anything_is_written(
    tmp_path: Path, flag: str
) -> None:
    """The server is not there: what is asked of it would be another error."""
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(ClusterConfig(server="https://127.0.0.1:1", namespace="default")))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        arguments = ["konnector", "run", "--kubeconfig", str(file), flag, address]
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    (line,) = [one for one in result.output.splitlines() if one.startswith("Error: ")]
    assert f"cannot listen on {address} for" in line
    assert f"give another address to {flag}" in line


@pytest.mark.parametrize(("level", "lines"), [("debug", 4), ("info", 3), ("error", 1)])
def test_a_program_logs_from_its_level_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], level: LogLevel, lines: int
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(ClusterConfig(server="https://127.0.0.1:1", namespace="default")))
    log = logger("test")

    async def build(manager: Manager, cluster: Cluster) -> None:
        log.debug("a detail")
        log.info("a step")
        log.error("a fault")
        raise ManagerError("enough was seen")

    options = msgspec.structs.replace(_options(file), log_level=level)
    with pytest.raises(ManagerError, match="enough"):
        run_program("konnector", "default", options, (), build)
    entries = [json.loads(line)["msg"] for line in capfd.readouterr().err.splitlines()]
    assert len([one for one in entries if one in OURS]) == lines


OURS = ("starting", "a detail", "a step", "a fault")


@pytest.mark.parametrize(
    "program",
    [("konnector",), ("postgres",), ("binding",), ("provider",), ("provider", "serve")],
)
def test_each_program_takes_a_level(program: tuple[str, ...]) -> None:
    words = program if program[-1] == "serve" else (*program, "run")
    result = CliRunner().invoke(main, [*words, "--log-level", "loud"])
    assert result.exit_code == 2
    assert "'loud' is not one of 'debug', 'info', 'warning', 'error'" in result.output
