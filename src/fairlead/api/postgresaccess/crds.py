"""The CRDs of ``access.k8s.delta10.nl/v1``, made from its types."""

from __future__ import annotations

from fairlead.api.crd import AGE, PrinterColumn, Version, build_crd
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess.access import (
    POSTGRESACCESSES,
    PROVISIONED_SERVICE_LABEL,
    PostgresAccess,
)
from fairlead.api.postgresaccess.controller import (
    CONTROLLER_COLUMNS,
    CONTROLLERS,
    OperatorController,
)
from fairlead.api.postgresaccess.server import POSTGRESSERVERS, SERVER_COLUMNS, PostgresServer


EXPORTED_LABEL = "kube-bind.io/exported"

ACCESS_COLUMNS = (
    PrinterColumn("Status", ".status.lastReconcileState"),
    PrinterColumn("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
    PrinterColumn("User", ".spec.username"),
    PrinterColumn("Server", ".status.server.host"),
    AGE,
    PrinterColumn("LastLog", ".status.lastLog", priority=1),
)


def crds(*, exported: bool = False) -> list[JSON]:
    """Return the CRDs of this group.

    Args:
        exported: label PostgresAccess for export by kube-bind.
    """
    # The Service Binding specification has this label on CRDs whose objects name a Secret in
    # status.binding.
    labels = {PROVISIONED_SERVICE_LABEL: "true"}
    if exported:
        labels[EXPORTED_LABEL] = "true"
    return [
        build_crd(
            POSTGRESACCESSES,
            [Version("v1", PostgresAccess, columns=ACCESS_COLUMNS)],
            labels=labels,
            short_names=["pgaccess"],
            categories=["fairlead"],
        ),
        build_crd(
            POSTGRESSERVERS,
            [Version("v1", PostgresServer, columns=SERVER_COLUMNS)],
            short_names=["pgserver"],
            categories=["fairlead"],
        ),
        build_crd(
            CONTROLLERS,
            [Version("v1", OperatorController, columns=CONTROLLER_COLUMNS)],
            short_names=["actrl"],
            categories=["fairlead"],
        ),
    ]
