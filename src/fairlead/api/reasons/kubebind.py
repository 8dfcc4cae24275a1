"""The reasons of kube-bind's objects: kube-bind's own, and those that Fairlead adds."""

from __future__ import annotations

from typing import Final

from fairlead.api.reasons.model import Reason, Reasons


KONNECTOR: Final = (
    "see whether the konnector runs: kubectl -n kube-bind get pods, or fairlead konnector run"
)
_PROVIDER = "ask the provider's team"
_THEIR_KONNECTOR = (
    "have the consumer's team see whether the konnector runs: kubectl -n kube-bind get pods"
)
_INVITE_AGAIN = "invite the consumer again: fairlead provider invite"
_AGAIN = "wait: the controllers try again by themselves"
_INVITE = "ask the provider's team for a new invitation, and bind with it: fairlead bind -f"
_KUBECONFIG = "restore the Secret, or bind again with the invitation: fairlead bind -f"
_REQUEST = "correct the request, or ask for a new invitation"

_CONFLICTS: Final = (
    Reason(
        "ForeignObjectExists",
        "the other cluster already has an object with this name that is not a copy of this one",
        "rename one of the two objects; the provider can hand over its object with an annotation",
    ),
    Reason(
        "OwnerUnknown",
        "a claimed object exists in both clusters, and neither is a copy of the other",
        "delete or rename one of them",
    ),
    Reason(
        "NamespaceRefused",
        "the provider creates no namespace for objects of this namespace",
        "use another namespace, or ask the provider's team to fix what the message names",
        provider="fix what keeps the consumer's APIServiceNamespace from becoming ready",
    ),
    Reason("NameTooLong", "the copy's name would have over 253 characters", "use a shorter name"),
    Reason(
        "ReservedNamespace",
        "the namespace is reserved for the cluster",
        "name the object with its namespace in the claim, or use another namespace",
    ),
    Reason(
        "ClusterToken",
        "the Secret is a token of its cluster, which is never copied",
        "claim another Secret",
    ),
    Reason(
        "CopyHeld",
        "the copy belongs to another cluster, so the konnector does not delete it",
        "restore the objects, or decide what to do with the copies: fairlead bind -f with"
        " --keep-copies or --discard-copies",
    ),
)

