"""Worlds whose cause lies elsewhere than their symptom, as a person finds it at a terminal."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest
from tests.support.binding import Team, administrator, bind, pod
from tests.support.binding import running as binding
from tests.support.commands import fairlead
from tests.support.countingplanes import Plane
from tests.support.konnector import WIDGETS, Link, World, event, secret, widget
from tests.support.requests import hooked
from tests.support.waiting import condition, when

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICENAMESPACES
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, DEPLOYMENTS, NAMESPACES, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Conflict
from fairlead.konnector import reports
from fairlead_sandbox import Sandbox
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


async def provider_rebuilt(world: World, link: Link, _: ExitStack) -> None:
    """Another cluster, with an authority of its own, has the provider's place."""
    _plane, client = await world.plane("rebuilt")
    binding = (await world.consumer.get(APISERVICEBINDINGS, link.name)).to_dict()
    ref = binding["spec"]["kubeconfigSecretRef"]
    at = (ref["name"], ref["namespace"])
    found = (await world.consumer.get(SECRETS, *at)).to_dict()
    former, rebuilt = (one.config.server.encode() for one in (world.provider, client))
    text = b64decode(found["data"][ref["key"]])
    assert former in text
    await world.provider_plane.close()
    changed = b64encode(text.replace(former, rebuilt)).decode()
    await world.consumer.merge_patch(SECRETS, *at, {"data": {ref["key"]: changed}})
    await link.condition("InformersSynced", lambda one: "rebuilt-ca" in one.get("message", ""))


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
            provider_rebuilt,
            *("apiservicebinding/widgets", "CertificateRefused", "rebuilt-ca"),
            "ask the provider's team whether its API server has a new certificate",
        ),
        Cause(
            namespace_ending,
            *("widget/blue", "NamespaceTerminating", "is being deleted (since 20"),
            "wait; if it lasts, ask the provider's team which finalizers",
        ),
        Cause(
            place_taken,
            *("widget/green", "ForeignObjectExists", "ask the provider to hand it over"),
            "rename one of the two objects",
        ),
        Cause(
            finalizer_remaining,
            *("widget/blue", "Deleting", "finalizers hold it: audit.example.org/hook (since 20"),
            "wait, or ask the team that runs its controller",
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


async def test_explain_tells_of_the_warning_about_a_claimed_secret(
    world: World, tmp_path: Path
) -> None:
    """Both sides have one of its name, so that neither is copied."""
    link = await _well(world)
    here, there = "default", await link.provider_namespace()
    await world.provider.create(SECRETS, secret("green-origin", there, a="theirs"))
    await world.consumer.create(SECRETS, secret("green-origin", here, a="ours"))
    await world.consumer.create(WIDGETS, widget("green"))
    await link.says(Conflicts="True", Ready="True")
    await event(world.consumer, here, "OwnerUnknown")
    _, _, told = await fairlead(world.consumer_plane, tmp_path, "explain", "secret/green-origin")
    assert "Secret default/green-origin: warned " in told
    assert "ago of OwnerUnknown: " in told


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
        pytest.param(422, POLICY, "correct the fields of the objects", id="policy"),
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


STUCK: JSON = {
    "type": "Progressing",
    "status": "False",
    "reason": "ProgressDeadlineExceeded",
    "message": 'ReplicaSet "stuck-77" has timed out progressing.',
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "lastUpdateTime": "2026-01-01T00:00:00Z",
}


@asynccontextmanager
async def rival(team: Team, name: str) -> AsyncIterator[None]:
    """Another program that takes all volumes from a Deployment while the block runs."""

    async def undo() -> None:
        while True:
            body = await team.when(DEPLOYMENTS, name, lambda body: "volumes" in pod(body))
            del pod(body)["volumes"], pod(body)["containers"][0]["volumeMounts"]
            try:
                await team.admin.update(DEPLOYMENTS, body)
            except Conflict:
                continue

    task = asyncio.create_task(undo())
    try:
        yield
    finally:
        task.cancel()


async def test_explain_names_the_part_of_a_workload_that_is_amiss(tmp_path: Path) -> None:
    deployments: JSON = {"apiVersion": "apps/v1", "kind": "Deployment"}
    workloads: dict[str, tuple[JSON, str, str, str]] = {
        "unserved": (
            {"apiVersion": "rollouts.example.org/v1", "kind": "Rollout", "name": "web"},
            *("ApplicationNotFound", "the cluster does not know Rollout", "install its CRD"),
        ),
        "unselected": (
            {**deployments, "selector": {"matchLabels": {"app": "wbe"}}},
            *("ApplicationNotFound", "by the selector app=wbe: selects", "correct the selector"),
        ),
        "uncontained": (
            {**deployments, "name": "web", "containers": ["ap"]},
            *("NotProjected", "has the name ap of spec.workload.containers; there are app"),
            "correct spec.workload.containers",
        ),
        "undone": (
            {**deployments, "name": "undone"},
            *("WriteUndone", "another writer keeps changing", "have the program"),
        ),
        "stuck": (
            {**deployments, "name": "stuck"},
            *("RolloutStuck", "(since 2026-01-01T00:00:00Z)", "see why the new Pods"),
        ),
    }
    async with Sandbox(name="app") as plane, administrator(plane) as admin, binding(admin):
        team = await Team.arrive(admin)
        for name in ("web", "undone", "stuck"):
            await team.deployment(name)
        async with rival(team, "undone"):
            for name, (workload, *_) in workloads.items():
                await team.create(SERVICEBINDINGS, name, spec=bind(workload=workload))
            for name in ("unserved", "unselected"):
                await team.says(name, "InjectionReady", "False", "ApplicationNotFound")
            await team.says("uncontained", "Ready", "True", "ApplicationsBound")
            await team.says("stuck", "Ready", "True", "ApplicationsBound")
            found = (await admin.get(DEPLOYMENTS, "stuck", team.namespace)).to_dict()
            generation = found["metadata"]["generation"]
            status: JSON = {"observedGeneration": generation, "conditions": [STUCK]}
            patch: JSON = {"status": status}
            await team.patch(DEPLOYMENTS, "stuck", patch, subresource="status")
            await team.says("undone", "InjectionReady", "False", "WriteUndone")

            async def explained(name: str) -> tuple[int, str]:
                target = f"servicebinding/{name}"
                command = ("explain", target, "-n", team.namespace)
                code, out, _ = await fairlead(plane, tmp_path, *command)
                return code, out

            answers = await asyncio.gather(*map(explained, workloads))
        rows = zip(workloads.items(), answers, strict=True)
        for (name, (_, reason, message, remedy)), (code, out) in rows:
            head, *rest, last = out.splitlines()
            assert (code, head.rpartition(": ")[2]) == (1, reason), name
            assert message in "\n".join(rest), out
            assert last.startswith(f"next: {remedy}"), out
