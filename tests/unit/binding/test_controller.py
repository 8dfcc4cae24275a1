"""The controller around the pipeline: finalizers, events, pauses, mappings that change."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.unit.binding.client import FakeClient
from tests.unit.binding.cluster import KINDS, resource_of
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    cronjob,
    database,
    deleted,
    deployment,
    edited,
    message,
    pod,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import DEPLOYMENTS, SECRETS, Resource
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.status import Status
from fairlead.binding import bounds
from fairlead.binding.apis import coreos_api, spec_api
from fairlead.binding.cluster.answering import Mappings
from fairlead.binding.cluster.pacing import Waits, pass_pace
from fairlead.binding.controller import (
    _WANTED,
    BindingController,
)
from fairlead.binding.metrics import BindingMetrics
from fairlead.binding.options import BindingOptions
from fairlead.binding.reads import Get, Lookup, ReadFailure
from fairlead.binding.workloads.records import (
    KINDS_ANNOTATION,
    RECORD_PREFIX,
    kinds_text,
    read_kinds,
)
from fairlead.client import Conflict, Forbidden
from fairlead.runtime import Cluster, Delta, Request, Result, delays


REQUEST = Request("c", "ns", "sb")
RESOURCES = tuple(resource_of(key, plural) for key, plural in KINDS.items())


class Informer:
    def __init__(self) -> None:
        self.has_synced = True
        self.error = ""
        self.objects: dict[str, Object] = {}
        self.handler: Callable[[Delta], None] = lambda _: None

    def get(self, namespace: str, name: str) -> Object | None:
        return self.objects.get(name)

    def listen(self, listener: Callable[[], None]) -> None:
        """Ignore it: nothing is listed here."""

    def subscribe(self, handler: Callable[[Delta], None]) -> None:
        self.handler = handler

    def add_index(self, name: str, function: Callable[[Object], list[str]]) -> None:
        self.index = function

    def by_index(self, name: str, value: str) -> list[Object]:
        return [item for item in self.objects.values() if value in self.index(item)]

    async def synced(self) -> None: ...

    async def close(self) -> None: ...

    def list(self, namespace: str = "") -> list[Object]:
        return [*self.objects.values()]


class Events:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []

    def event(self, obj: Object, type_: str, reason: str, message: str, action: str = "") -> None:
        self.seen.append((type_, reason, message))


class ClusterOf:
    def __init__(self, client: FakeClient) -> None:
        self.name = "c"
        self.client = client
        self.recorder = Events()
        self.informers: dict[Resource, Informer] = {}

    def informer(self, resource: Resource, **options: Any) -> Informer:
        return self.informers.setdefault(resource, Informer())

    def events(self, component: str) -> Events:
        return self.recorder


class Bench:
    def __init__(self, *bodies: JSON, coreos: bool = False) -> None:
        self.client = FakeClient(*bodies, resources=RESOURCES)
        self.cluster = ClusterOf(self.client)
        self.start(coreos=coreos)

    def start(self, options: BindingOptions | None = None, *, coreos: bool = False) -> None:
        """A program with these options, instead of the one before."""
        options = options or BindingOptions()
        api = coreos_api(options) if coreos else spec_api()
        self.metrics = BindingMetrics()
        self.controller = BindingController(
            cast("Cluster", self.cluster), api, options, self.metrics
        )

    async def reconcile(self) -> Result | None:
        return await self.controller.reconcile(REQUEST)

    def clock(self) -> list[float]:
        """Stops the time of waits; the first item is what the clock shows."""
        now = [0.0]
        self.controller._pauses.waits = Waits(lambda: now[0])
        return now

    @property
    def binding(self) -> JSON:
        return self.client.object("ServiceBinding", "sb")

    @property
    def passes(self) -> dict[tuple[str, ...], float]:
        """By API, stage and outcome."""
        family, _ = self.metrics.collect()
        found = [one for one in family.samples if one.name == "fairlead_binding_passes_total"]
        return {tuple(one.labels.values()): one.value for one in found}

    @property
    def bindings(self) -> dict[str, float]:
        """How many stand how."""
        _, family = self.metrics.collect()
        return {one.labels["outcome"]: one.value for one in family.samples if one.value}

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return self.cluster.recorder.seen


@pytest.mark.parametrize(
    ("body", "coreos", "finalizer"),
    [
        pytest.param(
            spec_binding(service=SECRET_SERVICE), False, "servicebinding.io/finalizer", id="spec"
        ),
        pytest.param(
            coreos_binding(
                services=[{"group": "", "version": "v1", "kind": "Secret", "name": "s1"}]
            ),
            True,
            "finalizer.servicebinding.openshift.io",
            id="coreos",
        ),
    ],
)
async def test_a_binding_lives_from_finalizer_to_finalizer(
    body: JSON, coreos: bool, finalizer: str
) -> None:
    bench = Bench(body, secret(), deployment(), coreos=coreos)
    assert await bench.reconcile() is None
    assert bench.binding["metadata"]["finalizers"] == [finalizer]
    assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")
    assert [(kind, reason) for kind, reason, _ in bench.events] == [
        ("Normal", "ApplicationsBound")
    ]

    writes = len(bench.client.writes)
    assert await bench.reconcile() is None
    assert len(bench.client.writes) == writes
    assert len(bench.events) == 1

    deleted(bench.binding)
    assert await bench.reconcile() is None
    assert not bench.binding["metadata"].get("finalizers")
    assert pod(bench.client.object("Deployment", "web"))["volumes"] == []


async def test_conflicts_that_do_not_end_are_not_repeated_at_once_each_time() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    conflict = Conflict(Status("Failure", "somebody was faster", "Conflict", 409))
    tried = 0

    def check(verb: str, resource: Resource) -> None:
        nonlocal tried
        if refusing and resource == DEPLOYMENTS and verb not in {"get", "list"}:
            tried += 1
            raise conflict

    bench.client._check = check  # type: ignore[method-assign]
    refusing, tries = True, []
    for _ in range(3):
        with pytest.raises(Conflict):
            await bench.reconcile()
        tries.append(tried)
        tried = 0
    assert tries == [5, 1, 1]
    refusing = False
    await bench.reconcile()
    assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")
    assert not bench.controller._contended


@pytest.fixture
def few_reads(monkeypatch: pytest.MonkeyPatch) -> int:
    """As many as a pass of the tests here may have."""
    monkeypatch.setattr(bounds, "READS", 40)
    return 40


def _wide(count: int) -> tuple[JSON, list[JSON]]:
    """A binding of many services, each of which names a Secret, and all of these."""
    references = [
        {"group": "x.io", "version": "v1", "kind": "Database", "name": f"d{number}"}
        for number in range(count)
    ]
    services = [database(f"d{number}", f"s{number}") for number in range(count)]
    secrets = [secret(f"s{number}") for number in range(count)]
    return coreos_binding(services=references), [*services, *secrets]


async def test_a_binding_that_asks_for_too_much_says_so_and_is_left_alone(few_reads: int) -> None:
    body, secrets = _wide(few_reads)
    bench = Bench(body, *secrets, deployment(), coreos=True)
    result = await bench.reconcile()
    assert conditions(bench.binding)["Ready"] == ("False", "ProcessingError")
    said = message(bench.binding, "Ready")
    assert said.startswith("the binding needs more than 40 reads, one after the other:")
    assert "the next try is in 300 s, or when the binding changes" in said
    assert result == Result(requeue_after=300.0)
    assert bench.passes == {("servicebinding-coreos", "reads", "failed"): 1.0}
    assert len(bench.client.reads) <= 2 * few_reads
    # Nothing that it asked for is watched: it would ask for all of it at each change.
    assert not any(one.readers for one in bench.controller._dependencies._watches.values())
    assert "spec" in bench.client.object("Deployment", "web")
    assert not pod(bench.client.object("Deployment", "web")).get("volumes")
    # Once it asks for less it is bound, as its neighbours are.
    bench.binding["spec"]["services"] = body["spec"]["services"][:3]
    bench.binding["metadata"]["generation"] = 2
    await bench.reconcile()
    assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")


@pytest.mark.parametrize("before", ["bound", "never bound"])
async def test_a_binding_that_asks_for_too_much_goes(few_reads: int, before: str) -> None:
    body, secrets = _wide(few_reads)
    bench = Bench(body, *secrets, deployment(), coreos=True)
    if before == "bound":
        bench.binding["spec"]["services"] = body["spec"]["services"][:3]
        await bench.reconcile()
        assert pod(bench.client.object("Deployment", "web"))["volumes"]
        bench.binding["spec"] = body["spec"]
    await bench.reconcile()
    deleted(bench.binding)
    await bench.reconcile()
    assert not bench.binding["metadata"].get("finalizers")
    assert not pod(bench.client.object("Deployment", "web")).get("volumes")


@pytest.mark.parametrize("leaving", [True, False], ids=["deleted", "to be bound"])
async def test_more_kinds_than_a_binding_can_have_had_are_none(leaving: bool) -> None:
    body = spec_binding(service=SECRET_SERVICE)
    kinds = [Lookup("x.io", "v1", kind=f"Kind{number}") for number in range(1100)]
    body["metadata"] |= {
        "annotations": {KINDS_ANNOTATION: kinds_text(kinds)},
        "finalizers": [OURS],
    }
    bench = Bench(body, secret(), deployment())
    if leaving:
        deleted(bench.binding)
    await bench.reconcile()
    if leaving:
        assert not bench.binding["metadata"]["finalizers"]
    else:
        assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")
        left = read_kinds(bench.binding["metadata"]["annotations"])
        assert left == [Lookup("apps", "v1", kind="Deployment")]


OURS, OPERATOR = "servicebinding.io/finalizer", "finalizer.servicebinding.openshift.io"


@pytest.mark.parametrize("bound", [True, False], ids=["bound by us", "never seen by us"])
@pytest.mark.parametrize(
    "finalizers",
    [
        pytest.param([OURS], id="ours, or the reference runtime's"),
        pytest.param([OPERATOR], id="the operator's"),
        pytest.param([OPERATOR, OURS], id="both"),
    ],
)
async def test_a_binding_loses_the_finalizers_of_whoever_bound_it(
    finalizers: list[str], bound: bool
) -> None:
    body = spec_binding(service=SECRET_SERVICE)
    body["metadata"]["finalizers"] = ["a.b/mine", *finalizers]
    bench = Bench(body, secret(), deployment())
    if bound:
        await bench.reconcile()
        bench.binding["metadata"]["finalizers"] = ["a.b/mine", *finalizers]
    deleted(bench.binding)
    await bench.reconcile()
    # That of somebody else, who waits for something else, stays.
    assert bench.binding["metadata"]["finalizers"] == ["a.b/mine"]
    assert not pod(bench.client.object("Deployment", "web")).get("volumes")
    writes = len(bench.client.writes)
    await bench.reconcile()
    assert len(bench.client.writes) == writes


async def test_a_finalizer_of_the_operator_waits_for_what_unbinding_waits_for() -> None:
    body = spec_binding(service=SECRET_SERVICE)
    body["metadata"]["finalizers"] = [OPERATOR]
    bench = Bench(body, secret(), deployment())
    await bench.reconcile()
    deleted(bench.binding)
    bench.client.fail["patch", "deployments"] = Forbidden(
        Status("Failure", "no", "Forbidden", 403)
    )
    await bench.reconcile()
    assert bench.binding["metadata"]["finalizers"] == [OPERATOR, OURS]


@pytest.mark.parametrize("coreos", [False, True], ids=["spec", "coreos"])
async def test_the_kind_is_noted_with_the_finalizer_and_a_changed_one_besides(
    coreos: bool,
) -> None:
    direct = [{"group": "", "version": "v1", "kind": "Secret", "name": "s1"}]
    make = coreos_binding(services=direct) if coreos else spec_binding(service=SECRET_SERVICE)
    cron = cronjob()
    bench = Bench(make, secret(), deployment(), cron, coreos=coreos)
    assert await bench.reconcile() is None
    assert bench.client.writes[0] == ("patch", "ServiceBinding")
    assert bench.client.writes.count(("patch", "ServiceBinding")) == 1
    first = read_kinds(bench.binding["metadata"]["annotations"]) or []
    assert [kind.version for kind in first] == ["v1"]

    if coreos:
        changed = {"group": "batch", "version": "v1", "kind": "CronJob", "name": "night"}
        bench.binding["spec"]["application"] = changed
    else:
        changed = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "night"}
        bench.binding["spec"]["workload"] = changed
    informer = bench.cluster.informer(DEPLOYMENTS)
    informer.objects["web"] = object_from_dict(bench.client.object("Deployment", "web"))
    seen: list[int] = []
    patch = bench.client.merge_patch

    async def noting(*given: Any, **more: Any) -> Object:
        seen.append(len(read_kinds(bench.binding["metadata"]["annotations"]) or []))
        return await patch(*given, **more)

    bench.client.merge_patch = noting  # type: ignore[method-assign]
    await bench.reconcile()
    # Both are noted while either may have something; then the new one alone.
    assert seen[1:] == [2] * (len(seen) - 1)
    assert [kind.group for kind in read_kinds(bench.binding["metadata"]["annotations"]) or []] == [
        "batch"
    ]
    assert pod(bench.client.object("Deployment", "web"))["volumes"] == []
    assert RECORD_PREFIX not in str(bench.client.object("Deployment", "web")["metadata"])


async def test_a_former_secret_that_the_watch_does_not_show_yet_goes_too() -> None:
    """The events of our own writes start no pass, in which it could go later."""
    bench = Bench(spec_binding(service=SECRET_SERVICE, type="t"), secret(), deployment())
    names = []
    for host in ("a", "b"):
        bench.client.objects["Secret", "s1"] = secret(host=host)
        await bench.reconcile()
        names.append(bench.binding["status"]["binding"]["name"])
    former, current = names
    assert ("Secret", former) in bench.client.objects
    assert await bench.reconcile() is None
    assert ("Secret", former) not in bench.client.objects
    assert ("Secret", current) in bench.client.objects
    for _ in range(2):
        bench.client.reads.clear()
        await bench.reconcile()
    assert ("get", f"Secret {former}") not in bench.client.reads


async def test_a_binding_from_before_gets_records_first_and_its_kind_then() -> None:
    body = spec_binding(service=SECRET_SERVICE)
    body["status"] = {"binding": {"name": "s1"}}
    bench = Bench(body, secret())
    await bench.reconcile()
    assert read_kinds(bench.binding["metadata"]["annotations"]) is None
    bench.client.objects["Deployment", "web"] = deployment()
    await bench.reconcile()
    assert read_kinds(bench.binding["metadata"]["annotations"])
    assert RECORD_PREFIX in str(bench.client.object("Deployment", "web")["metadata"])


async def test_a_binding_that_is_gone_or_let_go_is_forgotten() -> None:
    bench = Bench()
    assert await bench.reconcile() is None
    body = spec_binding()
    deleted(body)
    bench = Bench(body)
    assert await bench.reconcile() is None
    assert bench.client.writes == []


@pytest.mark.parametrize("since", ["gone", "going", "another"])
async def test_a_binding_that_only_an_old_view_has_is_not_projected(since: str) -> None:
    before = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    await before.reconcile()
    bench = Bench(before.binding, secret(), deployment())
    view = bench.cluster.informer(bench.controller._api.resource)
    view.objects["sb"] = object_from_dict(before.binding)
    if since == "gone":
        del bench.client.objects["ServiceBinding", "sb"]
    elif since == "going":
        deleted(bench.binding)
    else:
        bench.binding["metadata"] |= {"uid": "uid-new", "resourceVersion": "9"}
    await bench.reconcile()
    records = bench.client.object("Deployment", "web")["metadata"].get("annotations") or {}
    assert [*records] == ([f"{RECORD_PREFIX}uid-new"] if since == "another" else [])


async def test_a_spec_that_contradicts_itself_is_told_once() -> None:
    bench = Bench(spec_binding(workload={}))
    for _ in range(2):
        assert await bench.reconcile() is None
    assert conditions(bench.binding)["Ready"] == ("False", "ProcessingError")
    assert "spec.workload" in message(bench.binding, "Ready")
    assert [kind for kind, _, _ in bench.events] == ["Warning"]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        pytest.param({"name": ".."}, [], id="spec"),
        pytest.param({"annotations": {"servicebinding.io/default-mode": "x"}}, [], id="wish"),
        pytest.param({"workload": {"name": "web"}}, [], id="a name besides, of another one"),
        pytest.param({"workload": {"name": "one"}}, ["one"], id="which of the two is not known"),
        pytest.param({"env": 1}, ["one"], id="nor what is selected by another type"),
    ],
)
async def test_workloads_that_stop_matching_are_unbound_though_the_spec_is_wrong(
    change: JSON, left: list[str]
) -> None:
    selector = {"selector": {"matchLabels": {"app": "x"}}}
    workloads = [deployment(name, labels={"app": "x"}) for name in ("one", "two")]
    binding = spec_binding(service=SECRET_SERVICE, workload=selector)
    bench = Bench(binding, secret(), *workloads)
    informer = bench.cluster.informer(DEPLOYMENTS)

    def shown() -> dict[str, Object]:
        bodies = (bench.client.object("Deployment", name) for name in ("one", "two"))
        return {body["metadata"]["name"]: object_from_dict(body) for body in bodies}

    informer.objects = shown()
    await bench.reconcile()
    bench.binding["metadata"]["annotations"] |= change.pop("annotations", {})
    workload = change.pop("workload", {})
    bench.binding["spec"] |= {**change, "workload": bench.binding["spec"]["workload"] | workload}
    bench.client.object("Deployment", "one")["metadata"]["labels"] = {}
    informer.objects = shown()
    await bench.reconcile()
    assert conditions(bench.binding)["Ready"] == ("False", "ProcessingError")
    bound = [name for name, one in shown().items() if pod(one.to_dict()).get("volumes")]
    assert bound == [*left, "two"]
    # What cannot be told is said, and looked at again.
    bench.client.object("Deployment", "two")["metadata"]["labels"] = {}
    informer.objects = shown()
    bench.client.fail["patch", "deployments"] = Forbidden(
        Status("Failure", "may not", "Forbidden", 403)
    )
    result = await bench.reconcile()
    if not left:
        assert result == Result(backoff=delays.NO_WATCH)
        assert "may not" in message(bench.binding, "Ready")


FOREIGN = {"group": "", "version": "v1", "kind": "Secret", "name": "s1", "namespace": "other"}


class Refusing(Bench):
    """A binding that was projected, whose services the program refuses from now on."""

    @classmethod
    async def made(cls) -> Refusing:
        login = secret()
        login["metadata"]["namespace"] = "other"
        bench = cls(coreos_binding(services=[FOREIGN]), login, deployment(), coreos=True)
        bench.start(BindingOptions(cross_namespace=True), coreos=True)
        await bench.look()
        assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")
        bench.start(coreos=True)
        return bench

    async def look(self) -> Result | None:
        for resource in (DEPLOYMENTS, SECRETS):
            found = [
                object_from_dict(body)
                for (kind, _), body in self.client.objects.items()
                if kind == resource.kind
            ]
            informer = self.cluster.informer(resource)
            informer.objects = {one.meta.name: one for one in found}
        return await self.reconcile()

    @property
    def generated(self) -> list[str]:
        return [name for kind, name in self.client.objects if kind == "Secret" and name != "s1"]

    @property
    def volumes(self) -> list[JSON]:
        found: list[JSON] = pod(self.client.object("Deployment", "web"))["volumes"]
        return found


@pytest.mark.parametrize("noted", [True, False], ids=["ours", "of a controller without notes"])
async def test_refused_services_stay_projected_until_the_spec_changes(noted: bool) -> None:
    bench = await Refusing.made()
    (projected,) = bench.generated
    if not noted:
        for condition in bench.binding["status"]["conditions"]:
            condition.pop("observedGeneration")
    for _ in range(2):
        assert await bench.look() is None
    assert conditions(bench.binding) == {
        "CollectionReady": ("True", "DataCollected"),
        "InjectionReady": ("True", "ApplicationUpdated"),
        "Ready": ("False", "ProcessingError"),
    }
    assert "it has projected stays as it is until its spec changes" in message(
        bench.binding, "Ready"
    )
    # No edit of the spec: as whoever gives a label.
    bench.binding["metadata"]["labels"] = {"a": "b"}
    await bench.look()
    assert bench.volumes[0]["secret"]["secretName"] == projected
    assert bench.generated == [projected]

    edited(bench.binding, bindAsFiles=True)
    for _ in range(2):
        assert await bench.look() is None
    assert {status for status, _ in conditions(bench.binding).values()} == {"False"}
    assert "it has projected stays" not in message(bench.binding, "Ready")
    assert (bench.volumes, bench.generated) == ([], [])
    assert bench.binding["status"]["secret"] == ""
    assert bench.binding["metadata"]["finalizers"]


@pytest.mark.parametrize(
    "failing", [("patch", "deployments"), ("delete", "secrets"), ("list", "secrets")]
)
async def test_a_withdrawal_that_fails_is_repeated(failing: tuple[str, str]) -> None:
    bench = await Refusing.made()
    edited(bench.binding, bindAsFiles=True)
    bench.client.fail[failing] = Forbidden(Status("Failure", "may not", "Forbidden", 403))
    if failing[0] == "list":
        bench.cluster.informer(SECRETS).has_synced = False
        bench.cluster.informer(SECRETS).error = "may not"
    for _ in range(2):
        assert await bench.look() == Result(backoff=delays.NO_WATCH)
    assert "may not" in message(bench.binding, "Ready")
    assert bench.binding["status"]["secret"]
    assert bench.generated
    assert bool(bench.volumes) == (failing[0] == "patch")
    bench.client.fail.clear()
    bench.cluster.informer(SECRETS).has_synced = True
    bench.cluster.informer(SECRETS).error = ""
    assert await bench.look() is None
    assert (bench.volumes, bench.generated) == ([], [])
    assert bench.binding["status"]["secret"] == ""


async def test_an_object_that_does_not_fit_its_type_is_told_too() -> None:
    body = spec_binding()
    body["spec"]["env"] = "x"
    bench = Bench(body)
    assert await bench.reconcile() is None
    assert "spec.env" in message(bench.binding, "Ready")


@pytest.mark.parametrize(
    ("failing", "again"),
    [
        pytest.param(
            ("get", "secrets"), Result(backoff=delays.NO_WATCH), id="forbidden: pauses grow"
        ),
        pytest.param(
            None, Result(requeue_after=60.0), id="missing: a watch will tell, then a warning"
        ),
    ],
)
async def test_when_it_is_looked_at_again(
    failing: tuple[str, str] | None, again: Result | None
) -> None:
    bench = Bench(spec_binding(), database(), deployment())
    bench.clock()
    if failing:
        bench.client.fail[failing] = Forbidden(Status("Failure", "no", "Forbidden", 403))
    assert [await bench.reconcile() for _ in range(3)] == [again] * 3
    assert len(bench.events) == 1


async def test_what_has_not_come_yet_is_no_warning_until_it_lasts() -> None:
    bench = Bench(spec_binding(), database(), deployment())
    now = bench.clock()
    for now[0] in (0.0, 1.0, bounds.PATIENCE_SECONDS, bounds.PATIENCE_SECONDS + 1):
        await bench.reconcile()
    assert [(kind, reason) for kind, reason, _ in bench.events] == [
        ("Normal", "Waiting"),
        ("Warning", "ProcessingError"),
    ]
    assert "has not arrived yet" in bench.events[0][2]
    assert bench.events[1][2] == f"still waiting after 60 s: {bench.events[0][2]}"
    bench.client.objects["Secret", "s1"] = secret()
    assert await bench.reconcile() is None
    assert bench.events[2][:2] == ("Normal", "ApplicationsBound")


async def test_a_wait_that_turns_into_a_failure_is_warned_of_at_once() -> None:
    bench = Bench(spec_binding(), database(), deployment())
    await bench.reconcile()
    bench.client.fail["get", "secrets"] = Forbidden(Status("Failure", "no", "Forbidden", 403))
    for _ in range(2):
        await bench.reconcile()
    assert [(kind, reason) for kind, reason, _ in bench.events] == [
        ("Normal", "Waiting"),
        ("Warning", "ProcessingError"),
    ]


@pytest.mark.parametrize(
    ("since", "events"),
    [
        pytest.param("2020-01-01T00:00:00Z", 0, id="long ago: it was told then"),
        pytest.param("2120-01-01T00:00:00Z", 1, id="just now"),
        pytest.param("not a time", 1, id="nobody knows when"),
    ],
)
async def test_after_a_restart_a_wait_is_told_no_second_time(since: str, events: int) -> None:
    first = Bench(spec_binding(), database(), deployment())
    await first.reconcile()
    for condition in first.binding["status"]["conditions"]:
        condition["lastTransitionTime"] = since
    bench = Bench(first.binding, database(), deployment())
    now = bench.clock()
    for now[0] in (0.0, bounds.PATIENCE_SECONDS):
        await bench.reconcile()
    assert [kind for kind, _, _ in bench.events] == ["Warning"] * events


def says(body: JSON, *found: tuple[str, str, str], observed: int = 2) -> None:
    """The status that a Deployment's controller writes: type, status and reason of conditions."""
    body["metadata"]["generation"] = 2
    body["status"] = {
        "observedGeneration": observed,
        "conditions": [
            {"type": type_, "status": status, "reason": reason, "message": f"about {reason}"}
            for type_, status, reason in found
        ],
    }


