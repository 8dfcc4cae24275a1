"""What the operator watches, and which changes matter to whom."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, READY
from fairlead.api.postgresconnection import GROUP
from fairlead.api.postgresserver import POSTGRESSERVERS
from fairlead.api.resource import SECRETS
from fairlead.postgres.controllers.login_secret import SELECTOR
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import (
    Cluster,
    Delta,
    Mapper,
    Request,
    any_of,
    changed,
    metadata_changed,
    owner_mapper,
)


BY_SERVER = "server"
BY_CREDENTIALS = "credentials"


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Connection(msgspec.Struct, rename="camel", frozen=True):
    server_ref: _Name | None = None


class _AccessSpec(msgspec.Struct, rename="camel", frozen=True):
    connection: _Connection = _Connection()


class _AccessBody(msgspec.Struct, frozen=True):
    spec: _AccessSpec = _AccessSpec()


class _ServerSpec(msgspec.Struct, rename="camel", frozen=True):
    credentials_secret_ref: _Name | None = None
    ca_secret_ref: _Name | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _ServerBody(msgspec.Struct, frozen=True):
    spec: _ServerSpec = _ServerSpec()
    status: _Status = _Status()


class Watches:
    """One lease on each informer, shared by the operator's controllers.

    Of the Secrets in other namespaces only those that carry the operator's own label are watched.
    """

    def __init__(self, cluster: Cluster, options: PostgresOptions) -> None:
        self._cluster = cluster.name
        self.accesses = cluster.informer(POSTGRESACCESSES)
        self.servers = cluster.informer(POSTGRESSERVERS)
        self.secrets = cluster.informer(SECRETS, labels=SELECTOR, metadata_only=True)
        self.credentials = cluster.informer(
            SECRETS, namespace=options.namespace, metadata_only=True
        )
        self.accesses.add_index(BY_SERVER, _server_of)
        self.servers.add_index(BY_CREDENTIALS, _credentials_of)

    def accesses_of_secret(self) -> Mapper:
        """A generated Secret's PostgresAccess."""
        return owner_mapper(POSTGRESACCESSES.kind, GROUP, self._cluster)

    def accesses_of_server(self, delta: Delta) -> Iterable[Request]:
        """Every PostgresAccess that names this server."""
        for access in self.accesses.by_index(BY_SERVER, delta.object.meta.name):
            yield Request(self._cluster, access.meta.namespace, access.meta.name)

    def servers_of_credentials(self, delta: Delta) -> Iterable[Request]:
        """Every PostgresServer that this Secret is of."""
        for server in self.servers.by_index(BY_CREDENTIALS, delta.object.meta.name):
            yield Request(self._cluster, "", server.meta.name)


def _ready(server: Object | None) -> str:
    conditions = (_body(server).status.conditions if server is not None else None) or []
    return next((one.status for one in conditions if one.type == READY), "")


wanted_otherwise = metadata_changed(
    "generation", "deletion_timestamp", "annotations", "finalizers"
)
"""Anything but the status has changed."""

server_turned = any_of(wanted_otherwise, changed(_ready))
"""A server is wanted otherwise, or has become ready or unready."""


def _body(server: Object) -> _ServerBody:
    try:
        return server.decode(_ServerBody)
    except msgspec.ValidationError:
        return _ServerBody()


def _server_of(access: Object) -> list[str]:
    try:
        reference = access.decode(_AccessBody).spec.connection.server_ref
    except msgspec.ValidationError:
        return []
    return [reference.name] if reference else []


def _credentials_of(server: Object) -> list[str]:
    spec = _body(server).spec
    return [one.name for one in (spec.credentials_secret_ref, spec.ca_secret_ref) if one]
