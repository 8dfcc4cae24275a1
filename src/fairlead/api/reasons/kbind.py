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
    "grant the right that the message names: in this cluster to the konnector, by fairlead accept,"
    " or have the provider's team grant it to the account of the kubeconfig"
)

KBIND: Final = Reasons(
    "kbind v2",
    (
        Reason(names.AS_EXPECTED, "it is as it should be", state="ok"),
        Reason(
            names.SECRET_NOT_FOUND,
            "the Secret or its key is not there, or holds no usable kubeconfig",
            _KUBECONFIG,
        ),
        Reason(
            names.SECRET_REFUSED,
            "the Secret is outside of the konnector's namespace, or its kubeconfig runs a program"
            " or reads files",
            "name a Secret of the konnector's namespace, whose kubeconfig has all it needs in"
            " itself: kubectl config view --raw --flatten",
        ),
        Reason(
            names.PENDING,
            "the provider gives no answer, or the Connection or CRD is not ready",
            "see the Connection, and have the provider's API server answer at the address of the"
            " kubeconfig; it goes on by itself then",
            "waiting",
        ),
        Reason(
            names.CLUSTER_IDENTITY_CHANGED,
            "another cluster answers than the one that was connected first",
            "restore the former cluster, or delete the Connection and create it again for the new"
            " one",
        ),
        Reason(
            "CredentialsRefused",
            "the provider refuses the credentials of the kubeconfig",
            _NEW_KUBECONFIG,
        ),
        Reason(
            "CertificateRefused",
            "the certificate of the provider's server is not the one of the kubeconfig",
            _NEW_KUBECONFIG,
        ),
        Reason(
            names.FORBIDDEN,
            "the konnector lacks a right in this cluster, or the account of the kubeconfig at the"
            " provider",
            _RIGHTS,
        ),
        Reason(
            names.DRAINING_BINDINGS,
            "the Connection is being deleted, and waits for the bindings that name it",
            "delete the ClusterBindings and Bindings that the message names",
            "waiting",
        ),
        Reason(
            names.LEASE_HELD,
            "another konnector serves this cluster's Connection, and Fairlead's stands back",
            "stop one of the two; Fairlead's goes on a minute after the other has stopped",
        ),
        Reason(
            names.API_NOT_EXPORTED,
            "the provider does not offer the API",
            "have the provider's team label its CRD core.kbind.io/exported=true, or take the API"
            " out of the binding",
        ),
        Reason(
            names.FOREIGN_OBJECT,
            "an object that is no copy of this one has the copy's place",
            "rename one of them, or, of bound objects, set conflictPolicy Adopt on the binding",
        ),
        Reason(
            names.OWNED_BY_ANOTHER,
            "the copy's place has a copy of another object or cluster",
            "rename one of them, or have the provider's team delete the copy; that of a former"
            " object of this name is taken up with conflictPolicy Adopt on the binding",
        ),
        Reason(
            names.FOREIGN_CRD,
            "the CRD is there, and not of this Connection",
            "delete the CRD where its objects are not needed, or bind by the Connection that owns"
            " it",
        ),
        Reason(
            names.FOREIGN_CLUSTERBINDING,
            "a ClusterBinding of the Connection's name is there, and autoBind did not create it",
            "delete that ClusterBinding, or set the Connection's autoBind to false",
        ),
        Reason(
            names.TOO_MANY_APIS,
            "the provider offers more APIs than autoBind binds",
            "bind the others by a ClusterBinding of another name",
        ),
        Reason(
            "NotCovered",
            "no binding covers the object, so that it is not synchronised",
            "create a Binding in its namespace, or a ClusterBinding, that lists its API",
        ),
        Reason(
            names.CONVERSION_REFUSED,
            "the provider converts the kind by a webhook, which serves its cluster alone",
            "ask the provider's team for a CRD that converts by the strategy None",
        ),
        Reason(
            names.SCHEMA_UNUSABLE,
            "no CRD can be made of the schema in the provider's OpenAPI",
            "ask the provider's team to label its CRD, or create the CRD yourself and set"
            " schema.pullPolicy None",
        ),
        Reason(
            "CRDsLeft",
            "CRDs of a Connection that has gone stay: they have objects, or a right is missing",
            "delete the objects that are not needed, and then the CRDs",
        ),
        Reason(
            names.RULE_REFUSED,
            "a rule about related resources sends too much, or is not admitted",
            "give the rule names or labels to select by, or have the Connection's annotation"
            " fairlead.dev/related-resources list it",
        ),
        Reason(
            names.NO_VERSION_SERVED,
            "no version of the kind is served by both clusters",
            "have the provider's team serve a version of the kind",
        ),
    ),
)
