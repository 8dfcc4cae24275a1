"""Bindings whose controllers are killed, refused and contradicted, on a control plane."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.binding import (
    DATA,
    GROUP,
    PASSES,
    RIGS,
    Team,
    administrator,
    bind,
    condition,
    crd,
    encoded,
    mounted,
    pod,
    role,
    running,
)
from tests.support.dying import DyingClient
from tests.support.process import config_file, process
from tests.support.waiting import SECONDS, eventually, idle

from fairlead.api.manifests import READ_VERBS
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import DEPLOYMENTS, SECRETS, Resource
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.api.status import Status
from fairlead.binding.manifests import NAME
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.binding.workloads.records import RECORDED_ANNOTATION, marks
from fairlead.client import Client, Conflict
from fairlead.demo.identity import as_service_account, create_all
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


BINDINGS = (SERVICEBINDINGS, COREOS_SERVICEBINDINGS)
MANY = 200
ENV = [{"name": "DB_HOST", "key": "host"}]


def spec(workload: str) -> JSON:
    found = bind(type="own", env=ENV)
    return {**found, "workload": {**found["workload"], "name": workload}}


def coreos_spec(workload: str) -> JSON:
    return {
        "services": [{"group": "", "version": "v1", "kind": "Secret", "name": "login"}],
        "application": {"group": "apps", "version": "v1", "kind": "Deployment", "name": workload},
        "bindAsFiles": False,
    }


async def made(team: Team, name: str) -> None:
    """A workload, bound by a binding of either API."""
    await team.deployment(name)
    await team.create(SERVICEBINDINGS, name, spec=spec(name))
    await team.create(COREOS_SERVICEBINDINGS, name, spec=coreos_spec(name))


async def _listed(team: Team, resource: Resource) -> list[Object]:
    return list((await team.admin.list(resource, team.namespace)).items)


async def _own_secrets(team: Team) -> list[Object]:
    found = await _listed(team, SECRETS)
    return [one for one in found if RECORDED_ANNOTATION in one.meta.annotations]


async def _ready(team: Team, resource: Resource) -> int:
    found = [one.to_dict() for one in await _listed(team, resource)]
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True"
        for body in found
        for condition in (body.get("status") or {}).get("conditions", [])
    )


async def all_ready(team: Team, count: int) -> bool:
    return [await _ready(team, resource) for resource in BINDINGS] == [count, count]


async def none_left(team: Team) -> bool:
    return not any([await _listed(team, resource) for resource in BINDINGS])


async def bound(team: Team, count: int) -> None:
    """Each workload has what its two bindings give it, once, from Secrets that are there."""
    secrets = {one.meta.name: one for one in await _own_secrets(team)}
    uids = {one.meta.uid for resource in BINDINGS for one in await _listed(team, resource)}
    workloads = await _listed(team, DEPLOYMENTS)
    assert len(workloads) == count
    used = set()
    for one in workloads:
        body = one.to_dict()
        assert len(marks(one.meta.annotations)) == 2
        (container,) = pod(body)["containers"]
        (volume,) = pod(body)["volumes"]
        (mount,) = container["volumeMounts"]
        (source,) = container["envFrom"]
        assert mount["mountPath"] == f"/bindings/{one.meta.name}"
        variables = [item["name"] for item in container["env"]]
        assert sorted(variables) == ["DB_HOST", "SERVICE_BINDING_ROOT"]
        used |= {volume["secret"]["secretName"], source["secretRef"]["name"]}
    assert used == secrets.keys()
    assert {owner.uid for one in secrets.values() for owner in one.meta.owner_references} == uids


async def unbound(team: Team) -> None:
    """No workload has anything of a binding."""
    for one in await _listed(team, DEPLOYMENTS):
        body = one.to_dict()
        assert not marks(one.meta.annotations)
        assert not mounted(body)
        (container,) = pod(body)["containers"]
        assert not container.get("volumeMounts")
        assert not container.get("envFrom")
        assert not container.get("env")


async def _killed(team: Team, writes: int, until: Any) -> bool:
    """Run controllers that die at a write; False where they came to the end before."""
    dying: list[DyingClient] = []

    def connect(config: Any) -> Client:
        dying.append(DyingClient(config, writes=writes))
        return dying[0]

    async with running(team.admin, connect=connect):
        ends = asyncio.ensure_future(eventually(*until))
        dies = asyncio.ensure_future(dying[0].dead.wait())
        try:
            await asyncio.wait([ends, dies], return_when=asyncio.FIRST_COMPLETED, timeout=SECONDS)
            return dying[0].dead.is_set()
        finally:
            for one in (ends, dies):
                one.cancel()
            await asyncio.wait([ends, dies])


@pytest.mark.extended
async def test_killed_at_each_write_of_binding_and_unbinding() -> None:
    """On a control plane of its own, for each binding that others left would count too."""
    async with Sandbox(name="killed") as sandbox, administrator(sandbox) as admin:
        await _die_at_each_write(await Team.arrive(admin))


async def _die_at_each_write(team: Team) -> None:
    names: list[str] = []
    died = True
    while died:
        name = f"web-{len(names)}"
        names.append(name)
        await made(team, name)
        died = await _killed(team, len(names) - 1, (all_ready, team, len(names)))
        async with running(team.admin):
            await eventually(all_ready, team, len(names))
        assert len(names) < 30
    assert len(names) > 5
    await bound(team, len(names))
    left = len(names)
    for writes, name in enumerate(names):
        for resource in BINDINGS:
            await team.delete(resource, name)
        died = await _killed(team, writes, (_gone, team, name))
        async with running(team.admin):
            await eventually(_gone, team, name)
        left -= 1
        if not died:
            break
    assert left < len(names) - 2
    for name in names[len(names) - left :]:
        for resource in BINDINGS:
            await team.delete(resource, name)
    async with running(team.admin):
        await eventually(none_left, team)
    await unbound(team)


async def _gone(team: Team, name: str) -> bool:
    found = [one for resource in BINDINGS for one in await _listed(team, resource)]
    return all(one.meta.name != name for one in found)


@pytest.mark.extended
async def test_kill_nine_among_two_hundred_bindings_and_unbindings(
    team: Team, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(config_file(await as_service_account(team.admin, DEFAULT_NAMESPACE, NAME)))
    count = MANY // 2
    await asyncio.gather(*(made(team, f"web-{number}") for number in range(count)))
    for part in (count // 4, 3 * count // 4):
        async with process(file, "--install-crds=false", name="binding") as controllers:
            await eventually(_some_ready, team, part)
            controllers.kill()
            await controllers.wait()
    async with process(file, "--install-crds=false", name="binding"):
        await eventually(all_ready, team, count)
    await bound(team, count)

    for resource in BINDINGS:
        for number in range(count):
            await team.delete(resource, f"web-{number}")
    for part in (3 * count // 4, count // 4):
        async with process(file, "--install-crds=false", name="binding") as controllers:
            await eventually(_few_left, team, part)
            controllers.kill()
            await controllers.wait()
    async with process(file, "--install-crds=false", name="binding"):
        await eventually(none_left, team)
    await unbound(team)


async def test_controllers_that_start_again_find_everything_done(team: Team) -> None:
    """A former Secret that nobody can tell the readers of stays, and nothing is written for it."""
    await made(team, "web")
    await team.create(RIGS, "rig", spec={"template": {"spec": {"containers": [{"name": "app"}]}}})
    rig = {"apiVersion": RIGS.api_version, "kind": "Rig", "name": "rig"}
    await team.create(SERVICEBINDINGS, "rig", spec=bind(type="own", workload=rig))
    async with running(team.admin):
        await eventually(_mounts, team, "")
        former = mounted((await team.admin.get(RIGS, "rig", team.namespace)).to_dict())
        await team.patch(SECRETS, "login", {"data": encoded(host="moved")})
        await eventually(_mounts, team, former)
        await eventually(_few_own_secrets, team)
    assert former in {one.meta.name for one in await _own_secrets(team)}
    before = await _versions(team)
    PASSES.clear()
    async with running(team.admin):
        await eventually(_all_seen, team)
        await idle(1.0)
    assert await _versions(team) == before


async def _mounts(team: Team, former: str) -> bool:
    """Whether the rig has another Secret, and all are Ready."""
    found = await team.admin.get(RIGS, "rig", team.namespace)
    return mounted(found.to_dict()) not in {"", former} and (
        [await _ready(team, resource) for resource in BINDINGS] == [2, 1]
    )


async def _few_own_secrets(team: Team) -> bool:
    """Two of Deployments, and two of the rig."""
    return len(await _own_secrets(team)) == 4


async def _all_seen(team: Team) -> bool:
    return PASSES[team.namespace, "web"] >= 2 and PASSES[team.namespace, "rig"] >= 1


async def _versions(team: Team) -> list[str]:
    kinds = (*BINDINGS, DEPLOYMENTS, RIGS, SECRETS)
    found = [one for resource in kinds for one in await _listed(team, resource)]
    return [f"{one.kind} {one.meta.name} {one.meta.resource_version}" for one in found]


async def _some_ready(team: Team, count: int) -> bool:
    return await _ready(team, SERVICEBINDINGS) >= count


async def _few_left(team: Team, count: int) -> bool:
    return len(await _listed(team, SERVICEBINDINGS)) <= count


class Contradicting(Client):
    """Every write conflicts with somebody else's, the first time that it is tried."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: Counter[tuple[str, ...]] = Counter()

    def _check(self, verb: str, resource: Resource, *more: str) -> None:
        key = (verb, resource.group_resource, *more)
        self.seen[key] += 1
        if self.seen[key] == 1 and resource.plural != "events":
            raise Conflict(Status("Failure", "somebody was faster", "Conflict", 409))

    async def create(
        self, resource: Resource, body: Any, namespace: str = "", **options: Any
    ) -> Object:
        if resource == SECRETS:
            self._check("create", resource, body["metadata"]["name"])
        return await super().create(resource, body, namespace, **options)

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str, patch: JSON, **options: Any
    ) -> Object:
        fields = ",".join(sorted([*patch, *patch.get("metadata", {})]))
        self._check("patch", resource, name, options.get("subresource", ""), fields)
        return await super().merge_patch(resource, name, namespace, patch, **options)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> None:
        self._check("delete", resource, name)
        await super().delete(resource, name, namespace, **options)


