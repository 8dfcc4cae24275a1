"""What a pass costs: what it binds, however much else there is of the same kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    database,
    deleted,
    deployment,
    meta,
    pod,
    secret,
    spec_binding,
)
from tests.unit.binding.test_controller import Bench
from tests.unit.binding.test_dependencies import Bench as Watches
from tests.unit.binding.test_dependencies import body, modified

from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.resource import DEPLOYMENTS, SECRETS
from fairlead.api.selectors import LabelSelector
from fairlead.binding import bounds
from fairlead.binding.cluster import dependencies as module
from fairlead.binding.contexts import superseded, workloads
from fairlead.binding.reads import Get, ListAll, Lookup, Marked, Read
from fairlead.binding.workloads.records import (
    KINDS_ANNOTATION,
    BindingRecord,
    kinds_text,
    read_records,
    record_key,
)
from fairlead.runtime import Request


SELECTOR = {"selector": {"matchLabels": {"app": "x"}}}
REQUESTER = {"servicebinding.io/requester": '{"username": "bob", "groups": []}'}


def selected(count: int) -> list[JSON]:
    return [deployment(f"web-{number}", labels={"app": "x"}) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "calls"),
    [
        pytest.param(2, {"get": 2}, id="a few are read by their names"),
        pytest.param(bounds.SELECTED + 1, {"list": 1}, id="many are listed"),
        pytest.param(0, {"list": 1}, id="that there is none is asked"),
    ],
)
async def test_a_selector_reads_what_it_selects(count: int, calls: dict[str, int]) -> None:
    bodies = [*selected(count), deployment("other", labels={"app": "y"})]
    bench = Bench(spec_binding(workload=SELECTOR, service=SECRET_SERVICE), secret(), *bodies)
    informer = bench.cluster.informer(DEPLOYMENTS)
    informer.objects = {body["metadata"]["name"]: object_from_dict(body) for body in bodies}
    await bench.reconcile()
    found = Counter(verb for verb, what in bench.client.reads if what.startswith("Deployment"))
    assert found == calls
    assert ("list", "Deployment app=x") in bench.client.reads or "list" not in calls
    assert "other" not in " ".join(what for _, what in bench.client.reads)
    ready = ("True", "ApplicationsBound") if count else ("False", "ProcessingError")
    assert conditions(bench.binding)["Ready"] == ready


async def test_what_is_said_to_be_selected_is_looked_at_again() -> None:
    """Metadata may be a moment old."""
    binding = spec_binding(workload=SELECTOR, service=SECRET_SERVICE)
    bench = Bench(binding, secret(), deployment("web-0"), *selected(3)[1:])
    informer = bench.cluster.informer(DEPLOYMENTS)
    informer.objects = {body["metadata"]["name"]: object_from_dict(body) for body in selected(4)}
    await bench.reconcile()
    bound = {
        name
        for (kind, name), body in bench.client.objects.items()
        if kind == "Deployment" and body["metadata"].get("annotations")
    }
    assert bound == {"web-1", "web-2"}


def _reads_of(cluster: FakeCluster, binding: JSON) -> list[Read]:
    return list(cluster.process(binding).reader.snapshot.reads)


def test_the_pipeline_starts_as_often_for_many_workloads_as_for_few() -> None:
    rounds = []
    for count in (3, 60):
        cluster = FakeCluster(objects=[database(), secret(), *selected(count)])
        binding = spec_binding(workload=SELECTOR, annotations=REQUESTER)
        cluster.reconcile(binding)
        updates = [review.name for review in cluster.reviews if review.verb == "update"]
        assert sorted(updates) == sorted(f"web-{number}" for number in range(count))
        # Once more, when all have their records.
        first, cluster.rounds = cluster.rounds, 0
        cluster.reconcile(binding)
        rounds.append((first, cluster.rounds))
        assert conditions(binding)["Ready"] == ("True", "ApplicationsBound")
    assert rounds[0] == rounds[1]


async def test_who_was_asked_about_a_moment_ago_is_not_asked_about_again() -> None:
    bodies = selected(5)
    binding = spec_binding(workload=SELECTOR, service=SECRET_SERVICE, annotations=REQUESTER)
    bench = Bench(binding, secret(), *bodies)
    informer = bench.cluster.informer(DEPLOYMENTS)
    informer.objects = {body["metadata"]["name"]: object_from_dict(body) for body in bodies}
    await bench.reconcile()
    assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")
    asked = bench.client.reviews
    assert asked > len(bodies)
    await bench.reconcile()
    assert bench.client.reviews == asked


def test_of_what_is_selected_still_nothing_is_read_a_second_time() -> None:
    cluster = FakeCluster(objects=[database(), secret(), *selected(5)])
    binding = spec_binding(workload=SELECTOR)
    cluster.reconcile(binding)
    cluster.get("deployments", "web-3")["metadata"]["labels"] = {}
    reads = _reads_of(cluster, binding)
    assert [
        read.name
        for read in reads
        if isinstance(read, Get) and read.resource.plural == "deployments"
    ] == ["web-3"]


@pytest.mark.parametrize("workload", [{"name": "web-1"}, SELECTOR])
def test_unbinding_reads_what_is_bound(workload: JSON) -> None:
    cluster = FakeCluster(objects=[database(), secret(), *selected(3), deployment("other")])
    binding = spec_binding(workload=workload)
    cluster.reconcile(binding)
    deleted(binding)
    lists = [read for read in _reads_of(cluster, binding) if isinstance(read, ListAll)]
    assert all(read.labels.requirements for read in lists)


@pytest.mark.parametrize("unbound", [False, True])
def test_a_kind_costs_once_however_often_and_under_which_names_it_is_noted(
    monkeypatch: pytest.MonkeyPatch, unbound: bool
) -> None:
    read = 0

    def counted(annotations: Mapping[str, str]) -> dict[str, BindingRecord]:
        nonlocal read
        read += 1
        return read_records(annotations)

    monkeypatch.setattr(workloads, "read_records", counted)
    monkeypatch.setattr(superseded, "read_records", counted)
    counts = []
    own = Lookup("apps", "v1", kind="Deployment")
    named = [Lookup("apps", "v1", kind=f"X{n}", plural="deployments") for n in range(90)]
    for kinds in ([own], [own] * 4000, [own, *named]):
        cluster = FakeCluster(objects=[database(), secret(), *selected(5)])
        binding = coreos_binding(application={"labelSelector": SELECTOR["selector"]})
        cluster.reconcile(binding)
        binding["metadata"]["annotations"][KINDS_ANNOTATION] = kinds_text(kinds)
        for one in cluster.of("deployments"):
            one["metadata"]["labels"] = {}
        cluster.set(secret(password="new"))
        if unbound:
            deleted(binding)
        read = 0
        cluster.reconcile(binding)
        counts.append(read)
        assert not any(pod(one).get("volumes") for one in cluster.of("deployments"))
    assert counts[0] == counts[1] == counts[2] > 0


def test_what_a_service_owns_is_found_without_a_list_of_everything() -> None:
    owner = {"apiVersion": "x.io/v1", "kind": "Database", "name": "db", "uid": "uid-db"}
    config: JSON = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}
    objects = [
        {**config, "metadata": meta("its", ownerReferences=[owner])},
        {**config, "metadata": meta("other")},
    ]
    cluster = FakeCluster(objects=[deployment(), database(binding=None), *objects])
    reads = _reads_of(cluster, coreos_binding(detectBindingResources=True))
    assert not any(isinstance(read, ListAll) for read in reads)
    configs = [read for read in reads if getattr(read, "resource", None) == _kind(objects[0])]
    assert [read.name for read in configs if isinstance(read, Get)] == ["its"]


def _kind(body: JSON) -> object:
    return next(one for one in FakeCluster().resources if one.kind == body["kind"])


async def test_a_change_is_compared_with_the_reads_that_it_may_concern(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[Read] = []
    concerns = module._concerns

    def counted(read: Read, *rest: object, **more: object) -> bool:
        compared.append(read)
        return concerns(read, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_concerns", counted)
    bench = Watches()
    requests = [Request("c", "ns", f"binding-{number}") for number in range(300)]
    for number, request in enumerate(requests):
        await bench.watches.join(request, Get(DEPLOYMENTS, "ns", f"web-{number}"))
        await bench.watches.join(request, Marked(DEPLOYMENTS, "ns", record_key(f"uid-{number}")))
        await bench.watches.join(request, Marked(SECRETS, "ns", owner=f"uid-{number}"))
        labels = LabelSelector.from_dict({"matchLabels": {"app": f"app-{number}"}})
        await bench.watches.join(request, ListAll(DEPLOYMENTS, "ns", labels=labels))
    its = body("web-7", labels={"app": "app-8"}, annotations={record_key("uid-9"): "", "else": ""})
    assert bench.tell(DEPLOYMENTS, modified(body("web-7"), its)) == [
        requests[number] for number in (7, 9, 8)
    ]
    assert len(compared) == 3
    compared.clear()
    owner = {"apiVersion": "v1", "kind": "ServiceBinding", "name": "x", "uid": "uid-5"}
    owned = modified(body("s"), body("s", ownerReferences=[owner]))
    assert bench.tell(SECRETS, owned) == [requests[5]]
    assert len(compared) == 1
