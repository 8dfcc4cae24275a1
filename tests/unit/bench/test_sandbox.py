"""The comparison with the real server: what is computed, and that the load loads."""

from __future__ import annotations

import os

import pytest
from bench.planes import Plane
from bench.rows import Row
from bench.sandbox import __main__ as sandbox
from bench.sandbox import figures as printed
from bench.sandbox import load
from bench.sandbox.figures import Figures, Phase

from fairlead.client import parse_kubeconfig
from fairlead_sandbox import Sandbox


MIB = 1 << 20


def figures(ready: float, mib: int, per_second: float, cpu: float = 0.001) -> Figures:
    phase = Phase(per_second, cpu)
    return Figures(ready, mib * MIB, phase, phase, phase)


ROUNDS = {
    "real": [figures(4.0, 400, 500, 0.004), figures(90.0, 500, 400), figures(5.0, 450, 600)],
    "data": [figures(0.5, 60, 1000, 0.001), figures(0.4, 90, 9), figures(0.6, 70, 2000)],
    "memory": [figures(0.5, 80, 3000)] * 3,
    "bare": [figures(0.3, 40, 6000)] * 3,
}


def rows() -> dict[str, Row]:
    return {row.key: row for row in printed.rows(ROUNDS)}


@pytest.mark.parametrize(
    ("key", "value", "holds"),
    [
        pytest.param("sandbox_ready", 10.0, True, id="ready"),
        pytest.param("sandbox_ready_ms", 500.0, None, id="ready-ms"),
        pytest.param("sandbox_memory", 70 / 450, True, id="memory"),
        pytest.param("sandbox_memory_mib", 70.0, None, id="memory-mib"),
        pytest.param("sandbox_writes", 2.0, True, id="writes"),
        pytest.param("sandbox_writes_memory", 6.0, None, id="writes-in-memory"),
        pytest.param("sandbox_writes_per_second", 1000.0, None, id="writes-per-second"),
        pytest.param("sandbox_reads", 2.0, None, id="reads"),
        pytest.param("sandbox_watch", 2.0, None, id="watch"),
    ],
)
def test_ratios_are_of_medians(key: str, value: float, *, holds: bool | None) -> None:
    row = rows()[key]
    assert row.value == pytest.approx(value)
    assert row.holds is holds


def test_numbers_stand_beside_their_limits() -> None:
    note = rows()["sandbox_writes_per_second"].note
    assert note == "kube-apiserver 500, in memory mode 3,000, bare aiohttp 6,000"
    assert "kube-apiserver 5,000 ms" in rows()["sandbox_ready_ms"].note
    assert "synchronous=FULL" in rows()["sandbox_writes"].note


def test_keys_are_unique() -> None:
    assert len(rows()) == len(list(printed.rows(ROUNDS)))


async def test_the_load_is_a_plain_users(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("OBJECTS", 20), ("READS", 30), ("WATCHES", 2), ("WATCHED", 10)):
        monkeypatch.setattr(load, name, count)
    async with Sandbox() as server:
        plane = Plane([os.getpid()], parse_kubeconfig(server.kubeconfig()))
        found = await load.measure(plane)
        widgets = list(server.core.store.collection("widgets.example.org").list())
    assert len(widgets) == 20
    assert sorted(record.to_dict()["spec"]["size"] for record in widgets) == [2] * 10 + [3] * 10
    assert {record.to_dict()["spec"]["retries"] for record in widgets} == {3}
    assert found.resident > MIB
    assert min(phase.per_second for phase in found[2:]) > 0


async def test_without_the_real_server_there_are_no_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    assert await sandbox.compare() == []
    told = capsys.readouterr()
    assert not told.out
    assert told.err.count("\n") == 1
    assert "KUBEBUILDER_ASSETS is not set" in told.err
