"""Two konnectors and one Lease: one works at a time, and whoever loses it has really stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial

import aiohttp
import msgspec
import pytest
from tests.support.countingplanes import Plane, plane
from tests.support.e2e import SHOP, Runner, link, programs
from tests.support.konnector import providing
from tests.support.line import Line
from tests.support.provider import WIDGETS, example
from tests.support.waiting import SECONDS, eventually, gone, when

from fairlead.api.meta import JSON
from fairlead.api.resource import LEASES, NAMESPACES
from fairlead.api.timestamps import format_micro_time
from fairlead.binding import app as binding_app
from fairlead.binding.manifests import NAME as BINDING
from fairlead.binding.manifests import manifests as binding_manifests
from fairlead.binding.options import DEFAULT_NAMESPACE as BINDING_NAMESPACE
from fairlead.binding.options import AdmissionOptions
from fairlead.client import Client, limits
from fairlead.demo import objects
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.programs import StoryProgram, consumer_programs
from fairlead.konnector.manifests import LEASE, NAME
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.runtime import Cluster, LeaderElection, Manager
from fairlead.runtime.manager.manager import ManagerError


class Contender:
    """A konnector that works only while it leads."""

    def __init__(self, identity: str, admin: Client, line: Line) -> None:
        self.identity = identity
        self.line = line
        self._admin = admin
        self.runner = Runner(programs(())[NAME], admin, cluster="consumer")

    async def start(self) -> None:
        """Compete; nobody is so slow that leadership is lost for it."""

        def election(client: Client) -> LeaderElection:
            self.election = LeaderElection(
                client,
                DEFAULT_NAMESPACE,
                LEASE,
                self.identity,
                lease_duration=500.5,
                renew_deadline=500.0,
                retry_period=0.1,
            )
            return self.election

        await self.runner.start(server=self.line.url, election=election)

    async def hurry(self, deadline: float) -> None:
        """From now on leadership is given up ``deadline`` seconds after the last renewal."""
        self.election._duration = deadline + 0.5
        # Others go by what the Lease says, so it has to say so before we can lose it.
        await when(
            self._admin,
            LEASES,
            LEASE,
            DEFAULT_NAMESPACE,
            until=lambda body: body["spec"]["leaseDurationSeconds"] == round(deadline + 0.5),
        )
        self.election._deadline = deadline
        # A renewal that is under way has begun with the former deadline.
        renewed = self.election._renewed_at
        async with asyncio.timeout(SECONDS):
            while self.election._renewed_at == renewed and not self.runner.ended.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    @property
    def writes(self) -> int:
        """What it has done for bindings and objects; Leases are written in another way."""
        return self.runner.calls.methods["PATCH"]

    @property
    def total(self) -> int:
        return self.runner.calls.methods.total()

    async def lost(self) -> str:
        """Wait until it has ended because it leads no more; why."""
        async with asyncio.timeout(SECONDS):
            await self.runner.ended.wait()
        assert isinstance(self.runner.error, ManagerError)
        return str(self.runner.error)


class Contest:
    """A provider of widgets, a consumer, and two konnectors that want to serve it."""

    def __init__(self, consumer: Plane, provider: Plane, one: Contender, two: Contender) -> None:
        self.consumer = consumer
        self.provider = provider
        self.one = one
        self.two = two
        self._namespace = ""

    async def holder(self, identity: str) -> None:
        """Wait until the Lease says who leads."""
        await when(
            self.consumer.admin,
            LEASES,
            LEASE,
            DEFAULT_NAMESPACE,
            until=lambda body: body and body["spec"].get("holderIdentity") == identity,
        )

    async def bind(self) -> None:
        bound = await link(self.consumer.admin, self.provider.admin, "widgets")
        await bound.bind()
        self._namespace = f"{bound.cluster_namespace}-{SHOP}"

    async def order(self, name: str) -> None:
        body = example("sample") | {"metadata": {"name": name, "namespace": SHOP}}
        await self.consumer.admin.create(WIDGETS, body)

    async def arrived(self, name: str) -> None:
        """There, and what is said of it there is back."""
        await when(self.provider.admin, WIDGETS, name, self._namespace, until=bool)
        made = {"status": {"made": 1}}
        await self.provider.admin.merge_patch(
            WIDGETS, name, self._namespace, made, subresource="status"
        )
        await when(
            self.consumer.admin, WIDGETS, name, SHOP, until=lambda body: bool(body.get("status"))
        )


@pytest.fixture
async def contest() -> AsyncIterator[Contest]:
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(plane("provider"))
        consumer = await stack.enter_async_context(plane("consumer"))
        await stack.enter_async_context(providing(provider.admin))
        contenders = []
        for name in ("one", "two"):
            line = await stack.enter_async_context(Line(consumer.sandbox.url))
            contenders.append(Contender(name, consumer.admin, line))
            stack.push_async_callback(contenders[-1].runner.kill)
        await contenders[0].runner.install()
        await consumer.admin.create(NAMESPACES, objects.namespace(SHOP))
        yield Contest(consumer, provider, *contenders)


async def test_only_one_works_and_hands_over_at_once_when_it_ends(contest: Contest) -> None:
    one, two = contest.one, contest.two
    await one.start()
    await contest.holder("one")
    await two.start()
    await contest.bind()
    await contest.order("first")
    await contest.arrived("first")
    assert one.writes > 0
    assert two.total > 0
    assert two.writes == 0

    await one.runner.kill()
    done = one.total
    await contest.order("second")
    await contest.holder("two")
    await contest.arrived("second")
    assert two.writes > 0
    assert one.total == done


async def test_whoever_finds_the_lease_stolen_stops_and_the_next_one_works(
    contest: Contest,
) -> None:
    one, two = contest.one, contest.two
    await one.start()
    await contest.holder("one")
    await contest.bind()
    await two.start()
    stolen: JSON = {
        "spec": {
            "holderIdentity": "thief",
            "leaseDurationSeconds": 1,
            "renewTime": format_micro_time(datetime.now(UTC)),
        }
    }
    await contest.consumer.admin.merge_patch(LEASES, LEASE, DEFAULT_NAMESPACE, stolen)
    assert "thief has taken it" in await one.lost()
    done = one.total
    await contest.order("orphan")
    await contest.holder("two")
    await contest.arrived("orphan")
    assert one.total == done
    assert two.writes > 0


async def test_whoever_cannot_renew_stops_though_its_connections_stand(
    contest: Contest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RELEASE_SECONDS", 0.5)
    one, two = contest.one, contest.two
    await one.start()
    await contest.holder("one")
    await contest.bind()
    await two.start()
    await one.hurry(deadline=1.5)
    one.line.freeze()
    await contest.order("cut-off")
    assert "not renewed for 1.5 s" in await one.lost()
    done = one.total
    await contest.holder("two")
    await contest.arrived("cut-off")
    one.line.mend()
    assert one.total == done
    await one.start()
    await contest.consumer.admin.delete(WIDGETS, "cut-off", SHOP)
    await gone(contest.consumer.admin, WIDGETS, "cut-off", SHOP)
    before = two.writes
    await contest.order("after")
    await contest.arrived("after")
    assert two.writes > before
    assert not one.runner.ended.is_set()


async def test_a_lease_that_is_deleted_is_made_again_by_who_leads(contest: Contest) -> None:
    one, two = contest.one, contest.two
    await one.start()
    await contest.holder("one")
    await contest.bind()
    old = await contest.consumer.admin.get(LEASES, LEASE, DEFAULT_NAMESPACE)
    await contest.consumer.admin.delete(LEASES, LEASE, DEFAULT_NAMESPACE)
    await when(
        contest.consumer.admin,
        LEASES,
        LEASE,
        DEFAULT_NAMESPACE,
        until=lambda body: body and body["metadata"]["uid"] != old.meta.uid,
    )
    await contest.holder("one")
    await two.start()
    await contest.order("held")
    await contest.arrived("held")
    assert two.writes == 0
    assert not one.runner.ended.is_set()


# --- an older version leads


def with_webhooks() -> StoryProgram:
    """The binding controllers with all of their webhooks."""
    hooks = AdmissionOptions(
        address="127.0.0.1:0",
        hosts=("127.0.0.1",),
        namespace=BINDING_NAMESPACE,
        projected=(("jobs", "batch"),),
    )
    (program,) = [it for it in consumer_programs() if it.name == BINDING]
    return msgspec.structs.replace(
        program,
        manifests=binding_manifests(image="fairlead", webhooks=True, projected=["jobs.batch"]),
        build=partial(binding_app.build, webhooks=hooks),
    )


@pytest.mark.parametrize("name", [*programs(("widgets.example.org",)), "webhooks"])
async def test_no_replica_waits_with_its_readiness_for_an_older_leader(
    name: str, stack: AsyncExitStack
) -> None:
    """A rolling update ends old replicas, the leader among them, once the new ones are ready."""
    program = with_webhooks() if name == "webhooks" else programs(("widgets.example.org",))[name]
    on = await stack.enter_async_context(plane("cluster"))
    await create_all(on.admin, program.manifests)
    await program.install_crds(on.admin)
    now = format_micro_time(datetime.now(UTC))
    held = {
        "metadata": {"name": program.name},
        "spec": {
            "holderIdentity": "an-older-version",
            "leaseDurationSeconds": 3600,
            "acquireTime": now,
            "renewTime": now,
        },
    }
    await on.admin.create(LEASES, held, program.namespace)
    config = await as_service_account(on.admin, program.namespace, program.name)
    client = await stack.enter_async_context(Client(config))
    election = LeaderElection(client, program.namespace, program.name, "new")
    manager = Manager(leader_election=election)
    await program.build(manager, Cluster("cluster", client))
    running = asyncio.create_task(manager.run())
    stack.push_async_callback(ended, running)
    async with aiohttp.ClientSession() as session:

        async def is_ready() -> bool:
            if not manager.health_url:
                return False
            async with session.get(f"{manager.health_url}/readyz") as answer:
                return answer.status == 200

        await eventually(is_ready)
    lease = await on.admin.get(LEASES, program.name, program.namespace)
    assert lease.to_dict()["spec"]["holderIdentity"] == "an-older-version"


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
