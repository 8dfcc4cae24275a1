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
            "no controller has looked at the binding as it is now",
            CONTROLLER,
            "waiting",
        ),
        Reason(common.SERVICE_NOT_FOUND, "the service, or its kind, is not there", _SERVICE),
        Reason(common.ERROR_READING_SERVICES, "a service cannot be read", _SERVICE),
        Reason(
            common.SERVICE_FORBIDDEN,
            "the controller, or the binding's author, has no right to read the service",
            "grant the controller the right that the message names",
        ),
        Reason(
            common.SERVICE_MISSING_BINDING,
            "the service names no Secret",
            "have the service name its Secret in status.binding.name",
            "waiting",
        ),
        Reason(
            common.ERROR_READING_SECRET,
            "the Secret of a service is not there, or cannot be read",
            "have the Secret that the message names written",
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
        Reason(common.APPLICATION_NOT_FOUND, "the workload is not there", _WORKLOAD),
        Reason(
            common.EMPTY_APPLICATION,
            "the binding names no workload",
            "name a workload, or a selector of workloads",
        ),
        Reason(
            common.NO_BINDING_DATA,
            "the services offer nothing",
            "have the service offer entries: a Secret, or annotations",
        ),
        Reason(
            common.REQUIRED_BINDING_NOT_FOUND,
            "a required key is not among the entries",
            "add the key to the service's Secret, or correct spec.env",
        ),
        Reason(
            common.APPLICATION_UPDATE_ERROR,
            "a workload cannot be written",
            "change what makes the API server refuse the change; the message has its words",
        ),
        Reason(
            common.WORKLOAD_NOT_ALLOWED,
            "bindings may not write to workloads of this kind, or not to one that another "
            "controller writes",
            "bind the controller that the message names, or a kind that is allowed, or have it "
            "allowed",
        ),
        Reason(
            common.WRITES_PACED,
            "a workload was changed so often by its bindings that it is left alone for a while",
            "bind no field that the binding's own write changes, or that changes all the time",
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
            "the controller left items on a workload that others had changed; an Event of the"
            " workload says it too",
            "remove by hand what the message names, if nothing needs it",
        ),
        Reason(
            common.PODS_REFUSED,
            "a workload has been written, and the server refuses its new Pods",
            "have the policy or quota that the message names admit the Pods, or change what it"
            " refuses: as files in place of variables, for instance",
        ),
        Reason(
            common.ROLLOUT_STUCK,
            "a workload has been written, and says that its rollout does not go on",
            "see why the new Pods do not become ready: kubectl describe them and the workload",
        ),
        Reason(
            common.ERROR,
            "the pass has failed",
            "take away from the workload what is in the way of the binding, or name another path",
        ),
        Reason(common.PROCESSING_ERROR, "the binding is wrong", "correct what the message names"),
        Reason(
            "EntriesHidden",
            "an Event: entries of one service have the names of another's",
            "give them other names with spec.namingStrategy or spec.mappings",
        ),
        Reason(
            "Waiting",
            "an Event: what the binding needs has not come yet",
            "wait, or see what the message is about",
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
            "see what the service waits for: kubectl describe it, and ask who runs it",
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
