"""Controllers over many clusters: informers, queues, leader election, health."""

from __future__ import annotations

from fairlead.runtime.backoff import Backoff, BackoffPolicy
from fairlead.runtime.cluster import Cluster
from fairlead.runtime.controller import Controller
from fairlead.runtime.crds import CRDError, install_crds
from fairlead.runtime.events import EventRecorder
from fairlead.runtime.informer import Delta, Handler, Informer, InformerClosed
from fairlead.runtime.lease import LeaderElection
from fairlead.runtime.manager import Engagement, Manager, ManagerError, Runnable
from fairlead.runtime.metrics import Metrics
from fairlead.runtime.requests import (
    Mapper,
    Predicate,
    Reconciler,
    Request,
    Result,
    TerminalError,
    object_mapper,
    owner_mapper,
)
from fairlead.runtime.stats import ControllerStats
from fairlead.runtime.store import strip_managed_fields
from fairlead.runtime.writes import commit


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
    "Manager",
    "ManagerError",
    "Mapper",
    "Metrics",
    "Predicate",
    "Reconciler",
    "Request",
    "Result",
    "Runnable",
    "TerminalError",
    "commit",
    "install_crds",
    "object_mapper",
    "owner_mapper",
    "strip_managed_fields",
]
