"""People with view, edit or admin in a namespace use what is bound, as long as it is bound."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from tests.support.konnector import World, invited
from tests.support.waiting import SECONDS, eventually, gone, when

from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, ROLEBINDINGS
from fairlead.client import Client, Forbidden
from fairlead.client.config import Impersonation
from fairlead.client.lookups import find
from fairlead.konnector.commands.accept import accept
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.commands.rehearsal import rehearse
from fairlead.konnector.commands.unbind import unbind
from fairlead.konnector.commands.userroles import roles_for_users
from fairlead.konnector.manifests import NAME
from fairlead.konnector.rights import editor_role_name, viewer_role_name


ROLES = (editor_role_name("widgets"), viewer_role_name("widgets"))


async def person(world: World, stack: AsyncExitStack, role: str) -> Client:
    """A client of a person who has this ClusterRole in namespace default."""
    name = f"{role}-{world.name}"
    about = {"apiGroup": "rbac.authorization.k8s.io", "name": name}
    body: JSON = {
        "metadata": {"name": name, "namespace": "default"},
        "roleRef": {**about, "kind": "ClusterRole", "name": role},
        "subjects": [{**about, "kind": "User"}],
    }
    await world.consumer.create(ROLEBINDINGS, body)
    config = replace(world.consumer.config, impersonation=Impersonation(name))
    return await stack.enter_async_context(Client(config))


async def may(client: Client, world: World, name: str) -> bool:
    """Whether the server lets a person create an object."""
    try:
        await client.create(world.widgets, world.widget(name))
    except Forbidden:
        return False
    return True


async def test_people_use_a_bound_kind_until_it_is_unbound(
    any_world: World, stack: AsyncExitStack
) -> None:
    """Who aggregates roles, and who looks whether a right may be given, is a real server too."""
    world, widgets = any_world, any_world.widgets
    await world.konnector()
    link = await world.bound()
    viewer, editor, admin = [await person(world, stack, one) for one in ("view", "edit", "admin")]
    # The aggregation of roles comes a moment after the role.
    await eventually(lambda: may(editor, world, "blue"))
    await eventually(lambda: may(admin, world, "red"))
    await when(world.provider, widgets, "blue", await link.provider_namespace(), until=bool)

    async def seen() -> bool:
        try:
            return bool(await viewer.get(widgets, "blue", "default"))
        except Forbidden:
            return False

    await eventually(seen)
    assert not await may(viewer, world, "green")
    with pytest.raises(Forbidden):
        await editor.list(widgets, "kube-system")
    blue = (await editor.get(widgets, "blue", "default")).to_dict()
    with pytest.raises(Forbidden):
        await editor.update(widgets, blue, subresource="status")
    await unbind(world.consumer, world.name, timeout=SECONDS)
    for role in (editor_role_name(world.name), viewer_role_name(world.name)):
        await gone(world.consumer, CLUSTERROLES, role)


async def test_the_konnector_gets_no_right_of_people(world: World, stack: AsyncExitStack) -> None:
    await world.konnector()
    await world.bound()
    account = f"system:serviceaccount:kube-bind:{NAME}"
    config = replace(world.consumer.config, impersonation=Impersonation(account))
    konnector = await stack.enter_async_context(Client(config))
    assert not await may(konnector, world, "blue")


_UNLABELLED: JSON = {"metadata": {"labels": None}}


@pytest.mark.parametrize("by_bind", [True, False], ids=["bind", "accept"])
async def test_bind_and_accept_write_no_rights_of_people_against_the_owners_wish(
    world: World, by_bind: bool
) -> None:
    await world.konnector()
    link = await invited(world.consumer, world.provider)
    await bind(world.consumer, link.response, timeout=SECONDS, user_roles=False)
    await accept(world.consumer, "widgets", timeout=SECONDS, user_roles=False)
    for role in ROLES:
        await gone(world.consumer, CLUSTERROLES, role)
    # A binding from before gets them by the command, or by accepting it again.
    printed = await roles_for_users(world.consumer, [])
    await accept(world.consumer, "widgets", timeout=SECONDS)
    for role, body in zip(ROLES, printed, strict=True):
        found = (await world.consumer.get(CLUSTERROLES, role)).to_dict()
        assert (body["metadata"]["name"], found["rules"]) == (role, body["rules"])
        assert found["metadata"]["labels"] == body["metadata"]["labels"]
    # Who says so later takes away what was written, and what others have called so stays.
    await world.consumer.merge_patch(CLUSTERROLES, ROLES[1], "", patch=_UNLABELLED)
    lines: list[str] = []
    await rehearse(world.consumer, link.response, user_roles=False, progress=lines.append)
    assert f"ClusterRole {ROLES[0]} would be deleted" in lines
    if by_bind:
        await bind(world.consumer, link.response, timeout=SECONDS, user_roles=False)
    else:
        await accept(world.consumer, "widgets", timeout=SECONDS, user_roles=False)
    assert await find(world.consumer, CLUSTERROLES, ROLES[0]) is None
    assert (await world.consumer.get(CLUSTERROLES, ROLES[1])).meta.name
