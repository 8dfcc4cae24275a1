"""Rights by which kbind v2 is bound and used, and Connections that bind by themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml
from tests.support.commands import FAIRLEAD
from tests.support.kbindbound import namespace
from tests.support.kbindcommands import WHOLE, BindWorld
from tests.support.kbindworld import KbindWorld
from tests.support.waiting import SECONDS

from fairlead.api.conditions import is_true, stored_conditions
from fairlead.api.kbind import BINDINGS
from fairlead.api.kbind.rights import connection_role_name
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import CLUSTERROLES, SECRETS, SERVICEACCOUNTS
from fairlead.client import Client
from fairlead.client.lookups import may
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector.commands.v2.accept import accept_kbind
from fairlead.konnector.commands.v2.bind import KbindOptions, bind_kbind
from fairlead.konnector.commands.v2.plan import BindWish, bind_file
from fairlead.konnector.commands.v2.targets import parse_target
from fairlead.konnector.commands.v2.unbind import unbind_kbind


@pytest.fixture
async def world(kbind: KbindWorld, tmp_path: Path) -> BindWorld:
    world = BindWorld(kbind, tmp_path)
    await world.start()
    return world


async def tenant(world: BindWorld, place: str, *rules: JSON) -> Path:
    """The kubeconfig of a person with edit in a namespace, who may make Bindings there."""
    admin = world.world.consumer
    meta: JSON = {"name": "dev", "namespace": place}
    group = "rbac.authorization.k8s.io"
    own = {"apiGroups": ["core.kbind.io"], "resources": ["bindings"], "verbs": ["*"]}
    subject: JSON = {"kind": "ServiceAccount", **meta}
    role: JSON = {"apiVersion": f"{group}/v1", "metadata": meta}
    await create_all(
        admin,
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
            {**role, "kind": "Role", "rules": [own, *rules]},
            *(
                {
                    "apiVersion": role["apiVersion"],
                    "metadata": {**meta, "name": f"dev-{name}"},
                    "kind": "RoleBinding",
                    "roleRef": {"apiGroup": group, "kind": kind, "name": name},
                    "subjects": [subject],
                }
                for kind, name in (("Role", "dev"), ("ClusterRole", "edit"))
            ),
        ],
    )
    config = await as_service_account(admin, place, "dev")
    plane = world.world.consumer_plane.sandbox
    body = yaml.safe_load(plane.kubeconfig())
    body["users"] = [{"name": body["users"][0]["name"], "user": {"token": config.token}}]
    file = world.folder / "dev.kubeconfig"
    file.write_text(yaml.safe_dump(body))
    return file


async def as_person(file: Path, *words: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, *words, "--kubeconfig", str(file)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert b"Traceback" not in err
    return process.returncode, out.decode(), err.decode()


async def test_a_tenant_binds_in_its_namespace_by_roles_of_an_administrators(
    world: BindWorld,
) -> None:
    await world.bind("--api", world.api)
    await world.run("unbind", "clusterbinding/acme", "--yes")
    await world.world.connect(world.file.read_bytes(), "acme")
    await world.world.says("Ready", "True", name="acme")
    file = await tenant(world, "shop")
    ask = ("bind", "--connection", "acme", "--api", world.api, "--name", "ours")
    words = (*ask, "-n", "shop")
    code, _, err = await as_person(file, *words, "--timeout", "12s")
    assert code == 1
    assert "ClusterRole kbind-konnector:shop:ours is not written: " in err
    assert "the same command with --dry-run=client -o yaml prints it" in err
    assert "once an administrator has run `fairlead accept binding/shop/ours`" in err
    code, _, err = await world.run("unbind", "binding/shop/ours", "--yes")
    assert code == 0, err
    assert "Binding shop/ours was never accepted" in err
    code, _, err = await as_person(file, *ask)
    assert code == 1
    assert 'cannot get resource "clusterbindings"' in err
    code, plan, err = await as_person(file, *words, "--dry-run=client", "-o", "yaml")
    assert code == 0, err
    roles = [body for body in yaml.safe_load_all(plan) if body["kind"] != "Binding"]
    await create_all(world.world.consumer, roles)
    code, out, err = await as_person(file, *words)
    assert (code, out) == (0, "binding.core.kbind.io/shop/ours is Ready\n"), err
    await world.create("blue")
    await world.copied("blue")
    code, out, err = await as_person(file, "unbind", "binding/shop/ours", "--yes")
    assert (code, out) == (0, "binding.core.kbind.io/shop/ours is unbound\n"), err
    assert "ClusterRole kbind-konnector:shop:ours may be left behind" in err
    code, _, err = await as_person(file, "unbind", "connection/acme", "--yes")
    assert code == 1
    assert "connections" in err


async def test_people_with_edit_may_use_what_is_bound(world: BindWorld) -> None:
    await world.bind("--api", world.api)
    await tenant(world, "shop")
    key = Key("shop", "")
    async with Client(await as_service_account(world.world.consumer, "shop", "dev")) as person:
        assert await may(person, world.resource, "create", key)
        code, _, err = await world.bind("--api", world.api, "--no-user-roles")
        assert code == 0, err
        assert not await may(person, world.resource, "create", key)
    assert await world.left() == {one for one in WHOLE if "edit" not in one and "view" not in one}


async def test_newer_credentials_that_work_stay_and_dead_ones_are_replaced(
    world: BindWorld,
) -> None:
    admin, consumer = world.world.provider.admin, world.world.consumer
    await world.bind("--api", world.api)
    first = (await consumer.get(SECRETS, "acme-kubeconfig", "kube-bind")).to_dict()["data"]
    world.file.write_bytes(await world.bound.kubeconfig("widgets", name="second"))
    code, _, err = await world.bind("--api", world.api)
    assert code == 0, err
    secret = (await consumer.get(SECRETS, "acme-kubeconfig", "kube-bind")).to_dict()
    assert secret["data"] == first
    for account in (await admin.list(SERVICEACCOUNTS, "kbind")).items:
        if account.meta.name.startswith("team-"):
            await admin.delete(SERVICEACCOUNTS, account.meta.name, "kbind")
            await admin.delete(CLUSTERROLES, account.meta.name)
    plane = world.world.provider.plane
    assert plane is not None
    plane.sandbox.faults.drop_watches("customresourcedefinitions")
    await world.world.says("Ready", "False", name="acme")
    code, _, err = await world.bind("--api", world.api)
    assert code == 0, err
    assert "replaced the kubeconfig in Secret kube-bind/acme-kubeconfig" in err


async def test_a_dry_run_on_the_server_writes_nothing(world: BindWorld) -> None:
    code, out, err = await world.bind("--api", world.api, "--dry-run=server")
    assert code == 0, err
    assert "clusterbinding/acme (dry run, server)" in out
    assert "ClusterBinding acme would be created" in err
    assert await world.left() == set()
    await world.bind("--api", world.api)
    code, _, err = await world.bind("--api", world.api, "--dry-run=server", "-o", "yaml")
    assert code == 0, err
    assert "ClusterBinding acme is there" in err
    assert await world.left() == WHOLE


async def test_all_that_a_provider_exports_is_bound_by_its_connection(world: BindWorld) -> None:
    client = world.world.consumer
    gadgets = await world.world.provider.offer("gadgets")
    wish = BindWish(connection="all", kubeconfig=world.file.read_bytes(), everything=True)
    lines: list[str] = []
    options = KbindOptions(timeout=SECONDS, progress=lines.append)
    bound = await bind_kbind(client, bind_file(wish), options)
    assert [target.text for target in bound.targets] == ["clusterbinding/all"]
    assert await world.left() == {
        "Connection all",
        "Secret kube-bind/all-kubeconfig",
        "ClusterBinding all",
        "ClusterRole kbind-konnector-connection:all",
        "ClusterRole kbind-edit-all",
        "ClusterRole kbind-view-all",
    }
    target = parse_target("connection/all")
    await accept_kbind(client, target, options)
    assert f"binds {gadgets}" in lines
    assert f"binds {world.api}" in lines
    with pytest.raises(Exception, match="`fairlead unbind connection/all` removes the Connection"):
        await unbind_kbind(client, parse_target("clusterbinding/all"), timeout=SECONDS)
    await unbind_kbind(client, target, timeout=SECONDS)
    assert await world.left() == set()


async def test_crds_of_all_exports_are_accepted_for_a_connection(world: BindWorld) -> None:
    client = world.world.consumer
    name = await world.world.connect(world.file.read_bytes(), schema={"pullPolicy": "All"})
    await world.world.says("Connected", "True", name=name)
    code, out, err = await world.run("accept", f"connection/{name}")
    assert (code, out) == (0, f"connection.core.kbind.io/{name} is Ready\n"), err
    assert f"creates the CustomResourceDefinition of {world.api}" in err
    role = (await client.get(CLUSTERROLES, connection_role_name(name))).to_dict()
    (rule,) = role["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == ([world.api], ["update", "delete"])
    other = await world.world.connect(world.file.read_bytes(), "plain")
    code, _, err = await world.run("accept", f"connection/{other}")
    assert code == 1
    assert "binds nothing by itself" in err


async def test_bindings_beside_each_other_keep_what_they_share(world: BindWorld) -> None:
    await namespace(world.world.consumer, "garden")
    await world.bind("--api", world.api, "-n", "shop", "--name", "ours")
    for place in ("garden",):
        words = ("--connection", "acme", "--api", world.api, "-n", place, "--name", "ours")
        code, _, err = await world.run("bind", *words)
        assert code == 0, err
    await world.create("blue")
    await world.create("red", "garden")
    await world.copied("blue")
    await world.copied("red", "garden")
    code, _, err = await world.run("unbind", "binding/shop/ours", "--yes")
    assert code == 0, err
    assert "kept Connection acme, which Binding garden/ours names" in err
    copies = (await world.world.provider.admin.list(world.resource)).items
    assert [str(copy.key) for copy in copies] == ["garden/red"]
    bound = await world.world.consumer.get(BINDINGS, "ours", "garden")
    assert is_true(stored_conditions(bound.to_dict()), "Ready")
