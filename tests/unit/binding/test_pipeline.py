"""Flow control: order, stopping, containment, and the close that always comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import conditions, database, deployment, secret, spec_binding

from fairlead.api.meta import Object, object_from_dict
from fairlead.api.resource import SECRETS
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.binding.builders import DefaultBuilder, SpecBuilder
from fairlead.binding.contexts.protocol import Context, Flow
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.handlers.collecting import collect_preflight
from fairlead.binding.handlers.projecting import required_entries
from fairlead.binding.pipeline import Pipeline, Stage, at_once
from fairlead.binding.reads import Answer, Get, Read, ReadFailure, Snapshot
from fairlead.binding.services.items import Item
from fairlead.binding.services.service import Service, ServiceReference, WorkloadReference


def context() -> SpecContext:
    return SpecContext(object_from_dict(spec_binding()), Snapshot(FakeCluster()))


def _stop(context: Context) -> None:
    context.flow.stop_processing()


def _retry(context: Context) -> None:
    context.flow.retry_processing("not yet")


def _fail(context: Context) -> None:
    context.flow.fail("no good")


def _break(context: Context) -> None:
    raise KeyError("s3cret")


@pytest.mark.parametrize(
    ("handler", "second_runs", "retry", "ready"),
    [
        pytest.param(lambda _: None, True, False, ("True", "ApplicationsBound"), id="goes on"),
        pytest.param(_stop, False, False, ("False", "ProcessingError"), id="stops"),
        pytest.param(_retry, False, True, ("False", "ProcessingError"), id="comes again"),
        pytest.param(_fail, True, False, ("False", "ProcessingError"), id="fails and goes on"),
        pytest.param(_break, False, True, ("False", "ProcessingError"), id="breaks"),
    ],
)
def test_a_handler_decides_what_follows(
    handler: Callable[[Context], None], second_runs: bool, retry: bool, ready: tuple[str, str]
) -> None:
    seen: list[str] = []
    made = context()
    at_once(Pipeline([handler, lambda _: seen.append("second")]).process(made))
    condition = made.get_condition("Ready")
    assert condition is not None
    assert (condition.status, condition.reason) == ready
    assert bool(seen) is second_runs
    assert made.flow.retry is retry


def test_what_a_broken_handler_says_is_not_told() -> None:
    made = context()
    at_once(Pipeline([_break]).process(made))
    assert made.flow.error.startswith("panic occurred: KeyError in _break")
    assert "s3cret" not in str(made.status("now"))


class Broken(SpecContext):
    """A context of somebody's own, which breaks by itself or lacks what contexts have."""

    def __init__(self) -> None:
        super().__init__(object_from_dict(spec_binding()), Snapshot(FakeCluster()))

    async def services(self) -> list[Service]:
        raise KeyError("s3cret")


@pytest.mark.parametrize(
    ("made", "stage", "text"),
    [
        pytest.param(
            Broken(),
            Stage("collect_preflight", collect_preflight),
            f"panic occurred: KeyError in collect_preflight; it comes from {__name__}."
            "Broken.services, which Fairlead was given",
            id="the given context",
        ),
        pytest.param(
            context(),
            Stage("mine", _break),
            f"panic occurred: KeyError in mine; it comes from {__name__}._break, which Fairlead "
            "was given",
            id="the given handler",
        ),
        pytest.param(
            Broken(),
            Stage("required", required_entries()),
            "panic occurred: TypeError in required; this is a defect of the context "
            f"{__name__}.Broken that Fairlead was given, or of Fairlead",
            id="in Fairlead, with the given context",
        ),
        pytest.param(
            context(),
            Stage("required", required_entries()),
            "panic occurred: TypeError in required; this is a defect of Fairlead",
            id="Fairlead",
        ),
    ],
)
def test_a_broken_stage_says_whose_defect_it_is(
    made: SpecContext, stage: Stage, text: str
) -> None:
    made.entries.add_item(Item("type", "x"))
    # What no context should have breaks in a frame of Fairlead's own.
    setattr(made, "env_bindings", 5)  # noqa: B010 (mypy knows that it is none)
    at_once(Pipeline([stage]).process(made))
    assert made.flow.error == text


class Silent(FakeCluster):
    """A cluster whose server cannot be reached."""

    async def answers(self, reads: Sequence[Read]) -> Sequence[Answer]:
        raise ConnectionError("no route")


def test_a_server_that_cannot_be_reached_ends_the_pass() -> None:
    made = SpecContext(object_from_dict(spec_binding()), Snapshot(Silent()))
    with pytest.raises(ConnectionError, match="no route"):
        at_once(SpecBuilder().build().process(made))
    assert made.get_condition("Ready") is None


def test_each_handler_is_entered_once_in_a_pass() -> None:
    entered: list[str] = []

    def counted(one: Stage) -> Stage:
        async def handler(context: Context) -> None:
            entered.append(one.name)
            done = one.handler(context)
            if done is not None:
                await done

        return Stage(one.name, handler, one.always)

    cluster = FakeCluster(objects=[secret(), database(), deployment()])
    pipeline = Pipeline([counted(one) for one in SpecBuilder().stages])
    assert cluster.process(spec_binding(), pipeline).flow.error == ""
    assert entered == SpecBuilder().names


