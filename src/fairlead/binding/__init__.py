"""Service bindings: a backing service's connection data reaches a workload.

The input is a ServiceBinding of servicebinding.io or binding.operators.coreos.com, which names
services and workloads. A pipeline of handlers works on a context: they collect entries from the
services, name them, combine them in a Secret, and project it onto the workloads. Handlers only
decide: they read from and write to the context. The output is the Secret, changed workloads and a
status, as ``changes`` and ``status`` of the context.

This package is a library that needs no cluster::

    builder = SpecBuilder().after("binding_items", my_handler)
    context = builder.process(binding, objects.answer)

``objects`` answers the reads, here :class:`Objects` in memory. The package's exports are its
interface: the builders with their stages and contexts; ``Context``, the interface of handlers;
``WorkloadOperations`` and ``Workloads``, to add another place to bind in. Examples are in
``docs/binding-library.md``.

Inside, ``builders`` has the stages of both APIs, ``handlers`` a module for each group of stages,
``contexts`` the fields of each API, and ``expressions`` the languages of definitions and
templates. ``controller`` and ``cluster`` run it in a cluster: they answer the reads of a pass,
write its decisions in an order in which each projection has a record, and watch the read objects.
The head of ``controller`` tells the whole way in six steps: begin to read there.

Sources: the Service Binding specification 1.1 (https://servicebinding.io/spec/core/1.1.0/), and
Service Binding Operator for binding.operators.coreos.com
(https://redhat-developer.github.io/service-binding-operator/).
"""

from fairlead.binding.builders import (
    Builder,
    DefaultBuilder,
    Provider,
    SpecBuilder,
    StageError,
)
from fairlead.binding.contexts.base import BaseContext, FindWorkloads, InvalidBinding
from fairlead.binding.contexts.coreos import CoreosContext
from fairlead.binding.contexts.outcome import BindingChanges, BindingSecret
from fairlead.binding.contexts.protocol import Context, Flow
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.outside.memory import ObjectError, ObjectPlace, Objects
from fairlead.binding.pipeline import Handler, Pipeline, Stage
from fairlead.binding.reads import (
    Answer,
    Get,
    ListAll,
    Lookup,
    Marked,
    PassEnded,
    Read,
    ReadError,
    ReadFailure,
    Responder,
    RightsReview,
    Snapshot,
    TooManyReadsError,
)
from fairlead.binding.services.definitions import CollectError, Definition
from fairlead.binding.services.items import Item, SecretSource, Source
from fairlead.binding.services.service import Service, ServiceReference, WorkloadReference
from fairlead.binding.workloads.operations import (
    MappingError,
    WorkloadOperations,
    Workloads,
    WorkloadTarget,
)
from fairlead.binding.workloads.projection import Projection


__all__ = [
    "Answer",
    "BaseContext",
    "BindingChanges",
    "BindingSecret",
    "Builder",
    "CollectError",
    "Context",
    "CoreosContext",
    "DefaultBuilder",
    "Definition",
    "FindWorkloads",
    "Flow",
    "Get",
    "Handler",
    "InvalidBinding",
    "Item",
    "ListAll",
    "Lookup",
    "MappingError",
    "Marked",
    "ObjectError",
    "ObjectPlace",
    "Objects",
    "PassEnded",
    "Pipeline",
    "Projection",
    "ProjectionError",
    "Provider",
    "Read",
    "ReadError",
    "ReadFailure",
    "Responder",
    "RightsReview",
    "SecretSource",
    "Service",
    "ServiceReference",
    "Snapshot",
    "Source",
    "SpecBuilder",
    "SpecContext",
    "Stage",
    "StageError",
    "TooManyReadsError",
    "WorkloadOperations",
    "WorkloadReference",
    "WorkloadTarget",
    "Workloads",
]
