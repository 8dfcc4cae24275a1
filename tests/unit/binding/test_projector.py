"""The projector, asked about workloads that are being created."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.unit.binding.client import FakeClient
from tests.unit.binding.cluster import KINDS, resource_of
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    coreos_binding,
    deployment,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import JOBS, Resource
from fairlead.api.servicebinding.common import MAPPING_ANNOTATION
from fairlead.api.servicebinding.coreos import COREOS_FINALIZER
from fairlead.api.servicebinding.spec import SPEC_FINALIZER
from fairlead.api.status import Status
from fairlead.binding import bounds
from fairlead.binding.admission import names
from fairlead.binding.admission.projector import Projector
from fairlead.binding.admission.serving import reviewers
from fairlead.binding.options import BindingOptions
from fairlead.binding.reads import Lookup
from fairlead.binding.workloads.records import KINDS_ANNOTATION, kinds_text, record_key
from fairlead.client import ConnectionFailed, ServerError
from fairlead.runtime import Cluster
from fairlead.runtime.admission.server import (
    AdmissionRequest,
    ReviewedNames,
    UnansweredError,
    Verdict,
)
from fairlead_sandbox.patches.jsonpatch import json_patch


ALL = {**KINDS, "batch/v1/Job": "jobs", "batch/v2/Job": "jobs"}
RESOURCES = tuple(resource_of(key, plural) for key, plural in ALL.items())
OWN = "fairlead-binding"
DEPLOYMENT = Lookup("apps", "v1", kind="Deployment")


class Informer:
    def __init__(self) -> None:
        self.has_synced = True
        self.objects: list[Object] = []
        self.index: Callable[[Object], list[str]] = lambda _: []

    def get(self, namespace: str, name: str) -> Object | None:
        return next((one for one in self.objects if one.meta.name == name), None)

    def add_index(self, name: str, function: Callable[[Object], list[str]]) -> None:
        self.index = function

    def by_index(self, name: str, value: str) -> list[Object]:
        return [one for one in self.objects if value in self.index(one)]


class World:
    """A projector that sees these bindings, and a server that has them and the Secret ``s1``."""

    def __init__(self, *bindings: JSON) -> None:
        self.server = FakeClient(secret(), *bindings, resources=RESOURCES)
        self.informers: dict[str, Informer] = {}
        self.projector = Projector(cast("Cluster", self), BindingOptions())
        for one in bindings:
            found = self.informers["servicebindings." + one["apiVersion"].partition("/")[0]]
            found.objects.append(object_from_dict(one))

    @property
    def client(self) -> object:
        return self.server

    def informer(self, resource: Resource) -> Informer:
        return self.informers.setdefault(resource.group_resource, Informer())

    async def ask(self, body: JSON, **more: Any) -> tuple[JSON, list[str]]:
        """The workload as it is then stored, and the warnings."""
        verdict = await self.projector.review(request(body, **more))
        assert not verdict.refusal
        return json_patch(body, list(verdict.patch)), list(verdict.warnings)


def request(body: JSON | None, namespace: str = "ns", **more: Any) -> AdmissionRequest:
    kind = ReviewedNames(JOBS.group, JOBS.version, kind=JOBS.kind)
    resource = ReviewedNames(JOBS.group, JOBS.version, resource=JOBS.plural)
    given: JSON = {"kind": kind, "resource": resource, "operation": "CREATE", **more}
    return AdmissionRequest(uid="1", namespace=namespace, object=body, **given)


def job(name: str | None = "web", **labels: str) -> JSON:
    """As API servers send it: without namespace."""
    body: JSON = {**deployment("any"), "apiVersion": "batch/v1", "kind": "Job"}
    named: JSON = {"generateName": "web-"} if name is None else {"name": name}
    return {**body, "metadata": {**named, "labels": labels}}


def collected(binding: JSON, /, kind: Lookup, **status: Any) -> JSON:
    """A binding whose Secret the controllers have chosen."""
    finalizer = COREOS_FINALIZER if "application" in binding["spec"] else SPEC_FINALIZER
    said = {"type": "CollectionReady", "status": "True", "observedGeneration": 1}
    meta = binding["metadata"]
    meta["finalizers"] = [finalizer]
    meta["annotations"] = {**meta.get("annotations", {}), KINDS_ANNOTATION: kinds_text([kind])}
    return {**binding, "status": {"conditions": [said], **status}}


def spec(name: str = "sb", *, selector: JSON | None = None, **more: Any) -> JSON:
    workload: JSON = {"apiVersion": "batch/v1", "kind": "Job"}
    workload |= {"name": "web"} if selector is None else {"selector": selector}
    body = spec_binding(workload=workload, service=SECRET_SERVICE, **more)
    body["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    return collected(body, Lookup("batch", "v1", kind="Job"), binding={"name": "s1"})


def coreos(name: str = "co", /, **application: Any) -> JSON:
    wanted = {"group": "batch", "version": "v1", "resource": "jobs", **application}
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "s1"}
    body = coreos_binding(services=[service], application=wanted, bindAsFiles=True)
    body["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    return collected(body, Lookup("batch", "v1", plural="jobs"), secret="s1")


def bound(body: JSON) -> list[str]:
    """The bindings that have a record on the workload and a volume in it."""
    records = body["metadata"].get("annotations") or {}
    volumes = body["spec"]["template"]["spec"].get("volumes") or []
    found = [volume["name"] for volume in volumes]
    assert [record_key(f"uid-{name}") in records for name in found] == [True] * len(found)
    return found


LABELLED = {"matchLabels": {"app": "a"}}


@pytest.mark.parametrize(
    ("bindings", "body", "expected"),
    [
        pytest.param([spec()], job(), ["sb"], id="by name"),
        pytest.param([spec()], job("other"), [], id="another name"),
        pytest.param([spec()], job(None), [], id="no name yet"),
        pytest.param([spec(selector=LABELLED)], job(None, app="a"), ["sb"], id="by labels"),
        pytest.param([spec(selector=LABELLED)], job(app="b"), [], id="other labels"),
        pytest.param([spec(selector={})], job(), ["sb"], id="all"),
        pytest.param([coreos(name="web")], job(), ["co"], id="other API"),
        pytest.param([coreos(labelSelector=LABELLED)], job(app="a"), ["co"], id="its labels"),
        pytest.param([coreos()], job(), [], id="neither"),
        pytest.param([spec("b"), spec("a"), coreos(name="web")], job(), ["a", "b", "co"], id="3"),
    ],
)
async def test_what_selects_a_workload_binds_it(
    bindings: list[JSON], body: JSON, expected: list[str]
) -> None:
    after, warnings = await World(*bindings).ask(body)
    assert bound(after) == expected
    assert warnings == []


def changed(binding: JSON, **meta: Any) -> JSON:
    return {**binding, "metadata": {**binding["metadata"], **meta}}


def uncollected(**condition: Any) -> JSON:
    found = spec()
    found["status"]["conditions"][0] |= condition
    return found


UNSEEN = "the controllers have not set CollectionReady for its present spec"


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        pytest.param(changed(spec(), finalizers=[]), UNSEEN, id="no finalizer"),
        pytest.param(changed(spec(), annotations={}), UNSEEN, id="kind not noted"),
        pytest.param(changed(spec(), generation=2), UNSEEN, id="edited"),
        pytest.param(
            changed(
                spec(), annotations={**spec()["metadata"]["annotations"], MAPPING_ANNOTATION: ""}
            ),
            UNSEEN,
            id="being projected anew",
        ),
        pytest.param(
            uncollected(status="False", message="no service"), "no service", id="not collected"
        ),
        pytest.param({**spec(), "status": {}}, UNSEEN, id="new"),
        pytest.param({**spec(), "status": {"conditions": 7}}, UNSEEN, id="odd status"),
        pytest.param(spec(env=[{"name": "A", "key": "none"}]), "none", id="entry missing"),
        pytest.param(
            {**spec(), "spec": {**spec()["spec"], "service": {"kind": "Secret"}}},
            "spec.service",
            id="no service",
        ),
    ],
)
async def test_what_cannot_bind_yet_is_said_to_who_creates_a_job(
    binding: JSON, reason: str
) -> None:
    after, (warning, why) = await World(binding).ask(job())
    assert after == job()
    assert why.startswith("ServiceBinding sb: ")
    assert reason in why
    assert warning.startswith("ServiceBinding sb cannot bind yet, and Job web cannot be changed")
    assert len(warning) <= 256


async def test_a_binding_that_goes_binds_nothing_more() -> None:
    going = changed(spec(), deletionTimestamp="2030-01-01T00:00:00Z")
    assert await World(going).ask(job()) == (job(), [])


async def test_what_our_watch_has_not_shown_yet_is_asked_for() -> None:
    world = World(spec())
    (informer,) = [one for one in world.informers.values() if one.objects]
    informer.objects = [object_from_dict({**spec(), "status": {}})]
    after, warnings = await world.ask(job())
    assert (bound(after), warnings) == (["sb"], [])


async def test_a_binding_that_names_another_workload_now_touches_neither() -> None:
    world = World(spec())
    (informer,) = [one for one in world.informers.values() if one.objects]
    informer.objects = [object_from_dict({**spec(), "status": {}})]
    other = deployment("other")
    world.server.objects["Job", "other"] = {**other, "apiVersion": "batch/v1", "kind": "Job"}
    world.server.objects["ServiceBinding", "sb"]["spec"]["workload"]["name"] = "other"
    after, _ = await world.ask(job())
    assert after == job()


async def test_a_binding_that_names_another_kind_now_touches_neither() -> None:
    world = World(spec())
    (informer,) = [one for one in world.informers.values() if one.objects]
    informer.objects = [object_from_dict({**spec(), "status": {}})]
    world.server.objects["Deployment", "web"] = deployment()
    known = world.server.objects["ServiceBinding", "sb"]
    known["spec"]["workload"] |= {"apiVersion": "apps/v1", "kind": "Deployment"}
    known["metadata"]["annotations"] = {KINDS_ANNOTATION: kinds_text([DEPLOYMENT])}
    after, _ = await world.ask(job())
    assert after == job()


async def test_a_workload_that_has_its_uid_already_is_created_all_the_same() -> None:
    body = changed(job(), uid="7")
    after, warnings = await World(spec()).ask(body)
    assert (bound(after), warnings) == (["sb"], [])
    assert after["metadata"]["uid"] == "7"


async def test_a_selector_sees_the_workload_that_is_being_created_alone() -> None:
    world = World(spec(selector={}))
    await world.ask(job())
    assert not [read for read in world.server.reads if read[0] == "list"]
    assert world.server.writes == []


async def test_another_version_is_left_to_the_controllers() -> None:
    kind = ReviewedNames(JOBS.group, "v2", kind=JOBS.kind)
    assert await World(spec()).ask(job(), kind=kind) == (job(), [])


async def test_what_is_in_the_way_keeps_only_its_own_binding_away() -> None:
    body = job()
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "a", "emptyDir": {}}]
    after, (warning, why) = await World(spec("a"), spec("b")).ask(body)
    assert "ServiceBinding a " in warning
    assert "volume a" in why
    names_ = [one["name"] for one in after["spec"]["template"]["spec"]["volumes"]]
    assert names_ == ["a", "b"]


async def test_a_secret_of_somebody_else_is_not_projected() -> None:
    world = World(spec(type="mysql"))
    after, _ = await world.ask(job())
    (own,) = after["spec"]["template"]["spec"]["volumes"]
    name = own["secret"]["secretName"]
    world.server.objects["Secret", name] = secret(name)
    after, (_, why) = await world.ask(job())
    assert (after, why) == (
        job(),
        f"ServiceBinding sb: Secret {name} does not belong to the binding",
    )


async def test_unrelated_bindings_cost_no_read() -> None:
    others = [spec(f"sb-{number}", selector=LABELLED) for number in range(50)]
    world = World(*others)
    assert await world.ask(job()) == (job(), [])
    assert world.server.reads == []


@pytest.mark.parametrize("place", ["kube-system", OWN])
async def test_nothing_of_the_system_and_ours_is_bound(place: str) -> None:
    world = World(changed(spec(), namespace=place))
    review = reviewers(OWN, "me", world.projector)[names.PROJECTOR_PATH]
    verdict = review(request(job(), place))
    assert isinstance(verdict, Verdict)
    assert not verdict.patch


async def test_nobody_is_let_through_before_all_bindings_are_known() -> None:
    world = World(spec())
    world.informers["servicebindings.servicebinding.io"].has_synced = False
    assert world.projector.not_ready()
    with pytest.raises(UnansweredError, match="has not read all bindings"):
        await world.ask(job())


async def test_a_server_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(spec())
    monkeypatch.setattr(bounds, "REVIEW_SECONDS", 0.01)

    async def hang(*_: object) -> Object:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(world.server, "get", hang)
    with pytest.raises(UnansweredError, match=r"not be read within 0\.01 s"):
        await world.ask(job())


async def test_a_server_that_does_not_work_is_no_answer() -> None:
    world = World(spec())
    world.server.fail["get", "secrets"] = ServerError(Status("Failure", "busy", "", 500))
    with pytest.raises(
        UnansweredError, match=r"the bindings of Job web could not be read: .*busy"
    ):
        await world.ask(job())


async def test_a_server_that_is_gone_is_no_answer() -> None:
    world = World(spec())
    world.server.fail["get", "secrets"] = ConnectionFailed("gone")
    with pytest.raises(UnansweredError, match="Job web could not be read: gone"):
        await world.ask(job())


async def test_a_workload_that_is_bound_already_gets_nothing_more() -> None:
    """As when other webhooks have changed it, and this one is asked again."""
    world = World(spec())
    after, _ = await world.ask(job())
    again, _ = await world.ask(after)
    assert again == after
    after["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"})
    again, _ = await world.ask(after)
    assert all(one["volumeMounts"] for one in again["spec"]["template"]["spec"]["containers"])


async def test_others_have_their_turn_while_selectors_are_looked_at() -> None:
    bindings = [spec(f"b{number}", selector=LABELLED) for number in range(20)]
    asked = asyncio.create_task(World(*bindings).ask(job(app="other")))
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert await asked == (job(app="other"), [])
    assert turns >= len(bindings)
