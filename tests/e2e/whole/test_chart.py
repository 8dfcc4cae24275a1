"""Releases of the chart: installed, upgraded, rolled back, and uninstalled with its hooks."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.documents import Person, blocks, section
from tests.support.e2e import Database, link
from tests.support.helm import (
    CHART,
    MISSING,
    NAMESPACE,
    PROGRAMS,
    RELEASE,
    Helm,
    by_identity,
    program,
)
from tests.support.image import ROOT
from tests.support.kubectl import MISSING as NO_KUBECTL
from tests.support.kubectl import kubectls
from tests.support.node import Node, node
from tests.support.pairs import fresh_planes
from tests.support.postgres import access
from tests.support.tiers import real
from tests.support.waiting import eventually, gone, is_ready, when

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICEEXPORTTEMPLATES
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import (
    CLUSTERROLES,
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    MUTATINGWEBHOOKCONFIGURATIONS,
    NAMESPACES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo import objects
from fairlead.demo.identity import create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.konnector.commands.unbind import unbind
from fairlead.konnector.manifests import manifests as konnector_manifests
from fairlead.konnector.rights import konnector_role_name


pytestmark = [pytest.mark.extended, pytest.mark.skipif(not program("helm"), reason=MISSING)]
KINDS = pytest.mark.parametrize("kind", ["sandbox", real("real")])
PAGE = ROOT / "docs" / "reference" / "chart.md"
CONSUMER: JSON = {"konnector": {"enabled": True}, "binding": {"enabled": True}}
PROVIDER: JSON = {
    "provider": {"enabled": True, "exports": [f"postgresaccesses.{objects.ACCESS_GROUP}"]},
    "postgres": {"enabled": True, "exported": True},
}


class Cluster:
    """A control plane with a node, and Helm for it."""

    def __init__(self, admin: Client, kubeconfig: bytes, helm: Helm, worker: Node) -> None:
        self.admin = admin
        self.kubeconfig = kubeconfig
        self.helm = helm
        self.node = worker

    async def install(self, values: JSON) -> str:
        return await self.helm.does(
            "upgrade", "--install", RELEASE, str(CHART), *NAMESPACE, values=values
        )

    async def running(self, *names: str) -> None:
        """Wait until what a Deployment asks for now is available."""

        def available(body: JSON) -> bool:
            status = body.get("status", {})
            fresh = status.get("observedGeneration") == body.get("metadata", {}).get("generation")
            return bool(fresh and status.get("availableReplicas"))

        for name in names:
            namespace, deployment = PROGRAMS[name]
            await when(self.admin, DEPLOYMENTS, deployment, namespace, until=available)

    async def there(self, resource: Resource, name: str, namespace: str = "") -> bool:
        listed = await self.admin.list(resource, namespace)
        return name in {one.meta.name for one in listed.items}


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def clusters(
    request: pytest.FixtureRequest, stack: AsyncExitStack, kind: str, folder: Path, *names: str
) -> list[Cluster]:
    if kind == "real":
        request.getfixturevalue("real_programs")
    found = []
    for name, plane in zip(
        names, await stack.enter_async_context(fresh_planes(kind, *names)), strict=True
    ):
        place = folder / name
        place.mkdir()
        kubeconfig = plane.kubeconfig()
        admin = await stack.enter_async_context(Client(parse_kubeconfig(kubeconfig)))
        worker = await stack.enter_async_context(node(admin, place / "node"))
        found.append(Cluster(admin, kubeconfig, Helm(place, kubeconfig), worker))
    return found


@KINDS
async def test_each_program_starts_with_what_is_rendered(
    kind: str, request: pytest.FixtureRequest, stack: AsyncExitStack, tmp_path: Path
) -> None:
    (cluster,) = await clusters(request, stack, kind, tmp_path, "all")
    values = everything(budgets=kind == "real")
    notes = await cluster.install(values)
    for said in ("fairlead bind -f INVITATION.json", "fairlead provider invite TEAM", "https://"):
        assert said in notes
    await cluster.running(*PROGRAMS)

    # The program writes whom API servers trust, and an upgrade leaves that alone.
    trusted = await when(
        cluster.admin, MUTATINGWEBHOOKCONFIGURATIONS, "fairlead-binding", until=_bundles
    )
    await cluster.install({**values, "labels": {"team": "platform"}})
    await cluster.running(*PROGRAMS)
    found = await cluster.admin.get(MUTATINGWEBHOOKCONFIGURATIONS, "fairlead-binding")
    assert found.meta.labels["team"] == "platform"
    assert _bundles(found.to_dict()) == _bundles(trusted)

    await cluster.helm.does("uninstall", RELEASE, *NAMESPACE[:2])
    assert {one.name: one.code for one in cluster.node.jobs} == {
        f"{name}-uninstall": 0 for _, name in PROGRAMS.values()
    }
    for namespace, name in PROGRAMS.values():
        await gone(cluster.admin, DEPLOYMENTS, name, namespace)
        assert await cluster.there(NAMESPACES, namespace)
        for resource in (JOBS, SERVICEACCOUNTS):
            assert not await cluster.there(resource, f"{name}-uninstall", namespace)
    crds = await cluster.admin.list(CUSTOMRESOURCEDEFINITIONS)
    assert {"apiservicebindings.kube-bind.io", "postgresaccesses.access.k8s.delta10.nl"} <= {
        one.meta.name for one in crds.items
    }


def everything(*, budgets: bool) -> JSON:
    """Each program with all that changes how it is started."""
    values: JSON = {
        "networkPolicy": {"enabled": True},
        **{name: {"enabled": True} for name in PROGRAMS},
        **yaml.safe_load((CHART / "ci" / "provider.yaml").read_text()),
    }
    values["binding"]["webhooks"] = {"enabled": True, "project": ["jobs.batch"]}
    for name in PROGRAMS:
        values[name]["podDisruptionBudget"] = {"enabled": budgets}
    return values


def _bundles(configuration: JSON) -> list[str]:
    """What each webhook's server is trusted by, once all have it."""
    hooks = [hook["clientConfig"].get("caBundle") for hook in configuration.get("webhooks", [])]
    return hooks if all(hooks) else []


