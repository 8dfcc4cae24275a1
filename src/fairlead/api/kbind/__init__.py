"""The objects of kbind v2, ``core.kbind.io/v1alpha1``: names, kinds and CRDs.

:mod:`.names` has resources, metadata keys, types and reasons of conditions, :mod:`.types` the
kinds, and :mod:`.crds` their CRDs. Nothing of it is installed in a provider's cluster.

Source: https://github.com/kbind-dev/kbind, release v2.0.0-rc4, as its konnector behaves.
"""

from __future__ import annotations

from fairlead.api.kbind.crds import crds
from fairlead.api.kbind.names import (
    API_VERSION,
    BINDINGS,
    CLUSTERBINDINGS,
    CONNECTIONS,
    GROUP,
    LOGICALCLUSTERS,
    VERSION,
    lease_name,
    schema_hash,
)
from fairlead.api.kbind.types import (
    Binding,
    BindingSpec,
    BindingStatus,
    BoundAPI,
    BoundAPIName,
    ClusterBinding,
    Connection,
    ConnectionRef,
    ConnectionSpec,
    ConnectionStatus,
    ExportedAPI,
    RelatedResource,
    RelatedSelector,
    ReportedCondition,
    SchemaPolicy,
    SecretKeyRef,
)


__all__ = [
    "API_VERSION",
    "BINDINGS",
    "CLUSTERBINDINGS",
    "CONNECTIONS",
    "GROUP",
    "LOGICALCLUSTERS",
    "VERSION",
    "Binding",
    "BindingSpec",
    "BindingStatus",
    "BoundAPI",
    "BoundAPIName",
    "ClusterBinding",
    "Connection",
    "ConnectionRef",
    "ConnectionSpec",
    "ConnectionStatus",
    "ExportedAPI",
    "RelatedResource",
    "RelatedSelector",
    "ReportedCondition",
    "SchemaPolicy",
    "SecretKeyRef",
    "crds",
    "lease_name",
    "schema_hash",
]
