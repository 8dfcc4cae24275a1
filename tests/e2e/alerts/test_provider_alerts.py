"""Alerts about consumers of a provider, each where just that is broken."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from tests.support.alerts import assert_well, at_work, firing, names
from tests.support.konnector import Link, World, invited

from fairlead.api.kubebind import CLUSTERBINDINGS
from fairlead.api.timestamps import format_time, moment
from fairlead.demo.programs import provider_programs
from fairlead.provider import namespaces
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.rotation.work import rotate
from fairlead.provider.options import InviteOptions


pytestmark = pytest.mark.extended

PROGRAM = provider_programs(["widgets.example.org"])[1]


async def identity_of(world: World, link: Link) -> str:
    """What a scrape calls a consumer."""
    return namespaces.identity_of(await find_consumer(world.provider, link.cluster_namespace))


async def test_a_konnector_that_has_ended_is_told_of_as_silent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.konnector()
    link = await world.bound()
    identity = await identity_of(world, link)
    async with at_work(world.provider, PROGRAM) as provider:
        about = {"consumer": identity}
        name = "fairlead_provider_heartbeat_overdue"
        await provider.tells("fairlead_provider_heartbeat_age_seconds", bool, **about)
        await assert_well(await provider.tells(name, lambda value: value == 0, **about))
        await world.one.stop()
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 900)
        scrape = await provider.tells(name, lambda value: value == 1, **about)
        (alert,) = await firing((30, scrape), (30, await provider.scrape()))
    assert alert.name == "FairleadConsumerSilent"
    assert f"The konnector of consumer {identity} is silent" in alert.annotations


async def test_a_token_that_is_never_rotated_is_told_of_until_it_is(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    about = {"consumer": await identity_of(world, link)}
    async with at_work(world.provider, PROGRAM) as provider:
        name, longest = "fairlead_provider_token_age_seconds", 90 * 86400
        await assert_well(await provider.tells(name, lambda value: value < longest, **about))
        made = format_time(moment() - timedelta(days=91))
        await world.provider.merge_patch(
            CLUSTERBINDINGS,
            "cluster",
            link.cluster_namespace,
            {"metadata": {"annotations": {"fairlead.dev/token-made": made}}},
        )
        scrape = await provider.tells(name, lambda value: value > longest, **about)
        found = await firing((60, scrape), (60, await provider.scrape()))
        assert names(found) == {"FairleadTokenOld"}
        await rotate(
            world.provider,
            await find_consumer(world.provider, link.cluster_namespace),
            options=InviteOptions(),
            timeout=60,
            finish=False,
            progress=lambda _line: None,
        )
        await assert_well(await provider.tells(name, lambda value: value < longest, **about))


async def test_a_consumer_that_was_only_invited_is_not_called_silent(world: World) -> None:
    await invited(world.consumer, world.provider)
    async with at_work(world.provider, PROGRAM) as provider:
        await assert_well(
            await provider.tells("fairlead_provider_consumers", lambda value: value == 1)
        )
