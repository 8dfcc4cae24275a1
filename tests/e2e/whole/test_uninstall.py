"""``fairlead uninstall``: clean, in use, in the wrong order, killed in the middle, and asked."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import fairlead
from tests.support.dying import DyingClient, KilledError
from tests.support.konnector import WIDGETS, World, widget
from tests.support.waiting import SECONDS, gone, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICENAMESPACES,
    BINDABLERESOURCESREQUESTS,
    FINALIZER_NAMESPACE,
    FINALIZER_SYNCER,
    consumer_crds,
    provider_crds,
)
from fairlead.api.manifests import PodProgram as Manifested
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import FINALIZER, POSTGRESACCESSES
from fairlead.api.postgresaccess import crds as access_crds
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    MUTATINGWEBHOOKCONFIGURATIONS,
    NAMESPACES,
    SECRETS,
    SERVICEACCOUNTS,
    VALIDATINGWEBHOOKCONFIGURATIONS,
    Resource,
)
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, SPEC_FINALIZER
from fairlead.api.servicebinding.spec import crds as binding_crds
from fairlead.api.status import Status
from fairlead.api.timestamps import format_micro_time, moment
from fairlead.client import (
    ApiError,
    Client,
    ClusterConfig,
    Forbidden,
    NotFound,
    ObjectList,
    parse_kubeconfig,
)
from fairlead.demo.identity import as_service_account
from fairlead.konnector.manifests import manifests as konnector_manifests
from fairlead.portal.identity.secretstore import LABEL_KIND
from fairlead.runtime import install_crds
from fairlead.uninstall import release
from fairlead.uninstall.findings import Choices, UninstallError
from fairlead.uninstall.footprints import KINDS, Program, footprint
from fairlead.uninstall.rights import hook_rights
from fairlead.uninstall.work import survey, uninstall
from fairlead_sandbox import Sandbox


CRDS: dict[Program, Callable[[], list[JSON]]] = {
    "binding": binding_crds,
    "postgres": access_crds,
    "provider": provider_crds,
    "serve": provider_crds,
}


@pytest.fixture
async def world(stack: AsyncExitStack) -> World:
    world = World(stack)
    await world.start()
    await world.konnector()
    return world


@pytest.fixture
async def alone(stack: AsyncExitStack) -> tuple[Sandbox, Client]:
    """A control plane without anything."""
    plane = await stack.enter_async_context(Sandbox(name="alone"))
    return plane, await stack.enter_async_context(Client(parse_kubeconfig(plane.kubeconfig())))


async def installed(client: Client, program: Program, namespace: str = "") -> None:
    """Apply the program's manifests, its Deployment too, which nothing runs."""
    if program in CRDS:
        await install_crds(client, CRDS[program]())
    for body in footprint(program, namespace).documents:
        meta = body["metadata"]
        await client.create(KINDS[body["kind"]], body, meta.get("namespace", ""))


async def there(client: Client, program: Program, namespace: str = "") -> list[str]:
    """What of the manifests is still there."""
    return [str(one) for one in (await survey(client, program, namespace=namespace)).installed]


def server(name: str) -> JSON:
    return {
        "apiVersion": POSTGRESSERVERS.api_version,
        "kind": POSTGRESSERVERS.kind,
        "metadata": {"name": name},
        "spec": {
            "host": "db.example.org",
            "credentialsSecretRef": {"name": "administrator"},
            "allowedNamespaces": {},
            "allowedDatabases": ["shop"],
        },
    }


async def taken(client: Client, program: Program, **choices: bool) -> list[str]:
    lines: list[str] = []
    await uninstall(
        client, program, choices=Choices(**choices), timeout=60.0, progress=lines.append
    )
    return lines


