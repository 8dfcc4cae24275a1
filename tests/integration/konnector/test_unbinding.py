"""Unbinding from the consumer's side, where the test is the konnector."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.konnector.conftest import binding_body, bound, kubeconfig, secret_body
from tests.support.waiting import SECONDS

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    ExportResource,
    consumer_crds,
)
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, SECRETS, Resource
from fairlead.client import Client, NotFound
from fairlead.konnector.commands.request import BindError
from fairlead.konnector.commands.unbind import Impact, UnbindError, impact, unbind, waits_for
from fairlead.konnector.commands.userroles import roles_for_users
from fairlead.konnector.rights import binding_roles, role_labels, user_roles
from fairlead.runtime import install_crds


HELD = {"metadata": {"finalizers": ["kubebind.io/unbind"]}}
ROLES = {"konnector", "reader", "editor", "viewer"}
THINGS = Resource("example.org", "v1", "things", "Thing")


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, an unbind whose time is up says what was missing."""
    monkeypatch.setattr("fairlead.konnector.commands.readiness._LAST_WORD_SECONDS", SECONDS)


async def written(client: Client, name: str = "db", *, labelled: bool = True) -> Object:
    """What `fairlead bind` leaves, held by the konnector's finalizer."""
    kinds = [ExportResource(group="example.org", resource="things")]
    for role in [*binding_roles(name, kinds, []), *user_roles(name, kinds)]:
        await client.create(CLUSTERROLES, role)
    secret = secret_body("k", kubeconfig=kubeconfig("https://p.example"))
    if labelled:
        secret["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "fairlead-bind"}
    if not await exists(client, SECRETS, "k", "kube-bind"):
        await client.create(SECRETS, secret)
    found = await bound(client, name)
    return await client.merge_patch(APISERVICEBINDINGS, found.meta.name, "", HELD)


async def exists(client: Client, resource: Resource, name: str, namespace: str = "") -> bool:
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        return False
    return True


async def left(client: Client) -> set[str]:
    """What of the above is there."""
    names = {
        "konnector": (CLUSTERROLES, "kube-bind-konnector-db", ""),
        "reader": (CLUSTERROLES, "kube-bind-servicebinding-db", ""),
        "editor": (CLUSTERROLES, "kube-bind-edit-db", ""),
        "viewer": (CLUSTERROLES, "kube-bind-view-db", ""),
        "secret": (SECRETS, "k", "kube-bind"),
        "binding": (APISERVICEBINDINGS, "db", ""),
    }
    return {name for name, where in names.items() if await exists(client, *where)}


def conditions(type_: str, status: str, reason: str, message: str) -> JSON:
    found = {"type": type_, "status": status, "reason": reason, "message": message}
    return {"status": {"conditions": [found]}}


async def deleting(client: Client) -> Object:
    """The binding, once its deletion was asked for."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = await client.get(APISERVICEBINDINGS, "db")
            if found.meta.deleting:
                return found
            await asyncio.sleep(0.01)


async def release(client: Client) -> Object:
    """Be the konnector: say what is waited for, then let go."""
    found = await deleting(client)
    told = conditions("Connected", "False", "Unbinding", "unbinding: waiting for things")
    await client.merge_patch(APISERVICEBINDINGS, "db", "", told, subresource="status")
    await client.merge_patch(APISERVICEBINDINGS, "db", "", {"metadata": {"finalizers": None}})
    return found


async def test_all_that_binding_wrote_goes_with_the_binding(client: Client) -> None:
    await written(client)
    lines: list[str] = []
    task = asyncio.create_task(release(client))
    await unbind(client, "db", timeout=SECONDS, progress=lines.append)
    assert "kube-bind.io/deletion-policy" not in (await task).meta.annotations
    assert await left(client) == set()
    assert lines[0] == "deleting APIServiceBinding db"
    assert lines[-7:-1] == [
        "APIServiceBinding db is gone",
        "deleted Secret kube-bind/k",
        "deleted ClusterRole kube-bind-konnector-db",
        "deleted ClusterRole kube-bind-servicebinding-db",
        "deleted ClusterRole kube-bind-edit-db",
        "deleted ClusterRole kube-bind-view-db",
    ]
    assert "administrator deletes the provider's APIServiceExport db" in lines[-1]
    assert "unbinding: waiting for things" in lines


async def test_orphans_are_announced_before_the_deletion(client: Client) -> None:
    await written(client)
    task = asyncio.create_task(release(client))
    await unbind(client, "db", orphan=True, timeout=SECONDS)
    seen = await task
    assert seen.meta.annotations == {"kube-bind.io/deletion-policy": "Orphan"}
    assert await left(client) == set()


async def test_waiting_ends_with_what_was_waited_for_and_goes_on_the_next_time(
    client: Client,
) -> None:
    await written(client)
    told = conditions("Connected", "False", "Unbinding", "unbinding: waiting for things")
    await client.merge_patch(APISERVICEBINDINGS, "db", "", told, subresource="status")
    with pytest.raises(UnbindError, match=r"waiting for things \(waited 0\.2 s\).*again to go on"):
        await unbind(client, "db", timeout=0.2)
    assert await left(client) == {"binding", "secret", *ROLES}
    task = asyncio.create_task(release(client))
    lines: list[str] = []
    await unbind(client, "db", orphan=True, timeout=SECONDS, progress=lines.append)
    assert (await task).meta.annotations == {"kube-bind.io/deletion-policy": "Orphan"}
    assert "deleting APIServiceBinding db" not in lines
    assert await left(client) == set()


async def test_a_wrong_name_tells_the_bindings_there_are(client: Client) -> None:
    with pytest.raises(UnbindError, match="dbb does not exist; there are none"):
        await unbind(client, "dbb")
    await bound(client, "db")
    await bound(client, "queue")
    with pytest.raises(
        UnbindError, match=r"dbb does not exist; did you mean db\? there are: db, q"
    ):
        await unbind(client, "dbb")
    assert await left(client) == {"binding"}


async def test_what_is_left_of_a_binding_that_is_gone_already_goes(client: Client) -> None:
    await written(client)
    await client.merge_patch(APISERVICEBINDINGS, "db", "", {"metadata": {"finalizers": None}})
    await client.delete(APISERVICEBINDINGS, "db")
    lines: list[str] = []
    await unbind(client, "db", progress=lines.append)
    assert await left(client) == {"secret"}
    assert "no binding uses Secret kube-bind/k: delete it if it is not needed" in lines
    with pytest.raises(UnbindError, match="does not exist"):
        await unbind(client, "db")


async def other_binding(client: Client) -> None:
    await bound(client, "queue")


async def bundle(client: Client) -> None:
    await install_crds(client, consumer_crds())
    body = {**binding_body("all"), "kind": "APIServiceBindingBundle"}
    await client.create(APISERVICEBINDINGBUNDLES, body)


async def kept_connected(client: Client) -> None:
    labels = {"kube-bind.io/provider-kubeconfig": "true"}
    await client.merge_patch(SECRETS, "k", "kube-bind", {"metadata": {"labels": labels}})


async def by_hand(client: Client) -> None:
    await client.merge_patch(SECRETS, "k", "kube-bind", {"metadata": {"labels": None}})


@pytest.mark.parametrize("reason", [other_binding, bundle, kept_connected, by_hand])
async def test_a_secret_that_others_need_stays(
    client: Client, reason: Callable[[Client], object]
) -> None:
    await written(client)
    await reason(client)  # type: ignore[misc]
    task = asyncio.create_task(release(client))
    await unbind(client, "db", timeout=SECONDS)
    await task
    assert await left(client) == {"secret"}


async def test_a_secret_elsewhere_stays(client: Client) -> None:
    await written(client)
    task = asyncio.create_task(release(client))
    await unbind(client, "db", timeout=SECONDS, namespace="elsewhere")
    await task
    assert await left(client) == {"secret"}


async def test_a_role_that_is_somebody_elses_stays(client: Client) -> None:
    await written(client)
    await client.merge_patch(
        CLUSTERROLES, "kube-bind-konnector-db", "", {"metadata": {"labels": None}}
    )
    task = asyncio.create_task(release(client))
    await unbind(client, "db", timeout=SECONDS)
    await task
    assert await left(client) == {"konnector"}


async def owned(client: Client) -> set[str]:
    """What goes with the binding."""
    found = [
        await client.get(CLUSTERROLES, "kube-bind-konnector-db"),
        await client.get(CLUSTERROLES, "kube-bind-servicebinding-db"),
        await client.get(SECRETS, "k", "kube-bind"),
    ]
    binding = await client.get(APISERVICEBINDINGS, "db")
    return {one.kind for one in found if one.meta.owned_by(binding.meta.uid)}


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        pytest.param(None, {"ClusterRole", "Secret"}, id="all"),
        pytest.param(other_binding, {"ClusterRole"}, id="another-uses-the-secret"),
        pytest.param(by_hand, {"ClusterRole"}, id="secret-by-hand"),
        pytest.param(kept_connected, {"ClusterRole"}, id="secret-of-the-original"),
        pytest.param("roles", {"Secret"}, id="roles-by-hand"),
    ],
)
async def test_only_what_bind_has_made_goes_with_the_binding(
    client: Client, reason: Any, expected: set[str]
) -> None:
    await written(client)
    if reason == "roles":
        for role in role_labels("db"):
            await client.merge_patch(CLUSTERROLES, role, "", {"metadata": {"labels": None}})
    elif reason is not None:
        await reason(client)
    with pytest.raises(UnbindError, match="again to go on waiting"):
        await unbind(client, "db", timeout=0.2)
    assert await owned(client) == expected


async def test_what_was_bound_anew_meanwhile_keeps_its_rights(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(client)

    async def bound_after_the_wait(*_args: object, **_more: object) -> None:
        if (await client.get(APISERVICEBINDINGS, "db")).meta.deleting:
            await release(client)
            await bound(client, "db")

    monkeypatch.setattr("fairlead.konnector.commands.readiness.wait_for", bound_after_the_wait)
    with pytest.raises(UnbindError, match="it was bound again meanwhile"):
        await unbind(client, "db", timeout=SECONDS)
    assert await left(client) == {"binding", "secret", *ROLES}


async def test_a_server_that_does_not_serve_bindings_says_nothing_about_one(
    client: Client,
) -> None:
    await written(client)
    await client.merge_patch(APISERVICEBINDINGS, "db", "", {"metadata": {"finalizers": None}})
    crd = APISERVICEBINDINGS.group_resource
    await client.delete(CUSTOMRESOURCEDEFINITIONS, crd)
    with pytest.raises(UnbindError, match="kube-bind is not installed"):
        await unbind(client, "db", timeout=SECONDS)
    assert await left(client) == {"secret", *ROLES}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, "no konnector has begun to unbind it", id="nothing-said"),
        pytest.param(
            conditions("Ready", "True", "", ""),
            "no konnector has begun to unbind it",
            id="ready-as-before",
        ),
        pytest.param(
            conditions("Ready", "False", "Pending", "waiting for a konnector"),
            "no konnector has begun to unbind it",
            id="never-touched",
        ),
        pytest.param(
            conditions("Connected", "False", "Unbinding", "unbinding: things"),
            "unbinding: things",
            id="unbinding",
        ),
        pytest.param(
            conditions("Ready", "False", "KubeconfigSecretNotFound", "no Secret k"),
            "KubeconfigSecretNotFound: no Secret k",
            id="not-ready",
        ),
    ],
)
def test_what_is_waited_for(given: JSON, expected: str) -> None:
    assert waits_for(object_from_dict({**binding_body(), **given})).endswith(expected)


async def things(client: Client, owner: Object) -> None:
    """A bound kind with two objects, one of which has a copy."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "uid": owner.meta.uid}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": THINGS.group_resource,
            "ownerReferences": [{**reference, "name": owner.meta.name}],
        },
        "spec": {
            "group": THINGS.group,
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "scope": "Namespaced",
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    await install_crds(client, [crd])
    for name, finalizers in (("a", ["kubebind.io/syncer"]), ("b", [])):
        metadata = {"name": name, "namespace": "default", "finalizers": finalizers}
        body = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": metadata}
        await client.create(THINGS, body)


async def test_rights_that_are_left_of_a_binding_cost_no_objects(client: Client) -> None:
    await written(client)
    await client.merge_patch(APISERVICEBINDINGS, "db", "", {"metadata": {"finalizers": None}})
    await client.delete(APISERVICEBINDINGS, "db")
    assert await impact(client, "db") == Impact(gone=True)


async def test_a_konnector_that_does_nothing_is_looked_for(client: Client) -> None:
    await written(client)
    lines: list[str] = []
    with pytest.raises(
        UnbindError, match=r"unbind it \(waited 0.2 s\): there is no sign .*again to go on"
    ):
        await unbind(client, "db", timeout=0.2, progress=lines.append)
    assert [line for line in lines if "no sign of a konnector" in line]


async def test_what_goes_with_a_binding_is_counted(client: Client) -> None:
    with pytest.raises(UnbindError, match="db does not exist; there are none"):
        await impact(client, "db")
    found = await bound(client, "db")
    assert await impact(client, "db") == Impact()
    await things(client, found)
    schemas = [{"group": "example.org", "resource": name} for name in ("things", "missing")]
    status = {"status": {"boundSchemas": schemas}}
    await client.merge_patch(APISERVICEBINDINGS, "db", "", status, subresource="status")
    assert await impact(client, "db") == Impact(objects=2, copies=1)


async def test_people_get_rights_on_kinds_that_the_binding_has_made_alone(client: Client) -> None:
    """What a provider exports may have the name of a kind of this cluster, which is not bound."""
    with pytest.raises(BindError, match="db does not exist"):
        await roles_for_users(client, ["db"])
    for name in ("db", "other"):
        found = await bound(client, name)
        schemas = [{"group": "example.org", "resource": plural} for plural in ("things", "crates")]
        status = {"status": {"boundSchemas": schemas}}
        await client.merge_patch(APISERVICEBINDINGS, name, "", status, subresource="status")
    await things(client, found)
    lines: list[str] = []
    roles = await roles_for_users(client, [], lines.append)
    assert [role["metadata"]["name"] for role in roles] == [
        "kube-bind-edit-other",
        "kube-bind-view-other",
    ]
    assert [rule["resources"] for role in roles for rule in role["rules"]] == 2 * [["things"]]
    assert lines == ["APIServiceBinding db binds no kind yet: there is nothing to allow"]
    assert await roles_for_users(client, ["db"]) == []


async def unaccepted(client: Client, *, synced: bool = False, copied: bool = False) -> Object:
    """A binding of a bundle, held by the konnector, that nobody has given any rights for."""
    found = await bound(client, "db")
    await client.merge_patch(APISERVICEBINDINGS, "db", "", HELD)
    if copied:
        await things(client, found)
    status = conditions("InformersSynced", "True" if synced else "False", "", "")["status"]
    status["boundSchemas"] = [{"group": "example.org", "resource": "things"}]
    body = {"status": status}
    return await client.merge_patch(APISERVICEBINDINGS, "db", "", body, subresource="status")


async def test_a_binding_that_was_never_accepted_is_let_go_at_once(client: Client) -> None:
    await unaccepted(client)
    await client.create(CLUSTERROLES, binding_roles("other", [], [])[0])
    lines: list[str] = []
    await unbind(client, "db", timeout=10, progress=lines.append)
    assert "APIServiceBinding db was never accepted: its CRDs are deleted with it" in lines
    assert await left(client) == set()


@pytest.mark.parametrize("given", [{"synced": True}, {"copied": True}], ids=["synced", "copied"])
async def test_what_has_been_at_work_is_taken_apart_by_the_konnector_alone(
    client: Client, given: dict[str, bool]
) -> None:
    await unaccepted(client, **given)
    with pytest.raises(UnbindError, match="again to go on waiting"):
        await unbind(client, "db", timeout=0.3)
    assert await left(client) == {"binding"}
