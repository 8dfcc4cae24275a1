"""People with view, edit or admin in a namespace use what is bound, as long as it is bound."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from tests.support.konnector import World, invited
from tests.support.waiting import SECONDS, eventually, gone, when

from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, ROLEBINDINGS
from fairlead.client import Client, Forbidden
from fairlead.client.config import Impersonation
from fairlead.konnector.commands.accept import accept
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.commands.unbind import unbind
from fairlead.konnector.commands.userroles import roles_for_users
from fairlead.konnector.manifests import NAME


Person = Callable[[str], Client]
ROLES = ("kube-bind-edit-widgets", "kube-bind-view-widgets")


@pytest.fixture
async def person(world: World, stack: AsyncExitStack) -> Person:
    """Makes clients of people, each with the ClusterRole of this name in namespace default."""
    people: dict[str, Client] = {}
    for role in ("view", "edit", "admin"):
        subject = {"kind": "User", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
        body: JSON = {
            "metadata": {"name": role, "namespace": "default"},
            "roleRef": {**subject, "kind": "ClusterRole"},
            "subjects": [subject],
        }
        await world.consumer.create(ROLEBINDINGS, body)
        config = replace(world.consumer.config, impersonation=Impersonation(role))
        people[role] = await stack.enter_async_context(Client(config))
    return people.__getitem__


async def may(client: Client, world: World, name: str) -> bool:
    """Whether the server lets a person create an object."""
    try:
        await client.create(world.widgets, world.widget(name))
    except Forbidden:
        return False
    return True


async def test_people_use_a_bound_kind_until_it_is_unbound(world: World, person: Person) -> None:
    await world.konnector()
    link = await world.bound()
    editor, viewer = person("edit"), person("view")
    # The aggregation of roles comes a moment after the role.
    await eventually(lambda: may(editor, world, "blue"))
    await eventually(lambda: may(person("admin"), world, "red"))
    await when(world.provider, world.widgets, "blue", await link.provider_namespace(), until=bool)
    await when(viewer, world.widgets, "blue", "default", until=bool)
    assert not await may(viewer, world, "green")
    with pytest.raises(Forbidden):
        await editor.list(world.widgets, "kube-system")
    with pytest.raises(Forbidden):
        await editor.update(
            world.widgets,
            (await editor.get(world.widgets, "blue", "default")).to_dict(),
            subresource="status",
        )
    await unbind(world.consumer, "widgets", timeout=SECONDS)
    for role in ROLES:
        await gone(world.consumer, CLUSTERROLES, role)


async def test_the_konnector_gets_no_right_of_people(world: World, stack: AsyncExitStack) -> None:
    await world.konnector()
    await world.bound()
    account = f"system:serviceaccount:kube-bind:{NAME}"
    config = replace(world.consumer.config, impersonation=Impersonation(account))
    konnector = await stack.enter_async_context(Client(config))
    assert not await may(konnector, world, "blue")


async def test_bind_and_accept_write_no_rights_of_people_against_the_owners_wish(
    world: World,
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