async def test_conflicts_on_every_write(team: Team) -> None:
    clients: list[Contradicting] = []

    def connect(config: Any) -> Client:
        clients.append(Contradicting(config))
        return clients[0]

    await made(team, "web")
    async with running(team.admin, connect=connect):
        await eventually(all_ready, team, 1)
        await bound(team, 1)
        former = {one.meta.name for one in await _own_secrets(team)}
        await team.patch(SECRETS, "login", {"data": encoded(**{**DATA, "host": "other"})})
        for name in former:
            await team.when(SECRETS, name, lambda body: not body)
        await bound(team, 1)
        for resource in BINDINGS:
            await team.delete(resource, "web")
        await eventually(none_left, team)
    await unbound(team)
    writes = {(verb, what.partition(".")[0], *rest[1:2]) for verb, what, *rest in clients[0].seen}
    assert {
        ("create", "secrets"),
        ("delete", "secrets"),
        ("patch", "deployments", ""),
        ("patch", "servicebindings", ""),
        ("patch", "servicebindings", "status"),
    } <= writes


class Counting(Client):
    """Counts what is asked of the server, watches too."""

    asked = 0

    def __getattribute__(self, name: str) -> Any:
        if name in {"get", "list", "watch", "create", "update", "merge_patch", "delete"}:
            Counting.asked += 1
        return super().__getattribute__(name)


