"""Which kinds can be bound, and the list of them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.unit.binding.client import FakeClient
from tests.unit.binding.test_controller import ClusterOf

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.api.servicebinding.coreos import BINDABLEKINDS
from fairlead.binding.bindablekinds import BindableKindsController, bindable_kinds
from fairlead.runtime import Cluster, Delta, Request


def schema(*path: str, type_: str = "string") -> JSON:
    found: JSON = {"type": type_}
    for name in reversed(path):
        found = {"type": "object", "properties": {name: found}}
    return {"openAPIV3Schema": found}


PROVISIONED = schema("status", "binding", "name")
LABEL = {"servicebinding.io/provisioned-service": "true"}


def crd(
    *versions: JSON | str,
    group: str = "x.io",
    kind: str = "Database",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> JSON:
    plural = f"{kind.lower()}s"
    whole = [one if isinstance(one, dict) else version(one) for one in versions or ("v1",)]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "uid": kind,
            "generation": 1,
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {"group": group, "names": {"kind": kind, "plural": plural}, "versions": whole},
    }


def version(name: str, found: JSON | None = None, *, served: bool = True) -> JSON:
    return {"name": name, "served": served, "schema": found or {}}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(crd(version("v1", PROVISIONED)), ["v1"], id="status.binding.name"),
        pytest.param(
            crd(version("v1", schema("status", "binding", "name", type_="integer"))),
            [],
            id="which is no string",
        ),
        pytest.param(crd(version("v1", schema("status", "binding"))), [], id="without name"),
        pytest.param(
            crd(version("v1"), version("v2", PROVISIONED), version("v3", served=False)),
            ["v1", "v2"],
            id="in any version: all that are served",
        ),
        pytest.param(
            crd(version("v1", PROVISIONED, served=False)), [], id="of which none is served"
        ),
        pytest.param(crd(labels=LABEL), ["v1"], id="the specification's label"),
        pytest.param(
            crd(labels={"servicebinding.io/provisioned-service": "false"}), [], id="label denies"
        ),
        pytest.param(crd(annotations=LABEL), [], id="the annotation alone: not in the original"),
        pytest.param(crd(annotations={"service.binding": "x"}), ["v1"], id="generic definition"),
        pytest.param(crd(annotations={"service.binding/host": "x"}), ["v1"], id="definition"),
        pytest.param(crd(annotations={"service.bindingfoo": "x"}), [], id="something like it"),
        pytest.param(crd(), [], id="nothing"),
        pytest.param(
            crd("v1", "v2", group="postgresql.k8s.enterprisedb.io", kind="Cluster"),
            ["v1"],
            id="one that we know, in the version that we know",
        ),
        pytest.param({"metadata": {"name": "a.b"}}, [], id="no spec"),
    ],
)
def test_what_can_be_bound(body: JSON, expected: list[str]) -> None:
    assert [kind.version for kind in bindable_kinds(body)] == expected


class Bench:
    """The controller over a client, with the CRDs in the order in which they come."""

    def __init__(self, *bodies: JSON) -> None:
        resources = (CUSTOMRESOURCEDEFINITIONS, BINDABLEKINDS)
        self.client = FakeClient(*bodies, resources=resources)
        cluster = cast("Cluster", ClusterOf(self.client))
        self.controller = BindableKindsController(cluster)
        self.come(*bodies)

    def come(self, *bodies: JSON, gone: bool = False) -> None:
        for body in bodies:
            seen = object_from_dict(body)
            delta = Delta("DELETED", seen, None) if gone else Delta("ADDED", None, seen)
            for request in self.controller._came(delta):
                self.controller.controller.enqueue(request)

    async def read(self, body: JSON) -> None:
        await self.controller.reconcile(Request("c", "", body["metadata"]["name"]))

    async def write(self) -> None:
        await self.controller.reconcile(Request("c", "", "bindable-kinds"))

    @property
    def listed(self) -> list[str]:
        found = self.client.objects.get(("BindableKinds", "bindable-kinds"))
        return [f"{one['kind']}.{one['version']}" for one in found["status"]] if found else ["-"]


ONE, TWO = crd("v2", "v1", labels=LABEL), crd(kind="Cache", labels=LABEL)


@pytest.mark.parametrize("order", [(ONE, TWO), (TWO, ONE)], ids=["one order", "the other"])
async def test_the_list_is_written_when_all_are_read_and_in_one_order(
    order: tuple[JSON, JSON],
) -> None:
    bench = Bench(*order, crd(kind="Other"))
    await bench.write()
    for body in order:
        await bench.read(body)
        await bench.write()
        assert bench.listed == ["-"]
    await bench.read(crd(kind="Other"))
    await bench.write()
    assert bench.listed == ["Cache.v1", "Database.v1", "Database.v2"]
    writes = len(bench.client.writes)
    await bench.write()
    assert len(bench.client.writes) == writes


@pytest.mark.parametrize("changed", [False, True], ids=["as it was", "changed meanwhile"])
async def test_nothing_is_written_while_a_crd_is_being_read(*, changed: bool) -> None:
    """Or a program that starts again would take kinds out of the list for a moment."""
    bench, answer = Bench(ONE, TWO), asyncio.Event()
    get = bench.client.get

    async def slow(*arguments: Any) -> Object:
        found = await get(*arguments)
        await answer.wait()
        return found

    bench.client.get = slow  # type: ignore[method-assign,assignment]
    reading = asyncio.ensure_future(bench.read(TWO))
    await asyncio.sleep(0)
    bench.client.get = get  # type: ignore[method-assign]
    await bench.read(ONE)
    await bench.write()
    assert bench.listed == ["-"]
    if changed:
        bench.come(TWO)
    answer.set()
    await reading
    await bench.write()
    assert bench.listed == (["-"] if changed else ["Cache.v1", "Database.v1", "Database.v2"])
    await bench.read(TWO)
    await bench.write()
    assert bench.listed == ["Cache.v1", "Database.v1", "Database.v2"]


async def test_there_is_a_list_without_any_kind_too() -> None:
    bench = Bench()
    await bench.write()
    assert bench.listed == []


async def test_what_stops_being_bindable_goes() -> None:
    bench = Bench(ONE, TWO)
    await bench.read(ONE)
    await bench.read(TWO)
    await bench.write()
    bench.client.objects["CustomResourceDefinition", "databases.x.io"] = crd("v1", "v2")
    bench.come(ONE)
    await bench.read(ONE)
    await bench.write()
    assert bench.listed == ["Cache.v1"]
    del bench.client.objects["CustomResourceDefinition", "caches.x.io"]
    bench.come(TWO, gone=True)
    await bench.read(TWO)
    await bench.write()
    assert bench.listed == []


async def test_what_somebody_wrote_into_the_list_is_put_right() -> None:
    bench = Bench(ONE)
    await bench.read(ONE)
    await bench.write()
    bench.client.object("BindableKinds", "bindable-kinds")["status"] = []
    await bench.write()
    assert bench.listed == ["Database.v1", "Database.v2"]


async def test_a_crd_that_cannot_be_read_keeps_the_list_as_it_is() -> None:
    bench = Bench(ONE)

    async def broken(*_: Any) -> Object:
        raise OSError("no")

    get = bench.client.get
    bench.client.get = broken  # type: ignore[method-assign,assignment]
    with pytest.raises(OSError, match="no"):
        await bench.read(ONE)
    bench.client.get = get  # type: ignore[method-assign]
    await bench.write()
    assert bench.listed == ["-"]
    await bench.read(ONE)
    await bench.write()
    assert len(bench.listed) == 2