_BINDINGS: Final = (
    Reason("Pending", "no konnector has processed the binding yet", KONNECTOR, "waiting"),
    Reason(
        "Unbinding",
        "the konnector is removing the binding",
        "wait until its objects are deleted",
        "waiting",
    ),
    Reason(
        "KonnectorStopped",
        "the konnector of this cluster has stopped, as its Lease or Deployment shows",
        KONNECTOR,
    ),
    Reason("APIServiceExportFailed", "the provider refuses the request", _REQUEST),
    Reason("APIServiceExportNotFound", "the provider has no such APIServiceExport", _INVITE),
    Reason(
        "APIServiceExportChanged",
        "the provider exports more than you agreed to",
        "to agree, delete the binding and bind again",
    ),
    Reason(
        "ProviderObjectInvalid",
        "an export, request or schema of the provider has no valid content",
        _PROVIDER,
    ),
    Reason(
        "BoundSchemaFetchFailed",
        "a BoundSchema does not exist, or belongs to another export",
        _PROVIDER,
    ),
    Reason(
        "CustomResourceDefinitionCreateFailed",
        "the CRD cannot be created here",
        "grant the konnector the right that the message names",
    ),
    Reason(
        "CustomResourceDefinitionUpdateFailed",
        "the CRD cannot be updated here",
        "fix the cause of the API server's refusal, which the message quotes",
    ),
    Reason(
        "CustomResourceDefinitionNotEstablished",
        "the CRD is not established yet",
        "wait, or see the conditions of the CRD",
        "waiting",
    ),
    Reason(
        "ForeignCustomResourceDefinition",
        "a CRD with this name exists, and does not belong to this binding",
        "delete the CRD, or the binding that owns it, if its objects are not needed",
    ),
    Reason(
        "WebhookNotAccepted",
        "the provider's CRD has a conversion webhook that you have not accepted",
        "decide whether you trust it, and if so run the command that the message names",
    ),
    Reason(
        "WebhookFailing",
        "a conversion webhook of the provider does not answer correctly",
        "ask the provider's team, or remove it with the command that the message names",
    ),
    Reason("NoVersionServed", "the provider serves no version of the kind", _PROVIDER),
    Reason(
        "FieldsLost",
        "all versions of the kind, or the provider's new schema, lack fields that its objects use",
        "have the provider serve a version or schema with the fields that the message names",
    ),
    Reason(
        "StoredVersions",
        "the provider does not serve a version in which objects may be stored in this cluster",
        "rewrite every object once, then remove the version from status.storedVersions of the CRD",
    ),
    Reason(
        "NamesNotAccepted",
        "another CRD in this cluster already uses a name of the kind",
        "remove the name from that CRD, or delete the CRD if its objects are not needed",
    ),
    Reason(
        "NoStatusSubresource",
        "the kind has no status subresource, so no status is synchronized back",
        "see the status in the provider's cluster, or ask for a CRD with the subresource",
        "ok",
    ),
    Reason(
        "KubeconfigSecretNotFound", "the Secret with the kubeconfig does not exist", _KUBECONFIG
    ),
    Reason("KubeconfigSecretInvalid", "the kubeconfig cannot be used", _KUBECONFIG),
    Reason("ClaimRefused", "a claimed kind is not served, or may not be read", _PROVIDER),
    Reason(
        "InformerSyncTimeout",
        "the provider does not answer, or not for every kind",
        "see that the provider's API server answers at the address in the kubeconfig; the"
        " konnector then continues by itself",
    ),
    Reason(
        "KonnectorForbidden",
        "the konnector lacks a right in this cluster",
        "have an administrator of this cluster run the command that the message names, fairlead"
        " accept",
    ),
    Reason(
        "AnswerTooLarge",
        "the provider's answer is larger than the konnector accepts",
        "ask the provider's team; if it is right, raise the flag that the message names",
    ),
    Reason(
        "WritesRefused",
        "the konnector can write no object of a kind",
        "grant the right that the message names, or fix the webhook or schema",
    ),
    Reason("SeveralKonnectors", "several konnectors use one ClusterBinding", "stop all but one"),
    Reason("VersionsAlternate", "konnectors of two versions alternate", "stop all but one"),
    Reason(
        "WriteUndone",
        "another program undoes what the konnector writes",
        "have the program that the message or metadata.managedFields names leave it alone, or stop"
        " it",
    ),
    Reason(
        "ClusterIdentityChanged",
        "the copies belong to another cluster",
        "restore the objects, then fairlead bind -f with --keep-copies or --discard-copies",
    ),
    Reason(
        "SyncErrors",
        "the konnector cannot create some APIServiceBindings of a bundle",
        "rename or delete the APIServiceBinding that is in the way, or grant the konnector the"
        " right to create it",
    ),
    Reason("ProviderClientError", "a bundle's kubeconfig cannot be used", _KUBECONFIG),
    Reason("ListExportsFailed", "the konnector cannot list the provider's exports", _PROVIDER),
    Reason(
        "ListBindingsFailed",
        "the konnector cannot list the APIServiceBindings of this cluster",
        "grant the konnector the right that the message names",
    ),
)

_CONNECTIONS: Final = (
    Reason(
        "FirstHeartbeatPending",
        "no konnector has reported yet",
        KONNECTOR,
        "waiting",
        provider=_THEIR_KONNECTOR,
    ),
    Reason(
        "HeartbeatIntervalMissing",
        "the konnector does not report its heartbeat interval",
        "update the konnector",
        "waiting",
    ),
    Reason(
        "HeartbeatTimeout",
        "the konnector has stopped reporting",
        "have the consumer's team see whether the konnector runs, and reaches this cluster",
        consumer=KONNECTOR,
    ),
    Reason(
        "HeartbeatTimeDrift",
        "the konnector's heartbeat is in the future",
        "correct the clocks of both clusters",
    ),
    Reason(
        "ClusterBindingUpdateFailed",
        "the konnector cannot report to the provider",
        "see that the provider's API server answers at the address in the kubeconfig; the"
        " konnector then continues by itself",
    ),
    Reason(
        "ProviderSecretNotFound",
        "the provider's Secret for this consumer is gone",
        _PROVIDER,
        provider=_INVITE_AGAIN,
    ),
    Reason(
        "ProviderSecretInvalid",
        "the konnector does not use the provider's new kubeconfig",
        _PROVIDER,
        provider=_INVITE_AGAIN,
    ),
    Reason(
        "ParseError",
        "the konnector's version is not a semantic version",
        "use a release of the konnector",
    ),
)