async def namespace(client: Client, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await client.create(NAMESPACES, body)


async def bound(world: World) -> str:
    """A binding with one object in a namespace of its own, synchronized; its copy's namespace."""
    link = await world.bound()
    await namespace(world.consumer, "app")
    body = widget()
    body["metadata"]["namespace"] = "app"
    await world.consumer.create(WIDGETS, body)
    copies = await link.provider_namespace("app")
    await when(world.provider, WIDGETS, "blue", copies, until=bool)
    return copies


async def deleted_first(world: World) -> None:
    """As `fairlead manifests konnector | kubectl delete -f -` does."""
    await world.one.stop()
    for body in konnector_manifests(image="fairlead"):
        meta = body["metadata"]
        try:
            await world.consumer.delete(
                KINDS[body["kind"]], meta["name"], meta.get("namespace", "")
            )
        except NotFound:
            continue
    await gone(world.consumer, NAMESPACES, "kube-bind")


@pytest.mark.parametrize("program", ["binding", "konnector", "postgres", "provider", "serve"])
async def test_a_program_that_nothing_uses_goes_in_order_and_wholly(
    alone: tuple[Sandbox, Client], tmp_path: Path, program: Program
) -> None:
    plane, client = alone
    await installed(client, program)
    before = await there(client, program)
    assert len(before) == len(footprint(program).documents)
    code, out, err = await fairlead(plane, tmp_path, "uninstall", program, "--yes", "--crds")
    assert code == 0, err
    assert out.splitlines()[-1] == f"{program} is uninstalled"
    deleted = [line.removeprefix("deleted ") for line in err.splitlines() if "deleted " in line]
    assert [one for one in deleted if not one.startswith(("Secret", "CustomRes"))] == before
    kinds = [one.split()[0] for one in before]
    if program == "binding":
        assert kinds[:2] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert kinds.index("Deployment") < kinds.index("ClusterRole") < kinds.index("ServiceAccount")
    assert kinds[-1] == "Namespace"
    assert await there(client, program) == []
    crds = {one.meta.name for one in (await client.list(CUSTOMRESOURCEDEFINITIONS)).items}
    assert not crds & set(footprint(program).crds)
    code, out, err = await fairlead(plane, tmp_path, "uninstall", program, "--yes")
    assert (code, out) == (0, f"{program} is not installed there, and nothing was removed\n"), err


async def test_bindings_are_unbound_first(world: World, tmp_path: Path) -> None:
    copies = await bound(world)
    command = ("uninstall", "konnector", "--yes")
    code, out, err = await fairlead(world.consumer_plane, tmp_path, *command)
    assert (code, out) == (1, "")
    assert "in use: APIServiceBinding widgets has 1 object with a copy\n" in err
    assert "next: `fairlead unbind widgets` takes it back" in err
    assert "nothing was taken away" in err.splitlines()[-1]
    assert not (await world.consumer.get(APISERVICEBINDINGS, "widgets")).meta.deleting
    await world.consumer.get(SERVICEACCOUNTS, "konnector", "kube-bind")
    code, _, err = await fairlead(world.consumer_plane, tmp_path, "unbind", "widgets", "--yes")
    assert code == 0, err
    await gone(world.provider, WIDGETS, "blue", copies)
    code, out, err = await fairlead(world.consumer_plane, tmp_path, *command, "--crds")
    assert code == 0, err
    await gone(world.consumer, NAMESPACES, "kube-bind")
    roles = [one.meta.name for one in (await world.consumer.list(CLUSTERROLES)).items]
    assert not [name for name in roles if "konnector" in name]


async def test_what_waits_since_the_konnector_went_first_is_let_go(
    world: World, tmp_path: Path
) -> None:
    copies = await bound(world)
    await deleted_first(world)
    await world.consumer.delete(NAMESPACES, "app")
    await when(
        world.consumer,
        NAMESPACES,
        "app",
        until=lambda body: body.get("status", {}).get("phase") == "Terminating",
    )
    plane = world.consumer_plane
    code, _, err = await fairlead(plane, tmp_path, "uninstall", "konnector", "--yes")
    assert code == 1
    assert "widgets has 1 object with a copy; for it app stays in Terminating" in err
    assert "as soon as a konnector runs again" in err
    assert "does not exist: restore the Secret, or bind again with the invitation" in err
    assert "1 copy stays at" in err
    held = await world.consumer.get(WIDGETS, "blue", "app")
    assert held.meta.finalizers == [FINALIZER_SYNCER]
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"y\n")
        code, _, err = await fairlead(
            plane, tmp_path, "uninstall", "konnector", "--orphan", stdin=theirs
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert code == 0, err
    assert "let go Widget app/blue: 1 copy stays at the provider" in err
    await gone(world.consumer, NAMESPACES, "app")
    await gone(world.consumer, APISERVICEBINDINGS, "widgets")
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)
    roles = [one.meta.name for one in (await world.consumer.list(CLUSTERROLES)).items]
    assert not [name for name in roles if name.startswith("kube-bind-")]
    assert not (await world.provider.get(WIDGETS, "blue", copies)).meta.deleting


