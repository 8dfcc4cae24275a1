"""Rendering of the Secrets and workloads that the controller would write for manifests.

Passes over the bindings, in the order of their precedence, are repeated until nothing changes,
which is the final state in a cluster, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.api.servicebinding.common import READY
from fairlead.binding import bounds
from fairlead.binding.apis import Api, coreos_api, spec_api
from fairlead.binding.contexts.base import BaseContext, FindWorkloads, InvalidBinding
from fairlead.binding.options import BindingOptions
from fairlead.binding.outside.documents import DocumentError, Documents
from fairlead.binding.outside.memory import ObjectPlace, Objects
from fairlead.binding.reads import TooManyReadsError
from fairlead.binding.services.definitions import registered
from fairlead.binding.workloads.records import KINDS_ANNOTATION


REDACTED = "<redacted>"
"""Placeholder of values; not base64, so that a server refuses it."""

_NOW = "1970-01-01T00:00:00Z"
"""Time of conditions, which are not printed: the result depends on the manifests alone."""


class Rendering(msgspec.Struct):
    """The objects to write, and the problems of incomplete bindings."""

    objects: list[JSON]
    problems: list[str]


class RenderedBindings:
    """The bindings of a collection, for workloads in Kubernetes or elsewhere.

    ``workloads`` finds workloads elsewhere; ``write`` writes them, and returns whether that
    changed anything.

    Raises:
        DocumentError: two bindings have the same uid.
    """

    def __init__(
        self,
        collection: Documents,
        options: BindingOptions,
        workloads: FindWorkloads | None = None,
        write: Callable[[BaseContext], bool] = lambda _: False,
    ) -> None:
        self._collection = collection
        self._write = write
        apis = (spec_api(workloads), coreos_api(options, workloads))
        self._apis = {(one.resource.group, one.resource.plural): one for one in apis}
        self.places = sorted(self._places(), key=self._rank)
        self._check_uids()
        self.problems: dict[ObjectPlace, str] = {}

    def _places(self) -> Iterator[ObjectPlace]:
        for place, _ in self._collection.objects:
            if place[:2] in self._apis:
                yield place

    def _check_uids(self) -> None:
        """Refuse equal uids: records are by uid, so two such bindings would undo each other."""
        places: dict[str, ObjectPlace] = {}
        for place in self.places:
            other = places.setdefault(self._binding(place).meta.uid, place)
            if other != place:
                first = self._collection.called(other)
                raise DocumentError(
                    f"{self._collection.called(place)}: metadata.uid: {first} has the same one; "
                    "remove it from the copy"
                )

    def _rank(self, place: ObjectPlace) -> tuple[str, str, str]:
        meta = self._binding(place).meta
        return meta.creation_timestamp or "", meta.name, meta.uid

    def _binding(self, place: ObjectPlace) -> Object:
        binding = self._collection.objects.get(place)
        assert binding is not None  # noqa: S101 (bindings are never removed)
        return binding

    def settle(self) -> None:
        """Repeat passes until none changes anything."""
        for _ in range(bounds.ROUNDS):
            changed = [self._pass(place) for place in self.places]
            # One more round than needed, for only that shows that nothing changes any more.
            if not any(changed):
                return
        names = ", ".join(self._collection.called(place) for place in self.places)
        raise RuntimeError(
            f"the bindings did not settle in {bounds.ROUNDS} rounds; these still change an"
            f" object: {names}"
        )

    def _pass(self, place: ObjectPlace) -> bool:
        """Make one pass over a binding; return whether it changed anything."""
        objects, api = self._collection.objects, self._apis[place[:2]]
        binding = self._noted(objects, api, place)
        self.problems.pop(place, None)
        try:
            context = api.builder.process(binding, objects.answer)
        except (InvalidBinding, TooManyReadsError) as error:
            self.problems[place] = str(error)
        except msgspec.ValidationError as error:
            self.problems[place] = field_message(error)
        else:
            written = objects.apply(context, now=_NOW)
            elsewhere = self._write(context)
            condition = context.get_condition(READY)
            failed = condition is not None and condition.status != "True"
            said = [condition.message or condition.reason] if condition and failed else []
            said += self._undefined(context)
            if said:
                self.problems[place] = "; ".join(said)
            return elsewhere or bool(written)
        return False

    def _undefined(self, context: BaseContext) -> list[str]:
        """Return problems of services with built-in definitions but without their CRD.

        Built-in definitions only apply if the CRD has none itself, which is unknown here.
        """
        services = [] if context.unbind_requested else context.services_read
        kinds = dict.fromkeys(
            service.resource
            for service in services
            if registered(service.resource.api_version, service.kind)
            and self._collection.objects.get(_crd_of(service.resource)) is None
        )
        return [
            f"the CRD is missing: Fairlead knows what a {kind.kind} of {kind.group} offers, but"
            " its CRD may differ: give the CRD, too"
            for kind in kinds
        ]

    def _noted(self, objects: Objects, api: Api, place: ObjectPlace) -> Object:
        """Return the binding with the annotation of kinds, which the controller adds first."""
        binding = self._binding(place)
        kinds = None if binding.meta.deleting else api.kinds(binding)
        if kinds is not None:
            body = binding.to_dict()
            body["metadata"].setdefault("annotations", {})[KINDS_ANNOTATION] = kinds
            objects.replace(place, body)
        return self._binding(place)

    def messages(self) -> list[str]:
        """Return the problems, each with the file and the name of its binding."""
        return [
            f"{self._collection.called(place)}: {self.problems[place]}"
            for place in self.places
            if place in self.problems
        ]


def _crd_of(resource: Resource) -> ObjectPlace:
    crds = CUSTOMRESOURCEDEFINITIONS
    return ObjectPlace(crds.group, crds.plural, "", resource.group_resource)


def render(collection: Documents, options: BindingOptions) -> Rendering:
    """Return the Secrets and workloads that the controller would write.

    Raises:
        DocumentError: two bindings have the same uid.
        RuntimeError: the bindings undo each other's changes.
    """
    objects = collection.objects
    before = dict(objects)
    bindings = RenderedBindings(collection, options)
    bindings.settle()
    ours = set(bindings.places)
    changed = [place for place, obj in objects if place not in ours and before.get(place) != obj]
    # Secrets first, so that an apply in this order never starts a pod that waits for one.
    changed.sort(key=lambda place: (place.namespace, place.plural != "secrets", *place))
    return Rendering([objects.shown(place) for place in changed], bindings.messages())


def redacted(body: JSON) -> JSON:
    """Return an object without the values of a Secret."""
    if (body["apiVersion"], body["kind"]) != ("v1", "Secret"):
        return body
    return {**body, "data": dict.fromkeys(body.get("data") or {}, REDACTED)}