REFUSED = ("ReplicaFailure", "True", "FailedCreate")
COMPLETE = ("Progressing", "True", "NewReplicaSetAvailable")


async def test_a_rollout_that_fails_is_told_apart_from_ready() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    await bench.reconcile()
    assert "RolloutFailing" not in conditions(bench.binding)
    web = bench.client.object("Deployment", "web")
    says(web, REFUSED)
    await bench.reconcile()
    found = conditions(bench.binding)
    assert found["RolloutFailing"] == ("True", "PodsRefused")
    assert found["Ready"] == ("True", "ApplicationsBound")
    assert message(bench.binding, "RolloutFailing") == (
        "Deployment ns/web: ReplicaFailure is True, FailedCreate: about FailedCreate"
    )
    assert bench.events[-1][:2] == ("Warning", "PodsRefused")
    count = len(bench.events)
    # Not known again yet: a changed spec that its controller has not seen.
    says(web, REFUSED, observed=1)
    await bench.reconcile()
    assert "RolloutFailing" in conditions(bench.binding)
    says(web, COMPLETE)
    await bench.reconcile()
    assert "RolloutFailing" not in conditions(bench.binding)
    assert len(bench.events) == count


async def test_a_rollout_is_not_failing_any_more_when_its_workload_is_gone() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    await bench.reconcile()
    says(bench.client.object("Deployment", "web"), REFUSED)
    await bench.reconcile()
    bench.client.fail["get", "deployments"] = Forbidden(Status("Failure", "no", "Forbidden", 403))
    await bench.reconcile()
    assert "RolloutFailing" in conditions(bench.binding)
    del bench.client.fail["get", "deployments"]
    del bench.client.objects["Deployment", "web"]
    await bench.reconcile()
    assert "RolloutFailing" not in conditions(bench.binding)


