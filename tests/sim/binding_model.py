"""A small model of Service Binding: what a binding's spec comes to, read from what is stored.

It shares no code with the pipeline. What a workload has is told apart by names alone: teams call
what is theirs ``own-...``, so that all else in a place where bindings put things is a binding's,
unless somebody has put it there by hand (:mod:`tests.sim.binding_checks` notes that).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.sim.binding_world import BINDINGS, CACHES, KINDS, STRANGER, pod_metadata, pod_of
from tests.sim.planes import Plane
from tests.sim.stores import held, one
from tests.support.binding import DATABASES

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, SECRETS, Resource
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS


RECORD = "projection.servicebinding.io/"
CONTENT = "content.servicebinding.io/"
REQUESTER = "servicebinding.io/requester"
WISH = "servicebinding.io/"
ROOT = {"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}


class Item(NamedTuple):
    """A place in a workload: ``kind`` is volume, mount, env, source or mark."""

    kind: str
    container: str
    name: str


Items = dict[Item, Any]


# --- what a workload has


def split(body: JSON) -> tuple[Items, JSON]:
    """What bindings may have put into a workload, and all the rest; ``body`` is taken apart."""
    found: Items = {}
    pod, containers, volumes = pod_of(body)
    _take(pod, volumes, "volume", "", found)
    for container in pod.get(containers) or []:
        name = container["name"]
        if ROOT in (container.get("env") or []):
            container["env"].remove(ROOT)
        for field_, kind in (("volumeMounts", "mount"), ("env", "env"), ("envFrom", "source")):
            _take(container, field_, kind, name, found)
    marks = pod_metadata(body)
    for key in sorted(marks.get("annotations") or {}):
        if key.startswith(CONTENT):
            found[Item("mark", "", key)] = marks["annotations"].pop(key)
    if not marks.get("annotations"):
        marks.pop("annotations", None)
    meta = body["metadata"]
    notes = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if not key.startswith(RECORD)
    }
    kept = {"labels": meta.get("labels"), "annotations": notes, "uid": meta["uid"]}
    return found, {"metadata": kept, "spec": body["spec"]}


def _take(of: JSON, name: str, kind: str, container: str, found: Items) -> None:
    left = []
    for it in of.get(name) or []:
        place = Item(kind, container, _name(kind, it))
        if not _may_be_a_bindings(place) or place in found:
            left.append(it)
        else:
            found[place] = it
    if left:
        of[name] = left
    else:
        of.pop(name, None)


def _name(kind: str, it: JSON) -> str:
    if kind == "source":
        return str((it.get("secretRef") or {}).get("name", "own"))
    return str(it["mountPath" if kind == "mount" else "name"])


def _may_be_a_bindings(place: Item) -> bool:
    match place.kind:
        case "mount":
            return place.name.startswith("/bindings/")
        case "env":
            return not place.name.startswith("OWN_")
    return not place.name.startswith("own")


def records(found: Object) -> dict[str, str]:
    """The records on a workload, by uid of their bindings."""
    notes = found.meta.annotations
    return {
        key.removeprefix(RECORD): notes[key] for key in sorted(notes) if key.startswith(RECORD)
    }


# --- what a binding comes to


@dataclass
class Expected:
    """What a binding comes to: its Secret, ``direct`` or one of its own with ``content``.

    ``why`` says what it lacks, "" for nothing.
    """

    binding: Object
    resource: Resource
    why: str = ""
    direct: str = ""
    content: dict[str, bytes] = field(default_factory=dict)
    workloads: list[Object] = field(default_factory=list)
    kind: Resource = KINDS[0]
    containers: list[str] = field(default_factory=list)

    @property
    def spec(self) -> JSON:
        """The binding's spec."""
        found: JSON = self.binding.to_dict()["spec"]
        return found

    @property
    def rank(self) -> tuple[str, str, str]:
        """Of two that want one place the lower one has it."""
        meta = self.binding.meta
        return meta.creation_timestamp or "", meta.name, meta.uid

    def secret(self) -> str:
        """The name of the Secret by the binding's own status."""
        if self.direct:
            return self.direct
        status = self.binding.to_dict().get("status") or {}
        if self.resource is COREOS_SERVICEBINDINGS:
            return str(status.get("secret", ""))
        return str((status.get("binding") or {}).get("name", ""))

    def wish(self, name: str) -> str:
        """What it asks for with an annotation."""
        return self.binding.meta.annotations.get(f"{WISH}{name}", "")

    def items(self, workload: Object) -> Items:
        """What it has on a workload."""
        spec, secret, body = self.spec, self.secret(), workload.to_dict()
        pod, containers, _ = pod_of(body)
        files = spec.get("bindAsFiles", True)
        directory = spec.get("name") or self.binding.meta.name
        found: Items = {}
        chosen = [
            it["name"]
            for it in pod[containers]
            if not self.containers or it["name"] in self.containers
        ]
        if files and chosen:
            found[Item("volume", "", directory)] = {
                "name": directory,
                "secret": {"secretName": secret},
            }
        for name in chosen:
            if files:
                path = f"/bindings/{directory}"
                found[Item("mount", name, path)] = {"name": directory, "mountPath": path}
            if not files or self.wish("bind-as-env") == "true":
                found[Item("source", name, secret)] = {"secretRef": {"name": secret}}
            for variable in spec.get("env") or []:
                found[Item("env", name, variable["name"])] = {
                    "name": variable["name"],
                    "valueFrom": {"secretKeyRef": {"name": secret, "key": variable["key"]}},
                }
        if self.direct and self.wish("roll-on-change") == "true":
            found[Item("mark", "", f"{CONTENT}{self.binding.meta.uid}")] = digest(self.content)
        return found


