"""Connections of kbind v2, and faults of the original that they do not have."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.support.countingplanes import quiet, steady
from tests.support.kbindworld import (
    NAMESPACE,
    RULES,
    ExportedWidget,
    KbindWorld,
    connection,
    exports,
    has,
    secret,
    silent_server,
)
from tests.support.konnector import WIDGETS, World, widget
from tests.support.line import Line
from tests.support.waiting import SECONDS, condition, eventually, gone, idle, when

from fairlead.api.crd import Version, build_crd
from fairlead.api.kbind import BINDINGS, CONNECTIONS, LOGICALCLUSTERS, lease_name
from fairlead.api.kbind.names import FINALIZER_CLEANUP, LEASE_NAMESPACE
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    LEASES,
    NAMESPACES,
    SECRETS,
)
from fairlead.konnector.manifests import ROLE, manifests
from fairlead.konnector.options import PROTOCOLS
from fairlead.konnector.v2.connection import link
from fairlead.runtime import install_crds


@pytest.mark.edge
async def test_a_connection_gets_ready_and_follows_what_is_offered(any_kbind: KbindWorld) -> None:
    kbind = any_kbind
    name = await kbind.provider.offer()
    await kbind.provider.offer("hidden", exported=False)
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    body = await kbind.says("Ready", "True", "AsExpected")
    exported = body["status"]["exportedAPIs"]
    assert [one for one in exported if one["group"] == kbind.provider.group] == [
        {
            "name": name,
            "group": kbind.provider.group,
            "resource": "widgets",
            "scope": "Namespaced",
            "versions": ["v1"],
        }
    ]
    assert body["status"]["activeSchemaSource"] == "CRD"
    for field, admin in (
        ("remoteClusterUID", kbind.provider.admin),
        ("localClusterUID", kbind.consumer),
    ):
        assert body["status"][field] == (await admin.get(NAMESPACES, "kube-system")).meta.uid
    held = await kbind.consumer.get(SECRETS, kbind.name, NAMESPACE)
    assert held.meta.finalizers == body["metadata"]["finalizers"] == [FINALIZER_CLEANUP]
    later = await kbind.provider.offer("gadgets")
    await kbind.offers(later)
    for one in (name, later):
        await kbind.provider.admin.delete(CUSTOMRESOURCEDEFINITIONS, one)
    await when(
        kbind.consumer,
        CONNECTIONS,
        kbind.name,
        until=lambda body: not {name, later} & exports(body),
    )
    await kbind.consumer.delete(CONNECTIONS, kbind.name)
    await gone(kbind.consumer, CONNECTIONS, kbind.name)
    await when(
        kbind.consumer,
        SECRETS,
        kbind.name,
        NAMESPACE,
        until=lambda body: not body["metadata"].get("finalizers"),
    )


@pytest.mark.edge
async def test_the_lease_is_one_for_all_connections_of_a_consumer(
    any_kbind: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    kbind = any_kbind
    monkeypatch.setattr(link, "RENEW_SECONDS", 0.05)
    await kbind.konnector()
    kubeconfig = await kbind.provider.kubeconfig()
    second = await kbind.connect(kubeconfig, f"{kbind.name}-second")
    await kbind.connect(kubeconfig)
    body = await kbind.says("Ready", "True")
    uid = body["status"]["localClusterUID"]
    assert lease_name(uid) == f"consumer-{uid}"
    times = set()

    async def renewed() -> bool:
        lease = await kbind.provider.admin.get(LEASES, lease_name(uid), LEASE_NAMESPACE)
        times.add(lease.to_dict()["spec"]["renewTime"])
        return len(times) >= 5

    await eventually(renewed)
    # Neither takes the other's renewals for those of another konnector.
    for name in (kbind.name, second):
        body = await kbind.says("Ready", "True", name=name)
        assert condition(body, "AnotherKonnector") == {}
    lease = await kbind.provider.admin.get(LEASES, lease_name(uid), LEASE_NAMESPACE)
    assert lease.meta.labels == {"core.kbind.io/managed": "true"}
    assert lease.meta.annotations["core.kbind.io/consumer-cluster-uid"] == uid
    spec = lease.to_dict()["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (uid, 60)
    for name in (kbind.name, second):
        await kbind.consumer.delete(CONNECTIONS, name)
        await gone(kbind.consumer, CONNECTIONS, name)


async def test_at_rest_nothing_is_written_or_listed_but_the_lease(
    kbind: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F24: the original lists CRDs at each pass, every 30 seconds."""
    # The renewal is another test's.
    monkeypatch.setattr(link, "RENEW_SECONDS", 3600.0)
    await kbind.provider.offer()
    await kbind.konnector(health_patience=1000)
    await kbind.connect(await kbind.provider.kubeconfig())
    await kbind.says("Ready", "True")
    assert kbind.provider.plane is not None
    await steady(kbind.provider.plane, kbind.consumer_plane)


