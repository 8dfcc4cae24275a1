"""Every kind of kube-bind as its CRD has to be, line by line as the protocol describes it.

A line is a field: its path, its type, then what is demanded of it. ``@name`` stands for the lines
of a shared part below that field. Shared parts are beneath the kinds.
"""

# ruff: noqa: E501  a line is a line of the document

from __future__ import annotations

from collections.abc import Iterator


KINDS = r"""
APIServiceExport apiserviceexport apiserviceexports APIServiceExportList
Namespaced short=- categories=kube-bindings
v1alpha2 served storage subresources=status
| Established string .status.conditions[?(@.type=="Established")].status priority=5
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.resources array required minItems=1 rule(self == oldSelf: resources is immutable) @exportresources
.spec.permissionClaims array rule(self == oldSelf: permissionClaims is immutable) @claims
.spec.informerScope string required Cluster|Namespaced rule(self == oldSelf: informerScope is immutable)
.spec.isolation string required Namespaced|None|Prefixed rule(self == oldSelf: isolation is immutable)
.spec.clusterScopedIsolation string Namespaced|None|Prefixed rule(self == oldSelf: clusterScopedIsolation is immutable)
.status object
.status.conditions array @conditions

APIServiceExportRequest apiserviceexportrequest apiserviceexportrequests APIServiceExportRequestList
Namespaced short=- categories=kube-bindings
v1alpha2 served storage subresources=status
| Ready string .status.conditions[?(@.type=="Ready")].status
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.parameters object open rule(self == oldSelf: parameters is immutable)
.spec.resources array required minItems=1 rule(self == oldSelf: resources is immutable) @exportresources
.spec.permissionClaims array rule(self == oldSelf: permissionClaims is immutable) @claims
.spec.namespaces array rule(self == oldSelf: namespaces is immutable)
.spec.namespaces[] object
.spec.namespaces[].name string required
.spec.schemaUpdatePolicy string Always|Never default='Never' rule(self == oldSelf: schemaUpdatePolicy is immutable)
.status object default={}
.status.conditions array @conditions
.status.phase string Failed|Pending|Succeeded default='Pending'
.status.terminalMessage string

APIServiceNamespace apiservicenamespace apiservicenamespaces APIServiceNamespaceList
Namespaced short=- categories=kube-bindings
v1alpha2 served storage subresources=status
| Namespace string .status.namespace
| Age date .metadata.creationTimestamp
. object
.spec object
.status object
.status.conditions array @conditions
.status.namespace string

BoundSchema boundschema boundschemas BoundSchemaList
Namespaced short=bs categories=kube-bindings
v1alpha2 served storage subresources=status
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.informerScope string required Cluster|Namespaced
.spec.group string required
.spec.names object required @names
.spec.scope string required Cluster|Namespaced
.spec.versions array required minItems=1 list=map keys=name
.spec.versions[] object
.spec.versions[].name string required pattern=^[a-z]([-a-z0-9]*[a-z0-9])?$ maxLength=63
.spec.versions[].served boolean required default=True
.spec.versions[].storage boolean required
.spec.versions[].deprecated boolean
.spec.versions[].deprecationWarning string
.spec.versions[].schema object required open
.spec.versions[].subresources object
.spec.versions[].subresources.status object open
.spec.versions[].subresources.scale object
.spec.versions[].subresources.scale.specReplicasPath string required
.spec.versions[].subresources.scale.statusReplicasPath string required
.spec.versions[].subresources.scale.labelSelectorPath string
.spec.versions[].additionalPrinterColumns array list=atomic
.spec.versions[].additionalPrinterColumns[] object
.spec.versions[].additionalPrinterColumns[].name string required
.spec.versions[].additionalPrinterColumns[].type string required
.spec.versions[].additionalPrinterColumns[].jsonPath string required
.spec.versions[].additionalPrinterColumns[].description string
.spec.versions[].additionalPrinterColumns[].format string
.spec.versions[].additionalPrinterColumns[].priority integer
.spec.versions[].selectableFields array list=atomic
.spec.versions[].selectableFields[] object
.spec.versions[].selectableFields[].jsonPath string required
.spec.conversion object rule((self.strategy == 'None' && !has(self.webhook)) || (self.strategy == 'Webhook' && has(self.webhook)): Webhook must be specified if strategy=Webhook)
.spec.conversion.strategy string required None|Webhook
.spec.conversion.webhook object
.spec.conversion.webhook.clientConfig object
.spec.conversion.webhook.clientConfig.url string
.spec.conversion.webhook.clientConfig.caBundle string format=byte
.spec.conversion.webhook.conversionReviewVersions array
.spec.conversion.webhook.conversionReviewVersions[] string
.status object
.status.acceptedNames object @names
.status.storedVersions array
.status.storedVersions[] string
.status.conditions array @conditions
.status.instantiations array
.status.instantiations[] object open

ClusterBinding clusterbinding clusterbindings ClusterBindingList
Namespaced short=- categories=kube-bindings
v1alpha2 served storage subresources=status
| Konnector Version string .status.konnectorVersion
| Last Heartbeat date .status.lastHeartbeatTime
| Ready string .status.conditions[?(@.type=="Ready")].status
| Age date .metadata.creationTimestamp
. object rule(self.metadata.name == "cluster": cluster binding name should be cluster)
.spec object required
.spec.kubeconfigSecretRef object required rule(self == oldSelf: kubeconfigSecretRef is immutable)
.spec.kubeconfigSecretRef.name string required minLength=1
.spec.kubeconfigSecretRef.key string required
.spec.providerPrettyName string required minLength=1
.spec.serviceProviderSpec object open
.status object
.status.conditions array @conditions
.status.lastHeartbeatTime string format=date-time
.status.heartbeatInterval string
.status.konnectorVersion string
.status.consumerSecretRef object
.status.consumerSecretRef.name string required
.status.consumerSecretRef.namespace string required

BindableResourcesRequest bindableresourcesrequest bindableresourcesrequests BindableResourcesRequestList
Namespaced short=- categories=kube-bindings
v1alpha2 served storage subresources=status
| Template string .spec.templateRef.name
| Phase string .status.phase
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.templateRef object required
.spec.templateRef.name string required
.spec.clusterIdentity object required
.spec.clusterIdentity.identity string required
.spec.clusterIdentity.prettyName string
.spec.author string required
.spec.kubeconfigSecretRef object
.spec.kubeconfigSecretRef.name string required minLength=1
.spec.kubeconfigSecretRef.key string required
.spec.ttlAfterFinished string
.status object default={}
.status.phase string Failed|Pending|Succeeded default='Pending'
.status.namespace string
.status.kubeconfigSecretRef object
.status.kubeconfigSecretRef.name string required minLength=1
.status.kubeconfigSecretRef.key string required
.status.completionTime string format=date-time
.status.conditions array
.status.conditions[] object
.status.conditions[].type string required
.status.conditions[].status string required False|True|Unknown
.status.conditions[].reason string
.status.conditions[].message string
.status.conditions[].lastTransitionTime string
.status.conditions[].observedGeneration integer

APIServiceExportTemplate apiserviceexporttemplate apiserviceexporttemplates APIServiceExportTemplateList
Cluster short=- categories=kube-bind
v1alpha2 served storage subresources=status
| Resources string .spec.resources[*].group
| PermissionClaims string .spec.permissionClaims[*].resource
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.description string
.spec.scope string required
.spec.resources array required minItems=1 @exportresources
.spec.permissionClaims array @claims
.spec.namespaces array
.spec.namespaces[] object
.spec.namespaces[].name string required
.spec.schemaUpdatePolicy string Always|Never default='Never'
.status object
.status.conditions array @conditions

Collection collection collections CollectionList
Cluster short=- categories=kube-bind
v1alpha2 served storage subresources=status
| Description string .spec.description
| Templates string .spec.templates[*].name
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.description string
.spec.templates array required minItems=1
.spec.templates[] object
.spec.templates[].name string required
.status object
.status.conditions array @conditions

Cluster cluster clusters ClusterList
Cluster short=- categories=kube-bind
v1alpha2 served storage subresources=status
| Ready string .status.conditions[?(@.type=="Ready")].status
. object
.spec object
.status object
.status.conditions array @conditions

APIServiceBinding apiservicebinding apiservicebindings APIServiceBindingList
Cluster short=sb categories=kube-bindings
v1alpha2 served storage subresources=status
| Provider string .status.providerPrettyName
| Resources string .metadata.annotations.kube-bind\.io/resources priority=1
| Ready string .status.conditions[?(@.type=="Ready")].status
| Message string .status.conditions[?(@.type=="Ready")].message
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.kubeconfigSecretRef object required rule(self == oldSelf: kubeconfigSecretRef is immutable)
.spec.kubeconfigSecretRef.name string required minLength=1
.spec.kubeconfigSecretRef.namespace string required minLength=1
.spec.kubeconfigSecretRef.key string required
.status object
.status.conditions array @conditions
.status.providerPrettyName string
.status.boundSchemas array minItems=1 @groupresources
.status.permissionClaims array @claims
.status.conversionWebhooks array @groupresources
.status.conversionWebhooks[].url string required

APIServiceBindingBundle apiservicebindingbundle apiservicebindingbundles APIServiceBindingBundleList
Cluster short=sbb categories=kube-bindings
v1alpha2 served storage subresources=status
| Provider string .status.providerPrettyName
| Resources string .metadata.annotations.kube-bind\.io/resources priority=1
| Ready string .status.conditions[?(@.type=="Ready")].status
| Message string .status.conditions[?(@.type=="Ready")].message
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.kubeconfigSecretRef object required rule(self == oldSelf: kubeconfigSecretRef is immutable)
.spec.kubeconfigSecretRef.name string required minLength=1
.spec.kubeconfigSecretRef.namespace string required minLength=1
.spec.kubeconfigSecretRef.key string required
.status object
.status.conditions array @conditions
"""