async def test_a_workload_that_failed_before_it_was_bound_is_not_told_of() -> None:
    web = deployment(containers=[{"name": "app", "volumeMounts": "none"}])
    says(web, REFUSED)
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), web)
    await bench.reconcile()
    assert "RolloutFailing" not in conditions(bench.binding)


async def test_the_status_is_followed_until_the_rollout_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    followed: list[list[str]] = []

    def follow(request: Request, found: list[tuple[Resource, Object]]) -> None:
        followed.append([obj.meta.name for _, obj in found])

    monkeypatch.setattr(bench.controller._dependencies, "follow", follow)
    await bench.reconcile()
    web = bench.client.object("Deployment", "web")
    for condition in (("Progressing", "True", "ReplicaSetUpdated"), REFUSED, COMPLETE):
        says(web, condition)
        await bench.reconcile()
    deleted(bench.binding)
    await bench.reconcile()
    assert followed == [["web"], ["web"], ["web"], []]


async def test_who_keeps_undoing_the_projection_is_not_fought() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    for _ in range(bounds.FIGHT_WRITES):
        assert await bench.reconcile() is None
        bench.client.objects["Deployment", "web"] = deployment()
    result = await bench.reconcile()
    assert result is not None
    assert result.requeue_after
    assert bench.client.object("Deployment", "web") == deployment()
    assert "Deployment ns/web" in message(bench.binding, "Ready")
    assert conditions(bench.binding)["InjectionReady"] == ("False", "WriteUndone")


