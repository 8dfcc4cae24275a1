"""Builders: stages that come, go and are replaced, and what the library does without a cluster."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    coreos_binding,
    database,
    deployment,
    pod,
    secret,
    spec_binding,
)

import fairlead.binding as library
from fairlead.api.meta import JSON, object_from_dict
from fairlead.binding import (
    Builder,
    Context,
    DefaultBuilder,
    Item,
    SpecBuilder,
    SpecContext,
    Stage,
    StageError,
)
from fairlead.binding.reads import ReadError
from fairlead.binding.services.items import merge


def objects() -> FakeCluster:
    return FakeCluster(objects=[secret(), database(), deployment()])


def processed(builder: Builder[Any], binding: JSON | None = None) -> Any:
    return builder.process(object_from_dict(binding or spec_binding()), objects().answer)


def add_host(context: Context) -> None:
    context.add_item(Item("host", "db.example"))


def stop(context: Context) -> None:
    context.flow.stop_processing()


@pytest.mark.parametrize(
    ("change", "names"),
    [
        pytest.param(lambda b: b.before("b", stop), ["a", "stop", "b", "c"], id="before"),
        pytest.param(lambda b: b.after("b", stop), ["a", "b", "stop", "c"], id="after"),
        pytest.param(
            lambda b: b.after("c", stop, add_host), ["a", "b", "c", "stop", "add_host"], id="two"
        ),
        pytest.param(lambda b: b.replace("b", stop), ["a", "b", "c"], id="replaced"),
        pytest.param(lambda b: b.without("a", "c"), ["b"], id="removed"),
    ],
)
def test_stages_are_changed_by_name_and_the_former_builder_stays(
    change: Callable[[Builder[Any]], Builder[Any]], names: list[str]
) -> None:
    builder: Builder[Any] = Builder([Stage(name, add_host) for name in "abc"], SpecContext)
    assert change(builder).names == names
    assert builder.names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(lambda b: b.before("nothing", stop), "no stage is named nothing", id="none"),
        pytest.param(lambda b: b.without("unbind", "x"), "there are unbind, ", id="says which"),
        pytest.param(lambda b: b.after("unbind", stop, stop), "two stages are named stop", id="2"),
    ],
)
def test_a_stage_that_is_not_there_or_there_twice_is_an_error(
    change: Callable[[Builder[Any]], Builder[Any]], text: str
) -> None:
    with pytest.raises(StageError, match=text):
        change(SpecBuilder())


def test_a_handler_that_is_inserted_has_its_say() -> None:
    context = processed(SpecBuilder().after("binding_items", add_host))
    assert context.changes.secret.content["host"] == b"db.example"


def test_a_replaced_stage_keeps_its_place_and_that_it_always_runs() -> None:
    seen: list[str] = []
    builder = SpecBuilder().replace("persist", lambda _: seen.append("persist"))
    processed(builder.replace("collect_preflight", stop))
    assert seen == ["persist"]


def test_without_its_last_stage_a_pass_writes_nothing() -> None:
    context = processed(SpecBuilder().without("persist"))
    assert context.get_condition("Ready").status == "True"
    assert context.changed_workloads() == []
    assert context.changes == library.BindingChanges()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        pytest.param(lambda b: b.before(b.names[0], stop), "False", id="at first"),
        pytest.param(lambda b: b.before("postflight", stop), "False", id="before the last step"),
        pytest.param(lambda b: b.after("postflight", stop), "True", id="after it"),
    ],
)
def test_a_handler_that_stops_a_pass_early_leaves_it_not_ready(
    change: Callable[[Builder[Any]], Builder[Any]], status: str
) -> None:
    context = processed(change(SpecBuilder()))
    for type_ in ("Ready", "InjectionReady"):
        condition = context.get_condition(type_)
        assert condition.status == status
        assert ("stop has stopped the pass" in condition.message) == (status == "False")


def test_what_was_decided_is_persisted_where_a_later_stage_stops_the_pass() -> None:
    cluster = objects()
    binding = spec_binding()
    cluster.reconcile(binding)
    binding["spec"]["workload"]["name"] = "other"
    (leftover,) = cluster.process(binding).changed_workloads()
    assert pod(leftover.body)["volumes"] == []


class Shelf:
    """A workload of another place than Kubernetes."""

    secret_path = ""
    changed = True


class OnShelf:
    """Does nothing but note that it was taken away, and ``settle`` if it is to."""

    def __init__(self, settles: bool) -> None:
        self.workload = Shelf()
        self.settled = False
        self._settles = settles

    def take_away(self) -> str:
        self.settled = self._settles
        return ""


@pytest.mark.parametrize(
    ("settles", "handed_over"),
    [
        pytest.param(True, 1, id="settled"),
        pytest.param(False, 0, id="not settled"),
    ],
)
def test_what_is_done_in_another_place_is_handed_over_once_it_is_settled(
    settles: bool, handed_over: int
) -> None:
    class Shelves:
        def __init__(self, context: Any) -> None:
            pass

        async def bound(self) -> list[OnShelf]:
            return [OnShelf(settles)]

    leaving = spec_binding()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    workloads: Any = Shelves
    context = processed(SpecBuilder(workloads=workloads), leaving)
    assert context.changed_workloads() == []
    assert len(context.changed_operations()) == handed_over


@pytest.mark.parametrize(
    ("builder", "binding"),
    [
        pytest.param(SpecBuilder(), spec_binding(), id="servicebinding.io"),
        pytest.param(DefaultBuilder(), coreos_binding(), id="binding.operators.coreos.com"),
    ],
)
def test_a_pass_needs_answers_and_nothing_else(builder: Builder[Any], binding: JSON) -> None:
    context = processed(builder, binding)
    (workload,) = context.changed_operations()
    assert pod(workload.workload.body)["volumes"][0]["secret"] == {"secretName": "s1"}


def test_contexts_of_another_provider_go_through_the_same_stages() -> None:
    class Shouting(SpecContext):
        def items(self) -> list[Item]:
            return [Item(item.name.upper(), item.value) for item in super().items()]

    builder = SpecBuilder().without("required_entries").provided_by(Shouting)
    assert list(merge(processed(builder).items())) == ["PASSWORD", "TYPE"]
    assert isinstance(processed(builder), Shouting)


def test_a_handler_that_does_not_stop_asking_is_an_error() -> None:
    counter = iter(range(10_000))

    async def curious(context: Context) -> None:
        for number in counter:
            with contextlib.suppress(ReadError):
                await context.read_secret("ns", f"secret-{number}")

    with pytest.raises(RuntimeError, match="more than 1000 reads"):
        processed(SpecBuilder().before("unbind", curious))


def test_all_that_is_exported_is_there() -> None:
    assert library.__all__ == sorted(library.__all__)
    assert all(hasattr(library, name) for name in library.__all__)


def test_the_library_comes_without_client_and_runtime() -> None:
    code = "import sys, fairlead.binding; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines())
    assert "fairlead.binding.builders" in loaded
    assert not loaded & {"fairlead.client", "fairlead.runtime", "aiohttp", "structlog"}
