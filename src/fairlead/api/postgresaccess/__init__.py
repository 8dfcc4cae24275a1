"""The objects of PostgresAccess, ``access.k8s.delta10.nl/v1``, and their CRDs.

A PostgresAccess (``access``) asks for a PostgreSQL role with its ``grants`` and a Secret to log in
with; ``status`` is its result. It names the server by a PostgresServer (``server``),
which the platform's team owns, or by a ``connection`` of its own. A Controller (``controller``) is
the operator's settings, and ``crds`` are made from all of these.

Source: https://github.com/delta10/access-operator
"""

from __future__ import annotations

from fairlead.api.postgresaccess.access import (
    ABANDON_ANNOTATION,
    APPROVE_ANNOTATION,
    END_SESSIONS_ANNOTATION,
    EXPIRING,
    FINALIZER,
    IN_PROGRESS,
    POSTGRESACCESSES,
    READY,
    RECONCILING,
    ROTATE_ANNOTATION,
    STALLED,
    SUCCESS,
    Attributes,
    CleanupPolicy,
    GrantsPolicy,
    MemberOf,
    PostgresAccess,
    PostgresAccessSpec,
    SecretTemplate,
)
from fairlead.api.postgresaccess.crds import (
    crds,
)
from fairlead.api.postgresaccess.grants import (
    COLUMN_PRIVILEGES,
    LEVEL_PRIVILEGES,
    Bundle,
    Grant,
    GrantLevel,
    IncludeFuture,
    Privilege,
)
from fairlead.api.postgresaccess.status import (
    Binding,
    Blockers,
    Deletion,
    LoginInfo,
    PasswordInfo,
    Plan,
    PostgresAccessStatus,
    ReconcileState,
    SecretInfo,
    ServerInfo,
    SessionsInfo,
    Uris,
)


__all__ = [
    "ABANDON_ANNOTATION",
    "APPROVE_ANNOTATION",
    "COLUMN_PRIVILEGES",
    "END_SESSIONS_ANNOTATION",
    "EXPIRING",
    "FINALIZER",
    "IN_PROGRESS",
    "LEVEL_PRIVILEGES",
    "POSTGRESACCESSES",
    "READY",
    "RECONCILING",
    "ROTATE_ANNOTATION",
    "STALLED",
    "SUCCESS",
    "Attributes",
    "Binding",
    "Blockers",
    "Bundle",
    "CleanupPolicy",
    "Deletion",
    "Grant",
    "GrantLevel",
    "GrantsPolicy",
    "IncludeFuture",
    "LoginInfo",
    "MemberOf",
    "PasswordInfo",
    "Plan",
    "PostgresAccess",
    "PostgresAccessSpec",
    "PostgresAccessStatus",
    "Privilege",
    "ReconcileState",
    "SecretInfo",
    "SecretTemplate",
    "ServerInfo",
    "SessionsInfo",
    "Uris",
    "crds",
]