async def test_objects_without_a_binding_are_found_by_their_finalizer(world: World) -> None:
    await bound(world)
    await deleted_first(world)
    await world.consumer.delete(APISERVICEBINDINGS, "widgets")
    cut = {"metadata": {"finalizers": None}}
    await world.consumer.merge_patch(APISERVICEBINDINGS, "widgets", "", cut)
    await when(
        world.consumer,
        WIDGETS,
        "blue",
        "app",
        until=lambda body: "deletionTimestamp" in body["metadata"],
    )
    found = await survey(world.consumer, "konnector")
    assert [use.option for use in found.uses] == ["orphan"]
    assert "Widget app/blue has the finalizer kubebind.io/syncer, and no APIService" in (
        found.uses[0].what
    )
    await taken(world.consumer, "konnector", orphan=True)
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, WIDGETS.group_resource)


async def test_it_is_finished_wherever_it_was_killed(world: World) -> None:
    await bound(world)
    await deleted_first(world)
    await installed(world.consumer, "konnector")
    kills = 0
    for writes in range(200):
        async with DyingClient(world.consumer.config, writes=writes) as client:
            try:
                await taken(client, "konnector", orphan=True, crds=True)
            except KilledError:
                kills += 1
                continue
        break
    assert kills > 3
    assert await there(world.consumer, "konnector") == []
    await gone(world.consumer, CUSTOMRESOURCEDEFINITIONS, APISERVICEBINDINGS.group_resource)


async def test_consumers_keep_the_provider(world: World, tmp_path: Path) -> None:
    link = await world.bound()
    command = ("uninstall", "provider", "--yes")
    code, out, err = await fairlead(world.provider_plane, tmp_path, *command)
    assert (code, out) == (1, "")
    assert "has 1 export and 0 objects; its konnector was heard" in err
    assert f"`fairlead provider revoke {link.cluster_namespace}` takes it away" in err
    assert "with --force: consumer team" in err
    assert "loses the rights of ClusterRole kube-binder" in err
    code, out, err = await fairlead(world.provider_plane, tmp_path, *command, "--force")
    assert code == 0, err
    assert await there(world.provider, "provider") == []
    assert (await world.provider.get(NAMESPACES, link.cluster_namespace)).meta.name


async def test_namespaces_that_wait_for_the_provider_are_let_go(
    alone: tuple[Sandbox, Client],
) -> None:
    _, client = alone
    await install_crds(client, provider_crds())
    await namespace(client, "cluster")
    body: JSON = {
        "apiVersion": APISERVICENAMESPACES.api_version,
        "kind": APISERVICENAMESPACES.kind,
        "metadata": {
            "name": "app",
            "namespace": "cluster",
            "finalizers": [FINALIZER_NAMESPACE],
        },
        "spec": {},
    }
    await client.create(APISERVICENAMESPACES, body)
    assert (await survey(client, "provider")).uses == []
    await client.delete(NAMESPACES, "cluster")
    (use,) = (await survey(client, "provider")).uses
    assert use.option == "orphan"
    assert "for it cluster stays in Terminating" in use.what
    await taken(client, "provider", orphan=True)
    await gone(client, NAMESPACES, "cluster")