def _rotate(bench: Bench, number: int) -> None:
    bench.client.objects["Secret", "s1"] = secret(type="postgresql", password=str(number))


def _make_anew(bench: Bench, number: int) -> None:
    bench.client.objects["Deployment", "web"] = deployment()
    bench.client.objects["Deployment", "web"]["metadata"]["uid"] = f"uid-web-{number}"


def _add_a_container(bench: Bench, number: int, name: str = "web") -> None:
    containers = pod(bench.client.object("Deployment", name))["containers"]
    containers.append({"name": f"sidecar-{number}"})


@pytest.mark.parametrize("change", [_rotate, _make_anew, _add_a_container])
async def test_writes_that_others_have_not_undone_are_no_fight(
    change: Callable[[Bench, int], None],
) -> None:
    rolling = {"servicebinding.io/roll-on-change": "true"}
    binding = spec_binding(service=SECRET_SERVICE, annotations=rolling)
    bench = Bench(binding, secret(), deployment())
    for number in range(bounds.FIGHT_WRITES + 3):
        assert await bench.reconcile() is None
        change(bench, number)
    assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")
    before = bench.client.writes.count(("patch", "Deployment"))
    assert before == bounds.FIGHT_WRITES + 3


async def test_a_fight_about_one_workload_holds_up_no_other() -> None:
    by_label = {"selector": {"matchLabels": {"app": "x"}}}
    binding = spec_binding(service=SECRET_SERVICE, workload=by_label)
    webs = [deployment(name, labels={"app": "x"}) for name in ("fought", "calm")]
    bench = Bench(binding, secret(), *webs)
    for number in range(bounds.FIGHT_WRITES):
        assert await bench.reconcile() is None
        bench.client.objects["Deployment", "fought"] = copy.deepcopy(webs[0])
        # The set of workloads that are written is another one each time.
        if number % 2:
            _add_a_container(bench, number, "calm")
    _add_a_container(bench, bounds.FIGHT_WRITES, "calm")
    await bench.reconcile()
    said = message(bench.binding, "InjectionReady")
    assert "another writer keeps changing Deployment ns/fought back" in said
    assert bench.client.object("Deployment", "fought") == webs[0]
    last = pod(bench.client.object("Deployment", "calm"))["containers"][-1]
    assert last["volumeMounts"]


