"""A cluster in a dict: answers the pipeline's reads and takes what its context collected."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.patch import apply_merge_patch
from fairlead.api.resource import Resource
from fairlead.binding.builders import DefaultBuilder, SpecBuilder
from fairlead.binding.contexts import coreos, spec
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.contexts.coreos import CoreosContext
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.pipeline import Pipeline, at_once
from fairlead.binding.reads import (
    Answer,
    Get,
    ListAll,
    Lookup,
    Marked,
    Read,
    ReadFailure,
    RightsReview,
    Snapshot,
)
from fairlead.binding.workloads.records import KINDS_ANNOTATION, kinds_text, read_kinds


NOW = "2026-01-01T00:00:00Z"
CLUSTER_SCOPED = {"customresourcedefinitions", "clusterworkloadresourcemappings"}
KINDS = {
    "v1/Secret": "secrets",
    "v1/ConfigMap": "configmaps",
    "v1/Service": "services",
    "apps/v1/Deployment": "deployments",
    "batch/v1/CronJob": "cronjobs",
    "x.io/v1/Database": "databases",
    "x.io/v1/AppConfig": "appconfigs",
    "servicebinding.io/v1/ClusterWorkloadResourceMapping": "clusterworkloadresourcemappings",
    "apiextensions.k8s.io/v1/CustomResourceDefinition": "customresourcedefinitions",
}


class FakeCluster:
    """Objects by resource, namespace and name; ``refuse`` says which reads fail, and how."""

    def __init__(self, kinds: dict[str, str] | None = None, objects: Iterable[JSON] = ()) -> None:
        self.resources = [resource_of(key, plural) for key, plural in (kinds or KINDS).items()]
        self.objects: dict[tuple[str, str, str], JSON] = {}
        self.refuse: Callable[[Read], ReadFailure | None] = lambda read: None
        self.failing: dict[tuple[str, str], str] = {}
        self.reviews: list[RightsReview] = []
        self.denied: list[JSON] = []
        self.rounds = 0
        self.ways_given = 0
        self.cross_namespace = True
        for body in objects:
            self.set(body)

    def set(self, body: JSON) -> None:
        self.objects[self._key(body)] = copy.deepcopy(body)

    def delete(self, body: JSON) -> None:
        self.objects.pop(self._key(body), None)

    def get(self, plural: str, name: str, namespace: str = "ns") -> JSON:
        return self.objects[plural, namespace, name]

    def of(self, *plurals: str) -> list[JSON]:
        return [body for (plural, _, _), body in self.objects.items() if plural in plurals]

    def _key(self, body: JSON) -> tuple[str, str, str]:
        plural = self._plural(body["apiVersion"], body["kind"])
        return plural, body["metadata"].get("namespace", ""), body["metadata"]["name"]

    def _plural(self, api_version: str, kind: str) -> str:
        for resource in self.resources:
            if (resource.group, resource.kind) == (api_version.rpartition("/")[0], kind):
                return resource.plural
        raise LookupError(f"{api_version} {kind}")

    async def answers(self, reads: Sequence[Read]) -> Sequence[Answer]:
        self.rounds += 1
        return [self.answer(read) for read in reads]

    async def give_way(self) -> None:
        self.ways_given += 1

    def answer(self, read: Read) -> Answer:
        failure = self.refuse(read)
        if failure:
            return failure
        match read:
            case Get():
                return self._get(read)
            case ListAll():
                return self._list(read)
            case Marked():
                return self._marked(read)
            case Lookup():
                return self._lookup(read)
            case RightsReview():
                return self._review(read)

    def _get(self, read: Get) -> Answer:
        if message := self.failing.get(("get", read.resource.plural)):
            return ReadFailure("Error", message)
        body = self.objects.get((read.resource.plural, read.namespace, read.name))
        if body is None or (read.resource.namespaced and not read.namespace):
            place = read.resource.group_resource
            return ReadFailure("NotFound", f'{place} "{read.name}" not found')
        return object_from_dict(body)

    def _list(self, read: ListAll) -> Answer:
        if message := self.failing.get(("list", read.resource.plural)):
            return ReadFailure("Error", message)
        return tuple(
            object_from_dict(body)
            for (plural, namespace, _), body in self.objects.items()
            if plural == read.resource.plural
            and namespace == read.namespace
            and read.labels.matches(body["metadata"].get("labels") or {})
        )

    def _marked(self, read: Marked) -> Answer:
        everything = self._list(ListAll(read.resource, read.namespace))
        if not isinstance(everything, tuple):
            return everything
        return tuple(
            item
            for item in everything
            if read.annotation in item.meta.annotations
            or (read.owner and item.meta.owned_by(read.owner))
        )

    def _lookup(self, read: Lookup) -> Answer:
        for resource in self.resources:
            if (resource.group, resource.version) != (read.group, read.version):
                continue
            if read.plural == resource.plural or (not read.plural and read.kind == resource.kind):
                return resource
        if not read.kind and not read.plural:
            return ReadFailure("NoMatch", "Kind undefined")
        version = f"{read.group}/{read.version}" if read.group else read.version
        return ReadFailure("NoMatch", f'no matches for kind "{read.kind}" in version "{version}"')

    def _review(self, read: RightsReview) -> bool:
        self.reviews.append(read)
        facts = {
            "verb": read.verb,
            "group": read.resource.group,
            "resource": read.resource.plural,
            "namespace": read.namespace,
            "name": read.name,
            "user": read.user,
        }
        denied = any(
            all(facts[field] == value for field, value in rule.items()) for rule in self.denied
        )
        return not denied

    def process(self, binding: JSON, pipeline: Pipeline | None = None) -> BaseContext:
        """One pass of the pipeline, without writing anything."""
        default, make = _for(binding, cross_namespace=self.cross_namespace)
        context = make(Snapshot(self))
        at_once((pipeline or default).process(context))
        return context

    def reconcile(self, binding: JSON) -> BaseContext:
        """One pass, and what it collected written to the objects and to the binding.

        As the controller does it, the kinds of workloads are noted before anything is written.
        """
        context = self.process(binding)
        if not context.meta.deleting:
            self._note_kinds(binding, context)
        if context.changes.secret:
            self.set(_secret(context))
        for workload in context.changed_workloads():
            if message := self.failing.get(("update", workload.resource.plural)):
                context.workload_failed(message)
                continue
            self.set(workload.body)
        if context.changes.annotation:
            del binding["metadata"]["annotations"]["servicebinding.io/mapping"]
        binding["status"] = context.status(NOW)
        return context

    def _note_kinds(self, binding: JSON, context: BaseContext) -> None:
        body = object_from_dict(binding)
        module = spec if binding["apiVersion"].startswith("servicebinding.io/") else coreos
        known = read_kinds(body.meta.annotations)
        if known is None and module.status_secret(body):
            return
        kind = module.workload_kind(body) if context.reader.kind_is_read else None
        kinds = dict.fromkeys([*(known or []), *([kind] if kind else [])])
        annotations = binding["metadata"].setdefault("annotations", {})
        annotations[KINDS_ANNOTATION] = kinds_text(list(kinds))

    def merge_binding(self, binding: JSON, patch: JSON) -> None:
        merged = apply_merge_patch(binding, patch)
        binding.clear()
        binding.update(merged)


def _for(
    binding: JSON, *, cross_namespace: bool
) -> tuple[Pipeline, Callable[[Snapshot], BaseContext]]:
    body = object_from_dict(binding)
    if binding["apiVersion"].startswith("servicebinding.io/"):
        return SpecBuilder().build(), lambda snapshot: SpecContext(body, snapshot)
    return DefaultBuilder().build(), lambda snapshot: CoreosContext(
        body, snapshot, cross_namespace=cross_namespace
    )


def resource_of(key: str, plural: str) -> Resource:
    api_version, _, kind = key.rpartition("/")
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, plural, kind, namespaced=plural not in CLUSTER_SCOPED)


def _secret(context: BaseContext) -> JSON:
    write = context.changes.secret
    assert write
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": write.name,
            "namespace": write.namespace,
            "ownerReferences": [
                {
                    "apiVersion": write.owner.api_version,
                    "kind": write.owner.kind,
                    "name": write.owner.name,
                    "uid": write.owner.uid,
                    "controller": True,
                }
            ],
        },
        "data": {name: base64.b64encode(value).decode() for name, value in write.content.items()},
    }


def content(secret: JSON) -> dict[str, Any]:
    """What a Secret holds, as text."""
    data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    return {**data, **secret.get("stringData", {})}