def access_with_finalizer(namespace: str) -> JSON:
    return {
        "apiVersion": POSTGRESACCESSES.api_version,
        "kind": POSTGRESACCESSES.kind,
        "metadata": {"name": "db", "namespace": namespace, "finalizers": [FINALIZER]},
        "spec": {
            "username": "shop",
            "generatedSecret": "login",
            "connection": {"serverRef": {"name": "main"}},
        },
    }


async def test_roles_keep_the_operator(alone: tuple[Sandbox, Client], tmp_path: Path) -> None:
    plane, client = alone
    await installed(client, "postgres")
    await namespace(client, "app")
    await client.create(POSTGRESACCESSES, access_with_finalizer("app"))
    code, out, err = await fairlead(plane, tmp_path, "uninstall", "postgres", "--yes")
    assert (code, out) == (1, "")
    assert "in use: PostgresAccess app/db has role shop on PostgresServer main" in err
    assert "kubectl delete postgresaccesses.access.k8s.delta10.nl -n app db" in err
    await client.delete(NAMESPACES, "app")
    code, out, err = await fairlead(
        plane, tmp_path, "uninstall", "postgres", "--yes", "--orphan", "--crds"
    )
    assert code == 0, err
    assert "for it app stays in Terminating" in err
    assert "role shop on PostgresServer main stays with its login" in err
    await gone(client, NAMESPACES, "app")
    assert await there(client, "postgres") == []


async def test_finalizers_are_not_removed_while_the_program_is_left_running(
    alone: tuple[Sandbox, Client], tmp_path: Path
) -> None:
    plane, client = alone
    await installed(client, "postgres")
    before = await there(client, "postgres")
    await client.create(POSTGRESACCESSES, access_with_finalizer("default"))
    command = ("uninstall", "postgres", "--namespace=fairlead-postgres", "--yes")
    code, out, err = await fairlead(plane, tmp_path, *command, "--orphan", "--prepare")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == (
        "Error: --prepare leaves the program running, which would add its finalizers again: run "
        "`fairlead uninstall postgres --namespace fairlead-postgres --orphan` without --prepare, "
        "and then the other tool"
    )
    found = await client.get(POSTGRESACCESSES, "db", "default")
    assert found.meta.finalizers == [FINALIZER]
    assert await there(client, "postgres") == before


async def test_a_living_access_outlives_the_operator(alone: tuple[Sandbox, Client]) -> None:
    _, client = alone
    await installed(client, "postgres")
    await namespace(client, "app")
    await client.create(POSTGRESACCESSES, access_with_finalizer("app"))
    lines = await taken(client, "postgres", orphan=True, crds=True)
    kept = await client.get(POSTGRESACCESSES, "db", "app")
    assert (kept.meta.deleting, kept.meta.finalizers) == (False, [])
    kept_crd = f"kept CustomResourceDefinition {POSTGRESACCESSES.group_resource}"
    assert f"{kept_crd}: 1 object is left" in lines