def _writer(manager: str, operation: str, second: int, **more: str) -> JSON:
    time = f"2026-01-01T00:00:0{second}Z"
    return {"manager": manager, "operation": operation, "time": time, **more}


@pytest.mark.parametrize(
    ("writers", "said"),
    [
        pytest.param([], "metadata.managedFields shows the writer", id="nobody knows"),
        pytest.param(
            [_writer("flux", "Apply", 1), _writer("fairlead-binding", "Update", 2)],
            "it is flux, which applies the object: if lists of containers",
            id="server-side apply",
        ),
        pytest.param(
            [_writer("kubectl-client-side-apply", "Update", 1)],
            "in the CRD of the kind, or let kubectl-client",
            id="client-side apply",
        ),
        pytest.param(
            [_writer("flux", "Apply", 1), _writer("hand", "Update", 2)],
            "it is hand: let it keep fields that it does not know",
            id="the last one",
        ),
        pytest.param(
            [
                _writer("hand", "Update", 1),
                _writer("controller", "Update", 2, subresource="status"),
            ],
            "it is hand: ",
            id="not who writes the status",
        ),
    ],
)
async def test_who_keeps_undoing_the_projection_is_named_with_what_helps(
    writers: list[JSON], said: str
) -> None:
    bare = deployment()
    bare["metadata"]["managedFields"] = writers
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), bare)
    for _ in range(bounds.FIGHT_WRITES):
        assert await bench.reconcile() is None
        bench.client.objects["Deployment", "web"] = copy.deepcopy(bare)
    await bench.reconcile()
    assert said in message(bench.binding, "InjectionReady")
    assert "the next try is in 60 s" in message(bench.binding, "Ready")


