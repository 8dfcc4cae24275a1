"""Values made from schemas, judged by what the sandbox judges objects by."""

from __future__ import annotations

from random import Random

import pytest
from tests.sim.values import schema_of, spoiled, valid, varied, without

from fairlead.api.kubebind.crds import consumer_crds, provider_crds
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess.crds import crds as postgres_crds
from fairlead.api.servicebinding.spec import crds as binding_crds
from fairlead_sandbox.schema.objects import compile_schema


CRDS = {
    crd["metadata"]["name"]: crd
    for crd in (*binding_crds(), *consumer_crds(), *provider_crds(), *postgres_crds())
}
SPECS = {
    name: schema
    for name, crd in sorted(CRDS.items())
    for version in crd["spec"]["versions"]
    if version["storage"]
    and (schema := version["schema"]["openAPIV3Schema"]["properties"].get("spec"))
}


def wrong(schema: JSON, spec: JSON) -> list[str]:
    """What is wrong with a spec but for rules in CEL, which nothing is made for."""
    whole = {"type": "object", "properties": {"spec": schema}}
    found = compile_schema(whole).validate({"spec": spec})
    return [str(error) for error in found if "rule" not in str(error) and error.field]


def bare(schema: JSON) -> JSON:
    """A schema without its rules."""
    if isinstance(schema, dict):
        return {
            key: bare(value) for key, value in schema.items() if key != "x-kubernetes-validations"
        }
    return schema


@pytest.mark.parametrize("name", SPECS)
def test_what_is_made_is_valid_and_what_is_spoiled_is_not(name: str) -> None:
    schema = bare(SPECS[name])
    seen = set()
    for seed in range(12):
        dice = Random(seed)
        spec = valid(schema, dice)
        for _ in range(5):
            assert wrong(schema, spec) == [], spec
            seen.add(str(spec))
            bad = spoiled(schema, spec, dice)
            assert bad is None or wrong(schema, bad), bad
            spec = varied(schema, spec, dice)
    assert len(seen) > 10 or not schema.get("properties")


def test_the_same_dice_make_the_same() -> None:
    schema = schema_of(CRDS["servicebindings.servicebinding.io"])
    assert valid(schema, Random(7)) == valid(schema, Random(7))
    assert "env" not in without(schema, "env")["properties"]