def digest(content: dict[str, bytes]) -> str:
    """Eight digits that change with the content of a Secret."""
    found = hashlib.sha256()
    for name in sorted(content):
        found.update(name.encode() + content[name])
    return found.hexdigest()[:8]


class _MissingError(Exception):
    """Something that a binding needs is not there."""


def expected(plane: Plane) -> list[Expected]:
    """What all bindings come to, in the order in which they have their places."""
    found = []
    for resource in BINDINGS:
        for binding in held(plane, resource):
            made = Expected(binding, resource)
            try:
                # Its spec may be any that the schema allows: only that it goes is expected.
                if binding.meta.deleting:
                    raise _MissingError("it is being deleted")
                _collect(plane, made)
            except _MissingError as missing:
                made.why = str(missing)
            found.append(made)
    return sorted(found, key=lambda one: one.rank)


class _Entry(NamedTuple):
    """One entry; what no service has brought has no ``kind``, and is not renamed."""

    kind: str
    service: str
    name: str
    value: bytes


@dataclass
class _Collected:
    """Entries in the order in which later ones win, and the Secrets that they come from.

    ``added`` is whether there is more than these Secrets have.
    """

    entries: list[_Entry] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    added: bool = False


def _collect(plane: Plane, made: Expected) -> None:
    binding, spec = made.binding, made.spec
    namespace = binding.meta.namespace
    coreos = made.resource is COREOS_SERVICEBINDINGS
    application = spec["application"] if coreos else spec["workload"]
    made.kind = _kind(application)
    made.workloads = _selected(plane, made.kind, application, namespace)
    made.containers = application.get("containers") or []
    if f'"{STRANGER}"' in binding.meta.annotations.get(REQUESTER, ""):
        raise _MissingError("its requester may do nothing")
    found = _of_services(plane, spec["services"] if coreos else [spec["service"]], namespace)
    if coreos:
        _add_more(plane, spec, namespace, found)
    elif found.entries:
        for name in ("type", "provider"):
            if spec.get(name):
                found.entries.append(_Entry("", "", name, spec[name].encode()))
                found.added = True
    renamed = [_renamed(spec, entry) if coreos else entry.name for entry in found.entries]
    made.content = {name: entry.value for name, entry in zip(renamed, found.entries, strict=True)}
    as_it_is = renamed == [entry.name for entry in found.entries]
    if len(found.secrets) == 1 and not found.added and as_it_is:
        made.direct = found.secrets[0]
    if not coreos and "type" not in made.content:
        raise _MissingError("there is no type")
    for variable in spec.get("env") or []:
        if variable["key"] not in made.content:
            raise _MissingError(f"there is no {variable['key']}")
    if not made.content:
        raise _MissingError("there is no data")
    if not made.workloads:
        raise _MissingError("there are no workloads")


def _of_services(plane: Plane, references: list[JSON], namespace: str) -> _Collected:
    provisioned, secrets, defined = list[_Entry](), list[_Entry](), list[_Entry]()
    made = _Collected()
    for reference in references:
        kind, name = reference["kind"], reference["name"]
        if kind == "Secret":
            data = _data(plane, name, namespace)
            made.secrets.append(name)
            secrets += [_Entry(kind, name, key, value) for key, value in data.items()]
            continue
        resource = DATABASES if kind == DATABASES.kind else CACHES
        service = one(plane, resource, name, namespace)
        if service is None:
            raise _MissingError(f"there is no {kind} {name}")
        body = service.to_dict()
        status = body.get("status") or {}
        if resource is DATABASES:
            secret = (status.get("binding") or {}).get("name")
        else:
            secret = status.get("secret")
        if not secret:
            raise _MissingError(f"{kind} {name} names no Secret")
        data = _data(plane, secret, namespace)
        if resource is DATABASES:
            made.secrets.append(secret)
            provisioned += [_Entry(kind, name, key, value) for key, value in data.items()]
            continue
        made.added = True
        defined += [
            _Entry(kind, name, "host", body["spec"]["host"].encode()),
            _Entry(kind, name, "password", data["password"]),
            _Entry(kind, name, "type", b"redis"),
        ]
    made.entries = [*provisioned, *secrets, *defined]
    return made


