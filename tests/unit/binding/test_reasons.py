"""Each condition of the original, by the error that leads to it, in both APIs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    conditions,
    coreos_binding,
    crd,
    database,
    deployment,
    message,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.api.servicebinding import common
from fairlead.binding.reads import FailureCode, Lookup, Read, ReadFailure


class Case(NamedTuple):
    """What is there, what fails, and what the conditions say then.

    ``spec`` and ``coreos`` are what the binding of either API has besides; None: not possible
    there. ``text`` is in the message of the condition, ``ready`` is the status of Ready.
    """

    condition: str
    status: str
    reason: str
    objects: list[JSON]
    fail: tuple[str, FailureCode] | None = None
    spec: JSON | None = {}  # noqa: RUF012 (a constant)
    coreos: JSON | None = {}  # noqa: RUF012 (a constant)
    text: str = ""
    ready: str = "False"


def annotated(**annotations: str) -> JSON:
    body = database(binding=None, v=None, m={"a": {"b": None}}, s="x")
    body["metadata"]["annotations"] = {
        f"service.binding/{name}".rstrip("/"): value for name, value in annotations.items()
    }
    return body


def typed(body: JSON) -> list[JSON]:
    return [body, secret(), deployment()]


DIRECT: JSON = {"service": {"apiVersion": "v1", "kind": "Secret", "name": "s1"}}
DIRECTS: JSON = {"services": [{"group": "", "version": "v1", "kind": "Secret", "name": "s1"}]}
PROMISE = {"servicebinding.io/provisioned-service": "true"}
BROKEN = deployment(containers=[{"name": "app", "volumeMounts": "none"}])

CASES = {
    "collected": Case("CollectionReady", "True", "DataCollected", typed(database()), ready="True"),
    "projected": Case(
        "InjectionReady", "True", "ApplicationUpdated", typed(database()), ready="True"
    ),
    "bound": Case("Ready", "True", "ApplicationsBound", typed(database()), ready="True"),
    "no service": Case(
        "CollectionReady", "False", "ErrorReadingServices", [deployment()], text="not found"
    ),
    "no kind of service": Case(
        *("CollectionReady", "False", "ErrorReadingServices", [deployment()]),
        ("Database", "NoMatch"),
    ),
    "service is forbidden": Case(
        *("CollectionReady", "False", "ErrorReadingServices", [deployment()]),
        ("databases", "Forbidden"),
    ),
    "service cannot be read": Case(
        *("CollectionReady", "False", "ErrorReadingServices", [deployment()]),
        ("databases", "Error"),
        ready="Unknown",
    ),
    "CRD cannot be read": Case(
        *("CollectionReady", "False", "ErrorReadingCRD", typed(database(binding=None))),
        ("customresourcedefinitions", "Error"),
        ready="Unknown",
    ),
    "CRD is forbidden": Case(
        *("CollectionReady", "False", "ErrorReadingCRD", typed(database(binding=None))),
        ("customresourcedefinitions", "Forbidden"),
    ),
    "name is no string": Case(
        *("CollectionReady", "False", "ErrorReadingBinding"),
        typed({**database(), "status": {"binding": {"name": 1}}}),
        text="accessor error",
    ),
    "CRD promises": Case(
        *("CollectionReady", "False", "ErrorReadingBinding"),
        [*typed(database(binding=None)), crd(annotations=PROMISE)],
        text="CRD of service ns/db indicates provisioned service, but no secret name provided "
        "under .status.binding.name",
    ),
    "definition does not fit": Case(
        *("CollectionReady", "False", "ErrorReadingBinding"),
        typed(annotated(x="path={.spec.nothing}")),
        text="nothing is not found",
    ),
    "Secret is missing": Case(
        "CollectionReady", "False", "ErrorReadingSecret", [database(), deployment()]
    ),
    "Secret is forbidden": Case(
        *("CollectionReady", "False", "ErrorReadingSecret", typed(database())),
        ("secrets", "Forbidden"),
    ),
    "Secret is no Secret": Case(
        *("CollectionReady", "False", "ErrorReadingSecret"),
        [{**secret(), "data": {"type": "%"}}, deployment()],
        spec=DIRECT,
        coreos=DIRECTS,
        text="entry type of Secret ns/s1 is not base64",
    ),
    "annotation is none": Case(
        *("CollectionReady", "False", "InvalidAnnotation"),
        typed(annotated(x="path=.spec")),
        text='Failed to create binding definition from "service.binding/x: path=.spec": ',
    ),
    "null in a map": Case(
        *("CollectionReady", "False", "ValueNotFound"),
        typed(annotated(x="path={.spec.m},elementType=map")),
        text="Value for key x_a_b not found",
    ),
    "naming strategy": Case(
        *("CollectionReady", "False", "NamingStrategyError", typed(database())),
        spec=None,
        coreos={"namingStrategy": "{{ .service.name.x | lower }}"},
        text="please check the namingStrategy template provided",
    ),
    "key of no Secret": Case(
        *("CollectionReady", "False", "ErrorPersistingSecret"),
        typed(annotated(**{"a/b": "x", "type": "y"})),
        text="not a valid key",
    ),
    "no workload": Case(
        *("InjectionReady", "False", "ApplicationNotFound", [database(), secret()]),
        text="cannot find application resources for the given reference",
    ),
    "workload is forbidden": Case(
        *("InjectionReady", "False", "ApplicationNotFound", typed(database())),
        ("deployments", "Forbidden"),
    ),
    "workload cannot be read": Case(
        *("InjectionReady", "False", "ApplicationNotFound", typed(database())),
        ("deployments", "Error"),
        ready="Unknown",
    ),
    "neither name nor selector": Case(
        *("InjectionReady", "False", "EmptyApplication", typed(database())),
        spec=None,
        coreos={"application": {}},
        ready="True",
    ),
    "nothing to project": Case(
        *("InjectionReady", "False", "NoBindingData", typed(database(binding=None))),
        text="no binding data to project",
    ),
    "no type": Case(
        *("InjectionReady", "False", "RequiredBindingNotFound"),
        [database(), secret(password="x"), deployment()],
        coreos=None,
        text="Mandatory binding 'type' not found",
    ),
    "projection fails": Case(
        *("InjectionReady", "False", "Error", [database(), secret(), BROKEN]),
        text="Deployment ns/web",
    ),
    "any error": Case(
        *("Ready", "False", "ProcessingError", [database(), secret(), BROKEN]),
        text="Deployment ns/web",
    ),
    "mapping": Case(
        *("Ready", "False", "ProcessingError", typed(database())),
        spec=None,
        coreos={"mappings": [{"name": "x", "value": "{{ .host"}]},
        text="template",
    ),
}

ELSEWHERE = {
    "ApplicationUpdateError": "test_refusals_end_up_in_the_status",
    "WorkloadNotAllowed": "test_eligible",
    "WritesPaced": "test_controller",
    "WriteUndone": "test_controller",
    "ItemsLeft": "test_unbinding",
    "PodsRefused": "RolloutFailing: test_rollout, test_controller",
    "RolloutStuck": "RolloutFailing: test_rollout",
    "ResolvedBindingSecret": "ServiceAvailable: test_provisioned_services",
    "ServiceNotFound": "ServiceAvailable: test_provisioned_services",
    "ServiceMissingBinding": "ServiceAvailable: test_provisioned_services",
    "ServiceForbidden": "ServiceAvailable: test_provisioned_services",
}

_APIS: dict[str, Callable[..., JSON]] = {"spec": spec_binding, "coreos": coreos_binding}
_ROWS = [
    pytest.param(api, case, id=f"{name}: {api}")
    for name, case in CASES.items()
    for api in _APIS
    if getattr(case, api) is not None
]


@pytest.mark.parametrize(("api", "case"), _ROWS)
def test_what_leads_to_a_condition(api: str, case: Case) -> None:
    cluster = FakeCluster(objects=case.objects)
    if case.fail:
        target, code = case.fail
        cluster.refuse = lambda read: _refusal(read, target, code)
    binding = _APIS[api](**getattr(case, api))
    cluster.reconcile(binding)
    found = conditions(binding)
    assert found[case.condition] == (case.status, case.reason)
    assert case.text in message(binding, case.condition)
    # The original's API has no Unknown.
    ready = "False" if api == "coreos" and case.ready == "Unknown" else case.ready
    assert found["Ready"][0] == ready
    assert bool(message(binding, "Ready")) is (ready != "True")
    bound = case.reason in {"ApplicationsBound", "ApplicationUpdated", "DataCollected"}
    for workload in cluster.of("deployments") if not bound else ():
        assert workload in case.objects
    # Whatever a pass says, the next one says it again and nothing else.
    before = binding["status"]
    cluster.reconcile(binding)
    assert binding["status"] == before


def _refusal(read: Read, target: str, code: FailureCode) -> ReadFailure | None:
    name = read.kind if isinstance(read, Lookup) else read.resource.plural
    return ReadFailure(code, f"{target}: {code}") if name == target else None


def test_every_reason_of_the_original_has_a_row() -> None:
    words: dict[str, Any] = vars(common)
    types = {"CollectionReady", "InjectionReady", "Ready", "RolloutFailing", "ServiceAvailable"}
    reasons = {
        value
        for name, value in words.items()
        if name.isupper() and isinstance(value, str) and value.isalpha() and value not in types
    }
    assert reasons == {case.reason for case in CASES.values()} | ELSEWHERE.keys()
