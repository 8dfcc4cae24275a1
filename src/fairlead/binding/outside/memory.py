"""Kubernetes objects in memory, which the pipeline reads and changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from fairlead.api import resource as known
from fairlead.api.decoding import field_message
from fairlead.api.definitions import CRDSpec
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource, split_api_version
from fairlead.api.servicebinding.common import MAPPING_ANNOTATION
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.contexts.outcome import BindingSecret, secret_body
from fairlead.binding.reads import (
    Answer,
    Get,
    ListAll,
    Lookup,
    Marked,
    Read,
    ReadFailure,
    RightsReview,
)
from fairlead.binding.services.items import encode_data
from fairlead.binding.workloads.records import RECORDED_ANNOTATION


_KNOWN = [
    *(value for value in vars(known).values() if isinstance(value, Resource)),
    COREOS_SERVICEBINDINGS,
    CLUSTERWORKLOADRESOURCEMAPPINGS,
    *(msgspec.structs.replace(SERVICEBINDINGS, version=one) for one in ("v1beta1", "v1alpha3")),
    SERVICEBINDINGS,
]
_MADE_UP = "memory:"
"""Prefix of generated uids of objects without one."""


_DNS = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}")


class ObjectPlace(NamedTuple):
    """The key of an object, independent of its version."""

    group: str
    plural: str
    namespace: str
    name: str


class ObjectError(ValueError):
    """An invalid object; the text names the field."""


class Objects:
    """Objects by their places.

    Objects without a namespace are in ``namespace``, unless their kind is known to be
    cluster-scoped. Fields that an API server adds, such as a uid, may be missing.

    Raises:
        ObjectError: one of ``bodies`` is not an object, or repeats another.
    """

    def __init__(self, bodies: Iterable[JSON] = (), *, namespace: str = "default") -> None:
        self.namespace = namespace
        self._resources = {(one.group, one.version, one.kind): one for one in _KNOWN}
        self._objects: dict[tuple[str, str, str], dict[str, Object]] = {}
        # An index, since each pass over each binding asks for marked objects of all its kinds.
        self._marked: dict[tuple[str, str, str, str], dict[str, None]] = {}
        self._bare: set[ObjectPlace] = set()
        given = list(bodies)
        for body in given:
            self.learn(body)
        for body in given:
            self.add(body)

    def learn(self, body: JSON) -> None:
        """Add the kinds of a CustomResourceDefinition; other objects are ignored.

        Raises:
            ObjectError: the CustomResourceDefinition is malformed.
        """
        if body.get("kind") != known.CUSTOMRESOURCEDEFINITIONS.kind:
            return
        try:
            spec = msgspec.convert(body.get("spec"), CRDSpec)
        except msgspec.ValidationError as error:
            raise ObjectError(field_message(error, "spec")) from None
        for version in spec.versions:
            resource = spec.resource(version.name)
            self._resources[resource.group, resource.version, resource.kind] = resource

    def add(self, body: JSON) -> ObjectPlace:
        """Store an object; the CRD of its kind has to be known before.

        Raises:
            ObjectError: a required field is missing, or the object repeats another.
        """
        stored = _stored(body)
        metadata = stored["metadata"]
        resource = self._resource_of(stored)
        # Noted, so that it is printed without a namespace again, as it came.
        bare = resource.namespaced and not metadata.get("namespace")
        if resource.namespaced:
            metadata["namespace"] = metadata.get("namespace") or self.namespace
        place = _place(resource, metadata.get("namespace", ""), metadata["name"])
        if self.get(place) is not None:
            raise ObjectError(f"metadata.name: another {resource.kind} has this name, too")
        if not metadata.get("uid"):
            metadata["uid"] = _made_up(place)
        if bare:
            self._bare.add(place)
        self._put(place, stored)
        return place

    def _resource_of(self, body: JSON) -> Resource:
        group, version = split_api_version(body["apiVersion"])
        kind = body["kind"]
        resource = self._resources.get((group, version, kind))
        if resource is None:
            # Like another version of a known kind, or guessed from the kind's name.
            same = [one for key, one in self._resources.items() if key[::2] == (group, kind)]
            plural, namespaced = (
                (same[0].plural, same[0].namespaced) if same else (_plural(kind), True)
            )
            resource = Resource(group, version, plural, kind, namespaced=namespaced)
            self._resources[group, version, kind] = resource
        return resource

    def __iter__(self) -> Iterator[tuple[ObjectPlace, Object]]:
        for kind in sorted(self._objects):
            for name, obj in sorted(self._objects[kind].items()):
                yield ObjectPlace(*kind, name), obj

    def get(self, place: ObjectPlace) -> Object | None:
        """Return the object at a place, None without one."""
        return self._objects.get(place[:3], {}).get(place.name)

    def replace(self, place: ObjectPlace, body: JSON) -> None:
        """Replace the body of the object at a place."""
        self._put(place, body)

    def _put(self, place: ObjectPlace, body: JSON) -> None:
        self._remove(place)
        obj = object_from_dict(body)
        self._objects.setdefault(place[:3], {})[place.name] = obj
        for mark in _marks(obj):
            self._marked.setdefault((*place[:3], mark), {})[place.name] = None

    def _remove(self, place: ObjectPlace) -> None:
        obj = self._objects.get(place[:3], {}).pop(place.name, None)
        for mark in _marks(obj) if obj else ():
            del self._marked[*place[:3], mark][place.name]

    def shown(self, place: ObjectPlace) -> JSON:
        """Return the object at a place without generated fields."""
        body = self._objects[place[:3]][place.name].to_dict()
        metadata = body["metadata"]
        if str(metadata.get("uid", "")).startswith(_MADE_UP):
            del metadata["uid"]
        if place in self._bare:
            del metadata["namespace"]
        notes = metadata.get("annotations") or {}
        owners = metadata.get("ownerReferences") or []
        real = [one for one in owners if not one["uid"].startswith(_MADE_UP)]
        annotations = {key: value for key, value in notes.items() if f"/{_MADE_UP}" not in key}
        if real != owners:
            # The annotation would promise records that manifests do not have.
            annotations.pop(RECORDED_ANNOTATION, None)
        for name, before, after in (
            ("annotations", notes, annotations),
            ("ownerReferences", owners, real),
        ):
            if before != after:
                metadata[name] = after
            if before and not after:
                del metadata[name]
        return body

    def answer(self, read: Read) -> Answer:
        """Answer a read of the pipeline; all reviews are allowed."""
        match read:
            case Get():
                return self._get(read)
            case ListAll() | Marked():
                return tuple(self._list(read))
            case Lookup():
                return self._lookup(read)
            case RightsReview():
                return True

    def _get(self, read: Get) -> Answer:
        obj = self.get(_place(read.resource, read.namespace, read.name))
        missing = f'{read.resource.group_resource} "{read.name}" not found'
        return obj or ReadFailure("NotFound", missing)

    def _list(self, read: ListAll | Marked) -> Iterator[Object]:
        resource = read.resource
        kind = resource.group, resource.plural, read.namespace
        objects = self._objects.get(kind, {})
        if isinstance(read, ListAll):
            yield from (one for one in objects.values() if read.matcher.matches(one.meta.labels))
            return
        names: dict[str, None] = {}
        for mark in (read.annotation, read.owner):
            names |= self._marked.get((*kind, mark), {})
        yield from (objects[name] for name in names)

    def _lookup(self, read: Lookup) -> Answer:
        label = read.plural or read.kind
        if not label:
            return ReadFailure(
                "NoMatch", "Kind undefined: the reference needs a kind or a resource"
            )
        for resource in self._resources.values():
            name = resource.plural if read.plural else resource.kind
            if (resource.group, resource.version, name) == (read.group, read.version, label):
                return resource
        version = f"{read.group}/{read.version}" if read.group else read.version
        what = f'{"resource" if read.plural else "kind"} "{label}"'
        remedy = "give its CRD or the object itself too, or correct the reference"
        return ReadFailure("NoMatch", f'no matches for {what} in version "{version}": {remedy}')

    def apply(self, context: BaseContext, *, now: str) -> list[ObjectPlace]:
        """Write the decisions of a context with the status; refusals are reported in the context.

        Return the places of the changed Secret and workloads.
        """
        changes = context.changes
        workloads = context.changed_workloads()
        written: list[ObjectPlace] = []
        # The Secret first: workloads must not refer to one that was refused.
        if changes.secret:
            try:
                written += self._put_secret(changes.secret, bare=self._is_bare(context.binding))
            except ObjectError as error:
                context.secret_failed(str(error))
                # Projections that are only taken away need no Secret.
                workloads = context.changed_leftovers()
        for workload in workloads:
            meta = workload.original.meta
            place = _place(workload.resource, meta.namespace, meta.name)
            self._put(place, workload.body)
            written.append(place)
        for name, _ in changes.superseded:
            self._remove(_secret_place(context.meta.namespace, name))
        self._settle(context, now)
        return written

    def _put_secret(self, write: BindingSecret, *, bare: bool) -> list[ObjectPlace]:
        place = _secret_place(write.namespace, write.name)
        body = secret_body(write)
        before = self.get(place)
        if before is None:
            body["metadata"]["uid"] = _made_up(place)
            if bare:
                self._bare.add(place)
        elif not before.meta.owned_by(write.owner.uid):
            raise ObjectError(
                f"Secret {before.key} exists and does not belong to this binding: remove it, or"
                " give the binding another name"
            )
        else:
            # Labels and annotations may be others', and stay.
            body = {**before.to_dict(), "data": body["data"]}
            if body == before.to_dict():
                return []
        self._put(place, body)
        return [place]

    def _is_bare(self, binding: Object) -> bool:
        resource = self._resource_of({"apiVersion": binding.api_version, "kind": binding.kind})
        return _place(resource, binding.meta.namespace, binding.meta.name) in self._bare

    def _settle(self, context: BaseContext, now: str) -> None:
        body = context.binding.to_dict()
        if context.changes.annotation:
            del body["metadata"]["annotations"][MAPPING_ANNOTATION]
        body["status"] = context.status(now)
        self._put(_place(self._resource_of(body), context.meta.namespace, context.meta.name), body)


def _stored(body: JSON) -> JSON:
    """Return a copy as a server stores it, with ``stringData`` moved to ``data``."""
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            raise ObjectError(f"{field}: it must be a text that is not empty")
    try:
        obj = object_from_dict(body)
    except msgspec.ValidationError as error:
        raise ObjectError(field_message(error)) from None
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ObjectError(
            f"object: it contains a value that JSON does not have: {error}"
        ) from None
    _check_names(obj)
    stored = obj.to_dict()
    if stored["kind"] == "Secret" and stored["apiVersion"] == "v1":
        _encode_texts(stored)
    return stored


def _check_names(obj: Object) -> None:
    """Refuse invalid names, as a server does: names and keys become parts of paths."""
    name, namespace = obj.meta.name, obj.meta.namespace
    if not name:
        raise ObjectError("metadata.name: an object needs a name")
    # Other kinds have rules of their own, such as RBAC's names with colons.
    strict = obj.kind in {"Secret", "ServiceBinding"}
    if name in {".", ".."} or re.search(r"[/%\0]", name) or (strict and not _DNS.fullmatch(name)):
        raise ObjectError(
            f"metadata.name: {name!r} is not a name: use lower case letters, digits, '-' and '.'"
        )
    if namespace and not _DNS.fullmatch(namespace):
        raise ObjectError(f"metadata.namespace: {namespace!r} is not the name of a namespace")


def _encode_texts(secret: JSON) -> None:
    texts = secret.pop("stringData", None)
    for field, value in (("stringData", texts), ("data", secret.get("data"))):
        if value is not None and not (
            isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
        ):
            raise ObjectError(f"{field}: it must be an object whose values are texts")
        for name in value or ():
            if not _KEY.fullmatch(name):
                raise ObjectError(f"{field}: {name!r} is not a valid key of a Secret")
    if texts:
        encoded = encode_data({name: text.encode() for name, text in texts.items()})
        # On a server, too, stringData wins over data.
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _marks(obj: Object) -> list[str]:
    """Return the index keys for :class:`Marked`: annotations, and uids of owners."""
    owners = (owner.uid for owner in obj.meta.owner_references)
    return [mark for mark in dict.fromkeys([*obj.meta.annotations, *owners]) if mark]


def _place(resource: Resource, namespace: str, name: str) -> ObjectPlace:
    namespaced = resource.namespaced
    return ObjectPlace(resource.group, resource.plural, namespace if namespaced else "", name)


def _secret_place(namespace: str, name: str) -> ObjectPlace:
    return _place(known.SECRETS, namespace, name)


def _made_up(place: ObjectPlace) -> str:
    return _MADE_UP + "/".join(place)


def _plural(kind: str) -> str:
    """Guess the plural of a kind without a CRD, as kubectl does."""
    lower = kind.lower()
    if lower.endswith("s"):
        return f"{lower}es"
    return f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}s"