async def test_a_lease_is_renewed_by_one_write(
    kbind: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "RENEW_SECONDS", 0.05)
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    body = await kbind.says("Ready", "True")
    name = lease_name(body["status"]["localClusterUID"])
    before = await kbind.provider.admin.get(LEASES, name, LEASE_NAMESPACE)
    assert kbind.provider.plane is not None
    traffic = kbind.provider.plane.traffic
    traffic.seen.clear()
    assert not await idle(SECONDS / 2, lambda: traffic.count(resource="leases") >= 3)
    assert {(one.verb, one.resource) for one in traffic.seen} == {("update", "leases")}
    after = await kbind.provider.admin.get(LEASES, name, LEASE_NAMESPACE)
    assert before.to_dict()["spec"]["renewTime"] < after.to_dict()["spec"]["renewTime"]


async def test_credentials_that_may_list_and_not_watch_are_enough(kbind: KbindWorld) -> None:
    """The protocol asks for get and list of CRDs; the list is then repeated now and then."""
    await kbind.provider.offer()
    rules = [RULES[0], {**RULES[1], "verbs": ["get", "list"]}]
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig(rules=rules))
    await kbind.says("Ready", "True")
    assert kbind.provider.plane is not None
    traffic, crds = kbind.provider.plane.traffic, CUSTOMRESOURCEDEFINITIONS.plural
    # By then the watch was refused.
    assert not await idle(SECONDS / 2, lambda: traffic.count("watch", resource=crds) >= 2)
    assert not await idle(SECONDS / 2, lambda: traffic.count("list", resource=crds) >= 3)
    body = (await kbind.consumer.get(CONNECTIONS, kbind.name)).to_dict()
    assert condition(body, "Ready")["status"] == "True"
    assert condition(body, "PermissionDenied") == {}
    assert len(exports(body)) == 1


async def test_credentials_without_a_right_are_told_until_it_is_granted(kbind: KbindWorld) -> None:
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig("team", rules=[], leases=False))
    body = await kbind.says("PermissionDenied", "True", "Forbidden", "kube-system")
    assert condition(body, "Ready")["reason"] == "Forbidden"
    await kbind.provider.grant("team", RULES[:1])
    await kbind.says("PermissionDenied", "True", "Forbidden", "customresourcedefinitions")
    await kbind.provider.grant("team", RULES)
    body = await kbind.says("PermissionDenied", "False", "AsExpected")
    # Without a Lease another konnector is not noticed, and no more than that.
    await kbind.says("Ready", "True")
    await kbind.says("Connected", "True", "AsExpected", "Lease kbind/consumer-")


async def test_f1_a_kubeconfig_that_runs_a_program_is_refused_and_the_program_does_not_run(
    kbind: KbindWorld, tmp_path: Path
) -> None:
    """The original's konnector runs the program of the kubeconfig's author."""
    mark = tmp_path / "mark"
    kubeconfig = yaml.safe_load(await kbind.provider.kubeconfig())
    kubeconfig["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "touch",
            "args": [str(mark)],
            "interactiveMode": "Never",
        }
    }
    await kbind.konnector()
    await kbind.connect(yaml.safe_dump(kubeconfig).encode())
    body = await kbind.says("SecretValid", "False", "SecretRefused", "exec")
    assert condition(body, "Ready")["reason"] == "SecretRefused"
    assert not mark.exists()


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("user", "tokenFile"),
        ("user", "client-certificate"),
        ("user", "client-key"),
        ("cluster", "certificate-authority"),
    ],
)
async def test_f1_a_kubeconfig_that_reads_a_file_is_refused(
    kbind: KbindWorld, tmp_path: Path, part: str, field: str
) -> None:
    """The original reads the file and sends a token to a server of the author's choice."""
    kubeconfig = yaml.safe_load(await kbind.provider.kubeconfig())
    kubeconfig[f"{part}s"][0][part][field] = str(tmp_path / "secret")
    await kbind.konnector()
    await kbind.connect(yaml.safe_dump(kubeconfig).encode())
    await kbind.says("SecretValid", "False", "SecretRefused", field)