_GROUP = r"string default='' pattern=^(|[a-z0-9]([-a-z0-9]*[a-z0-9](\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?)$"
_RESOURCE = r"string required pattern=^[a-z][-a-z0-9]*[a-z0-9]$"

_SHARED = {
    "groupresources": f"""
[] object
[].group {_GROUP}
[].resource {_RESOURCE}
""",
    "exportresources": f"""
[] object
[].group {_GROUP}
[].resource {_RESOURCE}
[].versions array
[].versions[] string
""",
    "conditions": """
[] object
[].type string required
[].status string required False|True|Unknown
[].lastTransitionTime string format=date-time
[].severity string ''|Error|Info|Warning
[].reason string
[].message string
""",
    "names": """
.kind string required
.plural string required
.singular string
.listKind string
.shortNames array
.shortNames[] string
.categories array
.categories[] string
""",
    "claims": f"""
[] object
[].group {_GROUP}
[].resource {_RESOURCE}
[].selector object required
[].selector.labelSelector object map=atomic
[].selector.labelSelector.matchLabels object
[].selector.labelSelector.matchLabels.* string
[].selector.labelSelector.matchExpressions array list=atomic
[].selector.labelSelector.matchExpressions[] object
[].selector.labelSelector.matchExpressions[].key string required
[].selector.labelSelector.matchExpressions[].operator string required
[].selector.labelSelector.matchExpressions[].values array list=atomic
[].selector.labelSelector.matchExpressions[].values[] string
[].selector.namedResources array
[].selector.namedResources[] object
[].selector.namedResources[].name string required
[].selector.namedResources[].namespace string
[].selector.references array
[].selector.references[] object
[].selector.references[].group {_GROUP}
[].selector.references[].resource {_RESOURCE}
[].selector.references[].versions array
[].selector.references[].versions[] string
[].selector.references[].jsonPath object required
[].selector.references[].jsonPath.name string
[].selector.references[].jsonPath.namespace string
""",
}


def expected() -> dict[str, list[str]]:
    """The lines of each kind, shared parts included."""
    kinds = [list(_expanded(text)) for text in KINDS.strip().split("\n\n")]
    return {lines[0].split()[0]: lines for lines in kinds}


def _expanded(text: str) -> Iterator[str]:
    for line in text.splitlines():
        head, marked, shared = line.partition(" @")
        yield head
        if marked:
            path = head.split()[0]
            yield from (path + part for part in _SHARED[shared].strip().splitlines())
