"""Children of a supervisor, connections that come and go, health that is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from tests.integration.konnector.conftest import bound, kubeconfig, secret_body, until

from fairlead.api.kubebind import APISERVICEBINDINGS, APIServiceBinding
from fairlead.api.resource import SECRETS
from fairlead.client import Client, ConfigError, parse_kubeconfig
from fairlead.konnector.consumer import Consumer, Provider
from fairlead.konnector.controllers.bindingsecret.controller import BindingSecretController
from fairlead.konnector.controllers.connections.controller import ConnectionsController
from fairlead.konnector.controllers.connections.health import HealthReporter
from fairlead.konnector.options import Options
from fairlead.konnector.policies.work import ConnectionSpec
from fairlead.konnector.supervisor import SupervisedPart, Supervisor
from fairlead.runtime import Cluster, Metrics
from fairlead_sandbox import Sandbox


Start = Callable[[SupervisedPart], None]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    tasks: list[asyncio.Task[None]] = []
    yield lambda runnable: tasks.append(asyncio.create_task(runnable.run()))
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


class Child:
    """Fails as often as it is told to, then works."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.starts = 0
        self.ended = False

    async def run(self) -> None:
        self.starts += 1
        if self.starts <= self.failures:
            raise RuntimeError("broken")
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


async def test_a_child_runs_until_it_is_stopped(start: Start) -> None:
    supervisor = Supervisor[str]("test")
    start(supervisor)
    await asyncio.sleep(0)
    one, two = Child(), Child()
    supervisor.start("one", one)
    supervisor.start("two", two)
    await until(lambda: two.starts)
    await supervisor.stop("one")
    assert one.ended
    assert not two.ended
    assert supervisor.keys == {"two"}
    await supervisor.stop("one")


async def test_a_child_that_fails_is_started_again_alone(start: Start) -> None:
    supervisor = Supervisor[str]("test")
    start(supervisor)
    await asyncio.sleep(0)
    bad, good = Child(failures=1), Child()
    supervisor.start("bad", bad)
    supervisor.start("good", good)
    await until(lambda: bad.starts == 2)
    assert good.starts == 1
    assert not good.ended


async def test_who_starts_children_waits_until_the_supervisor_runs(start: Start) -> None:
    supervisor, child = Supervisor[str]("test"), Child()

    async def follow() -> None:
        await supervisor.running()
        supervisor.start("one", child)

    follower = asyncio.create_task(follow())
    await asyncio.sleep(0)
    start(supervisor)
    await follower
    await until(lambda: child.starts)


class Refused:
    async def run(self) -> None:
        raise ConfigError("no way in")


async def test_why_a_child_cannot_go_on_is_told_until_it_is_stopped(start: Start) -> None:
    supervisor = Supervisor[str]("test")
    start(supervisor)
    await asyncio.sleep(0)
    told: list[str] = []
    supervisor.start("one", Refused(), failed=told.append)
    await until(lambda: told[-1:] == ["no way in"])
    await supervisor.stop("one")
    assert told[-1] == ""


async def test_a_name_is_taken_once_and_only_while_it_runs(start: Start) -> None:
    supervisor = Supervisor[str]("test")
    with pytest.raises(RuntimeError, match="cannot start"):
        supervisor.start("one", Child())
    start(supervisor)
    await asyncio.sleep(0)
    supervisor.start("one", Child())
    with pytest.raises(RuntimeError, match="cannot start one"):
        supervisor.start("one", Child())


class FakeConnection:
    def __init__(self, identity: str, spec: ConnectionSpec) -> None:
        self.identity = identity
        self.spec = spec
        self.ended = False
        self.stopped = False

    def join(self, spec: ConnectionSpec) -> None:
        self.spec = spec

    async def stop(self) -> None:
        self.stopped = True


class Connections:
    """Takes the place of what joins providers."""

    def __init__(self) -> None:
        self.made: list[FakeConnection] = []

    async def __call__(self, identity: str, spec: ConnectionSpec) -> FakeConnection:
        self.made.append(FakeConnection(identity, spec))
        return self.made[-1]

    @property
    def running(self) -> list[FakeConnection]:
        return [one for one in self.made if not one.stopped]


