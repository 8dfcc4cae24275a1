"""The columns of ``kubectl get`` for the built-in kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.api.meta import JSON
from fairlead.api.selectors import LabelSelector, SelectorError
from fairlead_sandbox.resources.columns import AGE, Column, elapsed, since


_NONE = "<none>"


def _wide(name: str, cell: Callable[[JSON], Any], type_: str = "string") -> Column:
    return Column(name, cell, type=type_, priority=1)


def _labels(labels: Any) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or _NONE


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
    return ",".join(map(_port, ports)) or "<none>"


def _port(port: JSON) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


SERVICE = [
    Column("Type", _at("spec", "type")),
    Column("Cluster-IP", _at("spec", "clusterIP", default="<none>")),
    Column("External-IP", _at("spec", "externalName", default="<none>")),
    Column("Port(s)", _ports),
    AGE,
    _wide("Selector", lambda body: _labels(_at("spec", "selector")(body))),
]


def _ready(body: JSON) -> str:
    statuses = (body.get("status") or {}).get("containerStatuses") or []
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len((body.get('spec') or {}).get('containers') or ())}"


def _restarts(body: JSON) -> int:
    statuses = (body.get("status") or {}).get("containerStatuses") or []
    return sum(status.get("restartCount", 0) for status in statuses)


def _gates(body: JSON) -> str:
    gates = _at("spec", "readinessGates")(body) or []
    conditions = _at("status", "conditions")(body) or []
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    met = sum(1 for gate in gates if gate.get("conditionType") in true)
    return f"{met}/{len(gates)}" if gates else _NONE


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
    _wide("IP", _at("status", "podIP", default=_NONE)),
    _wide("Node", _at("spec", "nodeName", default=_NONE)),
    _wide("Nominated Node", _at("status", "nominatedNodeName", default=_NONE)),
    _wide("Readiness Gates", _gates),
]


def _event_object(body: JSON) -> str:
    regarding = body.get("involvedObject") or body.get("regarding") or {}
    return f"{str(regarding.get('kind', '')).lower()}/{regarding.get('name', '')}"


def _event_seen(body: JSON) -> str:
    series = body.get("series") or {}
    times = (
        # The printer of kube-apiserver prefers the series: lastTimestamp may be older.
        series.get("lastObservedTime")
        or body.get("lastTimestamp")
        or body.get("deprecatedLastTimestamp")
        or body.get("eventTime")
    )
    return since(times)


def _event_source(body: JSON) -> str:
    source = body.get("source") or body.get("deprecatedSource") or {}
    parts = [source.get("component"), source.get("host")]
    if not any(parts):
        component = body.get("reportingComponent") or body.get("reportingController")
        parts = [component, body.get("reportingInstance")]
    return ", ".join(part for part in parts if part)


def _event_first(body: JSON) -> str:
    first = body.get("firstTimestamp") or body.get("deprecatedFirstTimestamp")
    return since(first or body.get("eventTime"))


EVENT = [
    Column("Last Seen", _event_seen),
    Column("Type", _at("type")),
    Column("Reason", _at("reason")),
    Column("Object", _event_object),
    _wide("Subobject", _at("involvedObject", "fieldPath")),
    _wide("Source", _event_source),
    Column("Message", lambda body: str(body.get("message") or body.get("note") or "").strip()),
    _wide("First Seen", _event_first),
    _wide("Count", _at("count", default=1)),
    _wide("Name", _at("metadata", "name")),
]


def _of(ready: str, path: tuple[str, ...] = ("spec", "replicas")) -> Callable[[JSON], str]:
    have, want = _at("status", ready, default=0), _at(*path, default=0)
    return lambda body: f"{have(body)}/{want(body)}"


def _pod_containers(body: JSON) -> list[JSON]:
    template = (body.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("containers") or []


def _selector(body: JSON) -> str:
    selector = (body.get("spec") or {}).get("selector") or {}
    return _labels(selector.get("matchLabels"))


def _node_selector(body: JSON) -> str:
    template = (body.get("spec") or {}).get("template") or {}
    return _labels((template.get("spec") or {}).get("nodeSelector"))


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
# Without the selector, unlike the other workloads.
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


def _duration(body: JSON) -> str:
    status = body.get("status") or {}
    return elapsed(status.get("startTime"), status.get("completionTime"))


_JOB_STATES = {
    "Complete": "Complete",
    "Failed": "Failed",
    "": "Terminating",
    "Suspended": "Suspended",
    "FailureTarget": "FailureTarget",
    "SuccessCriteriaMet": "SuccessCriteriaMet",
}
"""Texts of a Job's column, by the condition that is true; "" is its deletion."""


