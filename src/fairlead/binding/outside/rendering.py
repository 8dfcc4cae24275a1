"""What the controller would write for the bindings among manifests.

Each binding has its pass, in the order in which they have precedence, until nothing changes any
more: that is where a controller in a cluster ends, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.api.servicebinding.common import READY
from fairlead.binding.apis import Api, coreos_api, spec_api
from fairlead.binding.contexts.base import BaseContext, FindWorkloads, InvalidBinding
from fairlead.binding.options import BindingOptions
from fairlead.binding.outside.documents import DocumentError, Documents
from fairlead.binding.outside.memory import Objects, Place, field_error
from fairlead.binding.reads import TooManyReadsError
from fairlead.binding.services.definitions import registered
from fairlead.binding.workloads.records import KINDS_ANNOTATION


REDACTED = "<redacted>"
"""In the place of values; not base64, so that no server takes it for one."""

_NOW = "1970-01-01T00:00:00Z"
"""Of conditions, which are not printed: what is rendered depends on the manifests alone."""

_MOST_ROUNDS = 10
"""Each settles at least one binding that had to wait for another."""


class Rendering(msgspec.Struct):
    """What would be written, and why it is not all that the bindings ask for."""

    objects: list[JSON]
    problems: list[str]


class Bindings:
    """The bindings of a collection, for workloads of Kubernetes or of another place.

    Workloads of another place are found by ``workloads``; ``write`` writes them, and tells whether
    that changed anything.

    Raises:
        DocumentError: two bindings have one uid.
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
        self.places = sorted(self._found(), key=self._rank)
        self._check_uids()
        self.problems: dict[Place, str] = {}

    def _found(self) -> Iterator[Place]:
        for place, _ in self._collection.objects:
            if place[:2] in self._apis:
                yield place

    def _check_uids(self) -> None:
        """By their uids bindings tell apart what is whose, so that copies would fight for ever."""
        seen: dict[str, Place] = {}
        for place in self.places:
            other = seen.setdefault(self._binding(place).meta.uid, place)
            if other != place:
                first = self._collection.called(other)
                raise DocumentError(
                    f"{self._collection.called(place)}: metadata.uid: {first} has the same one; "
                    "remove it from the copy"
                )

    def _rank(self, place: Place) -> tuple[str, str, str]:
        meta = self._binding(place).meta
        return meta.creation_timestamp or "", meta.name, meta.uid

    def _binding(self, place: Place) -> Object:
        found = self._collection.objects.get(place)
        assert found is not None  # noqa: S101 (bindings are never removed)
        return found

    def settle(self) -> None:
        """Have passes until none changes anything."""
        for _ in range(_MOST_ROUNDS):
            changed = [self._pass(place) for place in self.places]
            if not any(changed):
                return
        names = ", ".join(self._collection.called(place) for place in self.places)
        raise RuntimeError(f"after {_MOST_ROUNDS} rounds these still change something: {names}")

    def _pass(self, place: Place) -> bool:
        """One pass over one binding; whether it changed anything."""
        objects, api = self._collection.objects, self._apis[place[:2]]
        binding = self._noted(objects, api, place)
        self.problems.pop(place, None)
        try:
            context = api.builder.process(binding, objects.answer)
        except (InvalidBinding, TooManyReadsError) as error:
            self.problems[place] = str(error)
        except msgspec.ValidationError as error:
            self.problems[place] = field_error(error)
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
        """Services of which a cluster binds more than can be told here, without their CRD.

        Definitions that Fairlead has built in count for a CRD that has none itself.
        """
        services = [] if context.unbind_requested else context.services_read
        kinds = dict.fromkeys(
            one.resource
            for one in services
            if registered(one.resource.api_version, one.kind)
            and self._collection.objects.get(_crd_of(one.resource)) is None
        )
        return [
            f"what a {one.kind} of {one.group} offers is built in, but counts only beside its "
            "CRD, which may say otherwise: give its CRD, too"
            for one in kinds
        ]

    def _noted(self, objects: Objects, api: Api, place: Place) -> Object:
        """The binding with the kinds of its workloads noted, as the controller does it first."""
        binding = self._binding(place)
        kinds = None if binding.meta.deleting else api.kinds(binding, found=True)
        if kinds is not None:
            body = binding.to_dict()
            body["metadata"].setdefault("annotations", {})[KINDS_ANNOTATION] = kinds
            objects.replace(place, body)
        return self._binding(place)

    def told(self) -> list[str]:
        """The problems, each with the file and the name of its binding."""
        return [
            f"{self._collection.called(place)}: {self.problems[place]}"
            for place in self.places
            if place in self.problems
        ]


def _crd_of(resource: Resource) -> Place:
    crds = CUSTOMRESOURCEDEFINITIONS
    return Place(crds.group, crds.plural, "", resource.group_resource)


def render(collection: Documents, options: BindingOptions) -> Rendering:
    """The Secrets and workloads that the controller would write, by namespace, kind and name.

    Raises:
        DocumentError: two bindings have one uid.
        RuntimeError: bindings undo each other's work.
    """
    objects = collection.objects
    before = dict(objects)
    bindings = Bindings(collection, options)
    bindings.settle()
    ours = set(bindings.places)
    changed = [
        place for place, found in objects if place not in ours and before.get(place) != found
    ]
    changed.sort(key=lambda place: (place.namespace, place.plural != "secrets", *place))
    return Rendering([objects.shown(place) for place in changed], bindings.told())


def redacted(body: JSON) -> JSON:
    """An object without the values that it keeps secret."""
    if (body["apiVersion"], body["kind"]) != ("v1", "Secret"):
        return body
    return {**body, "data": dict.fromkeys(body.get("data") or {}, REDACTED)}