@pytest.mark.parametrize("other", [True, False], ids=["another is served", "none is served"])
async def test_objects_whose_stored_version_is_not_served_keep_their_crd(
    alone: tuple[Sandbox, Client], other: bool
) -> None:
    _, client = alone
    await installed(client, "postgres")
    await client.create(POSTGRESSERVERS, server("main"))
    name = POSTGRESSERVERS.group_resource
    crd = (await client.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    (stored,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [{**stored, "served": False}]
    if other:
        crd["spec"]["versions"].append({**stored, "name": "v2", "storage": False})
    await client.update(CUSTOMRESOURCEDEFINITIONS, crd)
    lines = await taken(client, "postgres", crds=True)
    (told,) = [line for line in lines if name in line]
    assert told == f"kept CustomResourceDefinition {name}: " + (
        "1 object is left"
        if other
        else "its objects cannot be counted: no version of it is served: set served of a version "
        "in spec.versions to true, and run the command again"
    )
    crd = (await client.get(CUSTOMRESOURCEDEFINITIONS, name)).to_dict()
    crd["spec"]["versions"][0]["served"] = True
    await client.update(CUSTOMRESOURCEDEFINITIONS, crd)
    await when(client, POSTGRESSERVERS, "main", until=bool)


async def test_a_crd_whose_objects_cannot_be_listed_stays(
    alone: tuple[Sandbox, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, client = alone
    await installed(client, "postgres")
    name, listing = POSTGRESSERVERS.group_resource, client.list

    async def lists(resource: Resource, *args: Any, **options: Any) -> ObjectList:
        if resource == POSTGRESSERVERS:
            raise ApiError(Status(code=500, message="the conversion webhook failed"))
        return await listing(resource, *args, **options)

    monkeypatch.setattr(client, "list", lists)
    lines = await taken(client, "postgres", crds=True)
    (told,) = [line for line in lines if name in line]
    assert told == (
        f"kept CustomResourceDefinition {name}: its objects cannot be counted: the conversion "
        f"webhook failed: run the command again once `kubectl get {name} -A` works"
    )
    await client.get(CUSTOMRESOURCEDEFINITIONS, name)


async def test_webhooks_whose_server_is_gone_block_nothing(alone: tuple[Sandbox, Client]) -> None:
    _, client = alone
    await install_crds(client, binding_crds())
    await namespace(client, "app")
    body: JSON = {
        "apiVersion": SERVICEBINDINGS.api_version,
        "kind": SERVICEBINDINGS.kind,
        "metadata": {"name": "app", "namespace": "app", "finalizers": [SPEC_FINALIZER]},
        "spec": {
            "service": {"apiVersion": "v1", "kind": "Secret", "name": "login"},
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        },
    }
    await client.create(SERVICEBINDINGS, body)
    await installed(client, "binding")
    with pytest.raises(UninstallError, match=r"ServiceBinding app/app of .* is projected"):
        await taken(client, "binding")
    await client.get(MUTATINGWEBHOOKCONFIGURATIONS, "fairlead-binding")
    lines = await taken(client, "binding", orphan=True)
    assert lines[0] == "deleted MutatingWebhookConfiguration fairlead-binding"
    assert "let go ServiceBinding app/app: 1 projection stays on the workloads" in lines
    await client.delete(SERVICEBINDINGS, "app", "app")
    await gone(client, SERVICEBINDINGS, "app", "app")


async def test_requests_in_flight_keep_the_front_door(
    alone: tuple[Sandbox, Client], tmp_path: Path
) -> None:
    plane, client = alone
    await installed(client, "serve")
    home = footprint("serve").namespace
    body: JSON = {
        "apiVersion": BINDABLERESOURCESREQUESTS.api_version,
        "kind": BINDABLERESOURCESREQUESTS.kind,
        "metadata": {"name": "one", "namespace": home},
        "spec": {
            "templateRef": {"name": "widgets"},
            "clusterIdentity": {"identity": "shop"},
            "author": "shop",
        },
    }
    await client.create(BINDABLERESOURCESREQUESTS, body)
    session: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": home, "labels": {LABEL_KIND: "session"}},
    }
    await client.create(SECRETS, session)
    code, _, err = await fairlead(plane, tmp_path, "uninstall", "serve", "--yes")
    assert code == 1
    assert f"BindableResourcesRequest {home}/one is in flight" in err
    code, _, err = await fairlead(plane, tmp_path, "uninstall", "serve", "--yes", "--force")
    assert code == 0, err
    assert "1 session ends: people are signed out" in err
    await gone(client, NAMESPACES, home)


async def test_a_dry_run_takes_nothing(alone: tuple[Sandbox, Client], tmp_path: Path) -> None:
    plane, client = alone
    await installed(client, "postgres")
    before = await there(client, "postgres")
    code, out, err = await fairlead(plane, tmp_path, "uninstall", "postgres", "--dry-run")
    assert code == 0, err
    told = [line.split(". ", 1)[1] for line in out.splitlines()]
    assert told[:-1] == before[:-1]
    assert told[-1] == f"{before[-1]}, if nothing else is in it"
    assert "kept: CustomResourceDefinitions" in err
    assert await there(client, "postgres") == before
    code, _, err = await fairlead(plane, tmp_path, "uninstall", "postgres")
    assert code == 2
    assert "there is no terminal to ask on: give --yes" in err


async def test_what_is_not_ours_stays(alone: tuple[Sandbox, Client]) -> None:
    _, client = alone
    await installed(client, "postgres")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "mine", "namespace": "fairlead-postgres"},
    }
    await client.create(CONFIGMAPS, body)
    lines = await taken(client, "postgres")
    kept = "kept Namespace fairlead-postgres: ConfigMap fairlead-postgres/mine is in it"
    assert lines[-1] == kept
    await client.delete(CONFIGMAPS, "mine", "fairlead-postgres")
    assert await taken(client, "postgres") == ["deleted Namespace fairlead-postgres"]


async def test_the_konnector_of_the_original_is_not_taken_for_ours(
    alone: tuple[Sandbox, Client],
) -> None:
    _, client = alone
    await namespace(client, "kube-bind")
    deployment = Manifested(
        name="konnector", namespace="kube-bind", image="other", command=()
    ).deployment()
    del deployment["metadata"]["labels"]
    await client.create(DEPLOYMENTS, deployment)
    await taken(client, "konnector")
    await client.get(DEPLOYMENTS, "konnector", "kube-bind")


async def test_a_crd_of_anothers_binding_stays(alone: tuple[Sandbox, Client]) -> None:
    _, client = alone
    await install_crds(client, consumer_crds())
    await installed(client, "konnector")
    (crd, *_) = access_crds()
    owner = {"kind": "APIServiceBinding", "name": "theirs", "uid": "1"}
    crd["metadata"]["ownerReferences"] = [owner | {"apiVersion": "other.example.org/v1"}]
    await client.create(CUSTOMRESOURCEDEFINITIONS, crd)
    await taken(client, "konnector", orphan=True)
    await client.get(CUSTOMRESOURCEDEFINITIONS, crd["metadata"]["name"])


async def test_who_works_elsewhere_is_named_and_waited_for(alone: tuple[Sandbox, Client]) -> None:
    _, client = alone
    await installed(client, "postgres")
    lease: JSON = {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {"name": "fairlead-postgres", "namespace": "fairlead-postgres"},
        "spec": {
            "holderIdentity": "laptop",
            "leaseDurationSeconds": 3600,
            "renewTime": format_micro_time(moment()),
        },
    }
    await client.create(LEASES, lease)
    with pytest.raises(UninstallError, match="waits for laptop, which holds Lease fairlead-post"):
        await uninstall(client, "postgres", timeout=3.0, progress=lambda _: None)
    await client.get(CLUSTERROLEBINDINGS, "fairlead-postgres")


async def test_what_holds_the_namespace_is_named(alone: tuple[Sandbox, Client]) -> None:
    _, client = alone
    await installed(client, "postgres")
    held: JSON = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "held",
            "namespace": "fairlead-postgres",
            "labels": {"app.kubernetes.io/part-of": "fairlead"},
            "finalizers": ["example.org/factory"],
        },
    }
    await client.create(CONFIGMAPS, held)
    lines: list[str] = []
    about = "configmaps has 1 resource instances; example.org/factory in 1 resource instances"
    seconds, message = 4.0, ""
    # A busy machine may need longer until it can say for what; a quiet one does not wait for it.
    while about not in message and seconds < SECONDS:
        with pytest.raises(UninstallError, match="run the command again to continue") as caught:
            await uninstall(client, "postgres", timeout=seconds, progress=lines.append)
        seconds, message = 2 * seconds, str(caught.value)
    assert "still waits for Namespace fairlead-postgres (" in message
    assert not [line for line in lines if "not looked at" in line]
    cut = {"metadata": {"finalizers": None}}
    await client.merge_patch(CONFIGMAPS, "held", "fairlead-postgres", cut)
    await taken(client, "postgres")
    await gone(client, NAMESPACES, "fairlead-postgres")


