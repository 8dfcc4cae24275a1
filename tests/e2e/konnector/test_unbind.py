"""``fairlead unbind`` as a person runs it, between two control planes with a konnector."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.support.commands import FAIRLEAD, against, fairlead
from tests.support.konnector import WIDGETS, World, invited, offer, widget
from tests.support.waiting import SECONDS, gone, when
from tests.support.webhooks import Review, WebhookServer, deny

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICEEXPORTS, BOUNDSCHEMAS
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.client import Client
from fairlead.konnector import reports
from fairlead.konnector.commands.bind import BindError, bind
from fairlead.konnector.commands.unbind import unbind
from fairlead.konnector.rights import role_labels
from fairlead.process import INTERRUPTED
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.revoke.work import revoke


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        world = World(stack)
        await world.start()
        yield world


async def written(client: Client) -> set[str]:
    """What `fairlead bind` has written and is there."""
    roles = {one.meta.name for one in (await client.list(CLUSTERROLES)).items}
    secrets = {one.meta.name for one in (await client.list(SECRETS, "kube-bind")).items}
    return {
        *(name for name in roles if name.startswith(tuple(role_labels("")))),
        *(name for name in secrets if name.startswith("kubeconfig-")),
    }


async def test_unbinding_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    await world.konnector()
    before = await written(world.consumer)
    link = await world.bound()
    assert await written(world.consumer) != before
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    code, out, err = await fairlead(world.consumer_plane, tmp_path, "unbind", "widgets", "--yes")
    assert (code, out) == (0, "apiservicebinding.kube-bind.io/widgets is unbound\n"), err
    assert "administrator deletes the provider's APIServiceExport widgets" in err
    await gone(world.provider, WIDGETS, "blue", namespace)
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    assert await written(world.consumer) == before
    again = await fairlead(world.consumer_plane, tmp_path, "unbind", "widgets", "--yes")
    assert again == (1, "", "Error: APIServiceBinding widgets does not exist; there are none\n")
    await link.bind()
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", await link.provider_namespace(), until=bool)


async def test_what_a_provider_has_taken_back_is_asked_for_anew(
    world: World, tmp_path: Path
) -> None:
    await world.konnector()
    link = await world.bound()
    code, _, err = await fairlead(world.consumer_plane, tmp_path, "unbind", "widgets", "--yes")
    assert code == 0, err
    with pytest.raises(BindError, match="bind it with --name widgets, or ask the provider's team"):
        await bind(world.consumer, link.response, name="other", timeout=SECONDS)
    namespace = link.cluster_namespace
    await world.provider.delete(APISERVICEEXPORTS, "widgets", namespace)
    await gone(world.provider, BOUNDSCHEMAS, WIDGETS.group_resource, namespace)
    await link.bind()
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", await link.provider_namespace(), until=bool)


async def test_unbinding_one_of_two_keeps_the_secret_of_both(world: World, tmp_path: Path) -> None:
    await world.konnector()
    await offer(world.provider, "other.org")
    one = await invited(world.consumer, world.provider, identity="shop")
    two = await invited(
        world.consumer, world.provider, name="gadgets", template="other.org", identity="shop"
    )
    await one.bind()
    await two.bind()
    code, _, err = await fairlead(world.consumer_plane, tmp_path, "unbind", "gadgets", "--yes")
    assert code == 0, err
    assert "which APIServiceBinding widgets uses" in err
    await one.condition("Ready", lambda found: found.get("status") == "True")
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", await one.provider_namespace(), until=bool)


async def test_a_konnector_that_does_not_run_is_told_and_waited_for(
    world: World, tmp_path: Path
) -> None:
    konnector = await world.konnector()
    await world.bound()
    await konnector.stop()
    code, out, err = await fairlead(
        world.consumer_plane, tmp_path, "unbind", "widgets", "--yes", "--timeout", "1s"
    )
    assert (code, out) == (1, "")
    assert "no konnector has begun to unbind it (waited 1 s): a konnector ran" in err
    assert "run `fairlead unbind widgets` again to go on waiting" in err
    await konnector.start()
    # What was said is carried out, whether or not it is said again.
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, CLUSTERROLES, "kube-bind-konnector-widgets")


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)], ids=["no", "yes"])
async def test_a_terminal_is_asked(world: World, tmp_path: Path, answer: bytes, code: int) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", await link.provider_namespace(), until=bool)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        result = await fairlead(world.consumer_plane, tmp_path, "unbind", "widgets", stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert result[0] == code, result
    told = result[1] + result[2]
    assert "Unbinding widgets deletes 1 object here and 1 copy on the provider. Go on?" in told
    found = await world.consumer.list(APISERVICEBINDINGS)
    assert [one.meta.name for one in found.items] == ([] if code == 0 else ["widgets"])


async def test_waiting_can_be_interrupted(world: World, tmp_path: Path) -> None:
    konnector = await world.konnector()
    await world.bound()
    await konnector.stop()
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, "unbind", "widgets", "--yes", *against(world.consumer_plane, tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    told = b""
    while b"begun to unbind" not in told:
        line = await process.stderr.readline()
        assert line, told
        told += line
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, out) == (INTERRUPTED, b"")
    assert b"Traceback" not in err
    assert b"Aborted!" in err
    assert (await world.consumer.get(APISERVICEBINDINGS, "widgets")).meta.deleting


async def test_orphans_stay_on_the_provider(world: World, tmp_path: Path) -> None:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    copy = await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    code, _, err = await fairlead(world.consumer_plane, tmp_path, "unbind", "widgets", "--orphan")
    assert code == 0, err
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    left = await world.provider.list(WIDGETS, namespace)
    assert [one.meta.uid for one in left.items] == [copy["metadata"]["uid"]]
    assert not left.items[0].meta.deleting


async def test_without_a_terminal_nothing_is_deleted_unasked(world: World, tmp_path: Path) -> None:
    await world.konnector()
    await world.bound()
    code, _, err = await fairlead(world.consumer_plane, tmp_path, "unbind", "widgets")
    assert code == 2
    assert "give --yes" in err
    assert not (await world.consumer.get(APISERVICEBINDINGS, "widgets")).meta.deleting


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("kept", "administrator deletes the provider's APIServiceExport widgets"),
        ("deleted", "the provider has no APIServiceExport widgets any more"),
        ("revoked", "does not accept these credentials any more: to bind widgets again"),
    ],
)
async def test_at_the_end_it_says_what_binding_again_takes(
    world: World, what: str, told: str
) -> None:
    await world.konnector(unbind_timeout=0.5)
    link = await world.bound()
    if what == "deleted":
        await world.provider.delete(APISERVICEEXPORTS, link.name, link.cluster_namespace)
    elif what == "revoked":
        consumer = await find_consumer(world.provider, link.cluster_namespace)
        await revoke(world.provider, consumer, keep_data=False, timeout=SECONDS, progress=print)
    lines: list[str] = []
    await unbind(world.consumer, link.name, timeout=SECONDS, progress=lines.append)
    assert told in lines[-1]
    assert ("uses it again" in lines[-1]) is (what == "kept")


def keeping(*kinds: str) -> Review:
    """Refuse changes of objects of these kinds that are being deleted."""

    def review(asked: JSON) -> JSON:
        meta = (asked["object"] or {}).get("metadata", {})
        kept = asked["kind"]["kind"] in kinds and "deletionTimestamp" in meta
        # The default of a ValidatingAdmissionPolicy, whose refusals are no 403.
        status = {"reason": "Invalid", "code": 422, "message": "the freeze keeps it"}
        return {"allowed": False, "status": status} if kept else {"allowed": True}

    return review


@pytest.mark.parametrize("away", [False, True], ids=["provider-there", "provider-given-up"])
async def test_what_this_cluster_refuses_is_not_blamed_on_the_provider(
    world: World, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    monkeypatch.setattr(reports, "LASTING_SECONDS", 0.1)
    await world.konnector(unbind_timeout=0.5)
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    asked = {
        "operations": ["UPDATE"],
        "apiGroups": [WIDGETS.group, APISERVICEBINDINGS.group],
        "apiVersions": ["*"],
        "resources": [WIDGETS.plural, APISERVICEBINDINGS.plural],
    }
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(WebhookServer())
        hook = server.hook("/freeze", keeping("Widget"), rules=[asked])
        await stack.enter_async_context(
            server.installed(world.consumer, "default", validating=[hook])
        )
        if away:
            world.provider_plane.faults.partition()
        await world.consumer.delete(APISERVICEBINDINGS, "widgets")
        told = await link.condition(
            "Connected", lambda one: "the freeze keeps it" in one.get("message", "")
        )
        assert "Widget default/blue" in told["message"]
        assert "because this cluster refuses it" in told["message"]
        assert "webhook or quota that refuses this has to admit the konnector's" in told["message"]
        assert ("without the provider" in told["message"]) is away
        assert "stays unreachable" not in told["message"]
        server.reviews["/freeze"] = keeping("APIServiceBinding")
        told = await link.condition(
            "Connected", lambda one: "everything else is done" in one.get("message", "")
        )
        assert "kubebind.io/unbind from APIServiceBinding widgets: admission" in told["message"]
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)


async def test_a_crd_that_this_cluster_does_not_let_go_is_named(world: World) -> None:
    await world.konnector(unbind_timeout=SECONDS)
    link = await world.bound()
    crd = WIDGETS.group_resource
    asked = {
        "operations": ["DELETE"],
        "apiGroups": [CUSTOMRESOURCEDEFINITIONS.group],
        "apiVersions": ["*"],
        "resources": [CUSTOMRESOURCEDEFINITIONS.plural],
    }
    async with WebhookServer() as server:
        hook = server.hook(
            "/freeze",
            deny(reason="Invalid", code=422, message="the freeze keeps it"),
            rules=[asked],
        )
        async with server.installed(world.consumer, "default", validating=[hook]):
            await world.consumer.delete(APISERVICEBINDINGS, "widgets")
            told = await link.condition(
                "Connected", lambda one: "the freeze keeps it" in one.get("message", "")
            )
            assert f"refuses to delete CustomResourceDefinition {crd}: " in told["message"]
            assert "are left to this cluster's garbage collector" in told["message"]
            assert "stays unreachable" not in told["message"]
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")


async def test_an_object_that_others_keep_here_is_named_with_its_finalizers(world: World) -> None:
    await world.konnector()
    link = await world.bound()
    body = widget()
    body["metadata"]["finalizers"] = ["example.org/hold"]
    await world.consumer.create(WIDGETS, body)
    namespace = await link.provider_namespace()
    await when(world.provider, WIDGETS, "blue", namespace, until=bool)
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    told = await link.condition("Connected", lambda one: "blue" in one.get("message", ""))
    assert "has let Widget default/blue go" in told["message"]
    assert "finalizers example.org/hold remove" in told["message"]
    await gone(world.provider, WIDGETS, "blue", namespace)
    await world.consumer.merge_patch(
        WIDGETS, "blue", "default", {"metadata": {"finalizers": None}}
    )
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