@pytest.mark.parametrize("version", ["helm", "helm4"])
async def test_a_hook_that_is_applied_plainly_takes_nothing(
    version: str, request: pytest.FixtureRequest, stack: AsyncExitStack, tmp_path: Path
) -> None:
    (cluster,) = await clusters(request, stack, "sandbox", tmp_path, "plain")
    cluster.helm = Helm(tmp_path / "plain", cluster.kubeconfig, version)
    values: JSON = {"binding": {"enabled": True, "webhooks": {"enabled": True}}}
    await cluster.install(values)
    await cluster.running("binding")
    configuration = (MUTATINGWEBHOOKCONFIGURATIONS, "fairlead-binding")
    await when(cluster.admin, *configuration, until=_bundles)

    plain = by_identity(cluster.helm.render(values, hooks=True))
    for key, body in plain.items():
        if key not in by_identity(cluster.helm.render(values)):
            resource = await cluster.admin.discovery.resource_for(body["apiVersion"], body["kind"])
            await cluster.admin.create(resource, body, body["metadata"].get("namespace", ""))

    async def has_run() -> bool:
        return bool(cluster.node.jobs)

    await eventually(has_run)
    (ran,) = cluster.node.jobs
    assert ran.code == 0
    assert "nothing is done: Helm does not uninstall release fairlead: its last" in ran.said
    assert _bundles((await cluster.admin.get(*configuration)).to_dict())

    # Helm replaces what was applied, and its own Job does the work.
    await cluster.helm.does("uninstall", RELEASE, *NAMESPACE[:2])
    assert cluster.node.jobs[-1].code == 0
    assert "deleted MutatingWebhookConfiguration fairlead-binding" in cluster.node.jobs[-1].said
    assert not await cluster.there(*configuration)


