"""Yesterday's bindings and workloads, restored into an empty cluster."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from tests.support.backups import dump, restore
from tests.support.binding import DATA, Team, administrator, bind, encoded, mounted, pod, running
from tests.support.waiting import is_ready

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, NAMESPACES, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.workloads.records import RECORD_PREFIX
from fairlead.client import Client
from fairlead_sandbox import Sandbox


async def empty(stack: AsyncExitStack, name: str) -> Client:
    plane = await stack.enter_async_context(Sandbox(name=name))
    return await stack.enter_async_context(administrator(plane))


def is_teams(body: JSON) -> bool:
    kind: str = body.get("type", "")
    return body["metadata"]["namespace"] == "team" and not kind.startswith("kubernetes.io/")


def seen(body: JSON) -> JSON:
    """What the binding has put into the Pods, in any order."""
    container = pod(body)["containers"][0]
    env = {one["name"]: one.get("valueFrom") for one in container["env"]}
    assert len(env) == len(container["env"])
    return {"env": env, "mounts": container["volumeMounts"], "volumes": pod(body)["volumes"]}


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_workload_that_is_restored_with_its_binding_runs_on_as_it_was(
    stack: AsyncExitStack, seed: int
) -> None:
    before = await empty(stack, "before")
    await before.create(NAMESPACES, {"metadata": {"name": "team"}})
    team = Team(before, "team")
    async with running(before):
        await team.create(SECRETS, "login", data=encoded(**DATA))
        await team.deployment("web")
        env = [{"name": "HOST", "key": "host"}]
        # The name of another type needs a Secret of the binding's own.
        await team.create(SERVICEBINDINGS, "db", spec=bind(env=env, type="other"))
        await team.when(SERVICEBINDINGS, "db", is_ready)
        bound = await team.when(DEPLOYMENTS, "web", lambda body: bool(mounted(body)))
    backup = await dump(before, DEPLOYMENTS, SERVICEBINDINGS, SECRETS, only=is_teams)
    after = await empty(stack, "after")
    await after.create(NAMESPACES, {"metadata": {"name": "team"}})
    await restore(after, backup, "stripped", seed=seed)
    team = Team(after, "team")
    async with running(after):
        ready = await team.when(SERVICEBINDINGS, "db", is_ready)
        now = (await after.get(DEPLOYMENTS, "web", "team")).to_dict()
        # Once, and not twice: the record that names the former binding counts for this one.
        assert mounted(now) == mounted(bound)
        assert seen(now) == seen(bound)
        records = [one for one in now["metadata"]["annotations"] if one.startswith(RECORD_PREFIX)]
        assert records == [f"{RECORD_PREFIX}{ready['metadata']['uid']}"]
        await team.delete(SERVICEBINDINGS, "db")
        await team.when(SERVICEBINDINGS, "db", lambda body: not body)
        left = await team.when(DEPLOYMENTS, "web", lambda body: not mounted(body))
        assert not pod(left)["containers"][0].get("env")
