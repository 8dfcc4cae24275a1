"""What is printed of the front door's benchmark, and how it asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.rows import SERVE, Row, write
from bench.serve.asking import Place, ask
from bench.serve.bare import bare_server
from bench.serve.figures import Asked, Bound, Cold, Figures, Load, rows
from bench.serve.pages import Page
from bench.serve.screens import Screens


def load(answers: int) -> Load:
    return Load(answers, seconds=0.5, cpu=answers * 5e-5)


FIGURES = Figures(
    {"ping": Asked([load(60), load(50)], [load(100), load(100)], 4)},
    Cold(1000, 0.5, 102.0, 3.0, 100, 10.0),
    {"sandbox": Bound([0.03, 0.04, 0.03], [0.02, 0.02, 0.03], 24, 30.0)},
    {"consumers": Page(1000, 0.4, [0.2, 0.1, 0.2], [0.3, 0.2, 0.3], [0.01, 0.01, 0.02], 5000)},
    Screens(1000, [0.4, 0.6, 0.5], 60 << 20, 150 << 20),
)


def test_every_row_is_of_the_section_and_compares_with_what_is_bare(tmp_path: Path) -> None:
    found = {row.key: row for row in rows(FIGURES)}
    assert all(key.startswith(f"{SERVE}_") for key in found)
    assert found["serve_ping_pace"].value == pytest.approx(0.55)
    assert found["serve_ping_pace"].holds
    assert found["serve_cold_reviews"].holds
    assert found["serve_screens"].value == pytest.approx(600.0)
    assert found["serve_screens_memory"].holds
    assert found["serve_consumers"].value == pytest.approx(200.0)
    assert found["serve_consumers"].holds
    assert "bare JSON 10.0 ms" in found["serve_consumers"].note
    assert found["serve_consumers_first"].holds is False
    assert found["serve_bind_sandbox"].value == pytest.approx(1.5)
    write(tmp_path, [Row("a", "A", 1.0)])
    write(tmp_path, list(found.values()), SERVE)
    text = (tmp_path / "results.md").read_text()
    assert "## make bench\n" in text
    assert "## make bench-serve\n" in text


def test_what_was_left_out_is_not_printed() -> None:
    assert not list(rows(Figures({}, None, {}, {})))


async def test_so_many_are_asked_and_read_to_their_end() -> None:
    async with bare_server(4, 300_000) as bare:
        for size in (4, 300_000):
            pace = await ask(Place(bare.port, f"/{size}", "token"), 3, most=50)
            assert pace.answers == 50
        assert (await ask(Place(bare.port, "/rows/20"), 3, most=50)).answers == 50
        with pytest.raises(RuntimeError, match="404"):
            await ask(Place(bare.port, "/other"), 3, most=50)