class Story:
    """The demo's objects on two clusters, whose programs are releases of the chart."""

    def __init__(self, provider: Cluster, consumer: Cluster, database: Database) -> None:
        self.provider = provider
        self.consumer = consumer
        self.database = database

    async def begin(self) -> None:
        await self.provider.install(PROVIDER)
        await self.consumer.install(CONSUMER)
        await self.provider.running("provider", "postgres")
        await self.consumer.running("konnector", "binding")
        await self.database.create()
        await self.database.offer(self.provider.admin)
        await self.provider.admin.create(APISERVICEEXPORTTEMPLATES, objects.template())
        await self.consumer.admin.create(NAMESPACES, objects.namespace())
        self.link = await link(self.consumer.admin, self.provider.admin, objects.TEMPLATE)
        await self.link.bind()

    async def order(self, name: str) -> None:
        """What an app team writes, until the app has its login and the database takes it."""
        admin, namespace = self.consumer.admin, objects.NAMESPACE
        grants = [
            {
                "database": self.database.name,
                "schema": "public",
                "privileges": ["CONNECT", "SELECT"],
            }
        ]
        wanted: dict[str, Any] = {
            "username": name,
            "generatedSecret": f"{name}-login",
            "grants": grants,
        }
        await admin.create(POSTGRESACCESSES, access(name, namespace, "main", **wanted))
        await admin.create(DEPLOYMENTS, objects.deployment(name=name))
        await admin.create(SERVICEBINDINGS, objects.binding(name=name, access_name=name))
        await when(admin, SERVICEBINDINGS, name, namespace, until=is_ready)
        await self.works(name)

    async def works(self, name: str) -> None:
        """Wait until the login in the app's Secret opens the database."""

        async def opens() -> bool:
            secret = await self.consumer.admin.get(SECRETS, f"{name}-login", objects.NAMESPACE)
            uri = base64.b64decode(secret.to_dict()["data"]["uri"]).decode()
            return await self.database.logs_in(uri) == name

        await eventually(opens)

    async def end(self, name: str) -> None:
        admin, namespace = self.consumer.admin, objects.NAMESPACE
        for resource in (SERVICEBINDINGS, POSTGRESACCESSES):
            await admin.delete(resource, name, namespace)
            await gone(admin, resource, name, namespace)


@KINDS
async def test_the_story_goes_on_through_upgrade_and_rollback_and_ends_in_order(
    kind: str,
    request: pytest.FixtureRequest,
    stack: AsyncExitStack,
    tmp_path: Path,
    postgres: EmbeddedPostgres,
) -> None:
    provider, consumer = await clusters(request, stack, kind, tmp_path, "provider", "consumer")
    story = Story(provider, consumer, Database(postgres))
    await story.begin()
    names = [f"{word}_{story.database.name}" for word in ("first", "second", "third")]
    names = [name.replace("_", "-") for name in names]
    await story.order(names[0])

    # An upgrade replaces Pods; what a binding gave the konnector by aggregation is its own still.
    aggregated = await consumer.admin.get(CLUSTERROLES, "fairlead-konnector")
    assert aggregated.to_dict()["rules"]
    changed: JSON = {
        **CONSUMER,
        "konnector": {"enabled": True, "replicas": 1, "extraArgs": ["--workers=16"]},
    }
    await consumer.install(changed)
    await provider.install({**PROVIDER, "postgres": {**PROVIDER["postgres"], "replicas": 1}})
    await consumer.running("konnector", "binding")
    await provider.running("provider", "postgres")
    found = await consumer.admin.get(CLUSTERROLES, "fairlead-konnector")
    assert found.meta.resource_version == aggregated.meta.resource_version
    await story.order(names[1])

    await consumer.helm.does("rollback", RELEASE, "1", *NAMESPACE[:2])
    await consumer.running("konnector", "binding")
    deployment = (await consumer.admin.get(DEPLOYMENTS, "konnector", "kube-bind")).to_dict()
    assert deployment["spec"]["replicas"] == 2
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--workers=16" not in arguments
    for name in names[:2]:
        await story.works(name)
    await story.order(names[2])

    # While anything needs a program, its hook fails, and all of the release is there.
    for cluster, needed in ((consumer, "ServiceBinding"), (provider, "PostgresAccess")):
        refused = await cluster.helm.tell("uninstall", RELEASE, *NAMESPACE[:2])
        assert refused.code != 0
        assert "failed" in refused.err
        assert cluster.node.jobs[-1].code != 0
        ran = cluster.node.jobs[-1]
        assert needed in ran.said
        # Its log is what a person reads then.
        (namespace,) = (place for place, name in PROGRAMS.values() if ran.name.startswith(name))
        assert await cluster.there(JOBS, ran.name, namespace)
        await goes_on(cluster)
    await consumer.running("konnector", "binding")
    await provider.running("provider", "postgres")
    assert await consumer.there(APISERVICEBINDINGS, story.link.name)
    for name in names:
        await story.works(name)

    for name in names:
        await story.end(name)
    await unbind(consumer.admin, story.link.name)
    await consumer.helm.does("uninstall", RELEASE, *NAMESPACE[:2])
    assert {one.code for one in consumer.node.jobs[-2:]} == {0}
    await gone(consumer.admin, DEPLOYMENTS, "konnector", "kube-bind")
    assert not await consumer.there(CLUSTERROLES, konnector_role_name(story.link.name))
    assert await story.database.roles() & set(names) == set()