async def test_f2_a_secret_of_another_namespace_is_neither_read_nor_written(
    kbind: KbindWorld,
) -> None:
    """The original reads it, and puts a finalizer on it: its namespace cannot go any more."""
    await kbind.consumer.create(NAMESPACES, {"metadata": {"name": "shop"}})
    stored = secret("acme", await kbind.provider.kubeconfig(), namespace="shop")
    before = await kbind.consumer.create(SECRETS, stored)
    await kbind.konnector()
    await kbind.consumer.create(CONNECTIONS, connection("acme", namespace="shop"))
    until = has("SecretValid", "False", "SecretRefused", f"own namespace {NAMESPACE};")
    body = await when(kbind.consumer, CONNECTIONS, "acme", until=until)
    assert condition(body, "Ready")["reason"] == "SecretRefused"
    assert (await kbind.consumer.get(SECRETS, "acme", "shop")).meta == before.meta
    asked = [one for one in kbind.consumer_plane.traffic.seen if one.namespace == "shop"]
    assert {one.resource for one in asked if one.verb not in {"create", "get"}} <= {"events"}
    await kbind.consumer.delete(CONNECTIONS, "acme")
    await gone(kbind.consumer, CONNECTIONS, "acme")


async def test_f13_rotated_credentials_are_used_once_they_work(kbind: KbindWorld) -> None:
    """The original's engaged clients keep the old credentials until the Connection falls."""
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig("first"))
    await kbind.says("Ready", "True")
    # These may do nothing: the former ones go on.
    await kbind.rotate(await kbind.provider.kubeconfig("second", rules=[]))
    body = await kbind.says("Connected", "True", text="it goes on with the former one")
    assert condition(body, "Ready")["status"] == "True"
    await kbind.provider.grant("second", RULES)
    await when(
        kbind.consumer,
        CONNECTIONS,
        kbind.name,
        until=lambda body: "former" not in condition(body, "Connected")["message"],
    )
    # By now nobody needs the former ones.
    await kbind.provider.grant("first", [])
    body = await kbind.offers(await kbind.provider.offer("gadgets"))
    assert condition(body, "Ready")["status"] == "True"


async def test_credentials_of_another_cluster_are_told_and_not_used(kbind: KbindWorld) -> None:
    other = await kbind.new_provider("other")
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    body = await kbind.says("Ready", "True")
    pinned = body["status"]["remoteClusterUID"]
    await kbind.rotate(await other.kubeconfig())
    body = await kbind.says("Connected", "False", "ClusterIdentityChanged", pinned)
    assert body["status"]["remoteClusterUID"] == pinned
    assert condition(body, "Ready")["reason"] == "ClusterIdentityChanged"
    # Nothing is written there, not even a Lease.
    assert (await other.admin.list(LEASES, LEASE_NAMESPACE)).items == []
    await kbind.rotate(await kbind.provider.kubeconfig())
    await kbind.says("Ready", "True")


async def test_another_cluster_behind_the_same_address_is_noticed(kbind: KbindWorld) -> None:
    other = await kbind.new_provider("other")
    await kbind.konnector(health_interval=0.05, health_patience=2)
    async with Line(kbind.provider.admin.config.server) as line:
        await kbind.connect(await kbind.provider.kubeconfig(address=line.url))
        await kbind.says("Ready", "True")
        await line.lead_to(other.admin.config.server)
        # It knows neither its certificate nor its tokens.
        await kbind.says("Ready", "False", "Pending")
        await line.lead_to(kbind.provider.admin.config.server)
        await kbind.says("Ready", "True")


async def test_f18_a_silent_provider_holds_up_no_other_connection(kbind: KbindWorld) -> None:
    """The original has one worker and no timeout: no other Connection gets a pass any more."""
    async with silent_server() as address:
        await kbind.konnector()
        for number in range(6):
            await kbind.connect(
                await kbind.provider.kubeconfig(address=address), f"silent-{number}"
            )
        await kbind.connect(await kbind.provider.kubeconfig())
        await kbind.says("Ready", "True")
        await kbind.says("Ready", "False", "Pending", address, name="silent-0")
        await kbind.offers(await kbind.provider.offer("gadgets"))
        # One that is silent can go, too.
        await kbind.consumer.delete(CONNECTIONS, "silent-1")
        await gone(kbind.consumer, CONNECTIONS, "silent-1")


async def test_f18_a_faulty_connection_holds_up_no_other(kbind: KbindWorld) -> None:
    await kbind.konnector()
    await kbind.connect(b"no: kubeconfig", "broken")
    await kbind.consumer.create(CONNECTIONS, connection("missing"))
    await kbind.connect(await kbind.provider.kubeconfig())
    await kbind.says("Ready", "True")
    await kbind.says("SecretValid", "False", "SecretNotFound", name="broken")
    await kbind.says("SecretValid", "False", "SecretNotFound", name="missing")
    await kbind.consumer.create(SECRETS, secret("missing", await kbind.provider.kubeconfig()))
    await kbind.says("Ready", "True", name="missing")