async def test_another_namespace_is_named(alone: tuple[Sandbox, Client]) -> None:
    _, client = alone
    await installed(client, "postgres", "databases")
    notes = (await survey(client, "postgres")).notes
    (note,) = notes
    assert note == (
        "Deployment databases/fairlead-postgres is another: --namespace databases is for that;"
        " ClusterRoles, webhooks and CustomResourceDefinitions stay for it"
    )


@pytest.mark.parametrize("program", ["binding", "konnector", "postgres", "provider", "serve"])
@pytest.mark.parametrize("both", [False, True], ids=["mistyped", "second"])
async def test_what_is_installed_elsewhere_keeps_its_rights(
    alone: tuple[Sandbox, Client], program: Program, both: bool
) -> None:
    _, client = alone
    await installed(client, program, "elsewhere")
    before = await there(client, program, "elsewhere")
    if both:
        await namespace(client, footprint(program).namespace)
        for body in footprint(program).documents:
            if where := body["metadata"].get("namespace"):
                await client.create(KINDS[body["kind"]], body, where)
    lines = await taken(client, program, crds=True, force=True)
    assert await there(client, program, "elsewhere") == before
    assert {one.meta.name for one in (await client.list(CUSTOMRESOURCEDEFINITIONS)).items} >= {
        one["metadata"]["name"] for one in CRDS.get(program, list)()
    }
    with pytest.raises(NotFound):
        await client.get(DEPLOYMENTS, footprint(program).name, footprint(program).namespace)
    assert bool(lines) == both


