"""Worlds whose cause lies elsewhere than their symptom, as a person finds it at a terminal."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest
from tests.support.commands import fairlead
from tests.support.countingplanes import Plane
from tests.support.konnector import WIDGETS, Link, World, widget
from tests.support.requests import hooked
from tests.support.waiting import condition, when

from fairlead.api.kubebind import APISERVICENAMESPACES
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, NAMESPACES
from fairlead.konnector import reports
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.requests.info import RequestInfo


@pytest.fixture
def faults() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


async def right_withdrawn(world: World, link: Link, _: ExitStack) -> None:
    """Somebody has deleted the konnector's role; a change waits when the konnector starts anew."""
    await world.one.stop()
    await world.consumer.merge_patch(WIDGETS, "blue", "default", {"spec": {"colour": "red"}})
    await world.consumer.delete(CLUSTERROLES, f"kube-bind-konnector-{link.name}")
    await world.one.start()
    await link.says(Ready="False", InformersSynced="False")


async def namespace_ending(world: World, link: Link, _: ExitStack) -> None:
    """The provider's namespace is deleted, and an object in it never goes."""
    namespace = await link.provider_namespace()
    never: JSON = {"metadata": {"finalizers": ["example.org/never"]}}
    await world.provider.merge_patch(WIDGETS, "blue", namespace, never)
    await world.provider.delete(NAMESPACES, namespace)
    await when(
        world.provider,
        APISERVICENAMESPACES,
        "default",
        link.cluster_namespace,
        until=lambda body: condition(body, "NamespaceReady").get("status") == "False",
    )


async def place_taken(world: World, link: Link, _: ExitStack) -> None:
    """The provider has an object of its own where the copy belongs."""
    body = widget("green")
    body["metadata"]["namespace"] = await link.provider_namespace()
    await world.provider.create(WIDGETS, body)
    await world.consumer.create(WIDGETS, widget("green"))
    await link.says(Conflicts="True", Ready="True")


async def finalizer_remaining(world: World, link: Link, _: ExitStack) -> None:
    """The copy has gone, and a finalizer of another program holds the object here."""
    found = await world.consumer.get(WIDGETS, "blue", "default")
    finalizers = [*found.meta.finalizers, "audit.example.org/hook"]
    patch: JSON = {"metadata": {"finalizers": finalizers}}
    await world.consumer.merge_patch(WIDGETS, "blue", "default", patch)
    await world.consumer.delete(WIDGETS, "blue", "default")
    await when(
        world.consumer,
        WIDGETS,
        "blue",
        "default",
        until=lambda body: body["metadata"]["finalizers"] == finalizers[-1:],
    )
    await when(
        world.provider,
        WIDGETS,
        "blue",
        await link.provider_namespace(),
        until=lambda body: not body,
    )


class Cause(NamedTuple):
    breaks: Callable[[World, Link, ExitStack], Awaitable[None]]
    target: str
    reason: str
    message: str
    remedy: str


@pytest.mark.parametrize(
    "cause",
    [
        Cause(
            right_withdrawn,
            *("widget/blue", "KonnectorForbidden", "cannot list", "have an administrator of this"),
        ),
        Cause(
            right_withdrawn,
            *("apiservicebinding/widgets", "KonnectorForbidden", "`fairlead accept widgets`"),
            "have an administrator of this",
        ),
        Cause(
            namespace_ending,
            *("widget/blue", "NamespaceTerminating", "is being deleted (since 20"),
            "wait; if it lasts, ask the provider's team which finalizers",
        ),
        Cause(
            place_taken,
            *("widget/green", "ForeignObjectExists", "ask the provider to hand it over"),
            "rename one of them",
        ),
        Cause(
            finalizer_remaining,
            *("widget/blue", "Deleting", "finalizers hold it: audit.example.org/hook (since 20"),
            "wait, or ask who runs its controller",
        ),
    ],
    ids=lambda cause: f"{cause.breaks.__name__}-{cause.target.partition('/')[0]}",
)
async def test_explain_names_the_cause(
    world: World, cause: Cause, faults: ExitStack, tmp_path: Path
) -> None:
    link = await _well(world)
    await cause.breaks(world, link, faults)
    code, out, _ = await fairlead(world.consumer_plane, tmp_path, "explain", cause.target)
    head, *rest, last = out.splitlines()
    assert (code, head.rpartition(": ")[2]) == (1, cause.reason), out
    assert cause.message in "\n".join(rest), out
    assert last.startswith(f"next: {cause.remedy}"), out


async def _well(world: World) -> Link:
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", await link.provider_namespace(), until=bool)
    await link.says(Ready="True")
    return link


QUOTA = (
    'widgets.example.org "green" is forbidden: exceeded quota: team, requested: count/widgets=1,'
    " used: count/widgets=1, limited: count/widgets=1"
)
POLICY = (
    "widgets.example.org \"green\" is forbidden: ValidatingAdmissionPolicy 'shades' with binding"
    " 'shades' denied request: green is not sold any more"
)


@pytest.mark.parametrize(
    ("code", "message", "remedy"),
    [
        pytest.param(403, QUOTA, "make room in the quota", id="quota"),
        pytest.param(422, POLICY, "change the objects as the message says", id="policy"),
    ],
)
async def test_the_list_says_who_refuses_objects(
    world: World,
    faults: ExitStack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    message: str,
    remedy: str,
) -> None:
    """The binding stays Ready, for others of its objects cross."""
    monkeypatch.setattr(reports, "LASTING_SECONDS", 0.1)
    link = await _well(world)

    def refuse(info: RequestInfo) -> None:
        if (info.resource, info.verb, info.name) == ("widgets", "create", ""):
            raise StatusError(code, {403: "Forbidden", 422: "Invalid"}[code], message)

    faults.enter_context(
        hooked(cast("Plane", SimpleNamespace(sandbox=world.provider_plane)), refuse)
    )
    await world.consumer.create(WIDGETS, widget("green"))
    await link.says(Ready="True", ObjectsFailing="True")
    _, out, _ = await fairlead(world.consumer_plane, tmp_path, "bindings", "--json")
    (row,) = json.loads(out)["bindings"]
    (remark,) = row["remarks"]
    assert "because the provider refuses it" in remark["message"]
    assert message in remark["message"]
    assert remedy in remark["remedy"]
    assert "the cluster that refuses" in remark["remedy"]
