"""What is printed of the front door's benchmark, and how it asks."""

from __future__ import annotations

import pytest
from bench.bare import bare_server
from bench.serve import Asked, Load, Place, ask, route_rows


def load(answers: int) -> Load:
    return Load(answers, seconds=0.5, cpu=answers * 5e-5)


def test_a_route_is_compared_with_the_bare_handler() -> None:
    asked = Asked([load(60), load(50)], [load(100), load(100)], 4)
    pace, cpu = route_rows("ping", asked)
    assert pace.value == pytest.approx(0.55)
    assert pace.holds
    assert cpu.key == "serve_ping_cpu"
    assert cpu.value == pytest.approx(50.0)


async def test_so_many_are_asked_and_read_to_their_end() -> None:
    async with bare_server(4, 300_000) as bare:
        for size in (4, 300_000):
            pace = await ask(Place(bare.port, f"/{size}", "token"), 3, most=50)
            assert pace.answers == 50
        with pytest.raises(RuntimeError, match="404"):
            await ask(Place(bare.port, "/other"), 3, most=50)