async def test_a_reference_runtime_that_still_runs_is_named() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    for _ in range(bounds.FIGHT_WRITES):
        assert await bench.reconcile() is None
        body = bench.client.object("Deployment", "web")
        body["metadata"]["annotations"]["projector.servicebinding.io/mapping-uid-sb"] = "{}"
        pod(body)["volumes"] = []
    await bench.reconcile()
    said = message(bench.binding, "InjectionReady")
    assert "the reference runtime of servicebinding.io projects the binding, too" in said


FORBIDDEN = Forbidden(Status("Failure", "no", "Forbidden", 403))


@pytest.mark.parametrize(
    ("body", "failing", "expected"),
    [
        pytest.param(spec_binding(workload={}), None, ("spec", "invalid"), id="invalid"),
        pytest.param(
            spec_binding(), None, ("collect_preflight", "failed"), id="a service is not there"
        ),
        pytest.param(
            spec_binding(service=SECRET_SERVICE), None, ("", "bound"), id="all is as it should be"
        ),
        pytest.param(
            spec_binding(service=SECRET_SERVICE),
            ("get", "secrets"),
            ("collect_preflight", "failed"),
            id="a read is refused",
        ),
        pytest.param(
            spec_binding(service=SECRET_SERVICE),
            ("patch", "deployments"),
            ("write", "failed"),
            id="a write is refused",
        ),
    ],
)
async def test_passes_are_counted_by_where_they_stop(
    body: JSON, failing: tuple[str, str] | None, expected: tuple[str, str]
) -> None:
    bench = Bench(body, secret("other"), secret(), deployment())
    if failing:
        bench.client.fail[failing] = FORBIDDEN
    await bench.reconcile()
    assert bench.passes == {("servicebinding", *expected): 1.0}
    assert bench.bindings == {expected[1]: 1.0}


