"""What ``pattern`` of a schema means: the verdicts that Go was recorded to give.

The recording is of Go 1.26. What Go has learned since the real server's day is left out.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from tests.contract.support import GROUP, crd, eventually

from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import Client, Invalid, NotFound


GOLDEN = Path(__file__).parents[1] / "golden" / "patterns.jsonl"
CASES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
NEWER = ("(?<", r"\p{ASCII}", r"\p{Cn}", r"\p{Nag_Mundari}", r"\p{Kawi}", r"\p{Vithkuqi}")
"""Named groups without P came with Go 1.22, names of scripts with their Unicode."""


def is_old(pattern: str) -> bool:
    return pattern != "" and not any(part in pattern for part in NEWER)


def one_field_each(plural: str, patterns: list[str]) -> JSON:
    fields = {f"p{at}": {"type": "string", "pattern": one} for at, one in enumerate(patterns)}
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return crd(plural, plural.capitalize().removesuffix("s"), version)


REFUSED = {
    case["input"]["pattern"]: case["expect"]["error"]
    for case in CASES
    if "error" in case["expect"] and is_old(case["input"]["pattern"])
}


async def test_what_go_refuses_is_refused_in_its_words(client: Client) -> None:
    said: list[str] = []
    patterns = list(REFUSED)
    # An answer names no more than some hundred causes.
    for start in range(0, len(patterns), 50):
        body = one_field_each("sieves", patterns[start : start + 50])
        with pytest.raises(Invalid) as caught:
            await client.create(CUSTOMRESOURCEDEFINITIONS, body, dry_run=True)
        details = caught.value.status.details
        assert details is not None
        said += [cause.message.partition("but isn't: ")[2] for cause in details.causes]
    assert sorted(text for text in said if text) == sorted(REFUSED.values())


MENDED_IN_GO = {
    # Until Go 1.21 two alternatives that begin alike but for (?i) were taken for one.
    "(?-s)(?i:A)[[:alpha:]]\u017f|\\101",
}
MATCHED = [
    case
    for case in CASES
    if "matches" in case["expect"]
    and is_old(case["input"]["pattern"])
    # RE2 finds a place between the bytes of one character, which for Go is none.
    and case["input"]["pattern"] != r"\B"
]


async def test_what_go_matches_matches(client: Client, namespace: str) -> None:
    patterns = list(dict.fromkeys(case["input"]["pattern"] for case in MATCHED))
    await client.create(CUSTOMRESOURCEDEFINITIONS, one_field_each("filters", patterns))
    filters = Resource(GROUP, "v1", "filters", "Filter")

    async def served() -> bool:
        try:
            await client.list(filters, namespace)
        except NotFound:
            return False
        return True

    await eventually(served)
    differing = []
    for case in MATCHED:
        field = f"p{patterns.index(case['input']['pattern'])}"
        body = {
            "apiVersion": filters.api_version,
            "kind": "Filter",
            "metadata": {"name": f"f{uuid.uuid4().hex[:8]}"},
            "spec": {field: case["input"]["text"]},
        }
        said = await refusal(client, filters, body, namespace)
        if (said == "") is not case["expect"]["matches"]:
            differing.append(case["input"]["pattern"])
        assert f"spec.{field} in body should match" in said or not said
    assert set(differing) <= MENDED_IN_GO


async def refusal(client: Client, resource: Resource, body: JSON, namespace: str) -> str:
    try:
        await client.create(resource, body, namespace, dry_run=True)
    except Invalid as error:
        return error.message
    return ""