async def test_a_deleted_connection_waits_for_its_bindings_and_keeps_a_shared_secret(
    kbind: KbindWorld,
) -> None:
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    shared = connection("second")
    shared["spec"]["kubeconfigSecretRef"]["name"] = kbind.name
    await kbind.consumer.create(CONNECTIONS, shared)
    await kbind.says("Ready", "True", name="second")
    await kbind.consumer.create(
        BINDINGS,
        {
            "apiVersion": BINDINGS.api_version,
            "kind": BINDINGS.kind,
            "metadata": {"name": "shop", "namespace": "default"},
            "spec": {"connectionRef": {"name": kbind.name}, "apis": [{"name": "ws.acme.io"}]},
        },
    )
    await kbind.consumer.delete(CONNECTIONS, kbind.name)
    await kbind.says("Ready", "False", "DrainingBindings", "Binding default/shop")
    kbind.consumer_plane.traffic.seen.clear()
    await kbind.consumer.delete(BINDINGS, "shop", "default")
    await gone(kbind.consumer, CONNECTIONS, kbind.name)
    held = await kbind.consumer.get(SECRETS, kbind.name, NAMESPACE)
    assert held.meta.finalizers == [FINALIZER_CLEANUP]
    # It was not taken off and added again either.
    assert kbind.consumer_plane.traffic.count("patch", resource="secrets") == 0
    await kbind.consumer.delete(CONNECTIONS, "second")
    await gone(kbind.consumer, CONNECTIONS, "second")
    await when(
        kbind.consumer,
        SECRETS,
        kbind.name,
        NAMESPACE,
        until=lambda body: not body["metadata"].get("finalizers"),
    )


async def test_a_secret_that_is_deleted_first_goes_with_its_connection(kbind: KbindWorld) -> None:
    """One file, one delete: in whatever order its objects come."""
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    await kbind.says("Ready", "True")
    await kbind.consumer.delete(SECRETS, kbind.name, NAMESPACE)
    await kbind.consumer.delete(CONNECTIONS, kbind.name)
    await gone(kbind.consumer, CONNECTIONS, kbind.name)
    await gone(kbind.consumer, SECRETS, kbind.name, NAMESPACE)


async def test_a_konnector_beside_another_one_says_so_and_stands_back(kbind: KbindWorld) -> None:
    """The other has the same holder: a renewTime that is not ours tells of it."""
    await kbind.konnector()
    kubeconfig = await kbind.provider.kubeconfig()
    uid = (await kbind.consumer.get(NAMESPACES, "kube-system")).meta.uid
    lease: JSON = {
        "metadata": {"name": lease_name(uid), "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": uid,
            # What the other writes counts: here its Lease lasts for a second.
            "leaseDurationSeconds": 1,
            "renewTime": "2026-11-30T12:00:00.000000Z",
        },
    }
    made = await kbind.provider.admin.create(LEASES, lease)
    await kbind.connect(kubeconfig)
    body = await kbind.says("AnotherKonnector", "True", "LeaseHeld", f"kbind/consumer-{uid}")
    assert condition(body, "Ready") == {}
    assert (await kbind.provider.admin.get(LEASES, lease_name(uid), LEASE_NAMESPACE)) == made
    # The other has stopped.
    body = await kbind.says("Ready", "True")
    assert condition(body, "AnotherKonnector") == {}


async def test_a_restart_writes_nothing_but_the_lease(kbind: KbindWorld) -> None:
    """A former process of ours is told from another konnector: its Lease is not awaited."""
    await kbind.provider.offer()
    first = await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    await kbind.says("Ready", "True")
    await quiet(kbind.consumer_plane)
    await first.stop()
    assert kbind.provider.plane is not None
    traffic = kbind.provider.plane.traffic
    traffic.seen.clear()
    kbind.consumer_plane.traffic.seen.clear()
    await kbind.konnector()
    assert not await idle(SECONDS / 2, lambda: traffic.count("update", resource="leases") > 0)
    await quiet(kbind.provider.plane, kbind.consumer_plane, forget=False)
    assert [one for one in traffic.writes() if one[1] != "leases"] == []
    written = kbind.consumer_plane.traffic.writing()
    assert [one for one in written if one.group == "core.kbind.io"] == []