async def test_what_another_installation_does_needs_no_second(
    alone: tuple[Sandbox, Client],
) -> None:
    _, client = alone
    await installed(client, "postgres", "elsewhere")
    access: JSON = {
        "apiVersion": POSTGRESACCESSES.api_version,
        "kind": POSTGRESACCESSES.kind,
        "metadata": {"name": "orders", "namespace": "default", "finalizers": [FINALIZER]},
        "spec": {
            "username": "orders",
            "generatedSecret": "login",
            "connection": {"serverRef": {"name": "main"}},
        },
    }
    await client.create(POSTGRESACCESSES, access)
    assert (await survey(client, "postgres")).uses
    await client.merge_patch(
        DEPLOYMENTS,
        "fairlead-postgres",
        "elsewhere",
        patch={"status": {"readyReplicas": 1}},
        subresource="status",
    )
    assert not (await survey(client, "postgres")).uses
    await taken(client, "postgres", orphan=True)
    found = await client.get(POSTGRESACCESSES, "orders", "default")
    assert found.meta.finalizers == [FINALIZER]


@pytest.mark.parametrize("program", ["binding", "konnector", "postgres", "provider", "serve"])
async def test_a_hook_needs_no_right_but_its_own(
    alone: tuple[Sandbox, Client], program: Program
) -> None:
    """All that a program has of its own is there, so that all has to be taken away."""
    _, client = alone
    await install_crds(client, consumer_crds())
    await installed(client, program)
    home = footprint(program).namespace
    for name, labels in {
        "session": {LABEL_KIND: "session"},
        "fairlead-binding-webhook-certificate": {},
        "kubeconfig-of-bind": {"app.kubernetes.io/managed-by": "fairlead-bind"},
    }.items():
        body: JSON = {"metadata": {"name": name, "namespace": home, "labels": labels}}
        await client.create(SECRETS, body)
    hook = await hook_of(client, program)
    lines: list[str] = []
    async with Client(hook) as mine:
        choices = Choices(prepare=True)
        await uninstall(mine, program, choices=choices, timeout=60.0, progress=lines.append)
    assert len(await there(client, program)) == len(footprint(program).documents) - (
        2 if program == "binding" else 0
    )
    taken_by = {"binding": "certificate", "konnector": "kubeconfig", "serve": "session"}
    left = {one.meta.name for one in (await client.list(SECRETS, home)).items}
    word = taken_by.get(program, "none")
    assert not [name for name in left if word in name]
    assert lines or program in {"postgres", "provider"}


