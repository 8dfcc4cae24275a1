"""CRDs in the manner of other projects', from the provider to the consumer, on real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.crossing import FOLDER, YES, Crossing, Sample, crossing, samples
from tests.support.realplane import RealPlane
from tests.support.waiting import SECONDS

from fairlead.client import Client, parse_kubeconfig


CRDS = {sample.name.partition(".")[0]: sample for sample in samples(FOLDER)}


@pytest.fixture(scope="module")
def planes(plane_thread: Any, real_programs: None) -> Iterator[tuple[RealPlane, RealPlane]]:
    """The provider's server and the consumer's, both of this module alone."""
    planes = RealPlane(), RealPlane()
    try:
        for plane in planes:
            plane_thread.run(plane.start())
        yield planes
    finally:
        for plane in planes:
            plane_thread.run(plane.stop())


@pytest.fixture
async def way(
    stack: AsyncExitStack, planes: tuple[RealPlane, RealPlane]
) -> AsyncIterator[Crossing]:
    provider, consumer = [
        await stack.enter_async_context(Client(parse_kubeconfig(plane.admin_kubeconfig())))
        for plane in planes
    ]
    async with crossing(provider, consumer, patience=SECONDS) as way:
        yield way


@pytest.mark.parametrize(
    "sample", [pytest.param(sample, id=name) for name, sample in CRDS.items()]
)
async def test_a_crd_crosses_whole(way: Crossing, sample: Sample) -> None:
    passage = await way.measure(sample)
    assert (passage.steps, passage.lost) == ([YES] * 5, [])
