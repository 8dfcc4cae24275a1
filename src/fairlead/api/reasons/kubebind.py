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
_AGAIN = "wait: it is tried again by itself"
_INVITE = "ask the provider's team for a new invitation, and bind with it: fairlead bind -f"
_KUBECONFIG = "restore the Secret, or bind again with the invitation: fairlead bind -f"
_REQUEST = "correct the request, or ask for a new invitation"

_CONFLICTS: Final = (
    Reason(
        "ForeignObjectExists",
        "an object that is no copy of this one has the copy's place",
        "rename one of them; the provider can hand over an object of its own by an annotation",
    ),
    Reason(
        "OwnerUnknown",
        "a claimed object exists on both sides, and neither is the other's copy",
        "delete or rename one of them",
    ),
    Reason(
        "NamespaceRefused",
        "the provider gives no namespace for objects of this one",
        "use another namespace, or ask the provider's team to mend what the message names",
        provider="mend what keeps the consumer's APIServiceNamespace from being ready",
    ),
    Reason("NameTooLong", "the copy's name would have over 253 characters", "use a shorter name"),
    Reason(
        "ReservedNamespace",
        "the namespace is the cluster's own",
        "name the object with its namespace in the claim, or use another namespace",
    ),
    Reason(
        "ClusterToken",
        "the Secret is a token of its cluster, which is never copied",
        "claim another Secret",
    ),
    Reason(
        "CopyHeld",
        "the copy was made for another cluster, and is not deleted",
        "restore the objects, or say what becomes of the copies: fairlead bind -f with"
        " --keep-copies or --discard-copies",
    ),
)

_BINDINGS: Final = (
    Reason("Pending", "no konnector has picked the binding up", KONNECTOR, "waiting"),
    Reason(
        "Unbinding",
        "the binding is being taken away",
        "wait until its objects are gone",
        "waiting",
    ),
    Reason(
        "KonnectorStopped",
        "the konnector of this cluster has stopped, as its Lease or Deployment shows",
        KONNECTOR,
    ),
    Reason("APIServiceExportFailed", "the provider refuses what was requested", _REQUEST),
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
    Reason("BoundSchemaFetchFailed", "a BoundSchema is not there, or is another's", _PROVIDER),
    Reason(
        "CustomResourceDefinitionCreateFailed",
        "the CRD cannot be created here",
        "have the konnector get the right that the message names",
    ),
    Reason(
        "CustomResourceDefinitionUpdateFailed",
        "the CRD cannot be updated here",
        "have the server take the change that the message is about",
    ),
    Reason(
        "CustomResourceDefinitionNotEstablished",
        "the CRD is not established yet",
        "wait, or see the conditions of the CRD",
        "waiting",
    ),
    Reason(
        "ForeignCustomResourceDefinition",
        "the CRD is there, and not of this binding",
        "delete the CRD, or the binding that owns it, where its objects are not needed",
    ),
    Reason(
        "WebhookNotAccepted",
        "the provider brings a conversion webhook that was not accepted",
        "decide, and run the command that the message names",
    ),
    Reason(
        "WebhookFailing",
        "a conversion webhook of the provider does not answer as it should",
        "ask the provider, or remove it by the command that the message names",
    ),
    Reason("NoVersionServed", "the provider serves no version of the kind", _PROVIDER),
    Reason(
        "FieldsLost",
        "no version of the kind, or not the provider's new schema, has all fields of its objects",
        "have the provider serve one that has the fields which the message names",
    ),
    Reason(
        "StoredVersions",
        "the provider lacks a version in which objects may be stored here",
        "write every object once, then take the version out of status.storedVersions of the CRD",
    ),
    Reason(
        "NamesNotAccepted",
        "another CRD here has a name of the kind",
        "take the name off that CRD, or delete it where its objects are not needed",
    ),
    Reason(
        "NoStatusSubresource",
        "the kind has no status subresource, so that no status comes back",
        "see the status in the provider's cluster, or ask for a CRD that has the subresource",
        "ok",
    ),
    Reason("KubeconfigSecretNotFound", "the Secret with the kubeconfig is not there", _KUBECONFIG),
    Reason("KubeconfigSecretInvalid", "the kubeconfig cannot be used", _KUBECONFIG),
    Reason("ClaimRefused", "a claimed kind is not served, or may not be read", _PROVIDER),
    Reason(
        "InformerSyncTimeout",
        "the provider does not answer, or not for all kinds",
        "have the provider's API server answer at the address of the kubeconfig; it goes on by"
        " itself then",
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
        "no object of a kind can be written",
        "grant the right, or fix the webhook or schema, that the message names",
    ),
    Reason("SeveralKonnectors", "several konnectors use one ClusterBinding", "stop all but one"),
    Reason("VersionsAlternate", "konnectors of two versions take turns", "stop all but one"),
    Reason(
        "WriteUndone",
        "others undo what the konnector writes",
        "have the program that the message or metadata.managedFields names leave it alone, or stop"
        " it",
    ),
    Reason(
        "ClusterIdentityChanged",
        "the copies were made for another cluster",
        "restore the objects, then fairlead bind -f with --keep-copies or --discard-copies",
    ),
    Reason(
        "SyncErrors",
        "some APIServiceBindings of a bundle cannot be made",
        "rename or delete the APIServiceBinding that is in the way, or grant the konnector the"
        " right to make it",
    ),
    Reason("ProviderClientError", "a bundle's kubeconfig cannot be used", _KUBECONFIG),
    Reason("ListExportsFailed", "the provider's exports cannot be listed", _PROVIDER),
    Reason(
        "ListBindingsFailed",
        "the APIServiceBindings of this cluster cannot be listed",
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
        "the konnector is silent",
        "have the consumer's team see whether the konnector runs, and reaches this cluster",
        consumer=KONNECTOR,
    ),
    Reason(
        "HeartbeatTimeDrift",
        "the konnector's heartbeat lies in the future",
        "set the clocks of both clusters",
    ),
    Reason(
        "ClusterBindingUpdateFailed",
        "the konnector cannot report to the provider",
        "have the provider's API server answer at the address of the kubeconfig; it goes on by"
        " itself then",
    ),
    Reason(
        "ProviderSecretNotFound",
        "the provider's Secret for this consumer is gone",
        _PROVIDER,
        provider=_INVITE_AGAIN,
    ),
    Reason(
        "ProviderSecretInvalid",
        "the provider's kubeconfig is not taken over",
        _PROVIDER,
        provider=_INVITE_AGAIN,
    ),
    Reason(
        "ParseError",
        "the konnector's version is no semantic version",
        "build it from a release",
    ),
)