@pytest.mark.parametrize(
    ("revisions", "kept"),
    [
        pytest.param([], "has no Secret with the labels owner=helm,name=shop", id="plain apply"),
        pytest.param([("shop", 1, "deployed")], "is deployed, not uninstalling", id="installed"),
        pytest.param([("shop", 1, "superseded"), ("shop", 2, "uninstalling")], "", id="goes"),
        pytest.param(
            [("shop", 9, "uninstalling"), ("shop", 10, "deployed")],
            "is deployed, not uninstalling",
            id="rolled back after a refusal",
        ),
        pytest.param(
            [("shop", 1, "deployed"), ("other", 1, "uninstalling")],
            "is deployed, not uninstalling",
            id="another release goes",
        ),
    ],
)
async def test_helm_uninstalls_what_its_last_revision_says(
    alone: tuple[Sandbox, Client], revisions: list[tuple[str, int, str]], kept: str
) -> None:
    _, client = alone
    hook = Manifested(name="hook", namespace="shop", image="", command=())
    cluster = hook.cluster_role("hook", hook_rights("binding").cluster)
    role = hook.role("hook", release.RULES)
    for body in (*hook.account(), cluster, hook.bound(cluster), role, hook.bound(role)):
        await client.create(KINDS[body["kind"]], body, body["metadata"].get("namespace", ""))
    for name, version, status in revisions:
        await client.create(SECRETS, revision(name, version, status), "shop")
    async with Client(await as_service_account(client, "shop", "hook")) as mine:
        assert kept in await release.why_kept(mine, "shop", "shop")
        assert bool(await release.why_kept(mine, "shop", "shop")) == bool(kept)
        # What could not be seen is no answer.
        with pytest.raises(Forbidden):
            await release.why_kept(mine, "default", "shop")
        assert await release.why_kept(mine, "none", "shop") == "there is no namespace none"


def revision(name: str, version: int, status: str) -> JSON:
    """The Secret of a release's revision as Helm labels it."""
    labels = {"owner": "helm", "name": name, "version": str(version), "status": status}
    return {
        "metadata": {"name": f"sh.helm.release.v1.{name}.v{version}", "labels": labels},
        "type": "helm.sh/release.v1",
    }


async def test_a_hook_that_another_tool_applies_takes_nothing(
    alone: tuple[Sandbox, Client], tmp_path: Path
) -> None:
    plane, client = alone
    await installed(client, "binding")
    before = await there(client, "binding")
    hook = ("uninstall", "binding", "--prepare", "--yes", "--helm-release=default/shop")
    code, out, err = await fairlead(plane, tmp_path, *hook)
    assert (code, out) == (0, "")
    assert "nothing is done: Helm does not uninstall release shop: namespace default has no" in err
    assert await there(client, "binding") == before
    await client.create(SECRETS, revision("shop", 1, "uninstalling"), "default")
    code, _, err = await fairlead(plane, tmp_path, *hook)
    assert code == 0, err
    assert len(await there(client, "binding")) == len(before) - 2


async def hook_of(client: Client, program: Program) -> ClusterConfig:
    """A ServiceAccount in the program's namespace with the rights of a hook."""
    home, rights = footprint(program).namespace, hook_rights(program)
    hook = Manifested(name="hook", namespace=home, image="", command=())
    cluster, role = hook.cluster_role("hook", rights.cluster), hook.role("hook", rights.namespace)
    parts = [hook.account()[1], cluster, hook.bound(cluster), role, hook.bound(role)]
    for body in parts:
        # No object of the program's own, by which it would be taken for one.
        body["metadata"]["labels"] = {}
        await client.create(KINDS[body["kind"]], body, body["metadata"].get("namespace", ""))
    return await as_service_account(client, home, "hook")


async def test_before_helm_only_webhooks_go(alone: tuple[Sandbox, Client]) -> None:
    _, client = alone
    await installed(client, "binding")
    lines = await taken(client, "binding", prepare=True)
    assert [line.split()[1] for line in lines] == [
        MUTATINGWEBHOOKCONFIGURATIONS.kind,
        VALIDATINGWEBHOOKCONFIGURATIONS.kind,
    ]
    await client.get(DEPLOYMENTS, "fairlead-binding", "fairlead-binding")
