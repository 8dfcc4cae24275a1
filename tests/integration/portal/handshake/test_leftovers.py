"""What a killed replica has left goes, with the rights of the program's own manifests."""

from __future__ import annotations

from tests.integration.portal.handshake.conftest import ADA, house
from tests.support.waiting import eventually

from fairlead.api.kubebind import API_VERSION, BINDABLERESOURCESREQUESTS
from fairlead.api.meta import JSON
from fairlead.api.resource import SECRETS
from fairlead.client import Client, ServerError
from fairlead.portal.handshake.leftovers import LEFT_SECONDS
from fairlead.portal.options import DEFAULT_NAMESPACE
from fairlead_sandbox import Sandbox


OURS, ANSWER = "fairlead-bind-0123456789abcdef", "fairlead-bind-fedcba9876543210"
OTHERS = ("fairlead-bind-mine", "fairlead-bind-00")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def left(admin: Client) -> set[str]:
    found = [
        one.meta.name
        for resource in (BINDABLERESOURCESREQUESTS, SECRETS)
        for one in (await admin.list(resource, DEFAULT_NAMESPACE)).items
    ]
    return {name for name in found if name.startswith("fairlead-bind")}


async def request(admin: Client, name: str) -> JSON:
    """Leave a request, and tell how a Secret names it as its owner."""
    body: JSON = {
        "apiVersion": API_VERSION,
        "kind": BINDABLERESOURCESREQUESTS.kind,
        "metadata": {"name": name, "namespace": DEFAULT_NAMESPACE},
        "spec": {
            "templateRef": {"name": "widgets"},
            "clusterIdentity": {"identity": "cluster-1"},
            "author": ADA.author,
        },
    }
    made = await admin.create(BINDABLERESOURCESREQUESTS, body)
    owner = {"apiVersion": API_VERSION, "kind": BINDABLERESOURCESREQUESTS.kind}
    return {**owner, "name": name, "uid": made.meta.uid}


async def answer(admin: Client, name: str, *owners: JSON) -> None:
    metadata = {"name": name, "namespace": DEFAULT_NAMESPACE, "ownerReferences": list(owners)}
    body: JSON = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await admin.create(SECRETS, body)


async def test_what_a_killed_replica_has_left_goes_and_nothing_else(
    plane: Sandbox, admin: Client
) -> None:
    clock = Clock()
    async with house(plane, admin, provider=False, clock=clock) as it:
        await request(admin, OURS)
        owner = await request(admin, OTHERS[0])
        await request(admin, OTHERS[1])
        # One whose request has gone, where no collector was fast enough; and another's.
        await answer(admin, ANSWER, owner)
        await answer(admin, "fairlead-bind-aaaaaaaaaaaaaaaa")
        clock.now = 1e6
        everything = await left(admin)

        async def known() -> bool:
            await it.leftovers.sweep()
            return len(it.leftovers._seen) == 2

        await eventually(known)
        clock.now += LEFT_SECONDS - 1
        await it.leftovers.sweep()
        # A live replica may wait for what is not old.
        assert await left(admin) == everything
        clock.now += 1
        await it.leftovers.sweep()
        assert await left(admin) == everything - {OURS, ANSWER}

        async def forgotten() -> bool:
            await it.leftovers.sweep()
            return not it.leftovers._seen

        await eventually(forgotten)


async def test_requests_go_where_secrets_cannot_be_listed(plane: Sandbox, admin: Client) -> None:
    clock = Clock()
    async with house(plane, admin, provider=False, clock=clock) as it:
        await request(admin, OURS)
        plane.faults.fail("list", "secrets", code=500, times=100_000)

        async def gone() -> bool:
            try:
                await it.leftovers.sweep()
            except ServerError:
                clock.now += LEFT_SECONDS
            return not await requests(admin)

        await eventually(gone)


async def requests(admin: Client) -> list[str]:
    return [one.meta.name for one in (await admin.list(BINDABLERESOURCESREQUESTS)).items]
