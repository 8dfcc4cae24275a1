"""Events: one store, seen through core/v1 and events.k8s.io/v1."""

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
_UNSET: JSON = {
    "eventTime": None,
    "firstTimestamp": None,
    "lastTimestamp": None,
    "reportingComponent": "",
    "reportingInstance": "",
    "source": {},
}
_BACK = {new: old for old, new in _RENAMED.items()}


class EventStrategy(Strategy):
    """Field selectors of both forms; their names are those of core/v1 in storage."""

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
        """Write members that the event does not set, with empty values."""
        unset = _UNSET if body["apiVersion"] == "v1" else {"eventTime": None}
        for name, value in unset.items():
            body.setdefault(name, value)

    def field(self, body: JSON, path: str) -> str:
        """Return the text of a selectable field under its name in either API version."""
        if path == "source":
            path = "source.component"
        head, dot, rest = path.partition(".")
        other = _RENAMED.get(head) or _BACK.get(head) or head
        return super().field(body, path) or super().field(body, f"{other}{dot}{rest}")


def to_events_v1(body: JSON) -> JSON:
    """The events.k8s.io/v1 form of a core/v1 Event."""
    result = {_RENAMED.get(name, name): value for name, value in body.items()}
    return {"apiVersion": "events.k8s.io/v1", **_without(result, "apiVersion")}


def to_core_v1(body: JSON) -> JSON:
    """The core/v1 form of an events.k8s.io/v1 Event."""
    result = {_BACK.get(name, name): value for name, value in body.items()}
    return {"apiVersion": "v1", **_UNSET, **_without(result, "apiVersion")}


def _without(body: JSON, name: str) -> JSON:
    return {key: value for key, value in body.items() if key != name}


def mirror(type_: ResourceType) -> ResourceType:
    """The events.k8s.io resource as a view of the core one."""
    return replace(
        type_, collection="events", stored_as="v1", encode=to_events_v1, decode=to_core_v1
    )
