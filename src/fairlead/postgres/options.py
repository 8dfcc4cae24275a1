"""Options of the operator of PostgresAccess: flags, and a Controller's settings over them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Annotated

import msgspec

from fairlead.api.durations import format_duration, parse_duration
from fairlead.api.flags import Flag, parse_seconds
from fairlead.api.postgresaccess.connection import PasswordPolicy
from fairlead.api.postgresaccess.controller import (
    ConnectionsPolicy,
    ControllerSettings,
    OwnConnections,
    PostgresSettings,
    UnmanagedUsers,
)


DEFAULT_NAMESPACE = "fairlead-postgres"

DEFAULT_WORKERS = 32
"""Passes that run at the same time.

A pass that waits for a PostgreSQL server takes no worker. The others wait for the API server,
which does not answer faster over more connections.
"""

LEAST_SYNCED_SECONDS = 10.0
LEAST_PENDING_SECONDS = 1.0
LEAST_ROTATION_SECONDS = 60.0
_MOST_SECONDS = 10 * 365 * 86_400.0
"""Longest interval in seconds; clocks and timers overflow above it."""


class PostgresOptions(msgspec.Struct, kw_only=True, frozen=True):
    """Options for all accesses; times are in seconds.

    The Controllers are in ``namespace`` too. ``existing_secret_namespace`` lets every tenant use
    Secrets of ``allowed_secret_namespaces``, or if that is None of all but the operator's.
    ``installation`` tells apart operators that share a server; "" takes the cluster's own id.
    Roles are dropped as Restrict does. ``passwords`` holds for accesses without a passwordPolicy.

    Attributes:
        namespace: Namespace of the Secrets of PostgresServers and of the Lease.
        excluded_users: Role that the operator never changes; may be given several times.
        excluded_user_patterns: Pattern of roles that the operator never changes, such as
            'backup_*'; * stands for any text. May be given several times.
        existing_secret_namespace: Let objects name connection Secrets of other namespaces, except
            the operator's own.
        unmanaged_users: What to do with roles that no object names: Report reports those that
            Fairlead created, Owned drops them, Drop also drops logins that others created.
        synced_interval: Time between two checks of a role that is in sync.
        pending_interval: Time between two checks of a role that waits for another object, or for
            a person.
        workers: Number of objects that are reconciled at the same time; most of them wait for an
            answer.
    """

    namespace: Annotated[str, Flag(names="namespace")] = DEFAULT_NAMESPACE
    excluded_users: Annotated[tuple[str, ...], Flag("--exclude-user", "ROLE")] = ()
    excluded_user_patterns: Annotated[
        tuple[str, ...], Flag("--exclude-user-pattern", "PATTERN")
    ] = ()
    existing_secret_namespace: Annotated[bool, Flag(metavar="BOOLEAN")] = False
    allowed_secret_namespaces: tuple[str, ...] | None = None
    installation: str = ""
    unmanaged_users: Annotated[UnmanagedUsers, Flag()] = "Owned"
    allow_adoption: bool = False
    allowed_member_of: tuple[str, ...] = ()
    connections: ConnectionsPolicy = "Allowed"
    connection_hosts: tuple[str, ...] = ()
    synced_interval: Annotated[
        float,
        Flag(
            metavar="DURATION",
            default="5m",
            parse=partial(parse_seconds, "--synced-interval", least=f"{LEAST_SYNCED_SECONDS:g}s"),
        ),
    ] = 300.0
    pending_interval: Annotated[
        float,
        Flag(
            metavar="DURATION",
            default="30s",
            parse=partial(
                parse_seconds, "--pending-interval", least=f"{LEAST_PENDING_SECONDS:g}s"
            ),
        ),
    ] = 30.0
    server_interval: float = 60.0
    max_connections_per_server: int = 4
    passwords: PasswordPolicy = msgspec.field(default_factory=PasswordPolicy)
    workers: Annotated[int, Flag(least=1, most=1024)] = DEFAULT_WORKERS


class SettingError(ValueError):
    """A setting that cannot be used; the text names its field and what is wrong."""


def overlaid(flags: PostgresOptions, settings: ControllerSettings) -> PostgresOptions:
    """Return the flags with a Controller's settings over them; both lists of exclusions hold.

    Raises:
        SettingError: a setting cannot be used.
    """
    postgres = settings.postgres
    namespaces = settings.allowed_secret_namespaces
    given: dict[str, object] = {
        "existing_secret_namespace": settings.existing_secret_namespace,
        "allowed_secret_namespaces": None if namespaces is None else tuple(namespaces),
        "unmanaged_users": postgres.unmanaged_users,
        "allow_adoption": postgres.allow_adoption,
        "allowed_member_of": tuple(postgres.allowed_member_of) or None,
        "max_connections_per_server": postgres.max_connections_per_server,
        "synced_interval": _seconds(
            postgres.synced_interval, "syncedInterval", LEAST_SYNCED_SECONDS
        ),
        "pending_interval": _seconds(
            postgres.pending_interval, "pendingInterval", LEAST_PENDING_SECONDS
        ),
        "excluded_users": _union(flags.excluded_users, postgres.excluded_users),
        "excluded_user_patterns": _union(
            flags.excluded_user_patterns, postgres.excluded_user_patterns
        ),
        **_connections(postgres),
        "passwords": postgres.password_defaults,
    }
    rotation = (
        flags.passwords if postgres.password_defaults is None else postgres.password_defaults
    )
    _seconds(rotation.rotate_every, "passwordDefaults.rotateEvery", LEAST_ROTATION_SECONDS)
    return msgspec.structs.replace(
        flags, **{name: value for name, value in given.items() if value is not None}
    )


def _connections(postgres: PostgresSettings) -> dict[str, object]:
    given: OwnConnections | None = postgres.connections
    if given is None:
        return {}
    for host in given.hosts:
        check_host_pattern(host, "spec.settings.postgres.connections.hosts")
    return {"connections": given.policy, "connection_hosts": tuple(given.hosts)}


def _union(flags: Iterable[str], settings: Iterable[str]) -> tuple[str, ...]:
    """Return the names of both without blanks around them; empty names exclude no role."""
    names = (name.strip() for name in (*flags, *settings))
    return tuple(dict.fromkeys(name for name in names if name))


def _seconds(text: str | None, field: str, least: float) -> float | None:
    if text is None:
        return None
    field = f"spec.settings.postgres.{field}"
    duration = parse_duration(text)
    if duration is None:
        raise SettingError(f"{field} {text!r} is not a duration; use for example 90s or 5m")
    seconds = duration.total_seconds()
    if not least <= seconds <= _MOST_SECONDS:
        raise SettingError(
            f"{field} {text} is out of range; use at least"
            f" {format_duration(timedelta(seconds=least))} and at most ten years"
        )
    return seconds


def check_host_pattern(pattern: str, field: str) -> None:
    """Refuse a pattern that looks like a network and is none: it would never match a host.

    Raises:
        SettingError: the text names the field.
    """
    network, _ = split_host(pattern)
    if "/" not in network:
        return
    try:
        ipaddress.ip_network(network)
    except ValueError:
        raise SettingError(
            f"{field}: {pattern} is not a network; use for example 10.1.0.0/16, without host bits"
        ) from None


def split_host(pattern: str) -> tuple[str, str]:
    """Return host and port of ``host``, ``host:port`` or an IPv6 address; port "" is any port."""
    if pattern.startswith("["):
        host, _, rest = pattern[1:].partition("]")
        return host, rest.removeprefix(":")
    host, colon, port = pattern.rpartition(":")
    if colon and ":" not in host:
        return host, port
    return pattern, ""
