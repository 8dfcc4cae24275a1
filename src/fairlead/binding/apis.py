"""The two APIs, as the controllers and the commands tell them apart."""

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
from fairlead.binding.workloads.records import KINDS_ANNOTATION, kinds_text, read_kinds


class Api(msgspec.Struct, frozen=True):
    """One of the two APIs: its resource, its stages and contexts, and its finalizer.

    ``kind`` tells a binding's kind of workloads without judging the rest of it, None where it says
    none; ``secret`` the Secret in its status. ``former`` are finalizers that another controller of
    the API puts on bindings for what unbinding takes away as well.
    """

    name: str
    resource: Resource
    finalizer: str
    builder: Builder[BaseContext]
    kind: Callable[[Object], Lookup | None]
    secret: Callable[[Object], str]
    former: tuple[str, ...] = ()

    def held(self, binding: Object) -> list[str]:
        """The finalizers that unbinding takes off a binding, as far as it has them.

        Also those of other controllers: each of them waits until no workload has anything of the
        binding.
        """
        ours = {self.finalizer, *self.former}
        return [one for one in binding.meta.finalizers if one in ours]

    def kinds(self, binding: Object, *, found: bool) -> str | None:
        """The annotation of the kinds of workloads, where it has to change before projecting.

        The binding's own is one of them once workloads of it could be looked for: onto others
        nothing is projected. A binding that was projected before kinds were noted gets the
        annotation when its projections have records.
        """
        known = read_kinds(binding.meta.annotations)
        if known is None and self.secret(binding):
            return None
        kind = self.kind(binding) if found else None
        kinds = list(dict.fromkeys([*(known or ()), *([kind] if kind else ())]))
        return None if kinds == known else kinds_text(kinds)

    def unnoted(self, binding: Object) -> Object:
        """The binding without the kinds that others have noted on it before it was ever seen."""
        if KINDS_ANNOTATION not in binding.meta.annotations or self.held(binding):
            return binding
        if self.secret(binding):
            return binding
        body = binding.to_dict()
        del body["metadata"]["annotations"][KINDS_ANNOTATION]
        return object_from_dict(body)


def spec_api(workloads: FindWorkloads | None = None) -> Api:
    """servicebinding.io."""
    return Api(
        "servicebinding",
        SERVICEBINDINGS,
        SPEC_FINALIZER,
        SpecBuilder(workloads=workloads),
        spec.workload_kind,
        spec.status_secret,
        # Service Binding Operator gives bindings of both APIs the same.
        former=(COREOS_FINALIZER,),
    )


def coreos_api(options: BindingOptions, workloads: FindWorkloads | None = None) -> Api:
    """binding.operators.coreos.com."""
    return Api(
        "servicebinding-coreos",
        COREOS_SERVICEBINDINGS,
        COREOS_FINALIZER,
        DefaultBuilder(
            cross_namespace=options.cross_namespace,
            requester_key=options.requester_key,
            workloads=workloads,
        ),
        coreos.workload_kind,
        coreos.status_secret,
    )
