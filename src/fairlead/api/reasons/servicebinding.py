"""The reasons of both Service Binding APIs: their own, and those that Fairlead adds."""

from __future__ import annotations

from typing import Final

from fairlead.api.reasons.model import Reason, Reasons
from fairlead.api.servicebinding import common


CONTROLLER: Final = (
    "see whether the controller runs: kubectl -n fairlead-binding get pods, or"
    " fairlead binding run"
)
_DEFINITIONS = "correct the annotation service.binding of the service or of its CRD"
_SERVICE = "create the service, or correct the reference to it"
_WORKLOAD = "create the workload, or correct the reference to it"

SERVICE_BINDING: Final = Reasons(
    "Service Binding",
    (
        Reason(
            common.APPLICATIONS_BOUND,
            "the controller has added the binding to the workloads",
            state="ok",
        ),
        Reason(common.APPLICATION_UPDATED, "the workloads have been written", state="ok"),
        Reason(
            common.DATA_COLLECTED,
            "the controller has read the entries of the services",
            state="ok",
        ),
        Reason(common.RESOLVED_BINDING_SECRET, "the service names its Secret", state="ok"),
        Reason(
            "Unseen",
            "no controller has processed the present spec of the binding yet",
            CONTROLLER,
            "waiting",
        ),
        Reason(common.SERVICE_NOT_FOUND, "the service, or its kind, does not exist", _SERVICE),
        Reason(common.ERROR_READING_SERVICES, "a service cannot be read", _SERVICE),
        Reason(
            common.SERVICE_FORBIDDEN,
            "the controller, or the binding's author, has no right to read the service",
            "grant the controller the right that the message names",
        ),
        Reason(
            common.SERVICE_MISSING_BINDING,
            "the service names no Secret",
            "have the service set status.binding.name to the name of its Secret",
            "waiting",
        ),
        Reason(
            common.ERROR_READING_SECRET,
            "the Secret of a service does not exist, or cannot be read",
            "create the Secret that the message names, or have its service create it",
        ),
        Reason(common.ERROR_READING_BINDING, "a definition cannot be evaluated", _DEFINITIONS),
        Reason(
            common.ERROR_READING_CRD,
            "the CRD of a service cannot be read",
            "let the controller read CustomResourceDefinitions",
        ),
        Reason(common.INVALID_ANNOTATION, "a definition cannot be understood", _DEFINITIONS),
        Reason(common.VALUE_NOT_FOUND, "a definition leads to no value", _DEFINITIONS),
        Reason(
            common.NAMING_STRATEGY_ERROR,
            "the controller cannot evaluate spec.namingStrategy",
            "correct spec.namingStrategy",
        ),
        Reason(
            common.ERROR_PERSISTING_SECRET,
            "the binding's Secret cannot be written",
            "make room in the namespace's quota, rename the Secret that is in the way, or let the"
            " controller write Secrets there",
        ),
        Reason(common.APPLICATION_NOT_FOUND, "the workload does not exist", _WORKLOAD),
        Reason(
            common.EMPTY_APPLICATION,
            "the binding names no workload",
            "name a workload, or a selector of workloads",
        ),
        Reason(
            common.NO_BINDING_DATA,
            "the services have no binding data",
            "have the service provide binding data: by a Secret or by annotations",
        ),
        Reason(
            common.REQUIRED_BINDING_NOT_FOUND,
            "a required key is not among the entries",
            "add the key to the service's Secret, or correct spec.env",
        ),
        Reason(
            common.APPLICATION_UPDATE_ERROR,
            "a workload cannot be written",
            "fix the cause of the API server's refusal, which the message quotes",
        ),
        Reason(
            common.WORKLOAD_NOT_ALLOWED,
            "bindings may not change workloads of this kind, or this workload belongs to another"
            " controller",
            "bind the controller that the message names, or a kind that is allowed, or ask an"
            " administrator to allow this kind",
        ),
        Reason(
            common.WRITES_PACED,
            "bindings changed a workload so often that the controller leaves it alone for a while",
            "do not bind a field that the binding itself changes, or that changes all the time",
            "waiting",
        ),
        Reason(
            common.WRITE_UNDONE,
            "another program removes what the controller adds to the workload",
            "have the program that the message or metadata.managedFields names leave it alone, or"
            " stop it",
        ),
        Reason(
            common.ITEMS_LEFT,
            "the controller left items on a workload because others had changed them; an Event on"
            " the workload says so, too",
            "remove the items that the message names by hand, if nothing needs them",
        ),
        Reason(
            common.PODS_REFUSED,
            "the controller has changed a workload, and the API server refuses its new Pods",
            "change the policy or quota that the message names so that it admits the Pods, or"
            " change the binding, for example from variables to files",
        ),
        Reason(
            common.ROLLOUT_STUCK,
            "the controller has changed a workload, and the workload reports that its rollout is"
            " stuck",
            "see why the new Pods do not become ready: kubectl describe the Pods and the workload",
        ),
        Reason(
            common.ERROR,
            "the controller could not process the binding",
            "remove what is in the way of the binding from the workload, or set another path",
        ),
        Reason(
            common.PROCESSING_ERROR, "the binding has an error", "correct what the message names"
        ),
        Reason(
            "EntriesHidden",
            "an Event: two services have entries with the same name",
            "rename the entries with spec.namingStrategy or spec.mappings",
        ),
        Reason(
            "Waiting",
            "an Event: something that the binding needs does not exist yet",
            "wait, or create what the message names",
            "waiting",
        ),
        Reason(
            "InvalidSpec", "a field cannot be used", "correct the field that the message names"
        ),
        Reason(
            "NotProjected", "the controller has not added the binding to a workload", CONTROLLER
        ),
        Reason(
            "NotReady",
            "the service is not Ready",
            "see what the service waits for with kubectl describe, and ask the team that runs it",
        ),
        Reason(
            "Deleting",
            "the service is being deleted",
            "bind another service, or delete the binding",
        ),
        Reason(
            "NotServed",
            "the cluster does not know the kind",
            "install its CRD, or correct its kind",
        ),
    ),
)
