"""Leader election: one leader at a time, and none that does not know it has lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from tests.unit.runtime.fakes import refusal

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.client.errors import ConnectionFailed
from fairlead.runtime.manager.lease import LeaderElection, LeadershipLost


Run = Callable[[Awaitable[Any]], Any]


class FakeLeases:
    """One Lease with optimistic concurrency, reachable or not."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.version = 0
        self.requests = 0

    @property
    def spec(self) -> JSON:
        assert self.lease is not None
        spec: JSON = self.lease.to_dict()["spec"]
        return spec

    def client(self) -> LeaseClient:
        return LeaseClient(self)

    def store(self, body: JSON) -> Object:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = object_from_dict(body)
        return self.lease


class LeaseClient:
    """One candidate's way to the server.

    Every request takes ``hang`` seconds to arrive there, every answer ``lag`` to come back.
    """

    def __init__(self, leases: FakeLeases) -> None:
        self.leases = leases
        self.error: Exception | None = None
        self.hang = 0.0
        self.lag = 0.0

    async def _arrive(self) -> None:
        self.leases.requests += 1
        await asyncio.sleep(self.hang)
        if self.error is not None:
            raise self.error

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        await self._arrive()
        if self.leases.lease is None:
            raise refusal("NotFound")
        return self.leases.lease

    async def create(self, resource: Resource, body: JSON, namespace: str = "") -> Object:
        await self._arrive()
        if self.leases.lease is not None:
            raise refusal("AlreadyExists")
        stored = self.leases.store(body)
        await asyncio.sleep(self.lag)
        return stored

    async def update(self, resource: Resource, body: JSON) -> Object:
        await self._arrive()
        if body["metadata"]["resourceVersion"] != str(self.leases.version):
            raise refusal("Conflict")
        stored = self.leases.store(body)
        await asyncio.sleep(self.lag)
        return stored


class Candidate:
    """An election whose leading is recorded: when it began and ended."""

    def __init__(self, leases: FakeLeases, identity: str) -> None:
        self.client = leases.client()
        self.election = LeaderElection(cast("Client", self.client), "ns", "lead", identity)
        self.began: float | None = None
        self.ended: float | None = None
        self.task = asyncio.create_task(self.election.run(self.lead))

    @property
    def leads(self) -> bool:
        return self.began is not None and self.ended is None

    async def lead(self) -> None:
        loop = asyncio.get_running_loop()
        self.began, self.ended = loop.time(), None
        try:
            await asyncio.sleep(1e9)
        finally:
            self.ended = loop.time()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