def _job_state(body: JSON) -> str:
    conditions = (body.get("status") or {}).get("conditions") or ()
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    if body["metadata"].get("deletionTimestamp"):
        true.add("")
    return next((text for type_, text in _JOB_STATES.items() if type_ in true), "Running")


JOB = [
    Column("Status", _job_state),
    Column("Completions", _of("succeeded", ("spec", "completions"))),
    Column("Duration", _duration),
    AGE,
    *_PODS,
]
_suspended = _at("spec", "suspend", default=False)
# kube-apiserver writes this boolean as a text, with a capital.
CRONJOB = [
    Column("Schedule", _at("spec", "schedule")),
    Column("Timezone", _at("spec", "timeZone", default=_NONE)),
    Column("Suspend", lambda body: str(_suspended(body)), type="boolean"),
    Column("Active", _count("status", "active"), type="integer"),
    Column("Last Schedule", _age_of("status", "lastScheduleTime")),
    AGE,
]


def _hosts(body: JSON) -> str:
    rules = _at("spec", "rules", default=[])(body)
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    more = f" + {len(hosts) - 3} more..." if len(hosts) > 3 else ""
    return f"{','.join(hosts[:3])}{more}" or "*"


def _addresses(body: JSON) -> str:
    entries = _at("status", "loadBalancer", "ingress", default=[])(body)
    return ",".join(one.get("ip") or one.get("hostname") or "" for one in entries)


def _parameters(body: JSON) -> str:
    reference = _at("spec", "parameters")(body)
    if not reference:
        return _NONE
    group = f".{reference['apiGroup']}" if reference.get("apiGroup") else ""
    return f"{reference.get('kind')}{group}/{reference.get('name')}"


INGRESS = [
    Column("Class", _at("spec", "ingressClassName", default=_NONE)),
    Column("Hosts", _hosts),
    Column("Address", _addresses),
    Column("Ports", lambda body: "80, 443" if _at("spec", "tls")(body) else "80"),
    AGE,
]


def _pod_selector(body: JSON) -> str:
    try:
        return str(LabelSelector.from_dict(_at("spec", "podSelector", default={})(body))) or _NONE
    except SelectorError:
        return "<error>"


NETWORKPOLICY = [Column("Pod-Selector", _pod_selector), AGE]
INGRESSCLASS = [
    Column("Controller", _at("spec", "controller")),
    Column("Parameters", _parameters),
    AGE,
]
WEBHOOKCONFIGURATION = [Column("Webhooks", _count("webhooks"), type="integer"), AGE]
LEASE = [Column("Holder", _at("spec", "holderIdentity")), AGE]
# kube-apiserver has no columns of its own for roles and CRDs; its general ones show the time
# itself and no age.
ROLE = [Column("Created At", _created, type="date")]


def _subjects(body: JSON, kind: str) -> str:
    subjects = [one for one in body.get("subjects") or [] if one.get("kind") == kind]
    if kind == "ServiceAccount":
        return ", ".join(f"{one.get('namespace', '')}/{one.get('name')}" for one in subjects)
    return ", ".join(str(one.get("name")) for one in subjects)


ROLEBINDING = [
    Column("Role", lambda body: f"{body['roleRef'].get('kind')}/{body['roleRef'].get('name')}"),
    AGE,
    _wide("Users", lambda body: _subjects(body, "User")),
    _wide("Groups", lambda body: _subjects(body, "Group")),
    _wide("ServiceAccounts", lambda body: _subjects(body, "ServiceAccount")),
]
CRD = [Column("Created At", _created, type="date")]
