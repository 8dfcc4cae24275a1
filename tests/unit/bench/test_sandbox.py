"""The comparison with the real server: what is computed, and that the load loads."""

from __future__ import annotations

import os

import pytest
from bench import sandbox
from bench.planes import Plane
from bench.rows import Row
from bench.sandbox import Figures, Phase

from fairlead.client import parse_kubeconfig
from fairlead_sandbox import Sandbox


MIB = 1 << 20


def figures(ready: float, mib: int, per_second: float, cpu: float = 0.001) -> Figures:
    phase = Phase(per_second, cpu)
    return Figures(ready, mib * MIB, phase, phase, phase)


ROUNDS = {
    "real": [figures(4.0, 400, 500, 0.004), figures(90.0, 500, 400), figures(5.0, 450, 600)],
    "sandbox": [figures(0.5, 60, 1000, 0.001), figures(0.4, 90, 9), figures(0.6, 70, 2000)],
}


def rows() -> dict[str, Row]:
    return {row.key: row for row in sandbox.rows(ROUNDS)}


@pytest.mark.parametrize(
    ("key", "value", "holds"),
    [
        pytest.param("sandbox_ready", 10.0, True, id="ready"),
        pytest.param("sandbox_memory", 70 / 450, True, id="memory"),
        pytest.param("sandbox_writes", 2.0, True, id="writes"),
        pytest.param("sandbox_reads", 2.0, None, id="reads"),
        pytest.param("sandbox_watch", 2.0, None, id="watch"),
    ],
)
def test_ratios_are_of_medians(key: str, value: float, *, holds: bool | None) -> None:
    row = rows()[key]
    assert row.value == pytest.approx(value)
    assert row.holds is holds


def test_numbers_stand_beside_their_limits() -> None:
    assert rows()["sandbox_ready"].note.startswith("0.50 s against 5.00 s; ")
    assert "synchronous=FULL" in rows()["sandbox_writes"].note


def test_keys_are_unique() -> None:
    assert len(rows()) == len(list(sandbox.rows(ROUNDS)))


async def test_the_load_is_a_plain_users(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("OBJECTS", 20), ("READS", 30), ("WATCHES", 2), ("WATCHED", 10)):
        monkeypatch.setattr(sandbox, name, count)
    async with Sandbox() as server:
        plane = Plane([os.getpid()], parse_kubeconfig(server.kubeconfig()))
        found = await sandbox.measure(plane)
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