async def _forbidden(team: Team, *verbs: str) -> JSON:
    """An object of a kind with which controllers may do no more than this."""
    plural = f"things{uuid.uuid4().hex[:6]}"
    things = Resource(GROUP, "v1", plural, plural.capitalize())
    await install_crds(team.admin, [crd(things)])
    if verbs:
        await create_all(team.admin, [role(things, verbs)])
    await team.create(things, "thing", spec={"template": {"spec": {"containers": [{}]}}})
    return {"apiVersion": things.api_version, "kind": things.kind, "name": "thing"}


async def test_permanent_failures_take_less_than_a_request_a_second_each(team: Team) -> None:
    await team.deployment("web")
    await team.create(SECRETS, "untyped", data=encoded(host="db"))
    nobody = {"servicebinding.io/requester": '{"username": "nobody", "groups": []}'}
    nothing = {"apiVersion": "nothing.example.org/v1", "kind": "Nothing", "name": "x"}
    volume = {"name": "taken", "emptyDir": {}}
    taken = {"spec": {"template": {"spec": {"volumes": [volume]}}}}
    await team.patch(DEPLOYMENTS, "web", taken)
    cases: dict[str, JSON] = {
        "service-may-not-be-read": bind(service=await _forbidden(team)),
        "workload-may-not-be-read": bind(workload=await _forbidden(team)),
        "workload-may-not-be-written": bind(workload=await _forbidden(team, *READ_VERBS)),
        "kind-is-not-served": bind(service=nothing),
        "author-may-nothing": bind(),
        "no-type": bind(service={"apiVersion": "v1", "kind": "Secret", "name": "untyped"}),
        "taken": bind(),
        "wrong": bind(name=".."),
    }
    async with running(team.admin, connect=Counting):
        for name, one in cases.items():
            body = {
                "apiVersion": SERVICEBINDINGS.api_version,
                "kind": SERVICEBINDINGS.kind,
                "metadata": {
                    "name": name,
                    "namespace": team.namespace,
                    "annotations": nobody if name.startswith("author") else {},
                },
                "spec": one,
            }
            await team.admin.create(SERVICEBINDINGS, body, team.namespace)
            await team.when(SERVICEBINDINGS, name, _failed)
        before, begun = Counting.asked, time.monotonic()
        await idle(10.0)
        seconds = time.monotonic() - begun
        assert (Counting.asked - before) / len(cases) < seconds


def _failed(body: JSON) -> bool:
    return condition(body, "Ready").get("status") == "False"