@pytest.mark.parametrize("refused", [False, True], ids=["", "a status that is refused"])
async def test_what_unbinding_leaves_is_told_before_the_finalizer_goes(
    monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    await bench.reconcile()
    pod(bench.client.object("Deployment", "web"))["volumes"] = [{"name": "sb", "emptyDir": {}}]
    deleted(bench.binding)
    if refused:
        monkeypatch.setattr(bench.controller._committer._statuses, "write", failing)
    del bench.client.writes[:], bench.events[:]
    assert await bench.reconcile() is None
    told = [] if refused else [("patch", "ServiceBinding/status")]
    assert bench.client.writes == [("patch", "Deployment"), *told, ("patch", "ServiceBinding")]
    assert not bench.binding["metadata"].get("finalizers")
    (event,) = bench.events
    assert event[:2] == ("Warning", "ItemsLeft")
    assert event[2].startswith("Deployment ns/web keeps volume sb, which another writer")
    if not refused:
        assert conditions(bench.binding)["InjectionReady"] == ("False", "ItemsLeft")
        assert message(bench.binding, "InjectionReady") == event[2]


async def failing(*_: Any) -> Object:
    raise Forbidden(Status("Failure", "no", "Forbidden", 403))


async def test_what_a_workload_keeps_that_is_no_longer_selected_is_told_once() -> None:
    workload = {"name": "", "selector": {"matchLabels": {"a": "b"}}}
    bench = Bench(
        spec_binding(service=SECRET_SERVICE, workload=workload),
        secret(),
        deployment(labels={"a": "b"}),
    )
    await bench.reconcile()
    web = bench.client.object("Deployment", "web")
    pod(web)["volumes"] = [{"name": "sb", "emptyDir": {}}]
    web["metadata"]["labels"] = {}
    for _ in range(2):
        await bench.reconcile()
    assert [event[:2] for event in bench.events].count(("Warning", "ItemsLeft")) == 1


async def test_an_unbinding_is_counted_too() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    await bench.reconcile()
    deleted(bench.binding)
    await bench.reconcile()
    outcomes = {outcome: number for (_, _, outcome), number in bench.passes.items()}
    assert outcomes == {"bound": 1.0, "unbound": 1.0}
    assert bench.bindings == {}


async def test_unbinding_that_is_refused_keeps_the_binding() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    await bench.reconcile()
    deleted(bench.binding)
    bench.client.fail["patch", "deployments"] = Forbidden(
        Status("Failure", "no", "Forbidden", 403)
    )
    await bench.reconcile()
    assert bench.binding["metadata"]["finalizers"]
    assert conditions(bench.binding)["Ready"] == ("False", "ApplicationUpdateError")


POLICY = Forbidden(Status("Failure", "policy 'frozen' denied request: no", "Forbidden", 403))
NOT_UPDATED = "ServiceBinding was not updated: policy 'frozen' denied request: no"


@pytest.mark.parametrize("going", [False, True], ids=["finalizer", "end"])
async def test_a_binding_that_must_not_be_changed_says_why(going: bool) -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    if going:
        await bench.reconcile()
        deleted(bench.binding)
    bench.client.fail["patch", "servicebindings"] = POLICY
    for _ in range(2):
        with pytest.raises(Forbidden):
            await bench.reconcile()
    assert message(bench.binding, "Ready") == NOT_UPDATED
    assert conditions(bench.binding)["Ready"] == ("False", "ProcessingError")
    assert [event for event in bench.events if event[0] == "Warning"] == [
        ("Warning", "ProcessingError", NOT_UPDATED)
    ]
    bench.client.fail.clear()
    await bench.reconcile()
    assert bool(bench.binding["metadata"].get("finalizers")) != going
    assert going or conditions(bench.binding)["Ready"][0] == "True"


async def test_a_status_that_must_not_be_written_is_told_by_an_event() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    bench.client.fail["patch status", "servicebindings"] = POLICY
    with pytest.raises(Forbidden):
        await bench.reconcile()
    assert bench.events == [("Warning", "ProcessingError", NOT_UPDATED)]


async def test_kinds_that_must_not_be_noted_anew_spoil_no_pass() -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    await bench.reconcile()
    noted = kinds_text([Lookup("apps", "v1", kind="Deployment"), Lookup("", "v1", kind="Gone")])
    bench.binding["metadata"]["annotations"][KINDS_ANNOTATION] = noted
    bench.client.fail["patch", "servicebindings"] = POLICY
    await bench.reconcile()
    assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")
    assert bench.binding["metadata"]["annotations"][KINDS_ANNOTATION] == noted


@pytest.mark.parametrize(
    ("before", "after", "looked_at"),
    [
        pytest.param(None, {}, True, id="added"),
        pytest.param({}, None, True, id="gone"),
        pytest.param({"generation": 1}, {"generation": 2}, True, id="spec"),
        pytest.param({}, {"annotations": {"a": "b"}}, True, id="annotation"),
        pytest.param({}, {"deletionTimestamp": "now"}, True, id="deletion"),
        pytest.param({"generation": 1}, {"generation": 1}, False, id="status"),
        pytest.param({}, {"labels": {"a": "b"}}, False, id="label"),
    ],
)
def test_which_changes_of_a_binding_count(
    before: JSON | None, after: JSON | None, looked_at: bool
) -> None:
    old, new = (
        None if meta is None else object_from_dict({"metadata": {"name": "sb", **meta}})
        for meta in (before, after)
    )
    assert _WANTED(Delta("MODIFIED", old, new)) is looked_at


def mapping(volumes: str, version: str) -> Object:
    return object_from_dict(
        {
            "apiVersion": "servicebinding.io/v1",
            "kind": "ClusterWorkloadResourceMapping",
            "metadata": {"name": "deployments.apps", "resourceVersion": version},
            "spec": {"versions": [{"version": "*", "volumes": volumes}]},
        }
    )


@pytest.mark.parametrize("down", [pytest.param(False, id="up"), pytest.param(True, id="down")])
async def test_a_changed_mapping_moves_the_projection_by_what_it_was(down: bool) -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    mappings = bench.cluster.informer(CLUSTERWORKLOADRESOURCEMAPPINGS)
    before, after = mapping(".spec.one", "1"), mapping(".spec.two", "2")
    mappings.objects["deployments.apps"] = before
    await bench.reconcile()
    assert len(bench.client.object("Deployment", "web")["spec"]["one"]) == 1

    mappings.objects["deployments.apps"] = after
    if down:
        # Another process starts, which has never seen the first mapping.
        cluster = cast("Cluster", bench.cluster)
        bench.controller = BindingController(cluster, spec_api(), BindingOptions())
    assert await bench.reconcile() is None
    workload = bench.client.object("Deployment", "web")["spec"]
    assert workload["one"] == []
    assert len(workload["two"]) == 1


@pytest.mark.parametrize("down", [pytest.param(False, id="up"), pytest.param(True, id="down")])
async def test_a_mapping_that_breaks_under_a_binding_moves_nothing_until_it_goes(
    down: bool,
) -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    mappings = bench.cluster.informer(CLUSTERWORKLOADRESOURCEMAPPINGS)
    mappings.objects["deployments.apps"] = mapping(".spec.one", "1")
    await bench.reconcile()
    before = bench.client.object("Deployment", "web")
    mappings.objects["deployments.apps"] = mapping(".a[", "2")
    if down:
        cluster = cast("Cluster", bench.cluster)
        bench.controller = BindingController(cluster, spec_api(), BindingOptions())
    await bench.reconcile()
    assert bench.client.object("Deployment", "web") == before
    assert conditions(bench.binding)["InjectionReady"] == ("False", "ApplicationNotFound")
    assert ".a[" in message(bench.binding, "Ready")
    del mappings.objects["deployments.apps"]
    await bench.reconcile()
    assert conditions(bench.binding)["Ready"] == ("True", "ApplicationsBound")
    after = bench.client.object("Deployment", "web")
    assert after["spec"]["one"] == []
    assert len(pod(after)["volumes"]) == 1


@pytest.mark.parametrize("remedy", ["repaired", "deleted"])
async def test_a_binding_that_goes_while_its_mapping_is_broken(remedy: str) -> None:
    bench = Bench(spec_binding(service=SECRET_SERVICE), secret(), deployment())
    mappings = bench.cluster.informer(CLUSTERWORKLOADRESOURCEMAPPINGS)
    await bench.reconcile()
    mappings.objects["deployments.apps"] = mapping(".a[", "2")
    workload = bench.client.object("Deployment", "web")
    deleted(bench.binding)
    # With a record its mapping is of no interest, without one it has to be repaired.
    for key in [key for key in workload["metadata"]["annotations"] if "projection" in key]:
        del workload["metadata"]["annotations"][key]
    # As a binding from before there were notes is.
    del bench.binding["metadata"]["annotations"][KINDS_ANNOTATION]
    await bench.reconcile()
    assert bench.binding["metadata"]["finalizers"]
    assert "cannot unbind" in message(bench.binding, "Ready")
    if remedy == "deleted":
        del mappings.objects["deployments.apps"]
    else:
        mappings.objects["deployments.apps"] = mapping("", "3")
    assert await bench.reconcile() is None
    assert not bench.binding["metadata"].get("finalizers")
    assert pod(bench.client.object("Deployment", "web"))["volumes"] == []


READ = Get(CLUSTERWORKLOADRESOURCEMAPPINGS, "", "deployments.apps")


def test_those_who_were_projected_by_a_mapping_look_again() -> None:
    cluster = ClusterOf(FakeClient())
    told: list[Request] = []
    mappings = Mappings(cast("Cluster", cluster), lambda _: [REQUEST], told.append)
    assert isinstance(mappings.answer(READ), ReadFailure)
    first, second = mapping(".spec.one", "1"), mapping(".spec.two", "2")
    cluster.informer(CLUSTERWORKLOADRESOURCEMAPPINGS).objects["deployments.apps"] = second
    mappings.changed(Delta("MODIFIED", first, second))
    mappings.changed(Delta("DELETED", second, None))
    assert told == [REQUEST, REQUEST]
    assert mappings.answer(READ) is second


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param(Delta("ADDED", None, mapping(".a", "1"), initial=True), id="initial"),
        pytest.param(Delta("MODIFIED", mapping(".a", "1"), mapping(".a", "2")), id="same spec"),
    ],
)
def test_what_is_no_change_of_a_mapping(delta: Delta) -> None:
    told: list[Request] = []
    cluster = cast("Cluster", ClusterOf(FakeClient()))
    Mappings(cluster, lambda _: [REQUEST], told.append).changed(delta)
    assert not told