_EXPORTS: Final = (
    Reason(
        "NotInvited",
        "the consumer has no invitation, or none for what it requests",
        "have the provider's team invite it with fairlead provider invite, and bind with the"
        " invitation: fairlead bind -f",
    ),
    Reason(
        "NotExportable", "the kind belongs to Kubernetes or to kube-bind", "request another kind"
    ),
    Reason(
        "SchemaNotFound",
        "the provider's cluster does not serve the kind, or no version of it",
        "install its CRD",
        consumer="ask the provider's team to install the kind's CRD again",
    ),
    Reason(
        "UnsupportedConversion",
        "the CRD has a conversion webhook that only its own cluster can call",
        "give the webhook a URL, or use conversion strategy None",
        consumer="ask the provider's team for a webhook with a URL, or for another kind",
    ),
    Reason(
        "DifferentScopes",
        "a request names both namespaced and cluster-scoped kinds",
        "make two requests",
    ),
    Reason(
        "UnsupportedIsolation",
        "the provider's isolation does not support the scope of the kind",
        "run the provider with another isolation",
        consumer="ask the provider's team for another isolation",
    ),
    Reason(
        "ImmutableFieldChanged",
        "the request was changed after the provider answered it",
        "restore the field, or make a new request",
    ),
    Reason(
        "BoundSchemaRefused",
        "the provider's BoundSchema CRD is too old for the kind",
        "have the provider upgraded, its CRDs first",
    ),
    Reason(
        "ExportFailed",
        "the provider's API server refuses a request",
        "ask the provider's team to have its API server admit the request that the message quotes",
        provider="grant the provider's controllers the right, or change the policy or webhook,"
        " that the message names",
    ),
    Reason("InvalidPermissionClaim", "a claim cannot be granted", _REQUEST),
    Reason("DuplicatePermissionClaim", "a kind is claimed twice", _REQUEST),
    Reason("LargePermissionClaim", "a claim has too many parts", _REQUEST),
    Reason("TooManyNamespaces", "a request names too many namespaces", _REQUEST),
    Reason("TooManyResources", "a request names too many resources", _REQUEST),
    Reason("DuplicateResource", "a resource is named twice", _REQUEST),
    Reason(
        "BoundSchemaMissing",
        "the BoundSchema is gone",
        "restore it, or recreate the export",
        consumer="ask the provider's team to restore it",
    ),
    Reason(
        "BoundSchemaConflict",
        "another export already owns the BoundSchema of this name",
        "rename or delete it",
        consumer="ask the provider's team to rename or delete it",
    ),
    Reason(
        "APIServiceBindingNotFound",
        "the consumer does not bind the export",
        KONNECTOR,
        "waiting",
        provider=_THEIR_KONNECTOR,
    ),
    Reason(
        "NA",
        "the consumer does not bind the export",
        KONNECTOR,
        "waiting",
        provider=_THEIR_KONNECTOR,
    ),
    Reason(
        "Unknown",
        "the konnector has not reported on this yet",
        KONNECTOR,
        "waiting",
        provider=_THEIR_KONNECTOR,
    ),
    Reason("Current", "the message names the credentials or konnectors in use", state="ok"),
    Reason("Recorded", "the message names the cluster that the copies belong to", state="ok"),
    Reason(
        "BoundSchemasNotValid",
        "a BoundSchema of the export is not valid",
        _PROVIDER,
        provider="correct the CRD that the message names, or delete its export",
    ),
    Reason(
        "Revoked",
        "the consumer's access is being removed",
        "invite the consumer again",
        consumer="ask the provider's team for another invitation",
    ),
    Reason(
        "Forbidden",
        "the provider's controllers may not grant the rights, or a server refuses objects",
        "grant the rights that the message names",
        consumer="have the team of the cluster that refuses, which the message names, grant the"
        " right, make room in the quota, or change the policy",
    ),
    Reason(
        "Invalid",
        "the rights or the object are not valid",
        "correct what the message names",
        consumer="correct the fields of the objects that the message names, or ask the team of the"
        " cluster that refuses them",
    ),
    Reason(
        "NamespaceLimitReached",
        "the consumer has reached the limit of provider namespaces",
        "delete namespaces in the consumer's cluster, or have --namespaces-per-consumer of the"
        " provider raised",
    ),
    Reason(
        "NamespacePending",
        "the provider namespace does not exist yet",
        _AGAIN,
        "waiting",
        consumer="wait; if it lasts, ask the provider's team whether its controllers run",
        provider="wait; if it lasts, see whether fairlead provider run works",
    ),
    Reason(
        "NamespaceTerminating",
        "the provider namespace is being deleted",
        _AGAIN,
        "waiting",
        consumer="wait; if it lasts, ask the provider's team which finalizers of objects hold the"
        " namespace that the message names",
        provider="wait; if it lasts, see in the namespace's conditions which finalizers hold it:"
        " kubectl describe namespace",
    ),
    Reason("PermissionsPending", "the provider has not granted the rights yet", _AGAIN, "waiting"),
    Reason(
        "ForeignNamespace",
        "a namespace with this name belongs to another owner",
        "rename or delete the namespace",
    ),
    Reason(
        "InvalidNamespaceName",
        "the provider namespace's name would be too long",
        "use a namespace with a shorter name",
    ),
    Reason(
        "ObjectsRemain",
        "copies of a deleted namespace or consumer still exist",
        "wait until they are gone, or remove the finalizers that hold them",
        "waiting",
    ),
    Reason(
        "ObjectsUnknown",
        "the provider's controllers cannot list the remaining objects of a namespace or consumer",
        "let the provider's controllers list the kinds that the message names",
    ),
    Reason("TemplateNotFound", "the template does not exist", "name another template"),
    Reason(
        "HandleResourcesFailed",
        "the consumer cannot be set up",
        "grant the provider's controllers the right, or change the policy, that the message names",
    ),
    Reason(
        "IdentityTaken",
        "the identity belongs to another person or group",
        "use another identity, or have the consumer handed over: fairlead provider hand-over",
    ),
    Reason(
        "TooManyConsumers",
        "the person has reached the limit of consumers",
        "have an unused consumer revoked: fairlead provider revoke",
    ),
    Reason(
        "SecretCreationFailed",
        "the provider's controllers cannot write the answer",
        "let the provider's controllers write Secrets in the namespace of the request",
    ),
    Reason("SecretReady", "the invitation is in the Secret that the request names", state="ok"),
)

