"""The manager: start order, joining and leaving, stopping, honest health."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from importlib.metadata import version
from platform import python_version
from typing import cast
from unittest.mock import Mock

import aiohttp
import pytest
from tests.support.waiting import SECONDS
from tests.unit.runtime.fakes import WIDGETS, FakeServer, refusal
from tests.unit.runtime.test_lease import FakeLeases

from fairlead.api.timestamps import moment
from fairlead.client import Client
from fairlead.runtime.cluster import Cluster
from fairlead.runtime.controller.controller import Controller
from fairlead.runtime.controller.reconcile import Request
from fairlead.runtime.manager.lease import LeaderElection
from fairlead.runtime.manager.manager import Manager, ManagerError


class Part:
    """A runnable that says when it began and ended."""

    def __init__(self, name: str, log: list[str], error: Exception | None = None) -> None:
        self.name = name
        self.log = log
        self.error = error
        self.began = asyncio.Event()

    async def run(self) -> None:
        self.log.append(f"+{self.name}")
        self.began.set()
        try:
            if self.error is not None:
                raise self.error
            await asyncio.Event().wait()
        finally:
            self.log.append(f"-{self.name}")


class Managed:
    """A manager that runs in the background of a test."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.stop = asyncio.Event()
        self.task = asyncio.create_task(manager.run(self.stop))

    async def __aenter__(self) -> Manager:
        return self.manager

    async def __aexit__(self, *exc: object) -> None:
        self.stop.set()
        await self.task


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def cluster(name: str = "c", server: FakeServer | None = None) -> Cluster:
    return Cluster(name, cast("Client", server or FakeServer()))


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_runs_until_stopped_and_ends_everything() -> None:
    log: list[str] = []
    server = FakeServer()
    manager = Manager()
    joined = cluster(server=server)
    informer = joined.informer(WIDGETS)
    manager.add_cluster(joined)
    part = Part("a", log)
    manager.add(part)
    async with Managed(manager):
        await part.began.wait()
        await informer.synced()
        await until(lambda: server.open_watches)
    assert log == ["+a", "-a"]
    assert server.open_watches == 0


async def test_a_runnable_that_fails_ends_the_manager_with_its_error() -> None:
    log: list[str] = []
    manager = Manager()
    manager.add(Part("steady", log))
    manager.add(Part("broken", log, ValueError("bad option")))
    with pytest.raises(ValueError, match="bad option"):
        await manager.run()
    assert sorted(log) == ["+broken", "+steady", "-broken", "-steady"]


async def test_a_cluster_joins_and_leaves_alone() -> None:
    log: list[str] = []
    server, other = FakeServer(), FakeServer()
    async with Managed(Manager()) as manager:
        stay = await manager.engage(cluster("stay", other), [Part("stay", log)])
        leaving = cluster("leaving", server)
        leaving.informer(WIDGETS)
        leave = await manager.engage(leaving, [Part("x", log), Part("y", log)])
        await until(lambda: server.open_watches)
        await leave.stop()
        assert server.open_watches == 0
        assert leave.done.is_set()
        assert leave.error == ""
        assert sorted(log) == ["+stay", "+x", "+y", "-x", "-y"]
        assert not stay.done.is_set()
        assert manager.metrics.clusters == [stay.cluster]
    assert log[-1] == "-stay"


async def test_the_failure_of_one_engagement_stays_its_own() -> None:
    log: list[str] = []
    async with Managed(Manager()) as manager:
        healthy = await manager.engage(cluster("healthy"), [Part("ok", log)])
        broken = await manager.engage(
            cluster("broken"), [Part("a", log), Part("bad", log, ValueError("no kubeconfig"))]
        )
        await broken.done.wait()
        assert broken.error == "no kubeconfig"
        assert not healthy.done.is_set()
        await broken.stop()


