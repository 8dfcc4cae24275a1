"""Names that both Service Binding APIs share: conditions, reasons, annotations and finalizers.

The names are those of the Service Binding specification 1.1 and of Service Binding Operator 1.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from fairlead.api.conditions import Condition
from fairlead.api.crd import PrinterColumn, Version
from fairlead.api.meta import JSON


COLLECTION_READY = "CollectionReady"
INJECTION_READY = "InjectionReady"
READY = "Ready"
SERVICE_AVAILABLE = "ServiceAvailable"
ROLLOUT_FAILING = "RolloutFailing"
"""Condition that Fairlead adds while a workload says that its new Pods do not come."""

DATA_COLLECTED = "DataCollected"
ERROR_READING_SERVICES = "ErrorReadingServices"
ERROR_READING_CRD = "ErrorReadingCRD"
ERROR_READING_BINDING = "ErrorReadingBinding"
ERROR_READING_SECRET = "ErrorReadingSecret"  # noqa: S105
INVALID_ANNOTATION = "InvalidAnnotation"
VALUE_NOT_FOUND = "ValueNotFound"
NAMING_STRATEGY_ERROR = "NamingStrategyError"
APPLICATION_UPDATED = "ApplicationUpdated"
APPLICATION_NOT_FOUND = "ApplicationNotFound"
EMPTY_APPLICATION = "EmptyApplication"
ITEMS_LEFT = "ItemsLeft"
WRITES_PACED = "WritesPaced"
WRITE_UNDONE = "WriteUndone"
"""Reason that Fairlead adds: a workload is written too often, and is left alone for a while."""
PODS_REFUSED = "PodsRefused"
"""Reason that Fairlead adds: the server refuses the Pods of a workload."""
ROLLOUT_STUCK = "RolloutStuck"
"""Reason that Fairlead adds: a workload says that its rollout does not go on."""
WORKLOAD_NOT_ALLOWED = "WorkloadNotAllowed"
"""Reason that Fairlead adds: bindings may not write to workloads of this kind."""
NO_BINDING_DATA = "NoBindingData"
REQUIRED_BINDING_NOT_FOUND = "RequiredBindingNotFound"
ERROR = "Error"
APPLICATIONS_BOUND = "ApplicationsBound"
PROCESSING_ERROR = "ProcessingError"
APPLICATION_UPDATE_ERROR = "ApplicationUpdateError"
ERROR_PERSISTING_SECRET = "ErrorPersistingSecret"  # noqa: S105
RESOLVED_BINDING_SECRET = "ResolvedBindingSecret"  # noqa: S105
SERVICE_NOT_FOUND = "ServiceNotFound"
SERVICE_MISSING_BINDING = "ServiceMissingBinding"
SERVICE_FORBIDDEN = "ServiceForbidden"

REQUESTER_ANNOTATION = "servicebinding.io/requester"
"""JSON of the admission UserInfo of the binding's last editor."""

MAPPING_ANNOTATION = "servicebinding.io/mapping"
"""JSON of the workload mapping that was in force when the binding was projected."""

PROVISIONED_SERVICE = "servicebinding.io/provisioned-service"
"""Annotation (operator) or label (specification) of a CRD; "true" promises status.binding.name."""

CONTROLLER_LABEL = "servicebinding.io/controller"
"""Label of ClusterRoles whose rules the binding controller's role aggregates."""

DEFINITION_ANNOTATION = "service.binding"
ROOT_VARIABLE = "SERVICE_BINDING_ROOT"
DEFAULT_ROOT = "/bindings"

EXCLUSIVE = "name and selector MUST NOT be defined in the application reference"
IMMUTABLE = (
    "cannot update Service Binding if 'Ready' condition is True. If you want to rebind to another "
    "service/application, remove this binding and create a new one."
)
"""Texts of Service Binding Operator 1.4, which clients match on."""


def validations(*rules: tuple[str, str]) -> JSON:
    """Return the schema keys for CEL rules, each with the message for a violation.

    Each rule must hold for an unchanged object: servers before 1.30 validate the whole object at
    every write, and an object older than the rule must be able to lose its finalizers.
    """
    rules_ = [{"rule": rule, "message": message} for rule, message in rules]
    return {"x-kubernetes-validations": rules_}


def exclusive(selector: str) -> tuple[str, str]:
    """Return the rule of a reference to workloads: by name or by this selector, not both."""
    return f"self == oldSelf || !has(self.{selector}) || !has(self.name) || self.name == ''", (
        EXCLUSIVE
    )


# The name becomes a folder below SERVICE_BINDING_ROOT, so that it has no slash. "." and ".." fit
# the pattern, and fairlead.binding.contexts refuses them.
BindingName = Annotated[
    str,
    msgspec.Meta(
        description="Name of the binding's directory; by default the name of the ServiceBinding.",
        pattern=r"^[a-z0-9\-\.]*$",
        max_length=253,
    ),
]


Conditions = Annotated[
    list[Condition],
    msgspec.Meta(description="Conditions of collecting the binding's data and of projecting it."),
]


LONGEST_MESSAGE = 32768
"""Characters that the message of a ``metav1.Condition`` may have."""

_CONDITION: JSON = {
    "lastTransitionTime": {"format": "date-time"},
    "message": {"maxLength": LONGEST_MESSAGE},
    "observedGeneration": {"format": "int64", "minimum": 0},
    "reason": {
        "maxLength": 1024,
        "minLength": 1,
        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    },
    "type": {"maxLength": 316},
}


def with_strict_conditions(crd: JSON) -> JSON:
    """Return a CRD of bindings with the validation of ``metav1.Condition`` for its conditions.

    https://github.com/kubernetes/apimachinery/blob/master/pkg/apis/meta/v1/types.go
    """
    for version in crd["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        items = status["properties"]["conditions"]["items"]
        items["required"] = ["lastTransitionTime", "message", "reason", "status", "type"]
        for name, bounds in _CONDITION.items():
            items["properties"][name].update(bounds)
    return crd


def spec_versions(
    type_: type, *, columns: Sequence[PrinterColumn], status: bool = True
) -> list[Version]:
    """Return the versions of a kind of servicebinding.io: v1 is stored, others are deprecated.

    They have one schema, so that no conversion is needed.
    """
    old = ("v1beta1", "v1alpha3")
    return [
        Version("v1", type_, columns=columns, status=status),
        *(
            Version(
                name,
                type_,
                storage=False,
                columns=columns,
                status=status,
                deprecated=True,
                deprecation_warning=f"servicebinding.io/{name} is deprecated, use v1",
            )
            for name in old
        ),
    ]
