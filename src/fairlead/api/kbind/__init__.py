"""The objects of kbind v2, ``core.kbind.io/v1alpha1``: names, kinds and CRDs.

:mod:`.names` has resources, metadata keys, types and reasons of conditions, :mod:`.types` the
kinds, :mod:`.crds` their CRDs, :mod:`.files` the objects that bind, and :mod:`.rights` the roles
that belong to them. Nothing of it is installed in a provider's cluster.

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
    BoundAPI,
    BoundAPIName,
    ConnectionRef,
    ConnectionStatus,
    ExportedAPI,
    KubeconfigSecretRef,
    RelatedResource,
    RelatedSelector,
    ReportedCondition,
    SchemaPolicy,
)
from fairlead.api.kbind.types import KbindBinding as Binding
from fairlead.api.kbind.types import KbindBindingSpec as BindingSpec
from fairlead.api.kbind.types import KbindBindingStatus as BindingStatus
from fairlead.api.kbind.types import KbindClusterBinding as ClusterBinding
from fairlead.api.kbind.types import KbindConnection as Connection
from fairlead.api.kbind.types import KbindConnectionSpec as ConnectionSpec


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
    "KubeconfigSecretRef",
    "RelatedResource",
    "RelatedSelector",
    "ReportedCondition",
    "SchemaPolicy",
    "crds",
    "lease_name",
    "schema_hash",
]
