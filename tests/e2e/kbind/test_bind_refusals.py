"""``fairlead bind`` by kbind v2 that must fail: it says why, and leaves nothing."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from tests.support.commands import FAIRLEAD, against
from tests.support.kbindbound import OBJECT_VERBS, grant_in
from tests.support.kbindcommands import WHOLE, BindWorld
from tests.support.kbindworld import RULES, KbindWorld, exported_crd, secret, silent_server
from tests.support.waiting import SECONDS, gone

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.names import LEASE_NAMESPACE
from fairlead.api.manifests import rule
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, DEPLOYMENTS, SECRETS
from fairlead.konnector.manifests import manifests
from fairlead.process import INTERRUPTED
from fairlead.runtime import install_crds


@pytest.fixture
async def world(kbind: KbindWorld, tmp_path: Path) -> BindWorld:
    world = BindWorld(kbind, tmp_path)
    await world.start()
    return world


@pytest.fixture
async def idle_world(kbind: KbindWorld, tmp_path: Path) -> BindWorld:
    """The same, whose konnector has stopped."""
    world = BindWorld(kbind, tmp_path)
    await world.start()
    await world.konnector.stop()
    return world


async def refused(world: BindWorld, *words: str) -> str:
    """The error of a bind that leaves nothing."""
    code, out, err = await world.bind(*words)
    assert (code, out) == (1, ""), err
    assert await world.left() == set()
    assert "apiVersion" not in err
    return err.splitlines()[-1]


async def test_an_api_that_is_not_offered_is_named_with_those_that_are(world: BindWorld) -> None:
    err = await refused(world, "--api", f"widgts.{world.world.provider.group}")
    assert f"did you mean {world.api}?" in err


async def test_a_crd_of_this_clusters_own_is_left(world: BindWorld) -> None:
    crd = exported_crd(world.world.provider.group, exported=False)
    await install_crds(world.world.consumer, [crd])
    err = await refused(world, "--api", world.api)
    assert f"CustomResourceDefinition {world.api} already exists in this cluster" in err
    code, _, err = await world.bind("--api", world.api, "--pull-policy", "None")
    assert code == 0, err
    # Their kind has roles of its own.
    assert await world.left() == {one for one in WHOLE if "edit" not in one and "view" not in one}


async def test_the_providers_own_cluster_is_refused(world: BindWorld) -> None:
    world.file.write_bytes(world.world.consumer_plane.sandbox.kubeconfig())
    err = await refused(world, "--api", world.api)
    assert "this cluster is the provider's own" in err


async def test_a_silent_provider_is_named_in_time(world: BindWorld) -> None:
    async with silent_server() as address:
        kubeconfig = await world.world.provider.kubeconfig(address=address)
        world.file.write_bytes(kubeconfig)
        err = await refused(world, "--api", world.api, "--timeout", "2s")
    assert "looking at the provider of Connection acme, https://127.0.0.1" in err
    assert "no answer within 2 s" in err


@pytest.mark.parametrize(
    ("rules", "right"),
    [(RULES[1:], "namespaces"), (RULES[:1], "customresourcedefinitions")],
    ids=["identity", "exports"],
)
async def test_a_right_that_lacks_at_the_provider_is_named(
    world: BindWorld, rules: tuple[dict[str, object], ...], right: str
) -> None:
    world.file.write_bytes(await world.world.provider.kubeconfig(rules=rules))
    err = await refused(world, "--api", world.api)
    assert "does not give the kubeconfig's account a right that a Connection needs" in err
    assert right in err


async def test_credentials_that_are_not_accepted_are_named(world: BindWorld) -> None:
    token = b"token: "
    kubeconfig = world.file.read_bytes()
    world.file.write_bytes(kubeconfig.replace(token, token + b"x"))
    err = await refused(world, "--api", world.api)
    assert "does not accept the kubeconfig's credentials" in err


async def test_a_konnector_without_kbind_v2_is_said_to_be_so(idle_world: BindWorld) -> None:
    world, consumer = idle_world, idle_world.world.consumer
    (deployment,) = [
        one for one in manifests(image="x", protocols=["v1alpha2"]) if one["kind"] == "Deployment"
    ]
    await consumer.create(DEPLOYMENTS, deployment)
    err = await refused(world, "--api", world.api)
    assert "Deployment kube-bind/konnector does not serve kbind v2: remove --protocols" in err
    await consumer.delete(DEPLOYMENTS, "konnector", "kube-bind")
    for kind in (CONNECTIONS, CLUSTERBINDINGS, BINDINGS):
        name = kind.group_resource
        await consumer.delete(CUSTOMRESOURCEDEFINITIONS, name)
        await gone(consumer, CUSTOMRESOURCEDEFINITIONS, name)
    code, _, err = await world.bind("--api", world.api)
    assert code == 1
    assert "does not serve clusterbindings.core.kbind.io: remove --protocols" in err


async def test_a_bind_that_no_konnector_takes_up_is_taken_back(idle_world: BindWorld) -> None:
    err = await refused(idle_world, "--api", idle_world.api, "--timeout", "2s")
    assert "Connection acme: no konnector has picked it up" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
async def test_a_bind_that_is_stopped_takes_back_its_writes(
    idle_world: BindWorld, number: signal.Signals
) -> None:
    world = idle_world
    words = ("--provider-kubeconfig", str(world.file), "--connection", "acme", "--api", world.api)
    plane = world.world.consumer_plane.sandbox
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, "bind", *words, *against(plane, world.folder)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(SECONDS):
        while await world.left() != WHOLE:  # noqa: ASYNC110  several kinds have no common watch
            await asyncio.sleep(0.02)
    process.send_signal(number)
    assert await asyncio.wait_for(process.wait(), SECONDS) == INTERRUPTED
    assert await world.left() == set()


async def test_a_right_on_objects_that_lacks_at_the_provider_is_named(world: BindWorld) -> None:
    rules = (*RULES, rule(world.world.provider.group, ["widgets"], OBJECT_VERBS[:3]))
    world.file.write_bytes(await world.world.provider.kubeconfig("reader", rules=rules))
    related = "secrets/FromProvider:login"
    err = await refused(world, "--api", world.api, "--related", related)
    assert f"create, patch, delete on {world.api}; get, list, watch on secrets" in err
    more = [rule(world.world.provider.group, ["widgets"], OBJECT_VERBS)]
    await grant_in(world.world.provider.admin, LEASE_NAMESPACE, "reader", more)
    err = await refused(world, "--api", world.api)
    assert f"create, patch, delete on {world.api}" in err


async def test_a_secret_of_anothers_is_never_replaced(world: BindWorld) -> None:
    consumer = world.world.consumer
    await consumer.create(SECRETS, secret("acme-kubeconfig", b"theirs"))
    code, _, err = await world.bind("--api", world.api)
    assert code == 1
    assert (
        "Secret kube-bind/acme-kubeconfig already exists and does not belong to Connection acme"
        in err
    )
    assert await world.left() == {"Secret kube-bind/acme-kubeconfig"}


async def test_a_connection_of_anothers_is_left(world: BindWorld) -> None:
    await world.world.connect(world.file.read_bytes(), "acme")
    before = await world.left()
    code, _, err = await world.bind("--api", world.api)
    assert code == 1
    assert "Connection acme already exists with another spec: give another name with" in err
    assert await world.left() == before


async def test_another_provider_does_not_take_a_connection_over(world: BindWorld) -> None:
    await world.bind("--api", world.api)
    other = await world.world.new_provider("other")
    other.group = world.world.provider.group
    await other.offer()
    world.file.write_bytes(await world.bound.kubeconfig("widgets", provider=other))
    code, _, err = await world.bind("--api", world.api)
    assert code == 1
    assert "Connection acme already exists and leads to cluster" in err
    assert await world.left() == WHOLE
    given = ("--provider-kubeconfig", str(world.file), "--connection", "other")
    code, _, err = await world.run("bind", *given, "--api", world.api)
    assert code == 1
    assert f"Connection acme already binds {world.api}" in err
    assert await world.left() == WHOLE


async def test_a_binding_of_that_name_with_other_apis_is_left(world: BindWorld) -> None:
    await world.bind("--api", world.api)
    gadgets = await world.world.provider.offer("gadgets")
    code, _, err = await world.bind("--api", gadgets)
    assert code == 1
    assert (
        "ClusterBinding acme already exists with another spec: give another name with --name"
        in err
    )
    code, out, err = await world.bind("--api", gadgets, "--name", "gadgets")
    assert (code, out) == (0, "clusterbinding.core.kbind.io/gadgets is Ready\n"), err


@pytest.mark.parametrize(
    ("api", "message"),
    [
        ("secrets.core", "a kind of Kubernetes or of kube-bind itself"),
        ("deployments.apps", "a kind of Kubernetes or of kube-bind itself"),
        ("apiservicebindings.kube-bind.io", "a kind of Kubernetes or of kube-bind itself"),
        ("connections.core.kbind.io", "a kind of kbind itself"),
    ],
)
async def test_kinds_of_the_cluster_itself_are_refused(
    world: BindWorld, api: str, message: str
) -> None:
    assert message in await refused(world, "--api", api)


async def test_a_file_with_anothers_secret_is_refused(world: BindWorld) -> None:
    words = ("--api", world.api, "--dry-run=client", "-o", "yaml", "--with-kubeconfig")
    code, plan, _ = await world.bind(*words)
    assert code == 0
    file = world.folder / "plan.yaml"
    file.write_text(plan.replace("name: acme-kubeconfig\n  namespace", "name: other\n  namespace"))
    code, out, err = await world.run("bind", "-f", str(file))
    assert (code, out) == (1, "")
    assert "no Connection of the file names Secret kube-bind/other" in err
    file.write_text(plan)
    code, out, err = await world.run("bind", "-f", str(file))
    assert (code, out) == (0, "clusterbinding.core.kbind.io/acme is Ready\n"), err
    assert await world.left() == WHOLE
