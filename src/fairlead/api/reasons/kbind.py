"""The reasons of kbind v2's objects: the protocol's own, and those that Fairlead adds."""

from __future__ import annotations

from typing import Final

from fairlead.api.kbind import names
from fairlead.api.reasons.model import Reason, Reasons


_KUBECONFIG = (
    "create the Secret in the konnector's namespace, with the provider's kubeconfig under the key"
    " that the Connection names"
)
_NEW_KUBECONFIG = (
    "ask the provider's team for a new kubeconfig, and put it into the Connection's Secret"
)
_RIGHTS = (
    "grant the right that the message names: in this cluster to the konnector with fairlead"
    " accept; at the provider, have its team grant it to the account of the kubeconfig"
)

KBIND: Final = Reasons(
    "kbind v2",
    (
        Reason(names.AS_EXPECTED, "all is well", state="ok"),
        Reason(
            names.SECRET_NOT_FOUND,
            "the Secret or its key does not exist, or the kubeconfig in it cannot be used",
            _KUBECONFIG,
        ),
        Reason(
            names.SECRET_REFUSED,
            "the Secret is outside of the konnector's namespace, or its kubeconfig runs a program"
            " or reads files",
            "name a Secret in the konnector's namespace with a kubeconfig that refers to no files"
            " and no programs: kubectl config view --raw --flatten",
        ),
        Reason(
            names.PENDING,
            "the provider does not answer, or the Connection or CRD is not ready",
            "see the Connection, and see that the provider's API server answers at the address in"
            " the kubeconfig; the konnector then continues by itself",
            "waiting",
        ),
        Reason(
            names.CLUSTER_IDENTITY_CHANGED,
            "the cluster that answers is not the one that the Connection first connected to",
            "restore the former cluster, or delete the Connection and create it again for the new"
            " cluster",
        ),
        Reason(
            "CredentialsRefused",
            "the provider refuses the credentials of the kubeconfig",
            _NEW_KUBECONFIG,
        ),
        Reason(
            "CertificateRefused",
            "the kubeconfig does not trust the certificate of the provider's API server",
            _NEW_KUBECONFIG,
        ),
        Reason(
            names.FORBIDDEN,
            "the konnector lacks a right in this cluster, or its account at the provider lacks"
            " one",
            _RIGHTS,
        ),
        Reason(
            names.DRAINING_BINDINGS,
            "the Connection is being deleted, and waits until no binding names it and the copies"
            " that bindings have left at its provider are gone",
            "delete the ClusterBindings and Bindings that the message names; the konnector deletes"
            " the copies",
            "waiting",
        ),
        Reason(
            names.LEASE_HELD,
            "another konnector serves this cluster's Connection, so Fairlead's does nothing",
            "stop one of the two konnectors; Fairlead's starts to work a minute after the other"
            " has stopped",
        ),
        Reason(
            names.API_NOT_EXPORTED,
            "the provider does not offer the API",
            "have the provider's team label its CRD core.kbind.io/exported=true, or remove the"
            " API from the binding",
        ),
        Reason(
            names.FOREIGN_OBJECT,
            "the other cluster already has an object with this name that is not a copy of this"
            " one",
            "rename one of the two objects; for bound objects you can also set conflictPolicy:"
            " Adopt on the binding",
        ),
        Reason(
            names.OWNED_BY_ANOTHER,
            "the other cluster already has a copy with this name, of another object or another"
            " cluster",
            "rename one of them, or ask the provider's team to delete the copy; with"
            " conflictPolicy: Adopt on the binding, the konnector takes over the copy of a former"
            " object of this name",
        ),
        Reason(
            names.FOREIGN_CRD,
            "a CRD with this name exists, and does not belong to this Connection",
            "delete the CRD if its objects are not needed, or bind through the Connection that"
            " owns it",
        ),
        Reason(
            names.FOREIGN_CLUSTERBINDING,
            "a ClusterBinding with the Connection's name exists, and autoBind did not create it",
            "delete that ClusterBinding, or set the Connection's autoBind to false",
        ),
        Reason(
            names.TOO_MANY_APIS,
            "the provider offers more APIs than autoBind binds",
            "bind the others with a ClusterBinding of another name",
        ),
        Reason(
            "NotCovered",
            "no binding covers the object, so the konnector does not synchronize it",
            "create a Binding in its namespace, or a ClusterBinding, that lists its API",
        ),
        Reason(
            names.CONVERSION_REFUSED,
            "the provider's CRD has a conversion webhook, which only its own cluster can call",
            "ask the provider's team for a CRD with conversion strategy None",
        ),
        Reason(
            names.SCHEMA_UNUSABLE,
            "the konnector cannot make a CRD from the schema in the provider's OpenAPI",
            "ask the provider's team to label its CRD, or create the CRD yourself and set"
            " schema.pullPolicy None",
        ),
        Reason(
            "CRDsLeft",
            "CRDs of a deleted Connection stay: they have objects, or the konnector lacks a right",
            "delete the objects if they are not needed, and then the CRDs",
        ),
        Reason(
            names.RULE_REFUSED,
            "a rule about related resources selects too much, or the Connection does not allow it",
            "add names or labels to the rule, or have the rule listed in the Connection's"
            " annotation fairlead.dev/related-resources",
        ),
        Reason(
            names.NO_VERSION_SERVED,
            "the two clusters serve no common version of the kind",
            "have the provider's team serve a version of the kind",
        ),
    ),
)