_OBJECTS: Final = (
    Reason(
        "NotReached",
        "this machine could not reach the provider",
        "see that this machine can reach the provider's API server, and try again",
    ),
    Reason(
        "CertificateRefused",
        "the provider's API server has a certificate that the kubeconfig does not trust",
        "ask the provider's team whether its API server has a new certificate, or was replaced;"
        " if so, bind again with a new invitation: fairlead bind -f",
    ),
    Reason(
        "CredentialsRefused",
        "the provider does not accept the credentials any more",
        _INVITE,
        provider="invite the consumer again, and have it bind with that: fairlead provider invite,"
        " then fairlead bind -f there",
    ),
    Reason(
        "NotCopied", "the copy does not exist yet", "see fairlead bindings --objects", "waiting"
    ),
    Reason(
        "NotInSync",
        "a change is not synchronized yet",
        "see fairlead bindings --objects",
        "waiting",
    ),
    Reason(
        "NotReady",
        "the provider's object is not Ready",
        "ask the provider's team what it waits for",
    ),
    Reason(
        "SyncFailed",
        "an Event: a server refuses the object",
        "correct what the server's answer names; fairlead explain says which server answered",
    ),
    Reason(
        "ClaimFailed",
        "an Event: a server refuses a claimed object",
        "correct what the server's answer names, or have its policy, quota or RBAC changed",
    ),
    Reason(
        "DeletionPending",
        "an Event: the copy has finalizers of the provider",
        "ask the provider's team what it waits for",
        "waiting",
    ),
    Reason(
        "WriteChanged",
        "an Event: a webhook of the provider stores other values in the copy",
        "set the same values, or ask the provider's team about the webhook",
    ),
    Reason(
        "CopyDeleted",
        "an Event: another program deletes the copy again and again",
        "configure the program that the message names to leave the copy alone; else find the user"
        " that deletes it in the audit log",
    ),
    Reason("BindingCreated", "an Event: a bundle binds another APIServiceExport", state="ok"),
    Reason("BindingDeleted", "an Event: the provider has removed an APIServiceExport", state="ok"),
    Reason(
        "ConversionAccepted",
        "an Event: a conversion webhook that was in use before the upgrade counts as accepted",
        "decide whether you trust its host; the message has the command that removes it",
    ),
    Reason(
        "CopiesLeft",
        "an Event: the konnector gave up a binding because its objects would lose fields; the"
        " copies stay",
        _PROVIDER,
    ),
    Reason(
        "DeletionRefused",
        "an Event: the konnector gave up a binding because admission control in this cluster"
        " refuses to delete its CRDs",
        "change that policy or webhook so that it admits the konnector, then delete what is left",
    ),
    Reason(
        "SelectableFieldsLeftOut",
        "an Event: the API server is too old for a kind's selectable fields",
        "upgrade this cluster to Kubernetes 1.31 to name them in field selectors",
        "ok",
    ),
    Reason(
        "ProviderGone",
        "an Event: the konnector gave up a binding, and its copies stay at the provider",
        _PROVIDER,
    ),
    Reason(
        "RightsMissing",
        "an Event: the konnector gave up a binding because it lacks rights",
        "delete by hand what is left of the binding: its CRDs, and its copies at the provider",
    ),
)

KUBE_BIND: Final = Reasons(
    "kube-bind", (*_CONFLICTS, *_BINDINGS, *_CONNECTIONS, *_EXPORTS, *_OBJECTS)
)