def test_the_first_leads_and_renews(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        await asyncio.sleep(100)
        assert first.leads
        assert first.election.is_leader
        assert first.election.stale() == ""
        assert leases.spec["holderIdentity"] == "first"
        assert leases.spec["leaseDurationSeconds"] == 15
        assert 45 <= leases.requests <= 55
        await first.stop()

    virtual(story())


def test_a_second_waits_and_takes_over_at_once_after_a_release(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        await asyncio.sleep(5)
        second = Candidate(leases, "second")
        await asyncio.sleep(60)
        assert not second.leads
        assert second.election.error == "first holds the lease ns/lead"
        await first.stop()
        assert "holderIdentity" not in leases.spec
        await asyncio.sleep(3)
        assert second.leads
        assert leases.spec["leaseTransitions"] == 1
        await second.stop()

    virtual(story())


@pytest.mark.parametrize(
    "seconds", [pytest.param(0.5, id="the-first-write"), pytest.param(3.5, id="a-renewal")]
)
def test_a_write_cancelled_on_its_way_and_carried_out_does_not_keep_the_lease(
    virtual: Run, seconds: float
) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        first.client.lag = 1.0
        await asyncio.sleep(seconds)
        version = leases.version
        assert leases.spec["holderIdentity"] == "first"
        assert first.leads is (seconds > 1)
        await first.stop()
        assert "holderIdentity" not in leases.spec
        assert leases.version == version + 1

    virtual(story())


def test_who_has_only_waited_asks_nothing_when_it_ends(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        await asyncio.sleep(5)
        second = Candidate(leases, "second")
        await asyncio.sleep(4.5)
        before = leases.requests
        await second.stop()
        assert leases.requests == before
        assert leases.spec["holderIdentity"] == "first"
        await first.stop()

    virtual(story())


@pytest.mark.parametrize(
    ("error", "hang"),
    [
        pytest.param(ConnectionFailed("unreachable"), 0.0, id="unreachable"),
        pytest.param(None, 1e6, id="hanging"),
        pytest.param(refusal("Forbidden", "may not"), 0.0, id="forbidden"),
        pytest.param(refusal("InternalError"), 0.0, id="500"),
    ],
)
def test_a_leader_that_is_cut_off_ends_before_the_next_begins(
    virtual: Run, error: Exception | None, hang: float
) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        await asyncio.sleep(20)
        second = Candidate(leases, "second")
        await asyncio.sleep(5)
        first.client.error, first.client.hang = error, hang
        await asyncio.sleep(60)
        assert first.ended is not None
        assert second.began is not None
        assert first.ended < second.began
        assert not first.election.is_leader
        with pytest.raises(LeadershipLost, match=r"lost the lease ns/lead: not renewed for 10 s"):
            await first.task
        await second.stop()

    virtual(story())


def test_a_renewal_counts_from_when_it_was_sent_not_from_its_answer(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        await asyncio.sleep(20)
        second = Candidate(leases, "second")
        first.client.lag = 7.5
        await asyncio.sleep(2.5)
        first.client.hang = 1e6
        await asyncio.sleep(60)
        assert first.ended is not None
        assert second.began is not None
        assert first.ended < second.began
        await second.stop()

    virtual(story())


def test_a_short_outage_costs_no_leadership(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        await asyncio.sleep(20)
        first.client.error = ConnectionFailed("unreachable")
        await asyncio.sleep(5)
        first.client.error = None
        await asyncio.sleep(60)
        assert first.leads
        await first.stop()

    virtual(story())


def test_a_lease_taken_by_another_ends_leading_at_the_next_renewal(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        await asyncio.sleep(20)
        assert leases.lease is not None
        body = leases.lease.to_dict()
        body["spec"]["holderIdentity"] = "thief"
        leases.store(body)
        await asyncio.sleep(3)
        with pytest.raises(LeadershipLost, match="thief has taken it"):
            await first.task
        assert leases.spec["holderIdentity"] == "thief"

    virtual(story())


def test_a_deleted_lease_is_made_again(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        await asyncio.sleep(20)
        leases.lease = None
        leases.version += 1
        await asyncio.sleep(5)
        assert first.leads
        assert leases.spec["holderIdentity"] == "first"
        await first.stop()

    virtual(story())


def test_a_dead_leaders_lease_is_free_after_its_duration_by_our_clock(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        leases.store(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "lead", "namespace": "ns"},
                "spec": {
                    "holderIdentity": "dead",
                    "leaseDurationSeconds": 30,
                    "acquireTime": "2001-01-01T00:00:00.000000Z",
                    "renewTime": "2001-01-01T00:00:00.000000Z",
                },
            }
        )
        begun = asyncio.get_running_loop().time()
        first = Candidate(leases, "first")
        await asyncio.sleep(60)
        assert first.began is not None
        assert 30 <= first.began - begun <= 33
        await first.stop()

    virtual(story())


def test_acquiring_from_a_server_that_is_down_waits_and_says_so(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        first = Candidate(leases, "first")
        first.client.error = ConnectionFailed("connection refused")
        await asyncio.sleep(60)
        assert first.election.error == "cannot get the lease ns/lead: connection refused"
        assert leases.requests <= 35
        first.client.error = None
        await asyncio.sleep(5)
        assert first.leads
        await first.stop()

    virtual(story())


def test_what_leading_raises_is_passed_on_and_the_lease_released(virtual: Run) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    async def story() -> None:
        leases = FakeLeases()
        election = LeaderElection(cast("Client", leases.client()), "ns", "lead", "first")
        with pytest.raises(ExceptionGroup) as caught:
            await election.run(fail)
        assert caught.group_contains(ValueError)
        assert "holderIdentity" not in leases.spec

    virtual(story())


def test_leading_that_ends_by_itself_is_no_loss(virtual: Run) -> None:
    async def story() -> None:
        leases = FakeLeases()
        election = LeaderElection(cast("Client", leases.client()), "ns", "lead", "first")
        await election.run(lambda: asyncio.sleep(5))
        assert "holderIdentity" not in leases.spec

    virtual(story())


def test_identities_differ_and_durations_are_ordered() -> None:
    client = cast("Client", None)
    one, two = (LeaderElection(client, "ns", "lead") for _ in range(2))
    assert one.identity != two.identity
    with pytest.raises(ValueError, match="retry_period < renew_deadline < lease_duration"):
        LeaderElection(client, "ns", "lead", renew_deadline=20)
