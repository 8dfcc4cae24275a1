"""Every kind of kbind v2 as its CRD has to be, line by line as the protocol describes it.

Lines are as in ``kubebind_kinds``.
"""

# ruff: noqa: E501  a line is a line of the document

from __future__ import annotations


_CONDITIONS = r"""
.status.conditions array list=map keys=type
.status.conditions[] object
.status.conditions[].type string required maxLength=316
.status.conditions[].status string required False|True|Unknown
.status.conditions[].reason string required pattern=^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$ minLength=1 maxLength=1024
.status.conditions[].message string required maxLength=32768
.status.conditions[].lastTransitionTime string required format=date-time
.status.conditions[].observedGeneration integer format=int64 minimum=0
"""

_CONNECTION = r"""
Connection connection connections ConnectionList
Cluster short=- categories=kbind
v1alpha1 served storage subresources=status
| Ready string .status.conditions[?(@.type=="Ready")].status
| Secret string .spec.kubeconfigSecretRef.name
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.kubeconfigSecretRef object required rule(self == oldSelf: kubeconfigSecretRef is immutable)
.spec.kubeconfigSecretRef.namespace string required minLength=1
.spec.kubeconfigSecretRef.name string required minLength=1
.spec.kubeconfigSecretRef.key string default='kubeconfig'
.spec.schema object default={}
.spec.schema.source string Auto|CRD|OpenAPI default='Auto'
.spec.schema.pullPolicy string All|Bound|None default='Bound'
.spec.schema.updatePolicy string Always|Once default='Always'
.spec.autoBind boolean default=False
.status object
"""

_CONNECTION_STATUS = r"""
.status.remoteClusterUID string rule(oldSelf == '' || self == oldSelf: remoteClusterUID is immutable once set)
.status.localClusterUID string rule(oldSelf == '' || self == oldSelf: localClusterUID is immutable once set)
.status.activeSchemaSource string CRD|OpenAPI
.status.exportedAPIs array list=atomic
.status.exportedAPIs[] object
.status.exportedAPIs[].name string required
.status.exportedAPIs[].group string required
.status.exportedAPIs[].resource string required
.status.exportedAPIs[].scope string required Cluster|Namespaced
.status.exportedAPIs[].versions array required list=set
.status.exportedAPIs[].versions[] string
"""

_BINDING = r"""
v1alpha1 served storage subresources=status
| Connection string .spec.connectionRef.name
| Ready string .status.conditions[?(@.type=="Ready")].status
| Age date .metadata.creationTimestamp
. object
.spec object required
.spec.connectionRef object required
.spec.connectionRef.name string required minLength=1
.spec.apis array required minItems=1
.spec.apis[] object
.spec.apis[].name string required minLength=1
.spec.conflictPolicy string Adopt|Fail default='Fail'
.spec.relatedResources array list=atomic
.spec.relatedResources[] object
.spec.relatedResources[].group string default=''
.spec.relatedResources[].resource string required configmaps|secrets
.spec.relatedResources[].direction string required FromConsumer|FromProvider
.spec.relatedResources[].selector object
.spec.relatedResources[].selector.labelSelector object map=atomic
.spec.relatedResources[].selector.labelSelector.matchLabels object
.spec.relatedResources[].selector.labelSelector.matchLabels.* string
.spec.relatedResources[].selector.labelSelector.matchExpressions array list=atomic
.spec.relatedResources[].selector.labelSelector.matchExpressions[] object
.spec.relatedResources[].selector.labelSelector.matchExpressions[].key string required
.spec.relatedResources[].selector.labelSelector.matchExpressions[].operator string required
.spec.relatedResources[].selector.labelSelector.matchExpressions[].values array list=atomic
.spec.relatedResources[].selector.labelSelector.matchExpressions[].values[] string
.spec.relatedResources[].selector.names array list=set
.spec.relatedResources[].selector.names[] string
.status object
"""

_BINDING_STATUS = r"""
.status.boundAPIs array list=atomic
.status.boundAPIs[] object
.status.boundAPIs[].name string required
.status.boundAPIs[].crdHash string
.status.boundAPIs[].conflictCount integer format=int32
"""


def expected() -> dict[str, list[str]]:
    """The lines of each kind."""
    binding = _BINDING + _CONDITIONS + _BINDING_STATUS
    documents = (
        _CONNECTION + _CONDITIONS + _CONNECTION_STATUS,
        f"""
ClusterBinding clusterbinding clusterbindings ClusterBindingList
Cluster short=- categories=kbind{binding}""",
        f"""
Binding binding bindings BindingList
Namespaced short=- categories=kbind{binding}""",
    )
    kinds = [[line for line in text.splitlines() if line] for text in documents]
    return {lines[0].split()[0]: lines for lines in kinds}