async def test_a_workspace_is_told_by_its_logical_cluster(kbind: KbindWorld) -> None:
    crd = build_crd(LOGICALCLUSTERS, [Version("v1alpha1", ExportedWidget)])
    await install_crds(kbind.provider.admin, [crd])
    body = {
        "apiVersion": LOGICALCLUSTERS.api_version,
        "kind": LOGICALCLUSTERS.kind,
        "metadata": {"name": "cluster"},
    }
    workspace = await kbind.provider.admin.create(LOGICALCLUSTERS, body)
    await kbind.konnector()
    kubeconfig = await kbind.provider.kubeconfig("team", rules=RULES[1:])
    await kbind.connect(kubeconfig)
    await kbind.says("PermissionDenied", "True", "Forbidden", "logicalclusters")
    read = rule(LOGICALCLUSTERS.group, [LOGICALCLUSTERS.plural], ("get",))
    await kbind.provider.grant("team", [*RULES[1:], read])
    found = await kbind.says("Ready", "True")
    assert found["status"]["remoteClusterUID"] == workspace.meta.uid


async def test_a_secret_whose_connection_went_by_force_is_let_go(kbind: KbindWorld) -> None:
    await kbind.konnector()
    await kbind.connect(await kbind.provider.kubeconfig())
    await kbind.says("Ready", "True")
    await kbind.connect(await kbind.provider.kubeconfig(), "other")
    await kbind.says("Ready", "True", name="other")
    binding = {
        "apiVersion": BINDINGS.api_version,
        "kind": BINDINGS.kind,
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"connectionRef": {"name": kbind.name}, "apis": [{"name": "ws.acme.io"}]},
    }
    await kbind.consumer.create(BINDINGS, binding)
    await kbind.consumer.delete(CONNECTIONS, kbind.name)
    await kbind.says("Ready", "False", "DrainingBindings")
    none: JSON = {"metadata": {"finalizers": []}}
    await kbind.consumer.merge_patch(CONNECTIONS, kbind.name, "", none)
    await kbind.consumer.delete(SECRETS, kbind.name, NAMESPACE)
    await gone(kbind.consumer, SECRETS, kbind.name, NAMESPACE)
    held = await kbind.consumer.get(SECRETS, "other", NAMESPACE)
    assert held.meta.finalizers == [FINALIZER_CLEANUP]


async def test_a_silent_provider_delays_no_binding_of_the_other_protocol(
    kbind: KbindWorld, world: World
) -> None:
    async with silent_server() as address:
        await world.konnector(protocols=PROTOCOLS)
        kubeconfig = await kbind.provider.kubeconfig(address=address)
        await world.consumer.create(SECRETS, secret("silent", kubeconfig))
        await world.consumer.create(CONNECTIONS, connection("silent"))
        bound = await world.bound()
        await world.consumer.create(WIDGETS, widget())
        await when(world.provider, WIDGETS, "blue", await bound.provider_namespace(), until=bool)


async def test_without_the_protocol_nothing_of_it_is_watched_or_granted(kbind: KbindWorld) -> None:
    await kbind.konnector(protocols=("v1alpha2",))
    await quiet(kbind.consumer_plane, forget=False)
    asked = [one for one in kbind.consumer_plane.traffic.seen if one.group == "core.kbind.io"]
    assert asked == []
    names = [one.meta.name for one in (await kbind.consumer.list(CUSTOMRESOURCEDEFINITIONS)).items]
    assert not [name for name in names if name.endswith("core.kbind.io")]


async def test_alone_it_is_served_without_anything_of_kube_bind(kbind: KbindWorld) -> None:
    await kbind.konnector(protocols=("v2",))
    await kbind.connect(await kbind.provider.kubeconfig())
    await kbind.says("Ready", "True")
    asked = [one for one in kbind.consumer_plane.traffic.seen if one.group == "kube-bind.io"]
    assert asked == []
    names = [one.meta.name for one in (await kbind.consumer.list(CUSTOMRESOURCEDEFINITIONS)).items]
    assert not [name for name in names if name.endswith("kube-bind.io")]


async def test_without_its_rights_the_other_protocol_goes_on(
    kbind: KbindWorld, world: World
) -> None:
    """As after an upgrade of the image alone."""
    role = f"{ROLE}-controllers"
    running = await world.konnector()
    await running.stop()
    former = manifests(image="x", protocols=["v1alpha2"])
    (body,) = [
        one for one in former if (one["kind"], one["metadata"]["name"]) == ("ClusterRole", role)
    ]
    await world.consumer.delete(CLUSTERROLES, role)
    await world.consumer.create(CLUSTERROLES, body)
    await running.start()
    bound = await world.bound()
    await world.consumer.create(WIDGETS, widget())
    await when(world.provider, WIDGETS, "blue", await bound.provider_namespace(), until=bool)
    await eventually(running.ready)