def _data(plane: Plane, name: str, namespace: str) -> dict[str, bytes]:
    found = one(plane, SECRETS, name, namespace)
    if found is None:
        raise _MissingError(f"there is no Secret {name}")
    data = found.to_dict().get("data") or {}
    return {key: base64.b64decode(data[key]) for key in sorted(data)}


def _add_more(plane: Plane, spec: JSON, namespace: str, found: _Collected) -> None:
    """What services own, and what mappings say."""
    references = spec["services"] if spec.get("detectBindingResources") else []
    for reference in references:
        resource = {DATABASES.kind: DATABASES, CACHES.kind: CACHES}.get(reference["kind"], SECRETS)
        service = one(plane, resource, reference["name"], namespace)
        for config in held(plane, CONFIGMAPS, namespace):
            if service and config.meta.owned_by(service.meta.uid):
                data = config.to_dict().get("data") or {}
                found.added = True
                found.entries += [
                    _Entry(reference["kind"], reference["name"], name, data[name].encode())
                    for name in sorted(data)
                ]
    types = [entry.value for entry in found.entries if entry.name == "type"]
    if spec.get("mappings") and types:
        value = f"{spec['services'][0]['name']}/{types[-1].decode()}"
        found.entries.append(_Entry("", "", "uri", value.encode()))
        found.added = True


def _renamed(spec: JSON, entry: _Entry) -> str:
    usual = "none" if spec.get("bindAsFiles", True) else "uppercase"
    match (spec.get("namingStrategy") or usual) if entry.kind else "none":
        case "none":
            return entry.name
        case "lowercase":
            return entry.name.lower()
        case "uppercase":
            return f"{entry.kind.upper()}_{entry.name.upper()}"
    return f"{entry.service}_{entry.name}"


def _kind(reference: JSON) -> Resource:
    wanted = {reference.get("kind"), reference.get("resource")}
    return next(it for it in KINDS if it.kind in wanted or it.plural in wanted)


def _selected(plane: Plane, kind: Resource, reference: JSON, namespace: str) -> list[Object]:
    if reference.get("name"):
        found = one(plane, kind, reference["name"], namespace)
        return [found] if found else []
    selector = reference.get("selector") or reference.get("labelSelector") or {}
    return [it for it in held(plane, kind, namespace) if _matches(selector, it)]


def _matches(selector: JSON, found: Object) -> bool:
    labels = found.meta.labels
    wanted = {name: [value] for name, value in (selector.get("matchLabels") or {}).items()}
    for term in selector.get("matchExpressions") or []:
        wanted[term["key"]] = term["values"]
    return all(labels.get(name) in values for name, values in wanted.items())


def same(wanted: Any, there: Any, mode: str) -> bool:
    """Whether an item is as wanted; a server may have added the mode of a volume."""
    if isinstance(there, dict) and "secret" in there:
        source = dict(there["secret"])
        given = source.pop("defaultMode", None)
        there = {**there, "secret": source}
        if mode and given != int(mode, 8):
            return False
        if not mode and given not in {None, 0o644}:
            return False
    return _has(there, wanted)


def _has(there: Any, wanted: Any) -> bool:
    """Whether an item has all that is wanted, and perhaps what a policy has filled in."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(
            _has(there.get(name), value) for name, value in wanted.items()
        )
    return bool(there == wanted)


def conditions(binding: Object) -> dict[str, JSON]:
    """The conditions of a binding, by type."""
    found = (binding.to_dict().get("status") or {}).get("conditions") or []
    return {it["type"]: it for it in found}


def named_secrets(items: Iterable[Any]) -> set[str]:
    """The Secrets that items of a workload name."""
    found = set()
    for item in items:
        if isinstance(item, dict):
            source = item.get("valueFrom") or {}
            found |= {
                (item.get("secret") or {}).get("secretName"),
                (item.get("secretRef") or {}).get("name"),
                (source.get("secretKeyRef") or {}).get("name"),
            }
    return {name for name in found if name}