async def test_providers_are_joined_and_left(
    consumer: Consumer, client: Client, start: Start
) -> None:
    connections = Connections()
    start(ConnectionsController(consumer, connections))
    await bound(client, "a", "one")
    await client.create(SECRETS, secret_body("one", kubeconfig=kubeconfig("http://x")))
    await until(lambda: connections.running)
    (first,) = connections.running
    await client.create(SECRETS, secret_body("two", kubeconfig=kubeconfig("http://x")))
    await bound(client, "b", "two")
    await until(lambda: first.spec.bindings == {"a", "b"})
    await client.merge_patch(
        SECRETS, "two", "kube-bind", {"stringData": {"kubeconfig": kubeconfig("http://y")}}
    )
    await until(lambda: len(connections.running) == 2)
    assert first.spec.bindings == {"a"}
    await client.delete(APISERVICEBINDINGS, "a")
    await until(lambda: first.stopped)
    await client.delete(APISERVICEBINDINGS, "b")
    await until(lambda: not connections.running)
    assert len(connections.made) == 2


async def test_a_labelled_secret_connects_before_any_binding(
    consumer: Consumer, client: Client, start: Start
) -> None:
    connections = Connections()
    start(ConnectionsController(consumer, connections))
    body = secret_body("one", kubeconfig=kubeconfig("http://x"))
    body["metadata"]["labels"] = {"kube-bind.io/provider-kubeconfig": "true"}
    await client.create(SECRETS, body)
    await until(lambda: connections.running)
    assert connections.running[0].spec.bindings == frozenset()
    await client.delete(SECRETS, "one", "kube-bind")
    await until(lambda: not connections.running)


async def test_the_provider_is_told_of_the_last_bindings_end(
    consumer: Consumer, client: Client, start: Start
) -> None:
    connections = Connections()
    start(ConnectionsController(consumer, connections))
    await client.create(SECRETS, secret_body("k", kubeconfig=kubeconfig("http://x")))
    await bound(client)
    await until(lambda: connections.running)
    (one,) = connections.running
    await client.delete(APISERVICEBINDINGS, "db")
    await until(lambda: not one.spec.bindings)
    assert not one.stopped
    await bound(client)
    await until(lambda: one.spec.bindings == {"db"})
    assert connections.running == [one]


async def test_a_binding_that_moves_is_not_told_to_be_gone(
    consumer: Consumer, client: Client, start: Start
) -> None:
    connections = Connections()
    start(ConnectionsController(consumer, connections))
    await client.create(SECRETS, secret_body("k", kubeconfig=kubeconfig("http://x")))
    await bound(client)
    await until(lambda: connections.running)
    (one,) = connections.running
    await client.merge_patch(
        SECRETS, "k", "kube-bind", {"stringData": {"kubeconfig": kubeconfig("http://y")}}
    )
    await until(lambda: one.stopped)
    assert one.spec.bindings == {"db"}


async def test_all_providers_are_left_when_the_konnector_stops(
    consumer: Consumer, client: Client
) -> None:
    connections = Connections()
    controller = ConnectionsController(consumer, connections)
    await client.create(SECRETS, secret_body("k", kubeconfig=kubeconfig("http://x")))
    await bound(client)
    task = asyncio.create_task(controller.run())
    await until(lambda: connections.running)
    task.cancel()
    await asyncio.wait([task])
    assert not connections.running


@pytest.mark.parametrize(
    ("data", "status", "reason"),
    [
        pytest.param(None, "False", "KubeconfigSecretNotFound", id="absent"),
        pytest.param({}, "False", "KubeconfigSecretInvalid", id="key-missing"),
        pytest.param({"kubeconfig": "{"}, "False", "KubeconfigSecretInvalid", id="unparsable"),
        pytest.param(
            {"kubeconfig": kubeconfig("http://x").replace("current-context: x", "")},
            "False",
            "KubeconfigSecretInvalid",
            id="no-current-context",
        ),
        pytest.param(
            {"kubeconfig": kubeconfig("http://x", namespace="")},
            "False",
            "KubeconfigSecretInvalid",
            id="no-namespace",
        ),
        pytest.param(
            {
                "kubeconfig": kubeconfig("http://x").replace(
                    "token: t", "exec: {apiVersion: v1, command: rm}"
                )
            },
            "False",
            "KubeconfigSecretInvalid",
            id="runs-a-program",
        ),
        pytest.param({"kubeconfig": kubeconfig("http://x")}, "True", "", id="valid"),
    ],
)
async def test_a_binding_says_whether_its_secret_is_usable(
    consumer: Consumer,
    client: Client,
    start: Start,
    data: dict[str, str] | None,
    status: str,
    reason: str,
) -> None:
    if data is not None:
        await client.create(SECRETS, secret_body(**data))
    await bound(client)
    start(BindingSecretController(consumer))

    def said() -> tuple[str, str]:
        found = consumer.bindings.get("", "db")
        conditions = found.decode(APIServiceBinding).status.conditions if found else []
        return next(
            ((one.status, one.reason) for one in conditions if one.type == "SecretValid"),
            ("", ""),
        )

    await until(said)
    await until(lambda: said() == (status, reason))


