"""Runs a recorded case of the original operator's pipeline and says where Fairlead differs."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tests.unit.binding.cluster import FakeCluster

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.common import DEFAULT_ROOT, ROOT_VARIABLE
from fairlead.binding.handlers.collecting import (
    binding_definitions,
    binding_items,
    collect_preflight,
)
from fairlead.binding.pipeline import Pipeline
from fairlead.binding.services.items import to_bytes
from fairlead.binding.workloads.records import RECORD_PREFIX


GOLDEN = Path(__file__).parents[2] / "golden"
MAPPINGS = Resource(
    "servicebinding.io",
    "v1",
    "clusterworkloadresourcemappings",
    "ClusterWorkloadResourceMapping",
    namespaced=False,
)
_ROOT = {"name": ROOT_VARIABLE, "value": DEFAULT_ROOT}

Difference = tuple[str, str]
"""What differs, and how: condition, message, retry, secret, workload, secrets or error."""


def cases(name: str) -> list[JSON]:
    lines = (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def differences(case: JSON) -> list[Difference]:
    recorded = case["input"]
    cluster = FakeCluster(recorded["kinds"], recorded["objects"])
    cluster.resources.append(MAPPINGS)
    cluster.denied = recorded.get("deny") or []
    binding = copy.deepcopy(recorded["binding"])
    if binding["apiVersion"].startswith("binding."):
        binding["spec"].setdefault("bindAsFiles", False)
    passes = iter(case["expect"]["passes"])
    try:
        return list(_steps(cluster, binding, recorded["steps"], passes))
    except ValueError as error:
        return [("error", str(error))]


def _steps(
    cluster: FakeCluster, binding: JSON, steps: list[JSON], passes: Iterator[JSON]
) -> Iterator[Difference]:
    for step in steps:
        match step["op"]:
            case "set":
                cluster.set(step["object"])
            case "delete":
                cluster.delete(step["object"])
            case "merge-binding":
                cluster.merge_binding(binding, step["merge"])
            case "fail":
                cluster.failing[step["verb"], step["resource"]] = step["message"]
            case "reconcile":
                context = cluster.reconcile(binding)
                expected = next(passes)
                if context.flow.retry != expected["retry"]:
                    yield "retry", f"{context.flow.retry}"
                yield from _compare(cluster, binding["status"], expected)


def _compare(cluster: FakeCluster, status: JSON, expected: JSON) -> Iterator[Difference]:
    want = {item["type"]: item for item in expected["conditions"] or []}
    got = {item["type"]: item for item in status["conditions"]}
    got.pop("ServiceAvailable", None)
    for type_ in sorted(want.keys() | got.keys()):
        facts = [
            (item["status"], item["reason"]) if item else None
            for item in (want.get(type_), got.get(type_))
        ]
        if facts[0] != facts[1]:
            yield "condition", f"{type_}: {facts[1]} instead of {facts[0]}"
        elif not got[type_]["message"].startswith(want[type_]["message"]):
            yield "message", got[type_]["message"]
    secret = status.get("secret") or (status.get("binding") or {}).get("name")
    if (secret or "") != (expected.get("secret") or expected.get("bindingName") or ""):
        yield "secret", f"{secret}"
    kinds = {item["kind"] for item in expected["workloads"] or []}
    workloads = [body for body in cluster.objects.values() if body["kind"] in kinds]
    unbound = {body["metadata"]["name"] for body in workloads if not _is_recorded(body)}
    if _texts(workloads, unbound) != _texts(expected["workloads"] or [], unbound):
        yield "workload", json.dumps(workloads)
    if _texts(map(_plain, cluster.of("secrets"))) != _texts(map(_plain, expected["secrets"])):
        yield "secrets", ""


def _is_recorded(body: JSON) -> bool:
    annotations: dict[str, str] = body["metadata"].get("annotations") or {}
    return any(name.startswith(RECORD_PREFIX) for name in annotations)


def _texts(bodies: Any, unbound: Collection[str] = ()) -> list[str]:
    """Objects as sorted texts, those that are not bound without the root that bindings add.

    The original leaves it.
    """
    return sorted(
        json.dumps(
            _pruned(_rootless(body) if body["metadata"]["name"] in unbound else body),
            sort_keys=True,
        )
        for body in bodies
    )


def _rootless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rootless(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    return [_rootless(item) for item in value if item != _ROOT]


def _pruned(value: Any) -> Any:
    """Without nulls and empty env lists, of which the recording's fake server keeps its own.

    And without our records, and annotations where they were the only ones.
    """
    if isinstance(value, dict):
        return {
            name: _pruned(item)
            for name, item in value.items()
            if item is not None
            and not (name == "env" and item == [])
            and not name.startswith(RECORD_PREFIX)
            and not (name == "annotations" and all(key.startswith(RECORD_PREFIX) for key in item))
        }
    return [_pruned(item) for item in value] if isinstance(value, list) else value


def _plain(secret: JSON) -> JSON:
    """With stringData moved to data, as a real API server does."""
    result = copy.deepcopy(secret)
    result["metadata"].pop("creationTimestamp", None)
    text: dict[str, str] = result.pop("stringData", None) or {}
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in text.items()}
    data = {**(result.get("data") or {}), **encoded}
    return {**result, "data": data} if data else result


def collected(case: JSON) -> JSON:
    """What the definitions on an object give, in the form of the recording."""
    recorded = case["input"]
    body = copy.deepcopy(recorded["object"])
    body["metadata"]["annotations"] = recorded["annotations"]
    cluster = FakeCluster(recorded["kinds"], [body, *recorded["objects"]])
    group, _, version = body["apiVersion"].rpartition("/")
    meta = body["metadata"]
    service = {"group": group, "version": version, "kind": body["kind"], "name": meta["name"]}
    binding = {
        "apiVersion": "binding.operators.coreos.com/v1alpha1",
        "kind": "ServiceBinding",
        "metadata": {"name": "sb", "namespace": meta["namespace"]},
        "spec": {"services": [service], "application": {"group": "", "version": "v1"}},
    }
    context = cluster.process(
        binding, Pipeline([collect_preflight, binding_definitions, binding_items])
    )
    condition = context.get_condition("CollectionReady")
    if condition:
        flow = context.flow
        facts = {"error": flow.error, "reason": condition.reason, "message": condition.message}
        return {**facts, "retry": flow.retry}
    items = [
        {
            "name": item.name,
            "value": item.value.decode() if isinstance(item.value, bytes) else item.value,
            "text": to_bytes(item.value).decode(),
        }
        for item in context.items()
    ]
    return {"items": sorted(items, key=lambda item: str(item["name"]))}
