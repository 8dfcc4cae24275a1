"""``fairlead explain``: from a workload to a role, broken at the server, and mended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.e2e.postgres.test_secrets import OPTIONS, world
from tests.support.pgworld import World, grant
from tests.support.postgres import running

from fairlead.api.links import Chain, Link
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import CONFIGMAPS, DEPLOYMENTS, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.app import install_crds
from fairlead.explain.explaining import Explanation, explain
from fairlead.explain.targets import UnknownTargetError, parse_target
from fairlead.postgres.commands.explain import explain as explain_access
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.options import DEFAULT_NAMESPACE


__all__ = ["world"]


@pytest.fixture
async def bound(world: World) -> AsyncIterator[str]:
    """An access, and a binding that gives it to a Deployment."""
    await install_crds(world.admin)
    name = world.name()
    kind, version = POSTGRESACCESSES.kind, POSTGRESACCESSES.api_version
    spec: JSON = {
        "service": {"apiVersion": version, "kind": kind, "name": name},
        "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    }
    binding: JSON = {
        "apiVersion": SERVICEBINDINGS.api_version,
        "kind": SERVICEBINDINGS.kind,
        "metadata": {"name": "db", "namespace": world.namespace},
        "spec": spec,
    }
    labels = {"app": "web"}
    pod: JSON = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    }
    deployment: JSON = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": world.namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    await world.admin.create(DEPLOYMENTS, deployment)
    await world.admin.create(SERVICEBINDINGS, binding)
    yield name
    await world.admin.delete(SERVICEBINDINGS, "db", world.namespace)


async def look(world: World, target: str) -> Explanation:
    return await explain(world.admin, parse_target(target), world.namespace, DEFAULT_NAMESPACE)


async def one(world: World, target: str) -> Chain:
    (chain,) = (await look(world, target)).chains
    return chain


def link(chain: Chain, name: str) -> Link:
    (found,) = [one for one in chain.links if one.name == name]
    return found


async def test_the_chain_ends_with_what_helps_at_the_server(world: World, bound: str) -> None:
    async with running(world.admin, OPTIONS):
        other = await world.create("other", grants=[grant(world.database, "CONNECT")])
        await world.ready(other)
        await world.create(username=other, grants=[grant(world.database, "CONNECT")])
        await world.wait(bound, lambda body: "UsernameConflict" in str(body.get("status")))
    around = await Surroundings.of(world.admin, DEFAULT_NAMESPACE)
    told = await explain_access(around, bound, world.namespace)
    for target in ("deployment/web", "servicebinding/db", f"postgresaccess/{bound}"):
        chain = await one(world, target)
        assert (chain.broken, chain.reason) == ("role", "UsernameConflict"), target
        assert chain.next_step == told.next_step
        assert link(chain, "service").state == "waiting"
        assert link(chain, "role").since.endswith("Z")
    # The older command of the binding ends with the same words.
    web = parse_target("deployment/web")
    (older,) = (
        await explain(world.admin, web, world.namespace, DEFAULT_NAMESPACE, bindings_only=True)
    ).chains
    assert older.next_step == told.next_step

    await world.patch(other, suspend=False)
    async with running(world.admin, OPTIONS):
        await world.delete(bound)
        await world.gone(bound)
        await world.create(grants=[grant(world.database, "CONNECT")])
        await world.ready(bound)
        for target in (f"postgresaccess/{bound}", f"secret/{bound}-login"):
            chain = await one(world, target)
            assert (chain.ready, chain.broken, chain.next_step) == (True, None, "")
            assert {found.name for found in chain.links} == {"Secret", "service", "role"}
            assert {found.state for found in chain.links} == {"ok"}
        # The binding's own controller does not run.
        assert (await one(world, "deployment/web")).broken == "binding"
        password = (await world.secret(bound))["password"]
        assert password not in repr(await look(world, "deployment/web"))


async def test_what_is_not_there(world: World, bound: str) -> None:
    with pytest.raises(UnknownTargetError, match=r"PostgresAccess .*/none does not exist"):
        await look(world, "postgresaccess/none")
    with pytest.raises(UnknownTargetError, match=r"Secret .*/none does not exist"):
        await look(world, "secret/none")
    await world.admin.create(
        CONFIGMAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}},
        world.namespace,
    )
    for target, message in {
        "statefulset/none": rf"StatefulSet {world.namespace}/none does not exist$",
        "deployment/wep": r"Deployment .*/wep does not exist; did you mean web\?",
        "deploymnt/web": r"does not know the kind deploymnt; did you mean deployment/web\?",
        "configmap/shop": r"ConfigMap .*/shop is no workload and no service: name a workload",
    }.items():
        with pytest.raises(UnknownTargetError, match=message):
            await look(world, target)
    with pytest.raises(UnknownTargetError, match=r"namespace elsewhere does not exist; name an"):
        await explain(world.admin, parse_target("deployment/web"), "elsewhere", DEFAULT_NAMESPACE)
    chain = await one(world, "servicebinding/db")
    assert (chain.broken, chain.reason) == ("service", "ServiceNotFound")
    assert bound in chain.message


async def test_a_strangers_secret_is_the_link_that_failed(world: World, bound: str) -> None:
    name = f"{bound}-login"
    stranger: JSON = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    await world.admin.create(SECRETS, stranger, world.namespace)
    async with running(world.admin, OPTIONS):
        await world.create(grants=[grant(world.database, "CONNECT")])
        await world.wait(bound, lambda body: "SecretConflict" in str(body.get("status")))
    for target in (f"secret/{name}", f"postgresaccess/{bound}"):
        chain = await one(world, target)
        assert (chain.broken, chain.reason) == ("Secret", "SecretConflict"), target
        assert link(chain, "Secret").state == "failed"
        assert link(chain, "Secret").since.endswith("Z")
        assert link(chain, "role").state == "waiting"
        assert "delete the Secret" in chain.next_step
