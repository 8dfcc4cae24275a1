"""Controllers over many API servers: caches, queues, writes, leader election and metrics.

The input is a :class:`Cluster` for each API server, and a :class:`Controller` with a reconciler.
A reflector lists and watches one collection, an :class:`Informer` keeps its objects and tells of
each :class:`Delta`; a predicate drops what does not matter, a mapper makes requests of the rest,
and a queue holds each request once. A worker takes it and calls the reconciler, which looks,
decides and writes. The output is writes that carry the version they are based on, statuses with
Events of what has turned, and a :class:`Result` that says when to look again. A :class:`Manager`
runs all of it as one tree of tasks, leads while its Lease lasts, and serves health and metrics.
"""

from __future__ import annotations

from fairlead.runtime.backoff import Backoff, BackoffPolicy
from fairlead.runtime.cache.informer import Delta, Handler, Informer, InformerClosed
from fairlead.runtime.cache.store import strip_managed_fields
from fairlead.runtime.cluster import Cluster
from fairlead.runtime.controller.controller import Controller, ControllerStats
from fairlead.runtime.controller.reconcile import (
    Mapper,
    Predicate,
    Reconciler,
    Request,
    Result,
    TerminalError,
    any_of,
    came_or_went,
    changed,
    metadata_changed,
    object_mapper,
    owner_mapper,
    spec_changed,
)
from fairlead.runtime.crds import CRDError, install_crds, refuse_bound_crds
from fairlead.runtime.events import EventRecorder
from fairlead.runtime.manager.lease import LeaderElection
from fairlead.runtime.manager.manager import (
    Engagement,
    ListenError,
    Manager,
    ManagerError,
    Runnable,
)
from fairlead.runtime.manager.metrics import Metrics
from fairlead.runtime.writes import (
    StatusWriter,
    add_finalizer,
    commit,
    patch_metadata,
    remove_finalizer,
)


__all__ = [
    "Backoff",
    "BackoffPolicy",
    "CRDError",
    "Cluster",
    "Controller",
    "ControllerStats",
    "Delta",
    "Engagement",
    "EventRecorder",
    "Handler",
    "Informer",
    "InformerClosed",
    "LeaderElection",
    "ListenError",
    "Manager",
    "ManagerError",
    "Mapper",
    "Metrics",
    "Predicate",
    "Reconciler",
    "Request",
    "Result",
    "Runnable",
    "StatusWriter",
    "TerminalError",
    "add_finalizer",
    "any_of",
    "came_or_went",
    "changed",
    "commit",
    "install_crds",
    "metadata_changed",
    "object_mapper",
    "owner_mapper",
    "patch_metadata",
    "refuse_bound_crds",
    "remove_finalizer",
    "spec_changed",
    "strip_managed_fields",
]
