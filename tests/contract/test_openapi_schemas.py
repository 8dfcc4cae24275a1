"""CRDs made of OpenAPI documents, as schema source OpenAPI of kbind v2 makes them."""

from __future__ import annotations

import copy
import uuid
from typing import Any

import pytest
from tests.contract.support import eventually
from tests.support.crossing import FOLDER, Sample, samples

from fairlead.api.definitions import crd_schema
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import Client, NotFound
from fairlead.konnector.v2.schemas.openapi import (
    SchemaDocument,
    SchemaError,
    ServedAPI,
    ServedVersion,
    definition,
)


SAMPLES = samples(FOLDER)


def in_group(body: JSON, group: str) -> JSON:
    """A CRD of the same kind in another group."""
    spec = {**copy.deepcopy(body["spec"]), "group": group, "conversion": {"strategy": "None"}}
    return {**body, "metadata": {"name": f"{spec['names']['plural']}.{group}"}, "spec": spec}


async def define(client: Client, body: JSON) -> Object:
    """Install a CRD, and return it once it is served."""
    created = await client.create(CUSTOMRESOURCEDEFINITIONS, body)

    async def served() -> bool:
        crd = await client.get(CUSTOMRESOURCEDEFINITIONS, created.meta.name)
        conditions = crd.to_dict().get("status", {}).get("conditions") or []
        return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)

    await eventually(served)
    return created


async def published(client: Client, resource: Resource) -> JSON:
    """The schema of a kind, once the server's document has it."""
    schemas: list[JSON] = []

    async def is_there() -> bool:
        path = f"/openapi/v3/apis/{resource.group}/{resource.version}"
        try:
            document = SchemaDocument(await client.request("GET", path))
            schemas.append(document.schema(resource.group, resource.version, resource.kind))
        except (NotFound, SchemaError):
            return False
        return True

    await eventually(is_there)
    return schemas[0]


def without_words(schema: Any) -> Any:
    """A schema without descriptions, and without what says the same in other words."""
    if isinstance(schema, dict):
        kept = {
            key: without_words(value)
            for key, value in schema.items()
            if not (key == "description" and isinstance(value, str))
        }
        if kept.get("x-kubernetes-int-or-string"):
            kept.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
            # Documents do not have it.
            kept.pop("pattern", None)
        if kept.get("x-kubernetes-embedded-resource"):
            fields = {"apiVersion", "kind", "metadata"}
            kept["properties"] = {
                name: value
                for name, value in kept.get("properties", {}).items()
                if name not in fields
            }
            kept["required"] = [one for one in kept.get("required", []) if one not in fields]
            kept = {key: value for key, value in kept.items() if value not in ({}, [])}
        return kept
    return [without_words(one) for one in schema] if isinstance(schema, list) else schema


def without_envelope(schema: JSON) -> JSON:
    """A schema without the fields that every kind has."""
    properties = {
        name: value
        for name, value in schema.get("properties", {}).items()
        if name not in {"apiVersion", "kind", "metadata"}
    }
    return {**without_words(schema), "properties": without_words(properties)}


@pytest.mark.parametrize("sample", SAMPLES, ids=[sample.name for sample in SAMPLES])
async def test_a_crd_of_a_document_says_what_the_original_says(
    client: Client, sample: Sample
) -> None:
    """The original makes every reference free, and fails the Connection by one bad schema."""
    word = uuid.uuid4().hex[:8]
    resource, body = sample.resource, sample.crd
    there = Resource(f"a{word}.io", resource.version, resource.plural, resource.kind)
    crd = await define(client, in_group(body, there.group))
    schema = await published(client, there)
    written = crd_schema(crd, there.version) or {}
    fields = schema.pop("x-kubernetes-selectable-fields", None)
    assert without_envelope(schema) == without_envelope(written)
    if fields:
        schema["x-kubernetes-selectable-fields"] = fields
    api = ServedAPI(
        group=f"b{word}.io",
        plural=resource.plural,
        kind=resource.kind,
        namespaced=resource.namespaced,
        versions=(ServedVersion(resource.version, sample.has_status),),
    )
    made = definition(api, schema)
    await define(client, made)
    (version,) = made["spec"]["versions"]
    original = next(one for one in body["spec"]["versions"] if one["name"] == resource.version)
    assert version.get("selectableFields") == original.get("selectableFields")
    stored = []
    for group in (there.group, api.group):
        kind = Resource(
            group, resource.version, resource.plural, resource.kind, resource.namespaced
        )
        namespace = "default" if kind.namespaced else ""
        of_kind = {**copy.deepcopy(sample.body), "apiVersion": kind.api_version}
        of_kind["metadata"] = {"name": "sample"}
        obj = (await client.create(kind, of_kind, namespace)).to_dict()
        stored.append({key: obj[key] for key in obj.keys() - {"apiVersion", "metadata"}})
        await client.delete(CUSTOMRESOURCEDEFINITIONS, f"{kind.plural}.{group}")
    assert stored[0] == stored[1]


GO_KINDS = (
    ("apps/v1", "Deployment"),
    ("batch/v1", "CronJob"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("networking.k8s.io/v1", "Ingress"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("resource.k8s.io/v1", "ResourceClaim"),
)
"""Kinds of which documents are made of Go types, as those of aggregated API servers are."""


@pytest.mark.parametrize(("place", "kind"), GO_KINDS, ids=[kind for _, kind in GO_KINDS])
async def test_a_kind_of_go_types_becomes_a_crd_that_the_server_takes(
    client: Client, place: str, kind: str
) -> None:
    group, version = place.split("/")
    try:
        document = SchemaDocument(await client.request("GET", f"/openapi/v3/apis/{place}"))
        schema = document.schema(group, version, kind)
    except (NotFound, SchemaError):
        # The sandbox has fewer kinds.
        return
    plural = f"x{uuid.uuid4().hex[:8]}s"
    versions = (ServedVersion(version, status=True),)
    api = ServedAPI(
        "go.example.org", plural, f"{kind}{plural}", namespaced=True, versions=versions
    )
    body = definition(api, schema)
    await define(client, body)
    await client.delete(CUSTOMRESOURCEDEFINITIONS, body["metadata"]["name"])
