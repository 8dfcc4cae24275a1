"""The CRDs of ``core.kbind.io/v1alpha1``, made from the types."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api.crd import AGE, PrinterColumn, Version, build_crd
from fairlead.api.kbind import names
from fairlead.api.kbind.types import (
    KbindBinding,
    KbindClusterBinding,
    KbindConnection,
    KbindKind,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource


_READY = PrinterColumn("Ready", '.status.conditions[?(@.type=="Ready")].status')
_BINDING_COLUMNS = (PrinterColumn("Connection", ".spec.connectionRef.name"), _READY, AGE)


def crds() -> list[JSON]:
    """Return the CRDs, all of them for the consumer's cluster."""
    return [
        _crd(
            names.CONNECTIONS,
            KbindConnection,
            (_READY, PrinterColumn("Secret", ".spec.kubeconfigSecretRef.name"), AGE),
        ),
        _crd(names.CLUSTERBINDINGS, KbindClusterBinding, _BINDING_COLUMNS),
        _crd(names.BINDINGS, KbindBinding, _BINDING_COLUMNS),
    ]


def _crd(resource: Resource, type_: type[KbindKind], columns: Sequence[PrinterColumn]) -> JSON:
    version = Version(names.VERSION, type_, columns=columns)
    return build_crd(resource, [version], categories=[names.CATEGORY])