async def goes_on(cluster: Cluster) -> None:
    """Have a release that was not to be uninstalled go on, as docs/reference/chart.md says."""
    where = (RELEASE, *NAMESPACE[:2])
    said = await cluster.helm.does("history", *where, "--output=json")
    last = max(revision["revision"] for revision in json.loads(said))
    await cluster.helm.does("rollback", *where[:1], str(last), *where[1:])
    said = await cluster.helm.does("status", *where, "--output=json")
    assert json.loads(said)["info"]["status"] == "deployed"
    values = await cluster.helm.does("get", "values", *where, "--output=json")
    await cluster.install(json.loads(values))


@KINDS
@pytest.mark.skipif(not kubectls(), reason=NO_KUBECTL)
async def test_plain_manifests_become_a_release_without_being_made_anew(
    kind: str, request: pytest.FixtureRequest, stack: AsyncExitStack, tmp_path: Path
) -> None:
    (cluster,) = await clusters(request, stack, kind, tmp_path, "adopting")
    bodies = konnector_manifests(image="fairlead:0.2.0")
    await create_all(cluster.admin, bodies)
    (deployment,) = (one for one in bodies if one["kind"] == "Deployment")
    await cluster.admin.create(DEPLOYMENTS, deployment, "kube-bind")
    await cluster.running("konnector")
    kept = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
    await cluster.admin.create(CONFIGMAPS, kept, "kube-bind")

    values = {"konnector": {"enabled": True}}
    refused = await cluster.helm.tell("install", RELEASE, str(CHART), *NAMESPACE, values=values)
    assert "cannot be imported into the current release" in refused.err

    before = {}
    for body in bodies:
        resource = await cluster.admin.discovery.resource_for(body["apiVersion"], body["kind"])
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
        found = await cluster.admin.get(resource, name, namespace)
        before[resource, name, namespace] = found.meta.uid
    kubectl = str(Path(kubectls()[0].path).parent)
    path = [str(tmp_path / "adopting" / "node"), kubectl, str(Path(program("helm")).parent)]
    environment = {**cluster.helm.environment, "PATH": os.pathsep.join([*path, os.defpath])}
    person = Person(stack, ROOT, environment, lambda text: text)
    for block in blocks(section(PAGE.read_text(), "From plain manifests to the chart")):
        for command in block.commands:
            await person.do(command)
    await cluster.running("konnector")
    for (resource, name, namespace), uid in before.items():
        assert (await cluster.admin.get(resource, name, namespace)).meta.uid == uid
    await cluster.helm.does("uninstall", RELEASE, *NAMESPACE[:2])
    assert await cluster.there(CONFIGMAPS, "kept", "kube-bind")