async def test_what_controllers_do_is_in_the_metrics(
    cluster: Cluster, client: Client, start: Start
) -> None:
    metrics = Metrics()
    consumer = Consumer(cluster, Options(), metrics)
    await bound(client)
    start(BindingSecretController(consumer))
    line = b'reconcile_total{controller="konnector-bindingsecret",result="success"} '
    await until(lambda: line in metrics.render()[0] and line + b"0.0" not in metrics.render()[0])


@pytest.fixture
async def provider(consumer: Consumer, client: Client, provider_kinds: None) -> Provider:
    """A provider that nobody runs yet: its caches are empty and not synced."""
    cluster = Cluster("provider", client)
    spec = ConnectionSpec(b"", frozenset({"db"}))
    return Provider("identity", cluster, "cluster-abc", consumer, spec)


def told(consumer: Consumer, type_: str) -> tuple[str, str]:
    found = consumer.bindings.get("", "db")
    conditions = found.decode(APIServiceBinding).status.conditions if found else []
    return next(((one.status, one.message) for one in conditions if one.type == type_), ("", ""))


async def test_watches_that_work_are_told(
    consumer: Consumer, client: Client, provider: Provider, start: Start
) -> None:
    await bound(client)
    start(HealthReporter(provider))
    start(provider.cluster)
    await until(lambda: told(consumer, "InformersSynced")[0] == "True")


async def test_a_provider_that_cannot_be_reached_is_told(
    consumer: Consumer, client: Client, start: Start
) -> None:
    await bound(client)
    async with (
        Sandbox(tls=False, rbac=False) as other,
        Client(parse_kubeconfig(other.kubeconfig())) as theirs,
    ):
        other.faults.partition()
        spec = ConnectionSpec(b"", frozenset({"db"}))
        down = Provider("x", Cluster("p", theirs), "cluster-abc", consumer, spec)
        start(HealthReporter(down))
        task = asyncio.create_task(down.cluster.run())
        await until(lambda: told(consumer, "InformersSynced")[0] == "False")
        assert "the provider cannot be watched" in told(consumer, "InformersSynced")[1]
        task.cancel()
        await asyncio.wait([task])


async def test_credentials_that_are_refused_are_told_with_a_remedy(
    consumer: Consumer, client: Client, start: Start
) -> None:
    await bound(client)
    async with Sandbox() as other:
        config = parse_kubeconfig(other.kubeconfig())
        strange = replace(config, token="strange", client_certificate=b"", client_key=b"")
        async with Client(strange) as theirs:
            spec = ConnectionSpec(b"", frozenset({"db"}))
            refused = Provider("x", Cluster("p", theirs), "cluster-abc", consumer, spec)
            start(HealthReporter(refused))
            task = asyncio.create_task(refused.cluster.run())
            await until(lambda: "`fairlead bind`" in told(consumer, "InformersSynced")[1])
            task.cancel()
            await asyncio.wait([task])


async def test_what_a_syncer_reports_is_told_with_patience(
    consumer: Consumer, client: Client, provider: Provider, start: Start
) -> None:
    await bound(client)
    start(provider.cluster)
    start(HealthReporter(provider))
    await until(lambda: told(consumer, "InformersSynced")[0] == "True")
    consumer.reports.problems.report("db", "sync", "no right")
    await until(lambda: told(consumer, "InformersSynced") == ("False", "no right"))
    consumer.reports.problems.report("db", "sync", "")
    await until(lambda: told(consumer, "InformersSynced")[0] == "True")


def test_what_controllers_decide_by_is_watched_from_the_beginning(cluster: Cluster) -> None:
    """What is leased later is empty at first: no copy would look kept, and no cluster known."""
    consumer = Consumer(cluster, Options())
    watched = {informer.scope.resource.plural for informer in cluster.informers()}
    assert {"apiservicebindings", "apiservicebindingbundles", "namespaces"} <= watched
    assert consumer.bundles.resource.plural == "apiservicebindingbundles"
