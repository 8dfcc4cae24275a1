"""Programs beside admission policies of Kubernetes: refused by them, and changed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.support.binding import Team, bind, pod
from tests.support.binding import prepare as prepare_binding
from tests.support.binding import running as binding_at_work
from tests.support.konnector import World as Crossing
from tests.support.pgworld import World
from tests.support.planes import RealControlPlane
from tests.support.policies import policy, refusing, rules, setting
from tests.support.postgres import prepare, running
from tests.support.realplane import RealPlane
from tests.support.tiers import today
from tests.support.waiting import condition, failed_with, idle, when

from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, DEPLOYMENTS, SECRETS, Resource
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import ApiError, Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.options import PostgresOptions


pytestmark = [pytest.mark.needs_control_plane, pytest.mark.edge, today("no policies")]

OPTIONS = PostgresOptions(pending_interval=0.5, synced_interval=0.5)
BLUE = "Object{metadata: Object.metadata{labels: {'colour': 'blue'}}}"
_PODS = "Object.spec.template.spec"
_VOLUMES = (
    "object.spec.template.spec.?volumes.orValue([]).filter(v, has(v.secret)).map(v, "
    f"{_PODS}.volumes{{name: v.name, secret: {_PODS}.volumes.secret{{optional: false}}}})"
)
_CONTAINERS = (
    f"object.spec.template.spec.containers.map(c, {_PODS}.containers{{name: c.name, "
    "volumeMounts: c.?volumeMounts.orValue([]).map(m, "
    f"{_PODS}.containers.volumeMounts{{mountPath: m.mountPath, name: m.name, readOnly: true}})}})"
)
FILLING_IN = (
    f"object.kind == 'ConfigMap' ? {BLUE.replace('blue', 'green')} : "
    "Object{spec: Object.spec{template: "
    f"Object.spec.template{{spec: {_PODS}{{volumes: {_VOLUMES}, containers: {_CONTAINERS}}}}}}}}}"
)
"""Makes ConfigMaps green, Secrets of volumes required and mounts read-only."""


@pytest.fixture
async def admin(realplane: RealPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(RealControlPlane(realplane).kubeconfig())) as client:
        yield client


async def _denied(client: Client, resource: Resource, body: JSON, namespace: str) -> bool:
    try:
        await client.create(resource, body, namespace, dry_run=True)
    except ApiError:
        return True
    return False


async def _blue(
    client: Client, resource: Resource, body: JSON, namespace: str, colour: str = "blue"
) -> bool:
    made = await client.create(resource, body, namespace, dry_run=True)
    return made.meta.labels.get("colour") == colour


async def test_a_login_beside_policies(admin: Client, postgres: EmbeddedPostgres) -> None:
    """What a policy adds to the Secret stays; what it refuses is told, and made once it may."""
    await prepare(admin)
    world = World(admin, postgres, is_real=True)
    await world.arrive()
    await world.create_database()
    secret: JSON = {"metadata": {"name": "no"}}
    no = refusing("object.metadata.name != 'no'", "call it something else")
    async with running(admin, OPTIONS):
        async with policy(
            admin, world.namespace, rules("secrets"), setting(BLUE),
            lambda: _blue(admin, SECRETS, secret, world.namespace),
        ):  # fmt: skip
            name = await world.create()
            await world.ready(name)
            made = await admin.get(SECRETS, f"{name}-login", world.namespace)
            assert made.meta.labels["colour"] == "blue"
            assert await idle(2.0)
            after = await admin.get(SECRETS, f"{name}-login", world.namespace)
            assert after.meta.resource_version == made.meta.resource_version
        async with policy(
            admin, world.namespace, rules("secrets"), no,
            lambda: _denied(admin, SECRETS, secret, world.namespace),
        ) as refuser:  # fmt: skip
            refused = await world.create("refused", generatedSecret="no")
            body = await world.wait(refused, failed_with("SecretSyncFailed"))
            message = condition(body, "Ready")["message"]
            assert refuser in message
            assert "call it something else" in message
        await world.ready(refused)
        await world.leave()


async def test_a_binding_beside_policies(admin: Client) -> None:
    await prepare_binding(admin)
    async with binding_at_work(admin):
        team = await Team.arrive(admin)
        await team.deployment("web")
        bare: JSON = {"metadata": {"name": "a", "labels": {"policy": "1"}}}
        configmap = rules("configmaps")
        deployments = rules("deployments", group="apps")
        plain = refusing(
            "object.kind == 'ConfigMap' ? !has(object.metadata.labels) : "
            "!has(object.spec.template.spec.volumes)",
            "volumes are not for everyone",
        )
        async with policy(
            admin, team.namespace, [*configmap, *deployments], plain,
            lambda: _denied(admin, CONFIGMAPS, bare, team.namespace),
        ) as refuser:  # fmt: skip
            await team.create(SERVICEBINDINGS, "db", spec=bind())
            body = await team.when(
                SERVICEBINDINGS,
                "db",
                lambda body: "volumes are not" in condition(body, "Ready").get("message", ""),
            )
            assert condition(body, "Ready")["status"] == "False"
            assert refuser in condition(body, "Ready")["message"]
        await team.when(
            SERVICEBINDINGS, "db", lambda body: condition(body, "Ready").get("status") == "True"
        )
        async with policy(
            admin, team.namespace, [*configmap, *deployments], setting(BLUE),
            lambda: _blue(admin, CONFIGMAPS, bare, team.namespace),
        ):  # fmt: skip
            await team.patch(SERVICEBINDINGS, "db", {"spec": {"name": "other"}})
            changed = await team.when(
                DEPLOYMENTS,
                "web",
                lambda body: (body["metadata"].get("labels") or {}).get("colour") == "blue",
            )
            assert await idle(1.0)
            after = await admin.get(DEPLOYMENTS, "web", team.namespace)
            assert after.meta.generation <= changed["metadata"]["generation"] + 1
        async with policy(
            admin, team.namespace, [*configmap, *deployments], setting(FILLING_IN),
            lambda: _blue(admin, CONFIGMAPS, bare, team.namespace, "green"),
        ):  # fmt: skip
            await team.patch(SERVICEBINDINGS, "db", {"spec": {"name": "third"}})
            filled = await team.when(DEPLOYMENTS, "web", _is_filled_in)
            # The next pass finds its own items as the policy has left them.
            await team.patch(SERVICEBINDINGS, "db", {"metadata": {"annotations": {"look": "1"}}})
            assert await idle(1.0)
            after = await admin.get(DEPLOYMENTS, "web", team.namespace)
            assert after.meta.generation == filled["metadata"]["generation"]
            await team.says("db", "Ready", "True", "ApplicationsBound")
            await team.delete(SERVICEBINDINGS, "db")
            await team.when(SERVICEBINDINGS, "db", lambda body: not body)
            left = pod((await admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict())
            assert not left.get("volumes")
            assert not left["containers"][0].get("volumeMounts")


def _is_filled_in(body: JSON) -> bool:
    volumes = pod(body).get("volumes") or []
    mounts = pod(body)["containers"][0].get("volumeMounts") or []
    return [(one["name"], one["secret"].get("optional")) for one in volumes] == [
        ("third", False)
    ] and [one.get("readOnly") for one in mounts] == [True]


@pytest.mark.parametrize("provider_world", ["provider"], indirect=True, ids=["real-provider"])
async def test_objects_cross_beside_policies(provider_world: Crossing) -> None:
    world = provider_world
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(world.widgets, world.widget("good"))
    there = await link.provider_namespace()
    group = world.widgets.group
    trial: JSON = {**world.widget("trial", colour="red"), "metadata": {"name": "trial"}}
    only = refusing("object.spec.?colour.orValue('') != 'red'", "red is for the fire brigade")
    async with policy(
        world.provider, there, rules("widgets", group=group), only,
        lambda: _denied(world.provider, world.widgets, trial, there),
    ):  # fmt: skip
        await world.consumer.create(world.widgets, world.widget("red", colour="red"))
        told = await link.condition("ObjectsFailing", lambda one: "red is for" in str(one))
        assert "Widget default/red" in told["message"]
        await world.consumer.create(world.widgets, world.widget("beside"))
        await when(world.provider, world.widgets, "beside", there, until=bool)
    await when(world.provider, world.widgets, "red", there, until=bool)
    await link.condition("ObjectsFailing", lambda one: not one)
    async with policy(
        world.provider, there, rules("widgets", group=group), setting(BLUE),
        lambda: _blue(world.provider, world.widgets, trial, there),
    ):  # fmt: skip
        patch: JSON = {"spec": {"colour": "green"}}
        await world.consumer.merge_patch(world.widgets, "beside", "default", patch)
        copy = await when(
            world.provider,
            world.widgets,
            "beside",
            there,
            until=lambda body: body["spec"].get("colour") == "green",
        )
        assert copy["metadata"]["labels"]["colour"] == "blue"
        assert await idle(1.0)
        after = await world.provider.get(world.widgets, "beside", there)
        assert after.meta.resource_version == copy["metadata"]["resourceVersion"]
