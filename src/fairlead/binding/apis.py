"""The two Service Binding APIs, for controllers and commands."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.meta import Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.coreos import COREOS_FINALIZER, COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, SPEC_FINALIZER
from fairlead.binding.builders import Builder, DefaultBuilder, SpecBuilder
from fairlead.binding.contexts import coreos, spec
from fairlead.binding.contexts.base import BaseContext, FindWorkloads
from fairlead.binding.options import BindingOptions
from fairlead.binding.reads import Lookup
from fairlead.binding.workloads.records import KINDS_ANNOTATION, kinds_to_note, read_kinds


class Api(msgspec.Struct, frozen=True):
    """One of the two APIs: its resource, its stages and contexts, and its finalizer.

    ``kind`` returns a binding's kind of workloads without validation, None without one; ``secret``
    the Secret in its status. ``former`` are finalizers of another controller of the API, whose
    projections unbinding removes as well.
    """

    name: str
    resource: Resource
    finalizer: str
    builder: Builder[BaseContext]
    kind: Callable[[Object], Lookup | None]
    secret: Callable[[Object], str]
    former: tuple[str, ...] = ()

    def our_finalizers(self, binding: Object) -> list[str]:
        """Return the binding's finalizers that unbinding removes.

        Those of ``former`` are included: they too wait until no workload has a projection.
        """
        ours = {self.finalizer, *self.former}
        return [one for one in binding.meta.finalizers if one in ours]

    def kinds(self, binding: Object) -> str | None:
        """Return the annotation of workload kinds, if it has to change before projecting."""
        lookups = read_kinds(binding.meta.annotations)
        return kinds_to_note(lookups, self.kind(binding), projected=bool(self.secret(binding)))

    def without_forged_kinds(self, binding: Object) -> Object:
        """Return the binding without the annotation of kinds, if a user added it to a new one.

        A binding has its own annotation only once it has a finalizer or a Secret.
        """
        if KINDS_ANNOTATION not in binding.meta.annotations or self.our_finalizers(binding):
            return binding
        if self.secret(binding):
            return binding
        body = binding.to_dict()
        del body["metadata"]["annotations"][KINDS_ANNOTATION]
        return object_from_dict(body)


def spec_api(workloads: FindWorkloads | None = None) -> Api:
    """Return the API servicebinding.io."""
    return Api(
        "servicebinding",
        SERVICEBINDINGS,
        SPEC_FINALIZER,
        SpecBuilder(workloads=workloads),
        spec.workload_kind,
        spec.status_secret,
        # Service Binding Operator uses one finalizer for bindings of both APIs.
        former=(COREOS_FINALIZER,),
    )


def coreos_api(options: BindingOptions, workloads: FindWorkloads | None = None) -> Api:
    """Return the API binding.operators.coreos.com."""
    return Api(
        "servicebinding-coreos",
        COREOS_SERVICEBINDINGS,
        COREOS_FINALIZER,
        DefaultBuilder(
            cross_namespace=options.cross_namespace,
            requester_key=options.requester_key,
            denied_requesters=options.denied_requesters,
            workloads=workloads,
        ),
        coreos.workload_kind,
        coreos.status_secret,
    )