def test_a_handler_that_waits_for_something_else_is_told_what_to_do() -> None:
    async def sleepy(context: Context) -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="await run"):
        at_once(Pipeline([sleepy]).process(context()))


def test_the_stages_of_both_apis_are_in_the_order_of_the_seed() -> None:
    common = [
        *("unbind", "unbind_leftovers", "collect_preflight", "provisioned_service"),
        *("direct_secret", "binding_definitions", "binding_items"),
    ]
    secret = ["binding_secret", "find_workloads", "required_entries"]
    project = ["bindings_as_env", "bindings_as_files", "content_mark", "postflight"]
    project += ["drop_superseded", "persist"]
    assert SpecBuilder().names == [*common, *secret, *project]
    assert DefaultBuilder().names == [
        *common,
        *("owned_resources", "apply_mappings", "apply_naming", *secret, "inject_secret_ref"),
        *project,
    ]


def test_a_pass_asks_for_what_a_binding_names_at_once_and_knows_what_it_used() -> None:
    cluster = FakeCluster(objects=[secret(), database(), deployment()])
    binding = spec_binding()
    made = cluster.reconcile(binding)
    asked = list(made.reader.snapshot.reads)
    # Kinds, then what is named, then the Secret that the service names.
    assert cluster.rounds == 3
    names = [read.name for read in asked if isinstance(read, Get)]
    assert names == ["db", "s1", "databases.x.io", "deployments.apps", "web"]
    assert conditions(binding)["Ready"] == ("True", "ApplicationsBound")


@pytest.mark.parametrize(
    ("annotations", "rounds"),
    [
        pytest.param({}, 2, id="kinds, objects"),
        pytest.param(
            {REQUESTER_ANNOTATION: '{"username": "ann"}'}, 3, id="kinds, rights, objects"
        ),
    ],
)
def test_a_secret_and_a_workload_take_as_few_rounds_as_can_be(
    annotations: dict[str, str], rounds: int
) -> None:
    cluster = FakeCluster(objects=[secret(type="mysql"), deployment()])
    service = {"apiVersion": "v1", "kind": "Secret", "name": "s1"}
    binding = spec_binding(service=service, annotations=annotations)
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == ("True", "ApplicationsBound")
    assert cluster.rounds == rounds


def test_the_references_of_a_binding_are_put_together_once() -> None:
    asked: list[str] = []

    class Counted(SpecContext):
        def service_references(self) -> list[ServiceReference]:
            asked.append("services")
            return super().service_references()

        def workload_reference(self) -> WorkloadReference:
            asked.append("workloads")
            return super().workload_reference()

        def spec_name(self) -> str:
            asked.append("name")
            return super().spec_name()

    cluster = FakeCluster(objects=[secret(type="mysql"), database(), deployment()])
    made = Counted(object_from_dict(spec_binding()), Snapshot(cluster))
    at_once(SpecBuilder().build().process(made))
    assert made.changed_workloads()
    assert sorted(asked) == ["name", "services", "workloads"]


def test_several_reads_are_answered_in_order_and_none_after_the_end() -> None:
    cluster = FakeCluster(objects=[secret()])
    snapshot = Snapshot(cluster)
    there, absent = Get(SECRETS, "ns", "s1"), Get(SECRETS, "ns", "s2")
    found, missing, again = at_once(snapshot.want([there, absent, there]))
    assert isinstance(found, Object)
    assert found is again
    assert isinstance(missing, ReadFailure)
    snapshot.finish()
    late = Get(SECRETS, "ns", "s3")
    assert at_once(snapshot.want([late, there])) == (None, found)
    assert cluster.rounds == 1


def test_a_second_pass_changes_nothing() -> None:
    cluster = FakeCluster(objects=[secret(), database(), deployment()])
    binding = spec_binding(env=[{"name": "PW", "key": "password"}], type="mysql")
    cluster.reconcile(binding)
    before = dict(binding["status"])
    again = cluster.reconcile(binding)
    assert again.changed_workloads() == []
    assert binding["status"] == before


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([("retry_processing", "e")], (True, True, "e"), id="retry"),
        pytest.param([("retry_processing", "")], (True, True, ""), id="retry without error"),
        pytest.param([("fail", "e")], (False, False, "e"), id="error alone"),
        pytest.param([("stop_processing",)], (False, True, ""), id="stop"),
        pytest.param([("fail", "e"), ("stop_processing",)], (False, True, "e"), id="error, stop"),
    ],
)
def test_flow_control(steps: list[tuple[str, ...]], expected: tuple[bool, bool, str]) -> None:
    flow = Flow()
    for name, *arguments in steps:
        getattr(flow, name)(*arguments)
    assert (flow.retry, flow.stop, flow.error) == expected