async def test_engaging_before_the_start_waits_for_it() -> None:
    log: list[str] = []
    manager = Manager()
    await manager.engage(cluster("one"), [Part("one", log)])
    never = await manager.engage(cluster("two"), [Part("two", log)])
    await never.stop()
    assert never.done.is_set()
    async with Managed(manager):
        await until(lambda: log)
    assert log == ["+one", "-one"]


async def test_engaging_a_cluster_that_runs_already_adds_controllers() -> None:
    log: list[str] = []
    server = FakeServer()
    shared = cluster("shared", server)
    informer = shared.informer(WIDGETS)
    manager = Manager()
    manager.add_cluster(shared)
    async with Managed(manager):
        await informer.synced()
        part = Part("more", log)
        engagement = await manager.engage(shared, [part])
        await part.began.wait()
        await engagement.stop()
        await until(lambda: server.open_watches)
        assert log == ["+more", "-more"]


async def test_a_stop_right_after_engaging_does_not_hang() -> None:
    async with Managed(Manager()) as manager:
        await until(lambda: manager._group)
        engagement = await manager.engage(cluster(), [])
        async with asyncio.timeout(SECONDS):
            await engagement.stop()


async def test_only_leaders_run_what_is_for_leaders() -> None:
    log: list[str] = []
    leases = FakeLeases()
    durations = {"lease_duration": 0.6, "renew_deadline": 0.4, "retry_period": 0.05}
    client = leases.client()
    elections = [
        LeaderElection(cast("Client", client), "ns", "lead", "one", **durations),
        LeaderElection(cast("Client", leases.client()), "ns", "lead", "two", **durations),
    ]
    first, second = (Manager(leader_election=election) for election in elections)
    first.add(Part("first", log))
    second.add(Part("second", log))
    second.add(Part("always", log), leader_only=False)
    one = Managed(first)
    await until(lambda: "+first" in log)
    async with Managed(second):
        await until(lambda: "+always" in log)
        assert "+second" not in log
        client.error = refusal("InternalError", "etcd is away")
        with pytest.raises(ManagerError, match="lost the lease ns/lead: not renewed"):
            await one.task
        await until(lambda: "+second" in log)
        assert log.index("-first") < log.index("+second")


async def test_clusters_are_written_to_only_while_the_lease_holds() -> None:
    election = LeaderElection(cast("Client", FakeLeases().client()), "ns", "lead", "one")
    manager = Manager(leader_election=election)
    added, joined = Mock(spec=Client), Mock(spec=Client)
    manager.add_cluster(Cluster("added", added))
    await manager.engage(Cluster("joined", joined), [])
    for client in (added, joined):
        client.fence.assert_called_once_with(election.stale)


async def test_a_candidate_that_waits_can_be_stopped() -> None:
    leases = FakeLeases()
    holder = LeaderElection(cast("Client", leases.client()), "ns", "lead", "holder")
    holding = asyncio.create_task(holder.run(Part("holder", []).run))
    await until(lambda: holder.is_leader)
    log: list[str] = []
    waiting = LeaderElection(cast("Client", leases.client()), "ns", "lead", "waiting")
    manager = Manager(leader_election=waiting)
    manager.add(Part("never", log))
    async with Managed(manager):
        await until(lambda: waiting.error)
        assert await get(f"{manager.health_url}/readyz") == (200, "ok")
    assert log == []
    holding.cancel()
    await asyncio.wait([holding])


async def test_cancelling_the_manager_ends_everything_too() -> None:
    log: list[str] = []
    manager = Manager(health_address="")
    part = Part("a", log)
    manager.add(part)
    task = asyncio.create_task(manager.run())
    await part.began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["+a", "-a"]


