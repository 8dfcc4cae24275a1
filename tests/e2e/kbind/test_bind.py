"""``fairlead bind`` by kbind v2 as a person runs it, with the real konnector."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.kbindcommands import BindWorld, whole
from tests.support.kbindworld import KbindWorld

from fairlead.api.meta import Key


@pytest.fixture
async def bind_world(kbind: KbindWorld, tmp_path: Path) -> BindWorld:
    world = BindWorld(kbind, tmp_path)
    await world.start()
    return world


@pytest.mark.edge
async def test_a_kubeconfig_and_an_api_are_all_that_a_bind_needs(
    any_kbind: KbindWorld, tmp_path: Path
) -> None:
    world = BindWorld(any_kbind, tmp_path, shared=True)
    await world.start()
    ready = f"clusterbinding.core.kbind.io/{world.name} is Ready\n"

    async def left() -> set[str]:
        return {title for title in await world.left() if world.name in title}

    code, out, err = await world.bind("--api", world.api)
    assert (code, out) == (0, ready), err
    assert await left() == whole(world.name)
    await world.create("blue")
    await world.copied("blue")
    code, out, err = await world.bind("--api", world.api)
    assert (code, out) == (0, ready), err
    assert "created" not in err
    assert "updated" not in err
    assert await left() == whole(world.name)
    code, _, err = await world.run("unbind", f"clusterbinding/{world.name}", "--yes")
    assert code == 0, err
    assert await left() == set()


async def test_a_binding_of_a_namespace_has_rights_there_alone(bind_world: BindWorld) -> None:
    world = bind_world
    code, out, err = await world.bind("--api", world.api, "-n", "shop", "--name", "ours")
    assert (code, out) == (0, "binding.core.kbind.io/shop/ours is Ready\n"), err
    role = "kbind-konnector:shop:ours"
    assert await world.left() == {
        "Connection acme",
        "Secret kube-bind/acme-kubeconfig",
        "Binding shop/ours",
        f"ClusterRole {role}",
        f"Role shop/{role}",
        f"RoleBinding shop/{role}",
        "ClusterRole kbind-edit:shop:ours",
        "ClusterRole kbind-view:shop:ours",
    }
    await world.create("blue")
    await world.copied("blue")
    code, out, err = await world.run("unbind", "binding/shop/ours", "--yes")
    assert (code, out) == (0, "binding.core.kbind.io/shop/ours is unbound\n"), err
    assert f"objects of {world.api} in namespace shop stay here" in err
    assert await world.left() == set()
    assert (await world.world.provider.admin.list(world.resource)).items == []
    assert len((await world.world.consumer.list(world.resource)).items) == 1


@pytest.mark.edge
async def test_unbinding_takes_all_back_that_bind_wrote(bind_world: BindWorld) -> None:
    world = bind_world
    await world.bind("--api", world.api)
    await world.create("blue")
    await world.copied("blue")
    code, out, err = await world.run("unbind", "clusterbinding/acme")
    assert (code, out) == (2, "")
    assert "there is no terminal to ask on" in err
    code, out, err = await world.run("unbind", "acme", "--yes")
    assert (code, out) == (1, "")
    assert "for kbind v2 give clusterbinding/acme or connection/acme" in err
    code, out, err = await world.run("unbind", "clusterbinding/acme", "--yes")
    assert (code, out) == (0, "clusterbinding.core.kbind.io/acme is unbound\n"), err
    assert await world.left() == set()
    assert (await world.world.provider.admin.list(world.resource)).items == []
    code, out, err = await world.run("unbind", "clusterbinding/acme", "--yes")
    assert (code, out) == (1, "")
    assert "ClusterBinding acme does not exist; there are none" in err


async def test_a_connection_goes_with_all_its_bindings(bind_world: BindWorld) -> None:
    world = bind_world
    await world.bind("--api", world.api)
    words = ("bind", "--connection", "acme", "--api", world.api, "-n", "shop", "--name", "ours")
    code, out, err = await world.run(*words)
    assert (code, out) == (0, "binding.core.kbind.io/shop/ours is Ready\n"), err
    code, out, err = await world.run("unbind", "clusterbinding/acme", "--yes")
    assert code == 0, err
    assert "kept Connection acme, which Binding shop/ours names" in err
    code, out, err = await world.run("unbind", "connection/acme", "--yes")
    assert (code, out) == (0, "connection.core.kbind.io/acme is unbound\n"), err
    assert await world.left() == set()


async def test_orphaned_copies_stay_at_the_provider(bind_world: BindWorld) -> None:
    world = bind_world
    await world.bind("--api", world.api)
    await world.create("blue")
    await world.copied("blue")
    code, out, err = await world.run("unbind", "clusterbinding/acme", "--orphan")
    assert (code, out) == (0, "clusterbinding.core.kbind.io/acme is unbound\n"), err
    assert "1 object leaves its copy on the provider" in err
    assert await world.left() == set()
    assert len((await world.world.provider.admin.list(world.resource)).items) == 1


@pytest.mark.edge
async def test_a_file_written_by_hand_is_accepted(bind_world: BindWorld) -> None:
    world = bind_world
    name = await world.world.connect(world.file.read_bytes())
    await world.bound.bind("by-hand", world.api, connection=name)
    await world.bound.says("Ready", "False", key=Key("", "by-hand"))
    code, out, err = await world.run("accept", "by-hand")
    assert (code, out) == (1, "")
    assert "for kbind v2 give clusterbinding/by-hand" in err
    code, out, err = await world.run("accept", "clusterbinding/by-hand")
    assert (code, out) == (0, "clusterbinding.core.kbind.io/by-hand is Ready\n"), err
    assert f"binds {world.api}" in err
    await world.create("blue")
    await world.copied("blue")
    code, out, err = await world.run("accept", "clusterbinding/by-hand")
    assert (code, out) == (0, "clusterbinding.core.kbind.io/by-hand is Ready\n"), err
    assert "updated" not in err
    assert "created" not in err
    code, out, err = await world.run("unbind", "clusterbinding/by-hand", "--yes")
    assert code == 0, err
    assert f"kept Connection {name}, which `fairlead bind` did not create" in err
    assert await world.left() == {f"Connection {name}", f"Secret kube-bind/{name}"}


async def test_a_binding_that_was_never_accepted_is_unbound(bind_world: BindWorld) -> None:
    world = bind_world
    name = await world.world.connect(world.file.read_bytes())
    await world.bound.bind("by-hand", world.api, connection=name)
    await world.bound.says("Ready", "False", "Forbidden", key=Key("", "by-hand"))
    code, out, err = await world.run(
        "unbind", "clusterbinding/by-hand", "--yes", "--timeout", "20s"
    )
    assert (code, out) == (0, "clusterbinding.core.kbind.io/by-hand is unbound\n"), err
    assert "ClusterBinding by-hand was never accepted" in err
    assert f"deleted CustomResourceDefinition {world.api}" in err