_EXPORTS: Final = (
    Reason(
        "NotInvited",
        "the consumer has no invitation, or none for what it requests",
        "have it invited by fairlead provider invite, and bind with that: fairlead bind -f",
    ),
    Reason(
        "NotExportable", "the kind is one of Kubernetes or of kube-bind", "request another kind"
    ),
    Reason(
        "SchemaNotFound",
        "the kind is not served, or serves no version",
        "install its CRD",
        consumer="ask the provider's team to install the kind's CRD again",
    ),
    Reason(
        "UnsupportedConversion",
        "the CRD converts by a webhook of its own cluster",
        "give the webhook a URL, or convert by the strategy None",
        consumer="ask the provider's team for a webhook with a URL, or for another kind",
    ),
    Reason("DifferentScopes", "the kinds of a request differ in their scope", "make two requests"),
    Reason(
        "UnsupportedIsolation",
        "the isolation does not fit the scope",
        "run the provider with another isolation",
        consumer="ask the provider's team for another isolation",
    ),
    Reason(
        "ImmutableFieldChanged",
        "the request was changed after it was answered",
        "restore the field, or make a new request",
    ),
    Reason(
        "BoundSchemaRefused",
        "the provider's BoundSchema CRD is too old for the kind",
        "have the provider upgraded, its CRDs first",
    ),
    Reason(
        "ExportFailed",
        "the provider's API server refuses",
        "ask the provider's team to have its API server take what the message quotes",
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
        "restore it, or have the export recreated",
        consumer="ask the provider's team to restore it",
    ),
    Reason(
        "BoundSchemaConflict",
        "another's BoundSchema has the name",
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
        "the consumer's binding has not reported this yet",
        KONNECTOR,
        "waiting",
        provider=_THEIR_KONNECTOR,
    ),
    Reason("Current", "the message names the credentials or konnectors in use", state="ok"),
    Reason("Recorded", "the message is the cluster that the copies are made for", state="ok"),
    Reason(
        "BoundSchemasNotValid",
        "a BoundSchema of the export is not valid",
        _PROVIDER,
        provider="correct the CRD that the message names, or take its export away",
    ),
    Reason(
        "Revoked",
        "the consumer's access is being removed",
        "invite the consumer again",
        consumer="ask the provider's team for another invitation",
    ),
    Reason(
        "Forbidden",
        "the provider may not grant the rights, or a server refuses objects",
        "grant it what the message names",
        consumer="have the team of the cluster that refuses, which the message names, grant the"
        " right, make room in the quota, or change the policy",
    ),
    Reason(
        "Invalid",
        "the rights, or the object, are not valid",
        "correct what the message names",
        consumer="correct the fields of the objects that the message names, or ask the team of the"
        " cluster that refuses them",
    ),
    Reason(
        "NamespaceLimitReached",
        "the consumer has as many provider namespaces as one may have",
        "delete namespaces on the consumer, or raise --namespaces-per-consumer of the provider",
    ),
    Reason(
        "NamespacePending",
        "the provider namespace is not there yet",
        _AGAIN,
        "waiting",
        consumer="wait; if it lasts, ask the provider's team whether its controllers run",
        provider="wait; if it lasts, see whether fairlead provider run works",
    ),
    Reason(
        "NamespaceTerminating",
        "the provider namespace is going",
        _AGAIN,
        "waiting",
        consumer="wait; if it lasts, ask the provider's team which finalizers of objects hold the"
        " namespace that the message names",
        provider="wait; if it lasts, see in the namespace's conditions which finalizers hold it:"
        " kubectl describe namespace",
    ),
    Reason("PermissionsPending", "the rights are not written yet", _AGAIN, "waiting"),
    Reason(
        "ForeignNamespace",
        "a namespace of this name belongs to another owner",
        "rename or delete the namespace",
    ),
    Reason(
        "InvalidNamespaceName",
        "the provider namespace's name would be too long",
        "use a shorter namespace",
    ),
    Reason(
        "ObjectsRemain",
        "copies of a deleted namespace or consumer still exist",
        "wait until they are gone, or take away what holds them",
        "waiting",
    ),
    Reason(
        "ObjectsUnknown",
        "the provider cannot list what is left of a namespace or consumer",
        "let the provider list the kinds that the message names",
    ),
    Reason("TemplateNotFound", "the template is not there", "name another template"),
    Reason(
        "HandleResourcesFailed",
        "the consumer cannot be set up",
        "grant the provider's controllers the right, or change the policy, that the message names",
    ),
    Reason(
        "IdentityTaken",
        "another person, or group, has the identity",
        "use another identity, or have the consumer handed over: fairlead provider hand-over",
    ),
    Reason(
        "TooManyConsumers",
        "the author has as many consumers as one may have",
        "have one that is not used revoked: fairlead provider revoke",
    ),
    Reason(
        "SecretCreationFailed",
        "the answer cannot be written",
        "let the provider's controllers write Secrets in the namespace of the request",
    ),
    Reason("SecretReady", "the invitation is in the Secret that the request names", state="ok"),
)

