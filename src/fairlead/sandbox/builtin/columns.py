"""What ``kubectl get`` shows of the built-in kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.api.meta import JSON
from fairlead.sandbox.table import AGE, since
from fairlead.sandbox.types import Column


def _at(*path: str, default: Any = "") -> Callable[[JSON], Any]:
    def cell(body: JSON) -> Any:
        value: Any = body
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return default if value is None else value

    return cell


def _count(*path: str) -> Callable[[JSON], int]:
    find = _at(*path)
    return lambda body: len(find(body) or ())


def _number(name: str, *path: str) -> Column:
    return Column(name, _at(*path, default=0), type="integer")


def _age_of(*path: str) -> Callable[[JSON], str]:
    find = _at(*path)
    return lambda body: since(find(body)) if find(body) else "<none>"


def _created(body: JSON) -> str:
    return str(body["metadata"].get("creationTimestamp", ""))


NAMESPACE = [Column("Status", _at("status", "phase")), AGE]
SECRET = [Column("Type", _at("type")), Column("Data", _count("data"), type="integer"), AGE]
CONFIGMAP = [
    Column(
        "Data",
        lambda body: len(body.get("data") or ()) + len(body.get("binaryData") or ()),
        type="integer",
    ),
    AGE,
]
SERVICEACCOUNT = [Column("Secrets", _count("secrets"), type="integer"), AGE]


def _ports(body: JSON) -> str:
    ports = (body.get("spec") or {}).get("ports") or []
    shown = [f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports]
    return ",".join(shown) or "<none>"


SERVICE = [
    Column("Type", _at("spec", "type")),
    Column("Cluster-IP", _at("spec", "clusterIP", default="<none>")),
    Column("External-IP", _at("spec", "externalName", default="<none>")),
    Column("Port(s)", _ports),
    AGE,
]


def _ready(body: JSON) -> str:
    statuses = (body.get("status") or {}).get("containerStatuses") or []
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len((body.get('spec') or {}).get('containers') or ())}"


def _restarts(body: JSON) -> int:
    statuses = (body.get("status") or {}).get("containerStatuses") or []
    return sum(status.get("restartCount", 0) for status in statuses)


POD = [
    Column("Ready", _ready),
    Column(
        "Status",
        lambda body: (
            "Terminating"
            if body["metadata"].get("deletionTimestamp")
            else _at("status", "phase", default="Pending")(body)
        ),
    ),
    Column("Restarts", _restarts, type="integer"),
    AGE,
]


def _event_object(body: JSON) -> str:
    regarding = body.get("involvedObject") or body.get("regarding") or {}
    return f"{str(regarding.get('kind', '')).lower()}/{regarding.get('name', '')}"


def _event_seen(body: JSON) -> str:
    series = body.get("series") or {}
    seen = (
        series.get("lastObservedTime")
        or body.get("lastTimestamp")
        or body.get("deprecatedLastTimestamp")
        or body.get("eventTime")
    )
    return since(seen)


def _wide(name: str, cell: Callable[[JSON], Any], type_: str = "string") -> Column:
    return Column(name, cell, type=type_, priority=1)


EVENT = [
    Column("Last Seen", _event_seen),
    Column("Type", _at("type")),
    Column("Reason", _at("reason")),
    Column("Object", _event_object),
    _wide("Subobject", _at("involvedObject", "fieldPath")),
    _wide("Source", _at("source", "component")),
    Column("Message", lambda body: str(body.get("message") or body.get("note") or "").strip()),
    _wide("First Seen", _age_of("firstTimestamp")),
    _wide("Count", _at("count", default=1)),
    _wide("Name", _at("metadata", "name")),
]


def _of(ready: str, wanted: tuple[str, ...] = ("spec", "replicas")) -> Callable[[JSON], str]:
    have, want = _at("status", ready, default=0), _at(*wanted, default=0)
    return lambda body: f"{have(body)}/{want(body)}"


def _pod_containers(body: JSON) -> list[JSON]:
    template = (body.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("containers") or []


def _selector(body: JSON) -> str:
    selector = (body.get("spec") or {}).get("selector") or {}
    labels = selector.get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def _node_selector(body: JSON) -> str:
    template = (body.get("spec") or {}).get("template") or {}
    labels = (template.get("spec") or {}).get("nodeSelector") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


_PODS = [
    _wide(
        "Containers", lambda body: ",".join(one.get("name", "") for one in _pod_containers(body))
    ),
    _wide("Images", lambda body: ",".join(one.get("image", "") for one in _pod_containers(body))),
    _wide("Selector", _selector),
]
DEPLOYMENT = [
    Column("Ready", _of("readyReplicas")),
    _number("Up-to-date", "status", "updatedReplicas"),
    _number("Available", "status", "availableReplicas"),
    AGE,
    *_PODS,
]
STATEFULSET = [Column("Ready", _of("readyReplicas")), AGE, *_PODS[:2]]
REPLICASET = [
    _number("Desired", "spec", "replicas"),
    _number("Current", "status", "replicas"),
    _number("Ready", "status", "readyReplicas"),
    AGE,
    *_PODS,
]
DAEMONSET = [
    _number("Desired", "status", "desiredNumberScheduled"),
    _number("Current", "status", "currentNumberScheduled"),
    _number("Ready", "status", "numberReady"),
    _number("Up-to-date", "status", "updatedNumberScheduled"),
    _number("Available", "status", "numberAvailable"),
    Column("Node Selector", _node_selector),
    AGE,
    *_PODS,
]
JOB = [
    Column("Completions", _of("succeeded", ("spec", "completions"))),
    Column("Duration", _age_of("status", "startTime")),
    AGE,
    *_PODS,
]
CRONJOB = [
    Column("Schedule", _at("spec", "schedule")),
    Column("Suspend", _at("spec", "suspend", default=False), type="boolean"),
    Column("Active", _count("status", "active"), type="integer"),
    Column("Last Schedule", _age_of("status", "lastScheduleTime")),
    AGE,
]
LEASE = [Column("Holder", _at("spec", "holderIdentity")), AGE]
ROLE = [Column("Created At", _created, type="date")]
ROLEBINDING = [
    Column("Role", lambda body: f"{body['roleRef'].get('kind')}/{body['roleRef'].get('name')}"),
    AGE,
]
CRD = [Column("Created At", _created, type="date")]
