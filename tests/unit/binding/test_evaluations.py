"""What all definitions of one binding may look at, and that others work meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster
from tests.unit.binding.objects import (
    conditions,
    coreos_binding,
    crd,
    database,
    deployment,
    message,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.expressions import JSONPath
from fairlead.binding.reads import Need
from fairlead.binding.services import evaluations
from fairlead.binding.services.evaluations import Evaluations


FILTER = 'path={.spec.many[?(@.name=="%s")].value}'


def service(filters: int, *, members: int, **more: str) -> JSON:
    """A service with so many definitions, each of which goes through so many members."""
    many = [{"name": f"n{number}", "value": f"v{number}"} for number in range(members)]
    body = database(many=many)
    annotations = {
        f"service.binding/x{number}": FILTER % f"n{number}" for number in range(filters)
    }
    body["metadata"]["annotations"] = {"service.binding/type": "postgresql", **annotations, **more}
    return body


def bound(api: str) -> JSON:
    return spec_binding() if api == "spec" else coreos_binding()


@pytest.mark.parametrize("api", ["spec", "coreos"])
def test_all_definitions_of_a_binding_have_one_budget(api: str) -> None:
    made = FakeCluster(KINDS, [service(200, members=9_000), secret(), deployment(), crd()])
    binding = bound(api)
    made.reconcile(binding)
    assert conditions(binding)["CollectionReady"] == ("False", "ErrorReadingBinding")
    text = message(binding, "CollectionReady")
    assert "look at more than 2,000,000 values together" in text
    assert "have fewer of them filter" in text
    assert "volumes" not in made.get("deployments", "web")["spec"]["template"]["spec"]
    # A neighbour's, of as many definitions that look at one value each.
    plain = {f"service.binding/p{number}": "path={.metadata.name}" for number in range(3_000)}
    made.set(service(0, members=1, **plain))
    other = bound(api)
    made.reconcile(other)
    assert conditions(other)["Ready"][0] == "True"


@pytest.mark.parametrize("optional", ["", ",optional=true"])
def test_a_budget_that_is_used_up_is_told_for_optional_ones_too(
    monkeypatch: pytest.MonkeyPatch, optional: str
) -> None:
    monkeypatch.setattr(evaluations, "MOST_VALUES", 50)
    last = {"service.binding/z": f"{FILTER % 'n1'}{optional}"}
    made = FakeCluster(KINDS, [service(0, members=40, **last), secret(), deployment(), crd()])
    binding = spec_binding()
    made.reconcile(binding)
    assert "together" in message(binding, "CollectionReady")


def test_each_definition_is_evaluated_once_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the pass begins anew, for a read or for others to work."""
    found: list[str] = []
    find = JSONPath.find

    def counted(self: JSONPath, value: Any, *rest: Any) -> Any:
        if ".many" in self.template:
            found.append(self.template)
        return find(self, value, *rest)

    monkeypatch.setattr(JSONPath, "find", counted)
    monkeypatch.setattr(evaluations, "AT_ONCE", 10)
    reading = {
        f"service.binding/s{number}": f"path={{.spec.many[{number}].name}},objectType=Secret"
        for number in range(5)
    }
    logins = [secret(f"n{number}", password="v") for number in range(5)]
    objects = [service(8, members=20, **reading), secret(), deployment(), crd(), *logins]
    made = FakeCluster(KINDS, objects)
    binding = spec_binding()
    made.reconcile(binding)
    assert conditions(binding)["Ready"][0] == "True"
    assert len(found) == len(set(found)) == 8 + 5


def test_others_work_after_some_values() -> None:
    many = [{"name": f"n{number}", "value": "v"} for number in range(6_000)]
    made, body = Evaluations(), {"metadata": {"name": "db"}, "spec": {"many": many}}
    first, *others = [f'{{.spec.many[?(@.name=="n{number}")].value}}' for number in range(6)]
    assert made.values(first, body) == ["v"]
    for path in others:
        with pytest.raises(Need) as need:
            made.values(path, body)
        # It is no read that it waits for.
        assert need.value.reads == ()
        assert made.values(path, body) == ["v"]
    assert made.values(first, body) == ["v"]