async def test_health_tells_the_truth() -> None:
    server = FakeServer()
    server.fault["list"] = lambda: refusal("Forbidden", "widgets is forbidden")
    joined = cluster("east", server)
    joined.informer(WIDGETS)
    manager = Manager()
    manager.add_cluster(joined)
    wrong = ["database is down"]
    manager.add_ready_check("database", lambda: wrong[0])
    async with Managed(manager):
        await until(lambda: server.asked and manager.health_url)
        assert await get(f"{manager.health_url}/healthz") == (200, "ok")
        status, text = await get(f"{manager.health_url}/readyz")
        assert status == 500
        assert "[-]caches-east failed: cannot list widgets.example.org: widgets is" in text
        assert "[-]database failed: database is down" in text
        server.fault.clear()
        wrong[0] = ""
        await until(lambda: not joined.unsynced())
        status, text = await get(f"{manager.health_url}/readyz?verbose")
        assert (status, text.splitlines()) == (
            200,
            [
                "[+]ping ok",
                "[+]running ok",
                "[+]caches-east ok",
                "[+]database ok",
                "readyz check passed",
            ],
        )


async def test_a_scrape_tells_what_runs_and_when_certificates_end() -> None:
    manager = Manager()
    ends = moment() + timedelta(days=9)
    manager.metrics.certificates = {"webhooks": lambda: ends, "none yet": lambda: None}
    registry = manager.metrics.registry
    labels = {"version": version("fairlead"), "python": python_version()}
    assert registry.get_sample_value("fairlead_build_info", labels) == 1
    name = "fairlead_certificate_remaining_seconds"
    left = registry.get_sample_value(name, {"certificate": "webhooks"})
    assert left == pytest.approx(9 * 86400, abs=60)
    assert registry.get_sample_value(name, {"certificate": "none yet"}) is None


async def test_metrics_have_controller_runtimes_names() -> None:
    async def reconcile(request: Request) -> None:
        if request.name == "bad":
            raise ValueError

    server = FakeServer()
    await server.put("a")
    joined = cluster("east", server)
    controller = Controller("widgets", reconcile)
    controller.watch(joined.informer(WIDGETS))
    manager = Manager(metrics_address="127.0.0.1:0")
    manager.add_cluster(joined)
    manager.add(controller)
    async with Managed(manager):
        controller.enqueue(Request("", "ns", "bad"))
        await until(lambda: controller.stats.results["success"] and controller.stats.panics)
        _, text = await get(f"{manager.metrics_url}/metrics")
        status, _ = await get(f"{manager.health_url}/metrics")
        assert status == 404
    for line in (
        'controller_runtime_reconcile_total{controller="widgets",result="success"} 1.0',
        'controller_runtime_max_concurrent_reconciles{controller="widgets"} 2.0',
        # What is retried may be waiting for a worker just now.
        'workqueue_depth{controller="widgets",name="widgets",priority="live"} ',
        'fairlead_informer_objects{cluster="east",resource="widgets.example.org"} 1.0',
        'fairlead_watch_missed_total{cluster="east",resource="widgets.example.org"} 0.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="widgets"} 0.0',
        "fairlead_event_loop_lag_seconds",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "controller_runtime_reconcile_time_seconds_bucket",
        "leader_election_master_status",
    ):
        assert line in text


async def test_an_address_in_use_is_one_clear_error() -> None:
    async with Managed(Manager()) as manager:
        await until(lambda: manager.health_url)
        address = manager.health_url.removeprefix("http://")
        with pytest.raises(ManagerError, match=f"cannot listen on {address} for health: "):
            await Manager(health_address=address).run()


@pytest.mark.parametrize("address", ["localhost", "localhost:http", "localhost:70000"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        Manager(health_address=address)


async def test_no_address_serves_nothing() -> None:
    log: list[str] = []
    manager = Manager(health_address="")
    part = Part("a", log)
    manager.add(part)
    async with Managed(manager):
        await part.began.wait()
        assert manager.health_url == ""


async def test_nothing_is_added_to_a_running_manager() -> None:
    async with Managed(Manager()) as manager:
        await until(lambda: manager._running)
        with pytest.raises(RuntimeError, match="engage"):
            manager.add(Part("late", []))
        with pytest.raises(RuntimeError, match="engage"):
            manager.add_cluster(cluster())
