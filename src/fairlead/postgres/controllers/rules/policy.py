"""Checks of an access against its PostgresServer's profile and the operator's settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import NoReturn

import msgspec

from fairlead.api.meta import Key
from fairlead.api.postgresaccess import PostgresAccess, PostgresAccessSpec
from fairlead.api.postgresaccess.connection import Connection
from fairlead.api.postgresaccess.server import PostgresServer
from fairlead.api.selectors import LabelSelector, SelectorError
from fairlead.postgres.database.plans.grants import asked_for
from fairlead.postgres.database.plans.names import matches, matches_any, reserved
from fairlead.postgres.errors import AccessError, invalid, refusal
from fairlead.postgres.options import PostgresOptions, split_host


def check_access(
    access: PostgresAccess,
    names: Iterable[str],
    server: PostgresServer | None,
    labels: Mapping[str, str],
    settings: PostgresOptions,
) -> None:
    """Refuse an access that its server's profile or the settings do not allow.

    Args:
        access: the access.
        names: the names of its roles.
        server: its PostgresServer, None for an own connection.
        labels: the labels of its namespace.
        settings: the settings in force.

    Raises:
        AccessError: PolicyDenied; the message names the field that does not allow it.
    """
    spec, namespace = access.spec, access.metadata.namespace
    if server is not None:
        check_policy(server, spec, namespace, labels, names)
    for group in spec.member_of or ():
        check_membership(group.role, namespace, server, settings)
    check_heir(spec, namespace, server, settings)


def check_policy(
    server: PostgresServer,
    spec: PostgresAccessSpec,
    namespace: str,
    labels: Mapping[str, str],
    names: Iterable[str] = (),
) -> None:
    """Refuse an access that its server's profile does not allow; ``names`` are all its roles.

    Raises:
        AccessError: PolicyDenied; the message names the field of the profile.
    """
    name = server.metadata.name
    try:
        selector = LabelSelector.from_dict(msgspec.to_builtins(server.spec.allowed_namespaces))
    except SelectorError as error:
        raise invalid(
            "ConnectionInvalid", f"PostgresServer {name}: spec.allowedNamespaces: {error}"
        ) from None
    if not selector.matches(labels):
        _deny(name, "allowedNamespaces", f"does not select namespace {namespace}")
    pattern = server.spec.username_pattern
    for username in dict.fromkeys((spec.username, *names)):
        if not matches(pattern, username, namespace):
            shown = pattern.replace("{namespace}", namespace)
            which = (
                ""
                if username == spec.username
                else (f", which its login {username} does not match")
            )
            _deny(name, "usernamePattern", f"requires usernames like {shown}{which}")
    privileges = server.spec.allowed_privileges
    for grant in spec.grants:
        if not matches_any(server.spec.allowed_databases, grant.database, namespace):
            _deny(name, "allowedDatabases", f"does not allow database {grant.database}")
        refused = sorted(asked_for(grant).difference(privileges)) if privileges is not None else []
        if refused:
            _deny(name, "allowedPrivileges", f"does not allow {', '.join(refused)}")


def check_heir(
    spec: PostgresAccessSpec,
    namespace: str,
    server: PostgresServer | None,
    settings: PostgresOptions,
) -> None:
    """Refuse a spec.orphanTo that may not receive the role's objects.

    Functions and triggers among them then run with the rights of that role. PostgreSQL lets only
    members of the new owner give objects away, and so does this check.

    Raises:
        AccessError: PolicyDenied; the message names the field that does not allow it.
    """
    if spec.cleanup_policy == "Orphan" and spec.orphan_to:
        check_membership(spec.orphan_to, namespace, server, settings, field="spec.orphanTo")


def check_membership(
    role: str,
    namespace: str,
    server: PostgresServer | None,
    settings: PostgresOptions,
    *,
    field: str = "spec.memberOf",
) -> None:
    """Refuse a membership that neither profile nor settings allow.

    A role of PostgreSQL or a provider is allowed only by its full name, not by a pattern. On a
    tenant's own connection the tenant is the administrator: all other roles are allowed, unless
    the Controller lists some. ``field`` is the field that names the role.

    Raises:
        AccessError: PolicyDenied; the message names the field that does not allow it.
    """
    allowed: Iterable[str] = settings.allowed_member_of
    if server is not None and server.spec.allowed_member_of is not None:
        allowed = server.spec.allowed_member_of
    elif server is None and not settings.allowed_member_of:
        allowed = ("*",)
    if role in allowed or (not reserved(role) and matches_any(allowed, role, namespace)):
        return
    if server is not None:
        what = f"does not allow membership in {role}"
        if field != "spec.memberOf":
            what += f", which {field} names"
        _deny(server.metadata.name, "allowedMemberOf", what)
    raise refusal(
        "PolicyDenied",
        f"{field} {role} is not allowed by the operator's Controller"
        " (spec.settings.postgres.allowedMemberOf); ask who runs the operator",
    )


def secret_namespace(connection: Connection, namespace: str, settings: PostgresOptions) -> str:
    """Return the namespace of the Secrets of an access's own connection.

    Raises:
        AccessError: PolicyDenied, where the settings do not allow that namespace.
    """
    other = (connection.existing_secret_namespace or "").strip()
    if other in {"", namespace}:
        return namespace
    allowed = settings.allowed_secret_namespaces
    if settings.existing_secret_namespace and (
        other != settings.namespace if allowed is None else matches_any(allowed, other, namespace)
    ):
        return other
    raise refusal(
        "PolicyDenied",
        "spec.connection.existingSecretNamespace names another namespace, which the operator's"
        " settings do not allow; use a Secret in the namespace of the PostgresAccess, or"
        " serverRef",
    )


def named_secrets(access: PostgresAccess, settings: PostgresOptions) -> frozenset[Key]:
    """Return the Secrets of tenants that an access reads, of its connection and its password."""
    spec, namespace = access.spec, access.metadata.namespace
    keys: set[Key] = set()
    if spec.password_secret_ref is not None:
        keys.add(Key(namespace, spec.password_secret_ref.name))
    connection = spec.connection
    if connection.server_ref is not None or settings.connections == "Forbidden":
        return frozenset(keys)
    try:
        where = secret_namespace(connection, namespace, settings)
    except AccessError:
        return frozenset(keys)
    login = (connection.username, connection.password)
    names = [
        connection.existing_secret,
        *(one.secret_ref.name for one in login if one is not None and one.secret_ref is not None),
        *(
            reference.name
            for reference in (connection.ca_secret_ref, connection.client_certificate_secret_ref)
            if reference is not None
        ),
    ]
    return frozenset(keys | {Key(where, name) for name in names if name})


def check_own_connections(settings: PostgresOptions) -> None:
    """Refuse an own connection where the settings forbid all of them.

    Raises:
        AccessError: PolicyDenied; the message names serverRef as the remedy.
    """
    if settings.connections == "Forbidden":
        raise refusal(
            "PolicyDenied",
            "spec.connection names no PostgresServer, and the operator's Controller forbids other"
            " connections; use serverRef",
        )


def check_host(host: str, port: int, namespace: str, settings: PostgresOptions) -> bool:
    """Whether the settings list the host, or each of several hosts with commas between them.

    Raises:
        AccessError: PolicyDenied, where the host must be listed and is not.
    """
    listed = all(
        any(_host_matches(pattern, part, port, namespace) for pattern in settings.connection_hosts)
        for part in host.split(",")
    )
    if not listed and settings.connections != "Allowed":
        raise refusal(
            "PolicyDenied",
            "the operator's Controller does not list the host of spec.connection; use serverRef,"
            " or ask who runs the operator",
        )
    return listed


def _host_matches(pattern: str, host: str, port: int, namespace: str) -> bool:
    host_pattern, wanted_port = split_host(pattern.strip().lower())
    if wanted_port not in {"", "*", str(port)}:
        return False
    # A name server takes a name with a dot at its end for the same host.
    host = host.strip().strip("[]").lower().removesuffix(".")
    if "/" in host_pattern:
        return _in_network(host, host_pattern)
    return matches(host_pattern.removesuffix("."), host, namespace)


def _in_network(host: str, network: str) -> bool:
    """Whether the host is an IP address in the network; names are not looked up."""
    try:
        address = ipaddress.ip_address(host)
        # An address like ::ffff:10.0.0.1 leads to its IPv4 address, but in this form is in no IPv4
        # network.
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address in ipaddress.ip_network(network)
    except ValueError:
        return False


def _deny(server: str, field: str, why: str) -> NoReturn:
    raise refusal(
        "PolicyDenied", f"PostgresServer {server}: spec.{field} {why}; ask who runs the server"
    )
