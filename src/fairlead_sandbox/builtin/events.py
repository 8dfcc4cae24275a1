"""Events: stored as core/v1, served as core/v1 and as events.k8s.io/v1."""

from __future__ import annotations

from dataclasses import replace

from fairlead.api.meta import JSON
from fairlead_sandbox.resources.types import ResourceType, Strategy


_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
"""Members of a core/v1 Event by their names in events.k8s.io/v1."""
_UNSET: JSON = {
    "eventTime": None,
    "firstTimestamp": None,
    "lastTimestamp": None,
    "reportingComponent": "",
    "reportingInstance": "",
    "source": {},
}
"""Members that core/v1 writes even if the event does not set them."""
_BACK = {new: old for old, new in _RENAMED.items()}


class EventStrategy(Strategy):
    """Strategy of Events; field selectors have the names of either API version."""

    creates_on_update = True
    selectable_fields = (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingComponent",
        "reportingController",
        "source",
        "type",
    )

    def prepare_create(self, body: JSON) -> None:
        """Set missing members to the empty values that kube-apiserver writes."""
        unset = _UNSET if body["apiVersion"] == "v1" else {"eventTime": None}
        for name, value in unset.items():
            body.setdefault(name, value)

    def field(self, body: JSON, path: str) -> str:
        """Return the value of a selectable field under its name in either API version."""
        if path == "source":
            path = "source.component"
        # A selector may use the name of either version, and so may the body, whose version is the
        # request's.
        head, dot, rest = path.partition(".")
        other = _RENAMED.get(head) or _BACK.get(head) or head
        return super().field(body, path) or super().field(body, f"{other}{dot}{rest}")


def to_events_v1(body: JSON) -> JSON:
    """Return the events.k8s.io/v1 form of a core/v1 Event."""
    result = {_RENAMED.get(name, name): value for name, value in body.items()}
    return {"apiVersion": "events.k8s.io/v1", **_without(result, "apiVersion")}


def to_core_v1(body: JSON) -> JSON:
    """Return the core/v1 form of an events.k8s.io/v1 Event."""
    result = {_BACK.get(name, name): value for name, value in body.items()}
    return {"apiVersion": "v1", **_UNSET, **_without(result, "apiVersion")}


def _without(body: JSON, name: str) -> JSON:
    return {key: value for key, value in body.items() if key != name}


def mirror(type_: ResourceType) -> ResourceType:
    """Return the resource of events.k8s.io, whose objects are stored as core/v1."""
    return replace(
        type_, collection="events", stored_as="v1", encode=to_events_v1, decode=to_core_v1
    )
