"""Invitations by kbind v2 end to end: one file binds, and no consumer reaches another."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.commands import fairlead
from tests.support.dying import DyingClient, KilledError
from tests.support.kbindbound import namespace, widget
from tests.support.kbindinvited import Invited, apply_all, kubeconfig_of
from tests.support.kbindworld import RULES, KbindWorld, has
from tests.support.konnector import World
from tests.support.waiting import SECONDS, eventually, gone, when

from fairlead.api.kbind import BINDINGS, CONNECTIONS, lease_name
from fairlead.api.kbind.names import (
    ANNOTATION_CONSUMER_OBJECT_UID,
    CONSUMER_CLUSTER_UID,
    LABEL_EXPORTED,
    LABEL_MANAGED,
    LEASE_NAMESPACE,
)
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    LEASES,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client import Client, Forbidden, NotFound, Unauthorized, parse_kubeconfig
from fairlead.provider.commands.consumers import (
    UnknownConsumerError,
    find_consumer,
    find_consumers,
)
from fairlead.provider.commands.overview import ConsumerRow, consumers
from fairlead.provider.commands.revoke.v2 import kbind_inventory, revoke_kbind
from fairlead.provider.commands.revoke.work import ClearingError, revoke
from fairlead.provider.commands.rotation.v2 import rotate_kbind
from fairlead.provider.commands.rotation.work import RotateError
from fairlead.provider.identity import InviteError
from fairlead.provider.invitation import invite as invite_by_template
from fairlead.provider.options import InviteOptions
from fairlead.provider.v2.invitation import invite
from fairlead.provider.v2.record import LABEL_CONSUMER, KbindInvitation, home_of


async def row_of(shop: Invited) -> ConsumerRow:
    """The line of `fairlead provider consumers`."""
    (row,) = (one for one in await consumers(shop.there) if one.identity == shop.name)
    return row


async def revoked(shop: Invited, client: Client | None = None, **options: Any) -> list[str]:
    """Revoke a consumer."""
    lines: list[str] = []
    there = client or shop.there
    home = await find_consumer(shop.there, shop.name)
    given = {"keep_data": False, "timeout": SECONDS, **options}
    await revoke_kbind(there, home, progress=lines.append, **given)
    return lines


async def rotated(shop: Invited, *, finish: bool = False) -> list[JSON]:
    """Rotate the token of a consumer."""
    home = await find_consumer(shop.there, shop.name)
    return await rotate_kbind(
        shop.there, home, options=InviteOptions(), finish=finish, progress=shop.lines.append
    )


async def is_known(file: Sequence[JSON]) -> bool:
    """Whether the provider knows the token of a file."""
    async with Client(parse_kubeconfig(kubeconfig_of(file))) as client:
        try:
            await client.get(NAMESPACES, "kube-system")
        except Unauthorized:
            return False
        except Forbidden:
            pass
        return True


async def refused(file: Sequence[JSON]) -> None:
    """Wait until the provider refuses the token of a file; it remembers one for some seconds."""

    async def unknown() -> bool:
        return not await is_known(file)

    await eventually(unknown)


async def exists(client: Client, resource: Resource, name: str, namespace: str = "") -> bool:
    """Whether an object is there, and is not being deleted."""
    try:
        return not (await client.get(resource, name, namespace)).meta.deleting
    except NotFound:
        return False


@pytest.mark.edge
async def test_a_file_alone_binds_and_another_consumers_account_reaches_nothing(
    any_kbind: KbindWorld,
) -> None:
    shop = Invited(any_kbind)
    other = Invited(any_kbind, f"{shop.name}-other")
    await any_kbind.provider.offer(exported=False)
    await shop.invite()
    await other.invite()
    await any_kbind.konnector()
    await shop.apply()
    await shop.bound()
    await shop.create()
    copy = await shop.copied()
    assert copy["spec"] == {"size": 1}
    status = {"status": {"phase": "Ready"}}
    await shop.there.merge_patch(shop.resource, "a", shop.name, status, subresource="status")
    await when(
        *(shop.here, shop.resource, "a", shop.name),
        until=lambda body: body.get("status") == status["status"],
    )
    async with Client(parse_kubeconfig(kubeconfig_of(other.file))) as theirs:
        await theirs.list(shop.resource, other.name)
        attempts: list[Any] = [
            theirs.get(shop.resource, "a", shop.name),
            theirs.list(shop.resource, shop.name),
            theirs.list(shop.resource),
            theirs.merge_patch(shop.resource, "a", shop.name, {"spec": {"size": 2}}),
            theirs.delete(shop.resource, "a", shop.name),
            theirs.create(shop.resource, widget(shop.resource, "b", shop.name)),
            theirs.list(SECRETS, shop.name),
            theirs.list(SECRETS, other.home),
            theirs.list(LEASES, LEASE_NAMESPACE),
            theirs.get(SECRETS, "kubeconfig", shop.home),
        ]
        for attempt in attempts:
            with pytest.raises(Forbidden):
                await attempt
    await shop.clean()
    for one in (shop, other):
        await revoked(one)


@pytest.mark.edge
async def test_revoking_takes_access_copies_and_lease_and_a_new_invitation_has_a_new_token(
    any_kbind: KbindWorld,
) -> None:
    shop = Invited(any_kbind)
    await any_kbind.provider.offer()
    file = await shop.invite()
    assert (await row_of(shop)).last_heartbeat_time == ""
    await any_kbind.konnector()
    await shop.apply()
    await shop.bound()
    await shop.create()
    await shop.copied()
    row = await row_of(shop)
    assert (row.protocol, row.namespaces, row.exports) == ("v2", [shop.name], [shop.api])
    assert (row.objects, row.state, row.warnings) == (1, "ok", [])
    uid = (await shop.here.get(NAMESPACES, "kube-system")).meta.uid
    lease = await shop.there.get(LEASES, lease_name(uid), LEASE_NAMESPACE)
    assert row.last_heartbeat_time == lease.to_dict()["spec"]["renewTime"]
    inventory = await kbind_inventory(shop.there, await find_consumer(shop.there, shop.name))
    assert (inventory.exports, inventory.namespaces, inventory.objects) == (1, 1, 1)
    await revoked(shop)
    await refused(file)
    for resource, name, space in (
        (shop.resource, "a", shop.name),
        (LEASES, lease_name(uid), LEASE_NAMESPACE),
        (NAMESPACES, shop.home, ""),
        (NAMESPACES, shop.name, ""),
        (CLUSTERROLEBINDINGS, f"kbind-consumers.{shop.home}", ""),
        (ROLEBINDINGS, f"kbind-consumers.{shop.home}", LEASE_NAMESPACE),
    ):
        await gone(shop.there, resource, name, space)
    # What the consumer has is its own.
    await shop.here.get(shop.resource, "a", shop.name)
    again = await shop.invite()
    assert kubeconfig_of(again) != kubeconfig_of(file)
    assert not await is_known(file)
    # The konnector goes on with the new file.
    await shop.apply()
    await shop.copied()
    await shop.clean()
    await revoked(shop)


@pytest.mark.edge
async def test_a_rotated_token_is_used_beside_the_old_until_that_is_taken_away(
    any_kbind: KbindWorld,
) -> None:
    shop = Invited(any_kbind)
    await any_kbind.provider.offer()
    old = await shop.invite()
    await any_kbind.konnector()
    await shop.apply()
    await shop.bound()
    with pytest.raises(RotateError, match="no rotation"):
        await rotated(shop, finish=True)
    new = await rotated(shop)
    assert kubeconfig_of(new) != kubeconfig_of(old)
    assert [one for one in new if one["kind"] != "Secret"] == [
        one for one in old if one["kind"] != "Secret"
    ]
    assert await rotated(shop) == new
    assert await is_known(old)
    assert await is_known(new)
    shop.file = new
    await shop.apply()
    await rotated(shop, finish=True)
    await refused(old)
    assert await is_known(new)
    assert await shop.invite() == new
    await shop.create()
    await shop.copied()
    await shop.clean()
    await revoked(shop)


@pytest.mark.edge
async def test_the_right_to_crds_by_their_names_is_not_enough(any_kbind: KbindWorld) -> None:
    """So an invitation gives all to read: RBAC limits no list by labels to names."""
    api = await any_kbind.provider.offer()
    crds = CUSTOMRESOURCEDEFINITIONS
    named = rule(crds.group, [crds.plural], ("get", "list", "watch"), names=[api])
    await any_kbind.konnector()
    await any_kbind.connect(await any_kbind.provider.kubeconfig(rules=[RULES[0], named]))
    await any_kbind.says("PermissionDenied", "True", "Forbidden", crds.plural)
    await any_kbind.consumer.delete(CONNECTIONS, any_kbind.name)
    await gone(any_kbind.consumer, CONNECTIONS, any_kbind.name)


async def test_a_second_invitation_gives_the_same_file_and_adds_what_it_names(
    kbind: KbindWorld,
) -> None:
    shop = Invited(kbind)
    await kbind.provider.offer(exported=False)
    gadgets = await kbind.provider.offer("gadgets", exported=False)
    first = await shop.invite()
    crd = await shop.there.get(CUSTOMRESOURCEDEFINITIONS, shop.api)
    assert crd.meta.labels[LABEL_EXPORTED] == "true"
    assert any(LABEL_EXPORTED in line for line in shop.lines)
    shop.lines.clear()
    assert await shop.invite() == first
    assert not [line for line in shop.lines if "127.0.0.1" not in line]
    more = await shop.invite(gadgets, namespaces=("store",), related=("secrets/FromProvider",))
    assert more[0] == first[0]
    bindings = [one for one in more if one["kind"] == "Binding"]
    assert [one["metadata"]["namespace"] for one in bindings] == [shop.name, "store"]
    for one in bindings:
        assert [api["name"] for api in one["spec"]["apis"]] == [shop.api, gadgets]
        assert one["spec"]["relatedResources"] == [
            {"resource": "secrets", "direction": "FromProvider"}
        ]
    role = (await shop.there.get(ROLES, "kube-binder-kbind", "store")).to_dict()
    assert [(one["resources"], one["verbs"][-1]) for one in role["rules"]] == [
        (["widgets"], "delete"),
        (["gadgets"], "delete"),
        (["secrets"], "watch"),
    ]


async def test_a_consumer_whose_konnector_applies_the_file_gets_related_secrets(
    kbind: KbindWorld,
) -> None:
    shop = Invited(kbind)
    await kbind.provider.offer()
    await shop.invite(related=("secrets/FromProvider", "configmaps/FromConsumer"))
    await kbind.konnector()
    await shop.apply()
    await shop.bound()
    login = {"metadata": {"name": "login"}, "stringData": {"password": "x"}}
    await shop.there.create(SECRETS, login, shop.name)
    await when(shop.here, SECRETS, "login", shop.name, until=bool)
    await shop.here.create(CONFIGMAPS, {"metadata": {"name": "settings"}}, shop.name)
    await when(shop.there, CONFIGMAPS, "settings", shop.name, until=bool)
    lines = await revoked(shop)
    # The Secret is the provider's own.
    assert any("secret/login" in line for line in lines)
    await gone(shop.there, CONFIGMAPS, "settings", shop.name)
    left = await shop.there.get(NAMESPACES, shop.name)
    assert LABEL_CONSUMER not in left.meta.labels


async def test_a_whole_cluster_is_given_by_a_word_and_with_a_warning(kbind: KbindWorld) -> None:
    shop = Invited(kbind)
    await kbind.provider.offer()
    await shop.invite(whole_cluster=True)
    assert any("see each other's objects" in line for line in shop.lines)
    assert [one["kind"] for one in shop.file] == [
        *("Secret", "Connection", "ClusterRole", "ClusterBinding")
    ]
    await kbind.konnector()
    await shop.apply()
    await shop.bound()
    await namespace(shop.here, "far")
    await shop.create(space="far")
    await shop.copied(space="far")
    await shop.there.create(shop.resource, widget(shop.resource, "theirs", "far"))
    row = await row_of(shop)
    assert (row.objects, row.namespaces, row.state) == (1, [], "ok")
    await revoked(shop)
    await gone(shop.there, shop.resource, "a", "far")
    await gone(shop.there, CLUSTERROLES, f"kube-binder-kbind.{shop.home}")
    await shop.there.get(shop.resource, "theirs", "far")


async def test_a_namespace_of_another_is_not_taken(kbind: KbindWorld) -> None:
    shop, other = Invited(kbind, "shop"), Invited(kbind, "other")
    await kbind.provider.offer()
    await other.invite(namespaces=("theirs",))
    await namespace(shop.there, "konnectors", **{CONSUMER_CLUSTER_UID: "1", LABEL_MANAGED: "true"})
    legacy = {"backend.kube-bind.io/identity": "zoo"}
    await shop.there.create(NAMESPACES, {"metadata": {"name": "zoo", "annotations": legacy}})
    await namespace(shop.there, "plain")
    for name, reason in {
        "theirs": "belongs to the consumer",
        other.home: "accounts of consumers",
        "konnectors": "konnector of cluster 1",
        "zoo": "v1alpha2",
        "kube-system": "cluster itself",
        "default": "cluster itself",
        "kbind": "Leases",
        "kube-bind": "cluster itself",
        "fairlead-provider": "provider's controllers",
    }.items():
        with pytest.raises(InviteError, match=reason):
            await shop.invite(namespaces=(name,), existing=True)
    with pytest.raises(InviteError, match="--existing-namespaces"):
        await shop.invite(namespaces=("plain",))
    # Nothing was written for what was refused.
    with pytest.raises(NotFound):
        await shop.there.get(NAMESPACES, shop.home)
    await shop.invite(namespaces=("plain",), existing=True)
    # The word is for the first time alone.
    await shop.invite()
    # Revoking lets it go, with all that it has.
    await shop.there.create(CONFIGMAPS, {"metadata": {"name": "own"}}, "plain")
    lines = await revoked(shop)
    assert "namespace/plain stays and belongs to no consumer" in lines
    plain = await shop.there.get(NAMESPACES, "plain")
    assert (plain.meta.deleting, LABEL_CONSUMER in plain.meta.labels) == (False, False)
    await shop.there.get(CONFIGMAPS, "own", "plain")
    with pytest.raises(NotFound):
        await shop.there.get(ROLES, "kube-binder-kbind", "plain")


async def test_tokens_that_it_could_make_are_named_where_others_may_have_some(
    kbind: KbindWorld,
) -> None:
    shop = Invited(kbind)
    await kbind.provider.offer()
    await namespace(shop.there, "plain")
    await shop.invite(
        existing=True, namespaces=("plain", "own"), related=("secrets/FromConsumer",)
    )
    assert any("a token of any ServiceAccount" in line for line in shop.lines)
    async with Client(parse_kubeconfig(kubeconfig_of(shop.file))) as theirs:
        for space in ("plain", "own"):
            annotations = {"kubernetes.io/service-account.name": "default"}
            token: JSON = {"metadata": {"name": "mine", "annotations": annotations}}
            token["type"] = "kubernetes.io/service-account-token"
            await theirs.create(SECRETS, token, space)
    lines = await revoked(shop)
    (warning,) = (line for line in lines if line.startswith("warning: "))
    assert "namespace plain" in warning
    assert "mine" in warning
    assert await exists(shop.there, SECRETS, "mine", "plain")
    await gone(shop.there, NAMESPACES, "own")


async def test_what_cannot_be_invited_is_refused_before_anything_is_written(
    kbind: KbindWorld,
) -> None:
    shop = Invited(kbind)
    await kbind.provider.offer()
    refusals: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
        (("nothings.example.org",), {}, "no CustomResourceDefinition nothings.example.org"),
        (("deployments.apps",), {}, "no consumer can bind"),
        (("connections.core.kbind.io",), {}, "no consumer can bind"),
        ((), {"namespaces": ("shop",), "whole_cluster": True}, "--whole-cluster"),
        ((), {"related": ("secrets/FromProvider",), "whole_cluster": True}, "--related"),
    ]
    for apis, more, reason in refusals:
        with pytest.raises(InviteError, match=reason):
            await shop.invite(*apis, **more)
    with pytest.raises(InviteError, match="not a valid name of a namespace"):
        await Invited(kbind, "shop.team").invite()
    with pytest.raises(NotFound):
        await shop.there.get(NAMESPACES, shop.home)
    await shop.invite(connection="acme")
    with pytest.raises(InviteError, match="--name acme"):
        await shop.invite(connection="other")


async def test_a_copy_that_is_held_is_named_and_goes_by_force(
    kbind: KbindWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.provider.bounds.FINALIZER_SECONDS", 0.1)
    shop = Invited(kbind)
    await kbind.provider.offer()
    file = await shop.invite()
    await kbind.konnector()
    await shop.apply()
    await shop.bound()
    await shop.create()
    await shop.copied()
    held = {"metadata": {"finalizers": ["example.org/slow"]}}
    await shop.there.merge_patch(shop.resource, "a", shop.name, held)
    with pytest.raises(ClearingError, match=r"no longer has access.*--force"):
        await revoked(shop, timeout=1.0)
    await refused(file)
    assert (await row_of(shop)).deleting
    with pytest.raises(InviteError, match="being revoked"):
        await shop.invite()
    with pytest.raises(RotateError, match="being revoked"):
        await rotated(shop)
    await revoked(shop, force=True)
    await gone(shop.there, NAMESPACES, shop.home)


async def test_data_is_kept_where_that_is_said(kbind: KbindWorld) -> None:
    shop = Invited(kbind)
    await kbind.provider.offer()
    await shop.invite()
    await kbind.konnector()
    await shop.apply()
    await shop.bound()
    await shop.create()
    copy = await shop.copied()
    lines = await revoked(shop, keep_data=True)
    assert f"namespace/{shop.name} stays and belongs to no consumer" in lines
    kept = await shop.there.get(shop.resource, "a", shop.name)
    assert kept.meta.uid == copy["metadata"]["uid"]
    await gone(shop.there, NAMESPACES, shop.home)


@pytest.mark.parametrize("work", ["invite", "rotate", "revoke"])
async def test_a_command_killed_at_any_write_goes_on(kbind: KbindWorld, work: str) -> None:
    """After each write another one does the rest, and a revocation leaves no rights."""
    shop = Invited(kbind)
    await kbind.provider.offer(exported=False)
    for writes in range(1, 40):
        if work != "invite":
            await shop.invite()
        if work == "revoke":
            marks = {CONSUMER_CLUSTER_UID: "1", ANNOTATION_CONSUMER_OBJECT_UID: "2"}
            body = widget(shop.resource, "a", shop.name, metadata={"annotations": marks})
            await shop.there.create(shop.resource, body)
        admin = shop.there
        async with DyingClient(admin.config, writes=writes) as dying:
            shop.there = dying
            try:
                if work == "invite":
                    await shop.invite()
                elif work == "rotate":
                    await rotated(shop)
                else:
                    await revoked(shop)
            except KilledError:
                finished = False
            else:
                finished = True
            finally:
                shop.there = admin
        if work == "revoke" and not await exists(shop.there, shop.resource, "a", shop.name):
            # The data goes after the access.
            account = (SERVICEACCOUNTS, "kube-binder", shop.home)
            assert not await exists(shop.there, *account)
            assert not await exists(shop.there, ROLEBINDINGS, "kube-binder-kbind", shop.name)
        if work == "rotate":
            await rotated(shop)
            await rotated(shop, finish=True)
        elif work == "invite":
            await shop.invite()
        if work != "revoke" or await exists(shop.there, NAMESPACES, shop.home):
            await revoked(shop)
        await gone(shop.there, NAMESPACES, shop.home)
        await gone(shop.there, NAMESPACES, shop.name)
        for resource in (CLUSTERROLEBINDINGS, ROLEBINDINGS, CLUSTERROLES):
            names = {one.meta.name for one in (await shop.there.list(resource)).items}
            assert not [name for name in names if shop.home in name]
        if finished:
            break
    assert writes > 1


async def test_a_file_that_is_deleted_with_its_roles_goes_on_once_they_are_back(
    kbind: KbindWorld,
) -> None:
    shop = Invited(kbind)
    await kbind.provider.offer()
    await shop.invite()
    await kbind.konnector()
    await shop.apply()
    await shop.bound()
    await shop.create()
    await shop.copied()
    roles = [one for one in shop.file if "Role" in one["kind"]]
    for body in roles:
        resource = await shop.here.discovery.resource_for(body["apiVersion"], body["kind"])
        meta = body["metadata"]
        await shop.here.delete(resource, meta["name"], meta.get("namespace", ""))
    (name,) = (one["metadata"]["name"] for one in shop.file if one["kind"] == "Binding")
    await shop.here.delete(BINDINGS, name, shop.name)
    await when(shop.here, BINDINGS, name, shop.name, until=has("Ready", "False"))
    await apply_all(shop.here, roles)
    await gone(shop.here, BINDINGS, name, shop.name)
    await gone(shop.there, shop.resource, "a", shop.name)


async def test_the_commands_write_the_file_privately_and_list_rotate_and_revoke(
    kbind: KbindWorld, tmp_path: Path
) -> None:
    shop = Invited(kbind, "shop-team")
    await kbind.provider.offer()
    assert kbind.provider.plane is not None
    plane, file = kbind.provider.plane.sandbox, tmp_path / "shop-team.yaml"

    async def run(*words: str) -> tuple[int, str, str]:
        return await fairlead(plane, tmp_path, "provider", *words)

    invite = ("invite", shop.name, "--protocol", "v2", "--api", shop.api)
    code, out, err = await run(*invite, "-o", str(file))
    assert (code, out) == (0, ""), err
    assert f"fairlead bind -f {file}" in err
    assert stat.S_IMODE((await asyncio.to_thread(file.stat)).st_mode) == 0o600
    first = list(yaml.safe_load_all(await asyncio.to_thread(file.read_text)))
    token = kubeconfig_of(first).decode()
    # Without a file it is what is printed, and nothing else is.
    code, out, err = await run(*invite)
    assert (code, list(yaml.safe_load_all(out))) == (0, first)
    assert token not in err
    code, out, _ = await run("consumers")
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["CONSUMER", "PROTOCOL", "NAMESPACE"],
        [shop.name, "v2", shop.name],
    ]
    assert "never" in out
    code, out, _ = await run("consumers", "--json")
    (row,) = json.loads(out)
    assert (row["protocol"], row["namespace"]) == ("v2", shop.home)
    code, out, err = await run("rotate", shop.name, "-o", str(file))
    assert (code, out) == (0, ""), err
    assert f"fairlead provider rotate {shop.name} --finish" in err
    second = list(yaml.safe_load_all(await asyncio.to_thread(file.read_text)))
    assert second[0] != first[0]
    code, out, err = await run("rotate", shop.name, "--finish")
    assert (code, out) == (0, ""), err
    code, out, err = await run("revoke", shop.name, "--yes")
    assert (code, out) == (0, f"{shop.name} is revoked\n"), err
    code, _, err = await run("revoke", shop.name, "--yes")
    assert (code, "v1alpha2" in err) == (1, False), err


async def test_a_silent_konnector_and_lost_credentials_are_told(kbind: KbindWorld) -> None:
    shop = Invited(kbind)
    await kbind.provider.offer()
    await shop.invite()
    konnector = await kbind.konnector()
    await shop.apply()
    await shop.bound()
    await konnector.stop()
    uid = (await shop.here.get(NAMESPACES, "kube-system")).meta.uid
    renewed = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
    await shop.there.merge_patch(LEASES, lease_name(uid), LEASE_NAMESPACE, renewed)
    row = await row_of(shop)
    assert (row.state, row.reason) == ("failed", "HeartbeatTimeout")
    assert row.last_heartbeat_time == renewed["spec"]["renewTime"]
    await shop.there.delete(SERVICEACCOUNTS, "kube-binder", shop.home)
    row = await row_of(shop)
    assert (row.state, row.reason) == ("failed", "CredentialsRefused")


async def test_the_lease_of_another_konnector_is_known_by_the_copies(kbind: KbindWorld) -> None:
    """The original's konnector does not say whose account it has."""
    shop = Invited(kbind)
    await kbind.provider.offer()
    await shop.invite()
    konnector = await kbind.konnector()
    await shop.apply()
    await shop.bound()
    await shop.create()
    await shop.copied()
    await konnector.stop()
    uid = (await shop.here.get(NAMESPACES, "kube-system")).meta.uid
    away = {"metadata": {"annotations": {f"account.fairlead.dev/{shop.home}": None}}}
    await shop.there.merge_patch(LEASES, lease_name(uid), LEASE_NAMESPACE, away)
    assert (await row_of(shop)).last_heartbeat_time
    await shop.there.delete(shop.resource, "a", shop.name)
    assert not (await row_of(shop)).last_heartbeat_time


