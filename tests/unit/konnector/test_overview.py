"""The lines of ``fairlead bindings``, made from what was fetched."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tests.integration.konnector.conftest import binding_body

from fairlead.api.kubebind import APIServiceBinding, ClusterBinding
from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.links import Link, verdict_link
from fairlead.api.meta import JSON, Key, Object, OwnerReference, object_from_dict
from fairlead.api.reasons.kubebind import KONNECTOR, KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import remedy_of, verdict_of
from fairlead.api.resource import Resource
from fairlead.api.timestamps import format_time
from fairlead.cli.kubebind.bindings import BindingsTable
from fairlead.konnector.commands.overview.comparison import changed_at, contains, waiting
from fairlead.konnector.commands.overview.crossing import happened_at
from fairlead.konnector.commands.overview.fetch import ProviderNamespaces
from fairlead.konnector.commands.overview.links import events_at, judge
from fairlead.konnector.commands.overview.rows import (
    BoundKind,
    FetchedBinding,
    ProviderCopies,
    UnsyncedObject,
    make_row,
    object_rows,
)
from fairlead.konnector.commands.presence import KonnectorStop
from fairlead.konnector.controllers.apiservicebinding.reconcile import no_export
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.isolation import IsolationStrategy, Prefixed
from fairlead.konnector.policies.steps import Pair
from fairlead.portal.console.sources.rows import bound_of


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
HOUR_AGO = "2026-01-01T11:00:00Z"
MINUTE_AGO = "2026-01-01T11:59:00Z"
SERVED = ProviderNamespaces({"default": "c-default"})
PREFIXED = Prefixed(OwnerReference("v1", "Namespace", "c", "u"), "c-")


THINGS = Resource("example.org", "v1", "things", "Thing")
POLICY = BoundPolicy(cluster_namespace="c")


def thing(name: str = "a", *, namespace: str = "default", **parts: Any) -> Object:
    """An object of the consumer that has crossed; ``meta`` is laid over its metadata."""
    place = PREFIXED if not namespace else SERVED
    target = place.place(Key(namespace, name)).target or Key("", "")
    metadata = {
        "finalizers": ["kubebind.io/syncer"],
        "annotations": {
            "kube-bind.io/provider-namespace": target.namespace,
            "kube-bind.io/provider-uid": "theirs",
        },
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "creationTimestamp": HOUR_AGO,
        **parts.pop("meta", {}),
    }
    return object_from_dict({"apiVersion": "e/v1", "kind": "Thing", "metadata": metadata, **parts})


def copy(name: str = "a", *, namespace: str = "c-default", uid: str = "", **parts: Any) -> Object:
    """What the provider has in the place of a copy."""
    annotations = {
        "kube-bind.io/cluster-namespace": "c",
        "kube-bind.io/consumer-namespace": namespace.removeprefix("c-"),
        "kube-bind.io/consumer-uid": uid or f"uid-{name}",
    }
    known = {
        "name": name,
        "namespace": namespace,
        "uid": "theirs",
        "creationTimestamp": HOUR_AGO,
        "annotations": annotations,
    }
    metadata = {**known, **parts.pop("meta", {})}
    return object_from_dict({"apiVersion": "e/v1", "kind": "Thing", "metadata": metadata, **parts})


def labels(**given: str) -> JSON:
    return {"labels": given}


def noted(obj: Object, **notes: str) -> Object:
    """The object with more annotations."""
    body = obj.to_dict()
    body["metadata"]["annotations"] |= notes
    return object_from_dict(body)


@pytest.mark.parametrize(
    ("whole", "part", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="extra-member"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True, id="extra-member-below"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, False, id="missing-member"),
        pytest.param({"a": 1}, {"a": 2}, False, id="other-value"),
        pytest.param({"a": 1}, {"a": 1, "b": None}, True, id="null-is-nothing"),
        pytest.param({"a": 1}, {"a": 1.0}, True, id="numbers-are-equal"),
        pytest.param({"a": 1}, {"a": True}, False, id="booleans-are-no-numbers"),
        pytest.param({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True, id="default-in-a-list"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, False, id="longer-list"),
        pytest.param({"a": [2, 1]}, {"a": [1, 2]}, False, id="order-of-a-list"),
        pytest.param({"a": "x"}, {"a": {}}, False, id="other-type"),
        pytest.param(None, {}, False, id="nothing-there"),
        pytest.param({"a": 1}, None, True, id="nothing-wanted"),
    ],
)
def test_contains(whole: Any, part: Any, expected: bool) -> None:
    assert contains(whole, part) is expected


@pytest.mark.parametrize(
    ("ours", "theirs", "status", "expected"),
    [
        pytest.param(thing(), None, True, "ours", id="no-copy"),
        pytest.param(thing(), copy(), True, "", id="empty-both"),
        pytest.param(thing(spec={"a": 1}), copy(spec={"a": 1, "b": 2}), True, "", id="defaulted"),
        pytest.param(thing(spec={"a": 1}), copy(spec={"a": 2}), True, "ours", id="other-spec"),
        pytest.param(thing(spec={"a": 1}), copy(), True, "ours", id="no-spec-there"),
        pytest.param(thing(), copy(uid="other"), True, "ours", id="copy-of-another"),
        pytest.param(thing(), copy(meta={"annotations": {}}), True, "ours", id="foreign"),
        pytest.param(
            thing(meta={"deletionTimestamp": MINUTE_AGO}), copy(), True, "ours", id="deleting"
        ),
        pytest.param(thing(), copy(status={"b": 1}), True, "theirs", id="status-not-back"),
        pytest.param(thing(status={"b": 1}), copy(), True, "theirs", id="status-removed"),
        pytest.param(
            thing(status={"b": 1}), copy(status={"b": 1, "c": 2}), True, "theirs", id="status-more"
        ),
        pytest.param(
            thing(status={"b": 1, "c": 2}), copy(status={"c": 2, "b": 1}), True, "", id="same"
        ),
        pytest.param(thing(), copy(status={}), True, "", id="empty-status"),
        pytest.param(thing(), copy(status={"b": 1}), False, "", id="no-status-subresource"),
        pytest.param(
            thing(spec={"a": 1}), copy(status={"b": 1}), True, "ours", id="spec-before-status"
        ),
        pytest.param(thing(meta=labels(a="1")), copy(), True, "ours", id="label-not-there"),
        pytest.param(
            thing(meta=labels(a="1")), copy(meta=labels(a="2")), True, "ours", id="other-label"
        ),
        pytest.param(thing(), copy(meta=labels(a="2")), True, "", id="label-of-others"),
        pytest.param(noted(thing(), a="1"), copy(), True, "ours", id="annotation-not-there"),
        pytest.param(thing(data={"a": 1}), copy(), True, "ours", id="other-member"),
        pytest.param(thing(meta={"finalizers": []}), copy(), True, "ours", id="no-finalizer"),
        pytest.param(thing(meta={"annotations": {}}), copy(), True, "theirs", id="not-told-back"),
        pytest.param(
            thing(), copy(meta={"deletionTimestamp": MINUTE_AGO}), True, "ours", id="copy-going"
        ),
        pytest.param(
            thing(spec={"a": 1}),
            copy(spec={"a": 1, "b": 2}, status={"b": 1}),
            True,
            "theirs",
            id="status-beside-defaults",
        ),
        pytest.param(
            thing(status={"b": 1, "c": None}), copy(status={"b": 1}), True, "", id="null-status"
        ),
    ],
)
def test_the_side_that_waits(
    ours: Object, theirs: Object | None, status: bool, expected: str
) -> None:
    target = SERVED.place(ours.key).target
    pair = Pair(key=ours.key, consumer=ours, provider=theirs, target=target)
    found = waiting(msgspec.structs.replace(POLICY, status=status), pair)
    assert (found.side if found else None) is {"ours": ours, "theirs": theirs, "": None}[expected]


def managed(*times: str) -> list[JSON]:
    return [{"manager": "m", "operation": "Update", "time": time} for time in times]


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        pytest.param({}, HOUR_AGO, id="created"),
        pytest.param({"managedFields": managed(MINUTE_AGO, HOUR_AGO)}, MINUTE_AGO, id="managed"),
        pytest.param({"deletionTimestamp": MINUTE_AGO}, MINUTE_AGO, id="deleted"),
        pytest.param({"managedFields": [{"manager": "m"}]}, HOUR_AGO, id="no-time"),
        pytest.param({"managedFields": managed("soon")}, HOUR_AGO, id="no-rfc-3339"),
    ],
)
def test_the_last_change(meta: JSON, expected: str) -> None:
    found = changed_at(thing(meta=meta))
    assert found == datetime.fromisoformat(expected)


def test_an_object_may_tell_no_time() -> None:
    assert changed_at(thing(meta={"creationTimestamp": None})) is None


def condition(
    type_: str, status: str, reason: str = "", message: str = "", since: str = ""
) -> JSON:
    found = {"type": type_, "status": status, "reason": reason, "message": message}
    return found | ({"lastTransitionTime": since} if since else {})


READY = condition("Ready", "True")


def binding(*conditions: JSON, meta: JSON | None = None, **status: Any) -> Object:
    body = binding_body()
    schemas = [{"group": "example.org", "resource": "things"}]
    known = {"conditions": list(conditions), "boundSchemas": schemas, **status}
    return object_from_dict(
        {**body, "metadata": {**body["metadata"], **(meta or {})}, "status": known}
    )


def cluster(*conditions: JSON, **status: Any) -> ClusterBinding:
    body = {
        "metadata": {"name": "cluster"},
        "spec": {
            "kubeconfigSecretRef": {"name": "k", "key": "k"},
            "providerPrettyName": "Acme",
        },
        "status": {"conditions": list(conditions), **status},
    }
    return msgspec.convert(body, ClusterBinding)


def kind(
    *objects: Object, copies: list[Object] | None = None, strategy: IsolationStrategy = SERVED
) -> BoundKind:
    if copies is None:
        return BoundKind(objects)
    return BoundKind(
        objects, copies=ProviderCopies(POLICY, strategy, {one.key: one for one in copies})
    )


def numbers(bound: FetchedBinding) -> tuple[int | None, int | None, float | None]:
    row = make_row(bound, NOW)
    return row.in_sync, row.objects, row.lag_seconds


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param(
            FetchedBinding(binding(READY), [kind(copies=[])], reached=True),
            (0, 0, None),
            id="no-objects",
        ),
        pytest.param(
            FetchedBinding(binding(READY), [kind(thing(), copies=[copy()])], reached=True),
            (1, 1, None),
            id="in-sync",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY),
                [kind(thing(), thing("b"), thing("c"), copies=[copy("b")])],
                reached=True,
            ),
            (1, 3, 3600.0),
            id="missing-copies",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY),
                [
                    kind(thing(meta={"creationTimestamp": MINUTE_AGO}), copies=[]),
                    kind(thing("b"), copies=[]),
                ],
                reached=True,
            ),
            (0, 2, 3600.0),
            id="the-oldest-of-all-kinds-counts",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY),
                [
                    kind(
                        thing(),
                        copies=[
                            copy(status={"b": 1}, meta={"managedFields": managed(MINUTE_AGO)})
                        ],
                    )
                ],
                reached=True,
            ),
            (0, 1, 60.0),
            id="a-status-waits-since-the-copy-changed",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY), [kind(thing(namespace="new"), copies=[])], reached=True
            ),
            (0, 1, 3600.0),
            id="no-namespace-there-yet",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY),
                [
                    kind(
                        thing(namespace=""),
                        copies=[copy("c-a", namespace="", uid="uid-a")],
                        strategy=PREFIXED,
                    )
                ],
                reached=True,
            ),
            (1, 1, None),
            id="prefixed",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY),
                [kind(thing(meta={"creationTimestamp": "2026-01-01T13:00:00Z"}), copies=[])],
                reached=True,
            ),
            (0, 1, 0.0),
            id="a-clock-that-is-ahead",
        ),
        pytest.param(
            FetchedBinding(binding(READY), [kind(thing())], problem="no route"),
            (None, 1, None),
            id="provider-not-seen",
        ),
        pytest.param(
            FetchedBinding(binding(READY), problem="forbidden"), (None, None, None), id="nothing"
        ),
    ],
)
def test_objects_in_sync(
    bound: FetchedBinding, expected: tuple[int | None, int | None, float | None]
) -> None:
    assert numbers(bound) == expected


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param(FetchedBinding(binding(READY), reached=True), "", id="well"),
        pytest.param(
            FetchedBinding(binding(), reached=True, absence="there is no sign"),
            "no konnector has picked it up: there is no sign",
            id="new",
        ),
        pytest.param(
            FetchedBinding(
                binding(condition("Ready", "False", "Pending", "x")), absence="it runs"
            ),
            "no konnector has picked it up: it runs",
            id="pending",
        ),
        pytest.param(
            FetchedBinding(
                binding(condition("Ready", "False", "NoSecret", "no Secret k")), reached=True
            ),
            "NoSecret: no Secret k",
            id="not-ready",
        ),
        pytest.param(
            FetchedBinding(
                binding(
                    condition("Ready", "False", "NoSecret", "no Secret k"),
                    condition("Conflicts", "True", "NameTooLong", "1 object: a"),
                )
            ),
            "NoSecret: no Secret k",
            id="not-ready-before-conflicts",
        ),
        pytest.param(
            FetchedBinding(binding(READY, condition("Conflicts", "False"))), "", id="no-conflicts"
        ),
        pytest.param(
            FetchedBinding(binding(READY), problem="cannot reach https://p"),
            "cannot reach https://p",
            id="not-reached",
        ),
        pytest.param(
            FetchedBinding(binding(READY, meta={"deletionTimestamp": MINUTE_AGO})),
            "it is being deleted",
            id="deleting",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY),
                cluster_binding=cluster(condition("Ready", "False", "HeartbeatTimeout", "late")),
            ),
            "on the provider: HeartbeatTimeout: late",
            id="the-provider-complains",
        ),
        pytest.param(
            FetchedBinding(binding(READY), cluster_binding=cluster(READY)),
            "",
            id="the-provider-is-content",
        ),
        pytest.param(
            FetchedBinding(binding(boundSchemas="none")),
            "it cannot be read: ",
            id="what-cannot-be-read",
        ),
    ],
)
def test_problems(bound: FetchedBinding, expected: str) -> None:
    found = make_row(bound, NOW).problem
    assert found.startswith(expected)
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("bound", "state", "reason", "remedy"),
    [
        pytest.param(FetchedBinding(binding(READY), reached=True), "ok", "", "", id="well"),
        pytest.param(
            FetchedBinding(binding(), reached=True, absence="there is no sign"),
            *("waiting", "Pending", KUBE_BIND.helps("Pending")),
            id="new",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY, condition("CopiesHeld", "True", "ClusterIdentityChanged", "2"))
            ),
            *("ok", "", ""),
            id="a-remark",
        ),
        pytest.param(
            FetchedBinding(binding(READY, condition("Heartbeating", "Unknown"))),
            *("ok", "", ""),
            id="what-ready-does-not-tell",
        ),
        pytest.param(
            FetchedBinding(binding(READY), problem="none", reason="APIServiceExportNotFound"),
            *("failed", "APIServiceExportNotFound", KUBE_BIND.helps("APIServiceExportNotFound")),
            id="no-export",
        ),
        pytest.param(
            FetchedBinding(binding(READY, meta={"deletionTimestamp": MINUTE_AGO})),
            *("waiting", "Deleting", remedy_of("Deleting")),
            id="deleting",
        ),
        pytest.param(
            FetchedBinding(
                binding(READY),
                cluster_binding=cluster(condition("Ready", "False", "FirstHeartbeatPending", "")),
            ),
            *("waiting", "FirstHeartbeatPending", KONNECTOR),
            id="the-provider-waits",
        ),
        pytest.param(
            FetchedBinding(binding(boundSchemas="none")),
            *("failed", "Invalid", KUBE_BIND.helps("Invalid")),
            id="what-cannot-be-read",
        ),
    ],
)
def test_how_bad_a_problem_is_and_what_helps(
    bound: FetchedBinding, state: State, reason: str, remedy: str
) -> None:
    row = make_row(bound, NOW)
    assert (row.state, row.reason, row.remedy) == (state, reason, remedy)


def test_what_is_no_part_of_ready_is_a_remark() -> None:
    conflict = condition("Conflicts", "True", "NameTooLong", "1 object: a")
    row = make_row(FetchedBinding(binding(READY, conflict), reached=True), NOW)
    assert (row.state, row.problem) == ("ok", "")
    (remark,) = row.remarks
    assert (remark.text, remark.remedy) == ("NameTooLong: 1 object: a", "use a shorter name")


def test_provider_and_heartbeat() -> None:
    known = cluster(lastHeartbeatTime=MINUTE_AGO)
    row = make_row(FetchedBinding(binding(READY), cluster_binding=known), NOW)
    assert (row.provider, row.resources) == ("Acme", ["things.example.org"])
    assert row.heartbeat_age(NOW) == 60.0
    told = make_row(FetchedBinding(binding(READY, providerPrettyName="The factory")), NOW)
    assert (told.provider, told.heartbeat_age(NOW)) == ("The factory", None)


def listed(ours: Object, theirs: Object | None, *warnings: JSON) -> list[UnsyncedObject]:
    target = SERVED.place(ours.key).target
    known = {target: theirs} if target is not None and theirs is not None else {}
    copies = ProviderCopies(POLICY, SERVED, known)
    about = {warning["involvedObject"]["uid"]: object_from_dict(warning) for warning in warnings}
    return object_rows(
        FetchedBinding(binding(), [BoundKind([ours], copies)], reached=True), about, NOW
    )


GOING: JSON = {"deletionTimestamp": MINUTE_AGO, "finalizers": ["example.org/audit"]}


LEAVING: JSON = {"deletionTimestamp": MINUTE_AGO}
CREATED = "its copy to be created"
GONE = "its copy to disappear, which has these finalizers: example.org/audit$"
PERSON = r"a person \(ForeignObjectExists\): .* rename this object"


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param(thing(), None, CREATED, id="no-copy"),
        pytest.param(thing(meta={"finalizers": []}), None, CREATED, id="new-here"),
        pytest.param(thing(spec={"a": 1}), copy(spec={"a": 2}), "its last change", id="spec"),
        pytest.param(thing(), copy(status={"b": 1}), "the status of its copy", id="status"),
        pytest.param(thing(), copy(meta=GOING), GONE, id="going"),
        pytest.param(thing(meta=LEAVING), copy(), "its copy to be deleted", id="deleted"),
        pytest.param(thing(meta=LEAVING), None, "the provider's list of objects", id="gone-there"),
        pytest.param(thing(namespace="other"), None, "a provider namespace", id="no-namespace"),
        pytest.param(
            thing(meta={"annotations": {}}), copy(), "its metadata to be", id="not-told-back"
        ),
        pytest.param(thing(), copy(meta={"annotations": {}}), PERSON, id="foreign"),
    ],
)
def test_what_an_object_waits_for(ours: Object, theirs: Object | None, expected: str) -> None:
    (row,) = listed(ours, theirs)
    assert re.match(expected, row.waits_for), row.waits_for
    assert (row.kind, row.name) == ("Thing", "a")
    assert row.since_seconds in {60.0, 3600.0}


def test_a_namespace_that_the_provider_refuses_is_told() -> None:
    copies = ProviderCopies(
        POLICY, ProviderNamespaces({}, {"default": "kube-system is reserved"}), {}
    )
    found = object_rows(
        FetchedBinding(binding(), [BoundKind([thing()], copies)], reached=True), {}, NOW
    )
    assert "kube-system is reserved" in found[0].waits_for


def test_objects_that_are_in_sync_are_not_listed() -> None:
    assert listed(thing(), copy()) == []


def warning(message: str, *, uid: str = "uid-a", time: str = MINUTE_AGO) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"uid": uid},
        "reason": "Invalid",
        "message": message,
        "lastTimestamp": time,
    }


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        pytest.param([], ("", None), id="none"),
        pytest.param([warning("no")], ("Invalid: no", 60.0), id="one"),
        pytest.param([warning("no", uid="other")], ("", None), id="of another object"),
        pytest.param([warning("its copy to be created")], ("", None), id="said already"),
    ],
)
def test_the_last_warning_of_an_object(told: list[JSON], expected: tuple[str, float]) -> None:
    (row,) = listed(thing(), None, *told)
    assert (row.warning, row.warning_seconds) == expected


def test_what_waits_longest_is_first() -> None:
    things = [thing("new", meta={"creationTimestamp": MINUTE_AGO}), thing("old")]
    bound = FetchedBinding(
        binding(), [BoundKind(things, ProviderCopies(POLICY, SERVED, {}))], reached=True
    )
    assert [row.name for row in object_rows(bound, {}, NOW)] == ["old", "new"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"lastTimestamp": MINUTE_AGO, "eventTime": HOUR_AGO}, MINUTE_AGO, id="last"),
        pytest.param({"lastTimestamp": None, "eventTime": HOUR_AGO}, HOUR_AGO, id="event"),
        pytest.param({"lastTimestamp": "soon"}, "1970-01-01T00:00:00Z", id="none"),
    ],
)
def test_when_an_event_happened(given: JSON, expected: str) -> None:
    body = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, **given}
    assert happened_at(object_from_dict(body)) == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    ("namespace", "place"), [("team-shop", "-n team-shop "), ("", "")], ids=["in-one", "cluster"]
)
def test_where_the_events_of_a_copy_are(namespace: str, place: str) -> None:
    metadata = {"name": "db", "namespace": namespace}
    copy = object_from_dict({"apiVersion": "x.org/v1", "kind": "Widget", "metadata": metadata})
    assert events_at(copy) == (
        f"Events about it are in the provider's cluster: run `kubectl {place}describe "
        f"widget.x.org db` there"
    )


QUOTA = 'things "a" is forbidden: exceeded quota: few, requested: count/things=1'
INVALID = 'Thing.example.org "a" is invalid: spec.size: must be at most 3'
DENIED = 'admission webhook "policy.example.org" denied the request: no'
RIGHT = 'things.example.org is forbidden: User "kb" cannot create resource "things"'


def refused(message: str, *, time: str = MINUTE_AGO) -> Object:
    return object_from_dict({**warning(message, time=time), "reason": "SyncFailed"})


def origin(ours: Object, event: Object | None, *conditions: JSON) -> Link:
    copies = ProviderCopies(POLICY, SERVED, {})
    bound = FetchedBinding(binding(READY, *conditions), [BoundKind([ours], copies)], reached=True)
    link = judge(bound, ours, event)
    # The console of the consumer says the same.
    about = {ours.meta.uid: event} if event is not None else {}
    (crossing,) = bound_of(bound, about).objects
    assert crossing.state == link.state
    return link


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        pytest.param(INVALID, "correct the fields", id="schema"),
        pytest.param(QUOTA, "ask the provider's team for a larger quota", id="quota"),
        pytest.param(DENIED, "change in the object what the provider's policy", id="policy"),
        pytest.param(
            f"{DENIED}: the size cannot change", "change in the object", id="policy-on-a-field"
        ),
        pytest.param(RIGHT, "ask the provider's team to give the consumer the right", id="right"),
    ],
)
def test_a_refusal_is_told_with_whose_it_is_and_what_helps(message: str, remedy: str) -> None:
    link = origin(thing(meta={"creationTimestamp": HOUR_AGO}), refused(message))
    assert (link.state, link.reason) == ("failed", "SyncFailed")
    assert link.about == f"the provider refuses its last change: {message}"
    assert link.remedy.startswith(remedy)
    assert link.since == MINUTE_AGO


def test_a_refusal_before_the_last_change_is_not_told() -> None:
    ours = thing(meta={"creationTimestamp": MINUTE_AGO})
    assert origin(ours, refused(QUOTA, time=HOUR_AGO)).state == "waiting"
    # Unless the konnector counts refused objects still.
    failing = condition("ObjectsFailing", "True", "Forbidden", "1 object cannot be written")
    assert origin(ours, refused(QUOTA, time=HOUR_AGO), failing).state == "failed"


def test_a_refusal_is_known_without_the_right_to_read_events() -> None:
    text = f"1 object cannot be written: Thing default/a; the first because of: {QUOTA}"
    link = origin(thing(), None, condition("ObjectsFailing", "True", "Forbidden", text))
    assert (link.state, link.about) == (
        "failed",
        f"the provider refuses its last change: {QUOTA}",
    )


def test_a_namespace_that_is_refused_has_its_own_reason() -> None:
    refusal = {"default": "the namespace team-default is another's"}
    copies = ProviderCopies(POLICY, ProviderNamespaces({}, refusal), {})
    ours = thing()
    link = judge(FetchedBinding(binding(READY), [BoundKind([ours], copies)], reached=True), ours)
    assert (link.state, link.reason) == ("failed", "NamespaceRefused")
    assert "another's" in link.about
    assert link.remedy.startswith("use another namespace")


def test_a_konnector_that_its_own_cluster_shows_as_stopped_is_named() -> None:
    stop = KonnectorStop("no konnector has renewed Lease kube-bind/kube-bind for 1m", MINUTE_AGO)
    row = make_row(FetchedBinding(binding(READY), reached=True, stop=stop), NOW)
    assert (row.state, row.reason, row.since) == ("failed", "KonnectorStopped", MINUTE_AGO)
    assert row.remedy == KONNECTOR
    # A provider that is not reached is the nearer cause.
    far = FetchedBinding(binding(READY), problem="it does not answer", stop=stop)
    assert make_row(far, NOW).reason == "NotReached"
    assert (
        bound_of(FetchedBinding(binding(READY), reached=True, stop=stop), {}).row.state == "failed"
    )


DAYS_AGO = "2025-12-20T00:00:00Z"


@pytest.mark.parametrize(
    ("reason", "conditions", "since"),
    [
        pytest.param(
            "CredentialsRefused",
            [condition("Heartbeating", "False", since=MINUTE_AGO)],
            MINUTE_AGO,
            id="heartbeats fail, and watches are open still",
        ),
        pytest.param(
            "CredentialsRefused",
            [
                condition("Heartbeating", "False", since=HOUR_AGO),
                condition("InformersSynced", "False", since=MINUTE_AGO),
            ],
            HOUR_AGO,
            id="heartbeats failed before watches",
        ),
        pytest.param(
            "CredentialsRefused",
            [condition("Heartbeating", "True", since=DAYS_AGO)],
            "",
            id="no konnector has noticed",
        ),
        pytest.param(
            "APIServiceExportNotFound",
            [condition("Heartbeating", "False", since=MINUTE_AGO)],
            "",
            id="the provider answers",
        ),
    ],
)
def test_a_provider_that_is_not_reached_is_so_since_the_konnector_says_it(
    reason: str, conditions: list[JSON], since: str
) -> None:
    ready = condition("Ready", "True", since=DAYS_AGO)
    bound = FetchedBinding(binding(ready, *conditions), problem="it refuses", reason=reason)
    row = make_row(bound, NOW)
    assert (row.state, row.reason, row.since) == ("failed", reason, since)
    assert bound_of(bound, {}).row.since == since


@pytest.mark.parametrize("schemas", [[], [{"group": "example.org", "resource": "things"}]])
def test_an_export_that_is_not_there_has_its_remedy_once(schemas: list[JSON]) -> None:
    missing = no_export(binding(boundSchemas=schemas).decode(APIServiceBinding))
    reason = "APIServiceExportNotFound"
    row = make_row(FetchedBinding(binding(READY), problem=missing, reason=reason), NOW)
    assert "fairlead bind" not in row.problem
    assert "fairlead bind" in row.remedy


def fought(*names: str, more: str = "") -> JSON:
    told = ", ".join(f"Thing {name} (field manager busybody)" for name in names) + more
    return condition(
        "ObjectsRewritten",
        "True",
        "WriteUndone",
        f"others undo the konnector's writes to {len(names)} objects again and again: {told}; "
        "an Event",
    )


def undone(uid: str = "uid-a") -> Object:
    message = "field manager busybody undoes the konnector's writes to its copy again"
    body = {**warning(message, uid=uid), "reason": "WriteUndone"}
    body["metadata"] = {"name": "e", "creationTimestamp": HOUR_AGO}
    return object_from_dict(body)


@pytest.mark.parametrize("theirs", [copy(spec={"a": 2}), copy()], ids=["undone", "just-written"])
@pytest.mark.parametrize(
    ("told", "event", "since"),
    [
        pytest.param(fought("default/a"), None, MINUTE_AGO, id="condition"),
        pytest.param(fought("default/a"), undone(), HOUR_AGO, id="event"),
        pytest.param(
            fought("default/b", more=", and 2 more"), undone(), HOUR_AGO, id="one-of-the-rest"
        ),
    ],
)
def test_an_object_whose_writes_are_undone_has_failed(
    theirs: Object, told: JSON, event: Object | None, since: str
) -> None:
    ours = thing(spec={"a": 1}) if theirs.to_dict().get("spec") == {"a": 2} else thing()
    told = {**told, "lastTransitionTime": MINUTE_AGO}
    target = SERVED.place(ours.key).target
    assert target is not None
    copies = ProviderCopies(POLICY, SERVED, {target: theirs})
    bound = FetchedBinding(binding(READY, told), [BoundKind([ours], copies)], reached=True)
    link = judge(bound, ours, event)
    assert (link.state, link.reason, link.since) == ("failed", "WriteUndone", since)
    assert "busybody" in link.about
    assert link.remedy.startswith("have the program that")
    about = {ours.meta.uid: event} if event is not None else {}
    (crossing,) = bound_of(bound, about).objects
    assert crossing.state == "failed"


def test_a_fight_that_is_over_or_about_another_object_is_not_told() -> None:
    assert origin(thing(), undone()).reason == "NotCopied"
    assert origin(thing(), undone(), fought("default/b")).reason == "NotCopied"
    assert origin(thing(), None, fought("default/b", more=", and 2 more")).reason == "NotCopied"


def test_the_list_of_objects_says_who_refuses_as_explain_does() -> None:
    ours = thing(meta={"creationTimestamp": HOUR_AGO})
    (row,) = listed(ours, None, {**warning(QUOTA), "reason": "SyncFailed"})
    link = origin(ours, refused(QUOTA))
    assert (row.state, row.reason, row.waits_for, row.remedy) == (
        link.state,
        link.reason,
        link.about,
        link.remedy,
    )
    assert row.warning == ""


TERMINATING = msgspec.convert(
    {**condition("NamespaceReady", "False", "NamespaceTerminating", "it is going")},
    KubeBindCondition,
)


@pytest.mark.parametrize(
    ("ours", "theirs", "delays", "reason", "told"),
    [
        pytest.param(
            thing(meta=LEAVING),
            copy(meta=GOING),
            {},
            "DeletionPending",
            "Thing default/a: waits for its copy to disappear, which has these finalizers: "
            "example.org/",
            id="finalizer",
        ),
        pytest.param(
            thing(namespace="other"),
            None,
            {"other": msgspec.structs.replace(TERMINATING, last_transition_time=MINUTE_AGO)},
            "NamespaceTerminating",
            "Thing other/a: waits for a provider namespace: it is going",
            id="namespace-that-is-going",
        ),
        pytest.param(
            thing(namespace="other"),
            None,
            {},
            "NamespacePending",
            "Thing other/a: waits for a provider namespace",
            id="namespace-that-never-comes",
        ),
    ],
)
def test_an_object_that_is_stuck_is_named_beside_its_binding(
    ours: Object,
    theirs: Object | None,
    delays: dict[str, KubeBindCondition],
    reason: str,
    told: str,
) -> None:
    target = SERVED.place(ours.key).target
    known = {target: theirs} if target is not None and theirs is not None else {}
    copies = ProviderCopies(POLICY, SERVED, known, delays)
    bound = FetchedBinding(binding(READY), [BoundKind([ours], copies)], reached=True)
    row = make_row(bound, NOW)
    (remark,) = row.remarks
    assert (row.state, remark.reason) == ("ok", reason)
    assert remark.message.startswith(told)
    assert remark.remedy
    assert remark.since in {MINUTE_AGO, HOUR_AGO}
    shown = BindingsTable([row], NOW)
    console = Console(width=400, color_system=None)
    with console.capture() as capture:
        console.print(shown)
    assert f"remark: {reason}: {told}" in capture.get()
    assert "(for " in capture.get()


def test_an_object_that_waits_for_a_moment_is_no_remark() -> None:
    ours = thing(namespace="other", meta={"creationTimestamp": format_time(NOW)})
    copies = ProviderCopies(POLICY, SERVED, {})
    bound = FetchedBinding(binding(READY), [BoundKind([ours], copies)], reached=True)
    assert make_row(bound, NOW).remarks == []


def test_a_remark_says_since_when() -> None:
    conflict = {**condition("Conflicts", "True", "NameTooLong", "1 object: a")}
    conflict["lastTransitionTime"] = HOUR_AGO
    row = make_row(FetchedBinding(binding(READY, conflict), reached=True), NOW)
    assert [remark.since for remark in row.remarks] == [HOUR_AGO]
    verdict = verdict_of(binding(READY, conflict))
    link = verdict_link(verdict, name="provider", subject="it")
    assert f"(since {HOUR_AGO})" in link.about


def test_the_versions_that_are_served_are_named() -> None:
    kinds = [BoundKind([], resource=THINGS, versions=("v1", "v2beta1"))]
    row = make_row(FetchedBinding(binding(READY), kinds, reached=True), NOW)
    assert row.versions == {"things.example.org": ["v1", "v2beta1"]}
    console = Console(width=400, color_system=None)
    with console.capture() as capture:
        console.print(BindingsTable([row], NOW))
    assert " things (v1, v2beta1) " in capture.get()
