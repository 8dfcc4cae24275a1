"""What the front door asks the API server for, and what it asks once for many."""

from __future__ import annotations

import asyncio

from tests.integration.portal.handshake.conftest import ADA, BEN, house, template
from tests.integration.portal.handshake.test_handshake import names, until
from tests.support.countingplanes import Plane, quiet

from fairlead.api.kubebind import (
    APISERVICEEXPORTTEMPLATES,
)
from fairlead.client import Client
from fairlead_sandbox import Sandbox


TEMPLATES = [f"widgets-{number:03}" for number in range(100)]
AT_ONCE = 20
CALLS_OF_A_BIND = 27
"""Calls of the front door and of the provider's controllers, its Events included."""


async def test_a_hundred_templates_of_which_fifty_are_offered_by_name(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin) as it:
        await asyncio.gather(*map(it.template, TEMPLATES))
        await it.allow("Group:oidc:team-a", templates=tuple(TEMPLATES[::2]))
        await it.allow("User:oidc:ben")

        async def seen() -> bool:
            return names(await it.ask(BEN, "/api/templates")) == TEMPLATES

        await until(seen)
        traffic = Plane(plane, admin).traffic
        # Signed in, and nothing is known of what she may.
        assert (await it.ask(ADA, "/api/consumer-status")).status == 200
        many = await asyncio.gather(*(it.ask(ADA, "/api/templates") for _ in range(AT_ONCE)))
        last = await it.ask(ADA, "/api/templates")
        assert names(last) == TEMPLATES[::2]
        assert {one.text for one in many} == {last.text}
        # One for the verb alone, one for all templates, and one for each by its name.
        reviews = traffic.count("create", resource="subjectaccessreviews")
        assert reviews == len(TEMPLATES) + 2
        assert traffic.count("list", "get", resource=APISERVICEEXPORTTEMPLATES.plural) == 0


async def test_a_change_is_seen_by_who_saw_the_list_before(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        await it.template("ones")
        await it.allow("User:oidc:ada")

        async def shown(count: int, scope: str) -> bool:
            items = (await it.ask(ADA, "/api/templates")).json["items"]
            return [one["spec"]["scope"] for one in items] == count * [scope]

        await until(lambda: shown(1, "Namespaced"))
        changed = {"spec": {"scope": "Cluster"}}
        await admin.merge_patch(APISERVICEEXPORTTEMPLATES, "ones", "", changed)
        await until(lambda: shown(1, "Cluster"))
        two = template("twos")
        two["spec"]["scope"] = "Cluster"
        await admin.create(APISERVICEEXPORTTEMPLATES, two)
        await until(lambda: shown(2, "Cluster"))
        await admin.delete(APISERVICEEXPORTTEMPLATES, "twos")
        await until(lambda: shown(1, "Cluster"))


async def test_a_bind_makes_few_calls(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        # The first bind of all makes the ClusterRole that consumers share.
        assert (await it.bind(ADA, identity="cluster-0")).status == 200
        counted = Plane(plane, admin)
        await quiet(counted)
        assert (await it.bind(ADA, identity="cluster-1")).status == 200
        await quiet(counted, forget=False)
        assert len(counted.traffic.seen) == CALLS_OF_A_BIND
