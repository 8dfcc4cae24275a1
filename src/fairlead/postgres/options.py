"""What an operator of PostgresAccess may decide."""

from __future__ import annotations

from typing import Literal

import msgspec


DEFAULT_NAMESPACE = "fairlead-postgres"

DEFAULT_WORKERS = 256
"""Passes at once; nearly all of them wait for an answer."""

UnmanagedUsers = Literal["Owned", "Report"]


class PostgresOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The operator's flags; times are in seconds.

    ``namespace`` is the operator's own, where PostgresServers' credentials are.
    ``excluded_users`` are roles it never touches. ``existing_secret_namespace`` lets tenants name
    Secrets of other namespaces, which gives every tenant the use of every Secret.
    ``installation`` tells apart operators that share a server; "" takes the cluster's own id.
    ``unmanaged_users`` Owned drops roles of ours whose PostgresAccess is gone, as Restrict does;
    Report only logs them.
    """

    namespace: str = DEFAULT_NAMESPACE
    excluded_users: tuple[str, ...] = ()
    existing_secret_namespace: bool = False
    installation: str = ""
    unmanaged_users: UnmanagedUsers = "Owned"
    synced_interval: float = 300.0
    pending_interval: float = 30.0
    server_interval: float = 60.0
    workers: int = DEFAULT_WORKERS