_OBJECTS: Final = (
    Reason(
        "NotReached",
        "this machine could not reach the provider",
        "have this machine reach the provider's API server, and look again",
    ),
    Reason(
        "CertificateRefused",
        "the provider's API server has a certificate that the kubeconfig does not trust",
        "ask the provider's team whether its API server has a new certificate, or is another one;"
        " if so, bind again with a new invitation: fairlead bind -f",
    ),
    Reason(
        "CredentialsRefused",
        "the provider does not accept the credentials any more",
        _INVITE,
        provider="invite the consumer again, and have it bind with that: fairlead provider invite,"
        " then fairlead bind -f there",
    ),
    Reason("NotCopied", "the copy is not there yet", "see fairlead bindings --objects", "waiting"),
    Reason(
        "NotInSync", "a change has not crossed yet", "see fairlead bindings --objects", "waiting"
    ),
    Reason(
        "NotReady",
        "the provider's object is not Ready",
        "ask the provider's team what it waits for",
    ),
    Reason(
        "SyncFailed",
        "an Event: a server refuses the object",
        "correct what the server's answer names; fairlead explain says whose answer it is",
    ),
    Reason(
        "ClaimFailed",
        "an Event: a server refuses a claimed object",
        "correct what the server's answer names, or have its policy, quota or rights changed",
    ),
    Reason(
        "DeletionPending",
        "an Event: the copy has finalizers of the provider's own",
        "ask the provider's team what it waits for",
        "waiting",
    ),
    Reason(
        "WriteChanged",
        "an Event: a webhook of the provider stores other values in the copy",
        "set what it sets, or ask the provider's team about it",
    ),
    Reason(
        "CopyDeleted",
        "an Event: another program deletes the copy again and again",
        "have the program whose mark the message names leave the copy alone; else ask the audit "
        "log who deletes it",
    ),
    Reason("BindingCreated", "an Event: a bundle binds another APIServiceExport", state="ok"),
    Reason(
        "BindingDeleted", "an Event: the provider has taken an APIServiceExport away", state="ok"
    ),
    Reason(
        "ConversionAccepted",
        "an Event: a conversion webhook from before the upgrade counts as accepted",
        "see whether the host may be trusted; the message has the command that removes it",
    ),
    Reason(
        "CopiesLeft",
        "an Event: a binding was given up since its objects would lose fields; copies stay",
        _PROVIDER,
    ),
    Reason(
        "DeletionRefused",
        "an Event: a binding was given up since admission here refuses to delete its CRDs",
        "have that policy or webhook let the konnector through, then delete what is left",
    ),
    Reason(
        "SelectableFieldsLeftOut",
        "an Event: the API server is too old for a kind's selectable fields",
        "upgrade this cluster to Kubernetes 1.30 to name them in field selectors",
        "ok",
    ),
    Reason("ProviderGone", "an Event: a binding was given up, and copies stay", _PROVIDER),
    Reason(
        "RightsMissing",
        "an Event: a binding was given up for want of rights",
        "delete by hand what is left of the binding: its CRDs, and its copies at the provider",
    ),
)

KUBE_BIND: Final = Reasons(
    "kube-bind", (*_CONFLICTS, *_BINDINGS, *_CONNECTIONS, *_EXPORTS, *_OBJECTS)
)