async def test_a_crd_that_comes_has_those_who_looked_for_it_look_again() -> None:
    bench = Bench(spec_binding(service={**SECRET_SERVICE, "apiVersion": "y.io/v1"}), deployment())
    await bench.reconcile()
    queue = bench.controller.controller.queue
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    for name, expected in (("secrets.z.io", 0), ("secrets.y.io", 1)):
        body = object_from_dict({**crd, "metadata": {"name": name}})
        bench.controller._on_crd(Delta("ADDED", None, body))
        assert len(queue) == expected
    assert bench.client.discovery.invalidated == 2


async def test_what_changes_all_the_time_is_joined_and_seen_at_last() -> None:
    bench = Bench(spec_binding(), database(), secret(), deployment())
    now = [0.0]
    bench.controller._pauses.passes = pass_pace(lambda: now[0])
    waits: list[float] = []
    for number in range(200):
        bench.client.object("Secret", "s1")["data"][f"k{number}"] = "eA=="
        found = await bench.reconcile()
        if found is not None and found.requeue_after:
            waits.append(found.requeue_after)
        now[0] += 1 / 147
    # A burst, and then one in each half of a second.
    assert 200 - len(waits) < 25
    assert max(waits) <= 1.0
    now[0] += waits[-1]
    assert await bench.reconcile() is None
    # One that goes waits for nothing.
    deleted(bench.binding)
    await bench.reconcile()
    assert not bench.binding["metadata"].get("finalizers")