async def test_consumers_of_both_protocols_stand_beside_each_other(world: World) -> None:
    former = await invite_by_template(world.provider, name="shop", template="widgets")
    request = KbindInvitation(apis=(world.widgets.group_resource,))
    await invite(world.provider, name="shop", request=request, progress=lambda _line: None)
    rows = await consumers(world.provider)
    assert [(row.identity, row.protocol) for row in rows] == [
        ("shop", "v2"),
        ("shop", "v1alpha2"),
    ]
    with pytest.raises(UnknownConsumerError, match="give the cluster namespace"):
        await find_consumer(world.provider, "shop")
    home = await find_consumer(world.provider, home_of("shop"))
    cluster = await find_consumer(world.provider, former["providerNamespace"])
    await revoke(
        *(world.provider, cluster),
        keep_data=False,
        timeout=SECONDS,
        progress=lambda _line: None,
    )
    await world.provider.get(ROLEBINDINGS, "kube-binder-kbind", "shop")
    rows = await consumers(world.provider)
    assert [row.protocol for row in rows] == ["v2"]
    with pytest.raises(UnknownConsumerError):
        await find_consumers(world.provider, ["shop"])
    await revoke_kbind(
        *(world.provider, home),
        keep_data=False,
        timeout=SECONDS,
        progress=lambda _line: None,
    )
    assert await consumers(world.provider) == []
