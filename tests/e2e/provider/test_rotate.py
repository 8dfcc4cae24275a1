"""New credentials for a consumer at work, on two control planes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.dying import DyingClient, KilledError
from tests.support.konnector import Link, Requests, World, invited, quiet
from tests.support.line import Line
from tests.support.pki import Authority
from tests.support.waiting import SECONDS, condition, when

from fairlead.api.kubebind import CLUSTERBINDINGS, kubeconfig_digest
from fairlead.api.resource import SECRETS
from fairlead.client import Client, Unauthorized, parse_kubeconfig
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.rotation.work import RotateError, rotate
from fairlead.provider.credentials import stored_kubeconfig
from fairlead.provider.invitation import invite
from fairlead.provider.options import InviteOptions
from fairlead.provider.tokens import token_secrets


async def rotated(
    client: Client,
    link: Link,
    *,
    finish: bool = False,
    timeout: float = 30.0,  # noqa: ASYNC109
    **options: Any,
) -> list[str]:
    lines: list[str] = []
    await rotate(
        client,
        await find_consumer(client, link.cluster_namespace),
        options=InviteOptions(**options),
        timeout=timeout,
        finish=finish,
        progress=lines.append,
    )
    return lines


async def tokens(world: World, link: Link) -> list[str]:
    """The names of our token Secrets; old clusters have one of their own besides."""
    found = await world.provider.list(SECRETS, link.cluster_namespace)
    return [one.name for one in token_secrets(found.items) if one.generation]


async def handed_out(world: World, link: Link) -> bytes:
    return (await stored_kubeconfig(world.provider, link.cluster_namespace)).content


async def works(kubeconfig: bytes) -> bool:
    async with Client(parse_kubeconfig(kubeconfig)) as client:
        try:
            await client.get(CLUSTERBINDINGS, "cluster", client.config.namespace)
        except Unauthorized:
            return False
    return True


async def until_refused(kubeconfig: bytes) -> None:
    """A real server remembers for ten seconds that a token was good."""
    async with asyncio.timeout(SECONDS):
        while await works(kubeconfig):  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def crosses(world: World, link: Link, name: str) -> None:
    """An object makes its way to the provider."""
    await world.consumer.create(world.widgets, world.widget(name))
    namespace = await link.provider_namespace()
    await when(world.provider, world.widgets, name, namespace, until=bool)


async def test_the_old_token_goes_once_the_konnector_uses_the_new(provider_world: World) -> None:
    world = provider_world
    await world.konnector()
    link = await world.bound()
    await crosses(world, link, "before")
    old = link.response.kubeconfig
    lines = await rotated(world.provider, link)
    assert await tokens(world, link) == ["kube-binder-2"]
    new = await handed_out(world, link)
    body = (await world.provider.get(CLUSTERBINDINGS, "cluster", link.cluster_namespace)).to_dict()
    assert condition(body, "CredentialsInUse")["message"] == kubeconfig_digest(new)
    assert condition(body, "Ready")["status"] == "True"
    made = await world.provider.get(SECRETS, "kube-binder-2", link.cluster_namespace)
    annotations = body["metadata"]["annotations"]
    assert annotations["fairlead.dev/token-made"] == made.meta.creation_timestamp
    assert not any(token in "".join(lines) for token in (parse_kubeconfig(new).token, "eyJ"))
    await until_refused(old)
    assert await works(new)
    await crosses(world, link, "after")
    await rotated(world.provider, link)
    assert await tokens(world, link) == ["kube-binder-3"]
    await crosses(world, link, "last")


async def test_steady_state_writes_no_status(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    await rotated(world.provider, link)
    requests = Requests(world.provider_plane)
    await quiet(requests)
    await when(
        world.provider,
        CLUSTERBINDINGS,
        "cluster",
        link.cluster_namespace,
        until=lambda body: condition(body, "Healthy").get("status") == "True",
    )
    await quiet(requests)
    assert requests.count("patch", "update", resource="clusterbindings") == 0


async def test_killed_after_every_write_it_makes_no_third_token(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    deaths, seen = 0, set[str]()
    while True:
        async with DyingClient(world.provider.config, writes=1) as client:
            try:
                await rotated(client, link)
            except KilledError:
                deaths += 1
                assert deaths < 20
                seen |= set(await tokens(world, link))
                continue
            break
    assert deaths >= 2
    assert seen == {"kube-binder", "kube-binder-2"}
    assert await tokens(world, link) == ["kube-binder-2"]
    await crosses(world, link, "after")


async def test_inviting_again_meanwhile_hands_out_what_is_in_use(world: World) -> None:
    link = await invited(world.consumer, world.provider)
    with pytest.raises(RotateError):
        await rotated(world.provider, link, timeout=0.5)
    assert await tokens(world, link) == ["kube-binder", "kube-binder-2"]
    known = await handed_out(world, link)
    name = (await find_consumer(world.provider, link.cluster_namespace)).meta
    identity = name.annotations["backend.kube-bind.io/identity"]
    await invite(world.provider, name="team", template="widgets", identity=identity)
    assert await handed_out(world, link) == known
    assert await tokens(world, link) == ["kube-binder", "kube-binder-2"]


async def test_without_a_word_from_the_konnector_both_tokens_stay(world: World) -> None:
    """As with an original konnector, which does not tell: somebody has to decide."""
    link = await invited(world.consumer, world.provider)
    old = link.response.kubeconfig
    with pytest.raises(RotateError, match="no konnector has reported yet"):
        await rotated(world.provider, link, timeout=0.5)
    beat = {"lastHeartbeatTime": "2026-05-01T12:00:00Z", "konnectorVersion": "v0.8.1"}
    await world.provider.merge_patch(
        CLUSTERBINDINGS, "cluster", link.cluster_namespace, {"status": beat}, subresource="status"
    )
    with pytest.raises(RotateError, match=r"\(v0.8.1\) does not report .* --finish"):
        await rotated(world.provider, link, timeout=0.5)
    assert await tokens(world, link) == ["kube-binder", "kube-binder-2"]
    new = await handed_out(world, link)
    assert (await works(old), await works(new)) == (True, True)
    lines = await rotated(world.provider, link, finish=True)
    assert lines[-2] == "deleted token kube-binder"
    assert (await works(old), await works(new)) == (False, True)
    with pytest.raises(RotateError, match=r"no rotation of .* to finish"):
        await rotated(world.provider, link, finish=True)


async def test_what_does_not_work_is_not_handed_out(world: World, tmp_path: Path) -> None:
    link = await invited(world.consumer, world.provider)
    before = await handed_out(world, link)
    wrong = Authority.create("somebody else").pem
    with pytest.raises(RotateError, match=r"do not work, so it keeps .* certificate was refused"):
        await rotated(world.provider, link, external_ca=wrong)
    assert await handed_out(world, link) == before
    assert await works(before)


async def test_an_address_that_is_not_for_here_is_said(world: World) -> None:
    link = await invited(world.consumer, world.provider)
    async with Line(world.provider_plane.url) as line:
        await line.cut()
        address = line.url
        lines: list[str] = []
        with pytest.raises(RotateError, match="both tokens"):
            await rotate(
                world.provider,
                await find_consumer(world.provider, link.cluster_namespace),
                options=InviteOptions(external_address=address),
                timeout=0.5,
                finish=False,
                progress=lines.append,
            )
    assert lines[0].startswith(
        "checked only the token, and not the consumer's address for this API server: "
    )
    assert parse_kubeconfig(await handed_out(world, link)).server == address


async def interrupted(world: World, link: Link, when: str) -> list[str]:
    """What a rotation says that is stopped when it has told this."""
    lines: list[str] = []
    told = asyncio.Event()

    def progress(line: str) -> None:
        lines.append(line)
        if when in line:
            told.set()

    consumer = await find_consumer(world.provider, link.cluster_namespace)
    task = asyncio.create_task(
        rotate(
            world.provider,
            consumer,
            options=InviteOptions(),
            timeout=SECONDS,
            finish=False,
            progress=progress,
        )
    )
    async with asyncio.timeout(SECONDS):
        await told.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return lines


async def test_who_stops_it_hears_how_things_stand(world: World) -> None:
    link = await invited(world.consumer, world.provider)
    old = link.response.kubeconfig
    lines = await interrupted(world, link, "waiting: ")
    assert lines[-1].startswith("interrupted: ")
    assert "both tokens are valid. Run the command again to go on waiting" in lines[-1]
    assert "add --finish" in lines[-1]
    assert await works(old)
    assert await works(await handed_out(world, link))


async def test_before_a_token_is_handed_out_the_old_one_is_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await invited(world.consumer, world.provider)
    known = await handed_out(world, link)
    begun = asyncio.Event()

    async def slow(*_args: Any, **_more: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("fairlead.provider.commands.rotation.work.make_token", slow)
    lines: list[str] = []
    consumer = await find_consumer(world.provider, link.cluster_namespace)
    task = asyncio.create_task(
        rotate(
            world.provider,
            consumer,
            options=InviteOptions(),
            timeout=SECONDS,
            finish=False,
            progress=lines.append,
        )
    )
    async with asyncio.timeout(SECONDS):
        await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "keeps its token, since it did not get a new one" in lines[-1]
    assert await handed_out(world, link) == known
