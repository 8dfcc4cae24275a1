"""``fairlead binding explain``: along the chain as it is made, broken at each link."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.binding import DATABASES, Team, bind, condition, encoded, running
from tests.support.commands import fairlead
from tests.support.konnector import WIDGETS, World, widget
from tests.support.waiting import eventually

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.links import Chain
from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding import bounds
from fairlead.binding.app import install_crds
from fairlead.client import Client
from fairlead.explain.explaining import Explanation, explain
from fairlead.explain.targets import parse_target
from fairlead.konnector.commands.overview.links import origin_of
from fairlead.postgres.options import DEFAULT_NAMESPACE


DATABASE = {"apiVersion": DATABASES.api_version, "kind": "Database", "name": "db"}


@pytest.fixture
async def team(admin: Client) -> Team:
    return await Team.arrive(admin, login=False)


async def explained(client: Client, team: Team, target: str) -> Explanation:
    return await explain(
        client, parse_target(target), team.namespace, DEFAULT_NAMESPACE, bindings_only=True
    )


async def one(team: Team, target: str = "servicebinding/db") -> Chain:
    (found,) = (await explained(team.admin, team, target)).chains
    return found


def states(found: Chain) -> dict[str, str]:
    return {link.name: link.state for link in found.links}


async def test_link_by_link(team: Team) -> None:
    await team.create(SERVICEBINDINGS, "db", spec=bind(service=DATABASE))
    found = await one(team)
    assert (found.broken, found.reason) == ("service", "ServiceNotFound")
    assert states(found) == {"workload": "failed", "binding": "waiting", "service": "failed"}
    assert "create the service" in found.next_step

    await team.create(DATABASES, "db", spec={})
    found = await one(team)
    assert (found.broken, found.reason) == ("workload", "ApplicationNotFound")
    await team.deployment("web")
    found = await one(team, "deployment/web")
    assert found.links[-1].reason == "ServiceMissingBinding"
    assert states(found)["workload"] == "waiting"

    status = {"status": {"binding": {"name": "login"}}}
    await team.patch(DATABASES, "db", status, subresource="status")
    found = await one(team, "deploy/web")
    assert (found.broken, found.reason) == ("Secret", "ErrorReadingSecret")
    await team.create(SECRETS, "login", data=encoded(type="postgresql", password="s3cret"))
    # No controller runs yet.
    found = await one(team)
    assert (found.broken, found.reason) == ("binding", "Unseen")
    assert states(found) == {
        "workload": "waiting", "binding": "waiting", "Secret": "ok", "service": "ok",
    }  # fmt: skip

    async with running(team.admin):
        await team.says("db", "Ready", "True", "ApplicationsBound")
        for target in ("", "deployment/web", "deployments.apps/web", "sbr/db"):
            found = await one(team, target)
            assert (found.ready, found.broken, found.next_step) == (True, None, "")
            assert set(states(found).values()) == {"ok"}
        assert "at /bindings/db" in found.links[0].about
        assert "s3cret" not in repr(found)

    # Somebody takes the projection away while nobody is at work.
    bare: JSON = {"metadata": {"annotations": None}}
    await team.patch(DEPLOYMENTS, "web", bare)
    assert states(await one(team))["workload"] == "unknown"
    await team.delete(SECRETS, "login")
    assert (await one(team)).broken == "Secret"


async def test_pods_that_are_refused_after_the_write_are_told(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a Deployment's controller says then is in its status alone."""
    monkeypatch.setattr(bounds, "ROLLOUT_SECONDS", 0.1)
    await team.deployment("web")
    await team.create(SECRETS, "login", data=encoded(type="postgresql", password="s3cret"))

    async def say(type_: str, reason: str, message: str) -> None:
        found = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
        condition = {"type": type_, "status": "True", "reason": reason, "message": message}
        status = {"observedGeneration": found.meta.generation, "conditions": [condition]}
        await team.patch(DEPLOYMENTS, "web", {"status": status}, subresource="status")

    async with running(team.admin):
        await team.create(SERVICEBINDINGS, "db", spec=bind())
        await team.says("db", "Ready", "True", "ApplicationsBound")
        await say("ReplicaFailure", "FailedCreate", "a policy denied request: no secretKeyRef")
        body = await team.says(
            "db", "RolloutFailing", "True", "PodsRefused", text="no secretKeyRef"
        )
        assert condition(body, "Ready")["status"] == "True"
        found = await one(team)
        assert (found.ready, found.broken, found.reason) == (False, "workload", "PodsRefused")
        assert "no secretKeyRef" in found.message
        await say("Progressing", "NewReplicaSetAvailable", "has successfully progressed")
        await team.when(SERVICEBINDINGS, "db", lambda body: not condition(body, "RolloutFailing"))
        assert (await one(team)).ready


async def test_a_service_that_kube_bind_brings(world: World, tmp_path: Path) -> None:
    konnector = await world.konnector()
    await world.bound()
    consumer = world.consumer
    await install_crds(consumer)
    await consumer.create(WIDGETS, widget("blue"))
    service = {"apiVersion": "example.org/v1", "kind": "Widget", "name": "blue"}
    body: JSON = {
        "apiVersion": SERVICEBINDINGS.api_version,
        "kind": SERVICEBINDINGS.kind,
        "metadata": {"name": "db", "namespace": "default"},
        "spec": bind(service=service),
    }
    await consumer.create(SERVICEBINDINGS, body)

    async def in_sync() -> bool:
        found = await consumer.get(WIDGETS, "blue", "default")
        origin = await origin_of(consumer, WIDGETS, found)
        return origin is not None and origin.links[0].state == "ok"

    await eventually(in_sync)
    run = ("binding", "explain", "-n", "default", "--json")
    code, out, err = await fairlead(world.consumer_plane, tmp_path, *run)
    assert code == 1, err
    (chain,) = json.loads(out)["chains"]
    provider = chain["links"][-1]
    assert (provider["name"], provider["state"]) == ("provider", "ok")
    assert "by APIServiceBinding widgets" in provider["object"]

    for target in ("widget/blue", "widgets.example.org/blue", "apiservicebinding/widgets"):
        code, out, err = await fairlead(
            world.consumer_plane, tmp_path, "explain", target, "-n", "default", "--json"
        )
        assert code == 0, err
        (told,) = json.loads(out)["chains"]
        assert told["links"][-1]["name"] == "provider"
        assert {one["state"] for one in told["links"]} == {"ok"}

    await konnector.stop()
    await consumer.create(WIDGETS, widget("green"))
    green = await consumer.get(WIDGETS, "green", "default")
    origin = await origin_of(consumer, WIDGETS, green)
    assert origin is not None
    (link,) = origin.links
    assert (link.state, link.reason, origin.copy) == ("waiting", "NotCopied", None)
    deployment = await origin_of(consumer, DEPLOYMENTS, green)
    assert deployment is None
    # A provider that cannot be asked is told of, and the rest of the chain too.
    bound = await consumer.get(APISERVICEBINDINGS, "widgets")
    reference = bound.to_dict()["spec"]["kubeconfigSecretRef"]
    await consumer.delete(SECRETS, reference["name"], reference["namespace"])
    code, out, _ = await fairlead(world.consumer_plane, tmp_path, *run)
    (chain,) = json.loads(out)["chains"]
    assert (code, chain["broken"], chain["reason"]) == (1, "provider", "KubeconfigSecretInvalid")
    code, out, _ = await fairlead(
        world.consumer_plane, tmp_path, "explain", "widget/blue", "-n", "default"
    )
    assert code == 1
    assert "next: restore the Secret" in out
