"""Fetches the objects that an endpoint is made of: PostgresServers, Secrets, namespaces."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import PostgresAccess
from fairlead.api.postgresconnection import ValueOrSecret
from fairlead.api.postgresserver import POSTGRESSERVERS, PostgresServer
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, Forbidden, NotFound
from fairlead.postgres.controllers.resolution import (
    check_connection,
    check_policy,
    direct_endpoint,
    login_value,
    missing_secret,
    secret_data,
    secret_endpoint,
    server_endpoint,
    text_of,
)
from fairlead.postgres.database.endpoint import Endpoint
from fairlead.postgres.errors import AccessError, invalid, refusal
from fairlead.postgres.options import PostgresOptions


class Sources:
    """Reads servers and Secrets as they are now; nothing is kept."""

    def __init__(self, client: Client, options: PostgresOptions) -> None:
        self._client = client
        self._options = options
        self._installation = options.installation

    async def installation(self) -> str:
        """The uid of kube-system, which tells this cluster's claims on roles from another's."""
        # kube-system exists in every cluster and is never made anew, so that its uid tells
        # clusters apart.
        if not self._installation:
            try:
                namespace = await self._client.get(NAMESPACES, "kube-system")
            except NotFound:
                namespace = await self._client.get(NAMESPACES, "default")
            self._installation = namespace.meta.uid
        return self._installation

    async def endpoint(self, access: PostgresAccess, *, enforce: bool) -> Endpoint:
        """How to reach the server of an access.

        Args:
            access: whose connection it is.
            enforce: whether the server's policy must allow the access; a deletion need not.

        Raises:
            AccessError: something is missing, wrong or not allowed.
        """
        connection = access.spec.connection
        check_connection(connection)
        if connection.server_ref is not None:
            server = await self._server(connection.server_ref.name)
            if enforce:
                namespace = access.metadata.namespace
                labels = (await self._client.get(NAMESPACES, namespace)).meta.labels
                check_policy(server, access.spec, namespace, labels)
            return await self.server_endpoint(server)
        if connection.existing_secret is not None:
            return await self._secret_endpoint(access, connection.existing_secret)
        return direct_endpoint(
            connection,
            await self._value(access, connection.username, "username"),
            await self._value(access, connection.password, "password"),
        )

    async def server_endpoint(self, server: PostgresServer) -> Endpoint:
        """How to reach a PostgresServer.

        Raises:
            AccessError: a Secret is missing or incomplete.
        """
        what = f"PostgresServer {server.metadata.name}"
        namespace = self._options.namespace
        name = server.spec.credentials_secret_ref.name
        credentials = secret_data(await self._secret(name, namespace, what))
        ca = ""
        reference = server.spec.ca_secret_ref
        if reference is not None:
            data = secret_data(await self._secret(reference.name, namespace, what))
            ca = text_of(data, reference.key, reference.name)
            if not ca:
                raise invalid(
                    "ConnectionInvalid",
                    f"Secret {reference.name} of {what} has no key {reference.key}; add it",
                )
        return server_endpoint(server, credentials, ca)

    async def _server(self, name: str) -> PostgresServer:
        try:
            found = await self._client.get(POSTGRESSERVERS, name)
        except NotFound:
            raise AccessError(
                "ServerNotFound",
                f"PostgresServer {name} of spec.connection.serverRef does not exist; create it,"
                " or correct the name",
            ) from None
        return decode_server(found)

    async def _secret_endpoint(self, access: PostgresAccess, name: str) -> Endpoint:
        namespace = access.metadata.namespace
        other = access.spec.connection.existing_secret_namespace
        if other is not None and other != namespace:
            if not self._options.existing_secret_namespace:
                raise refusal(
                    "PolicyDenied",
                    "spec.connection.existingSecretNamespace names another namespace, which the"
                    " operator's options do not allow; use a Secret of this one, or serverRef",
                )
            namespace = other
        what = "spec.connection.existingSecret"
        data = secret_data(await self._secret(name, namespace, what))
        return secret_endpoint(access.spec.connection, data, name, namespace)

    async def _value(self, access: PostgresAccess, given: ValueOrSecret | None, field: str) -> str:
        if given is None:
            return ""
        if given.secret_ref is None:
            return given.value or ""
        name, key = given.secret_ref.name, given.secret_ref.key
        what = f"spec.connection.{field}.secretRef"
        data = secret_data(await self._secret(name, access.metadata.namespace, what))
        found = login_value(data, key, name)
        if not found:
            raise invalid("ConnectionInvalid", f"Secret {name} of {what} has no key {key}; add it")
        return found

    async def _secret(self, name: str, namespace: str, what: str) -> Object:
        try:
            return await self._client.get(SECRETS, name, namespace)
        except NotFound:
            raise missing_secret(name, namespace, what) from None
        except Forbidden:
            raise AccessError(
                "ConnectionSecretForbidden",
                f"the operator may not read Secret {namespace}/{name} of {what}; let it",
            ) from None


def decode_server(found: Object) -> PostgresServer:
    """A PostgresServer from what the API server holds.

    Raises:
        AccessError: InvalidSpec, naming the field.
    """
    try:
        return found.decode(PostgresServer)
    except msgspec.ValidationError as error:
        raise invalid("InvalidSpec", f"PostgresServer {found.meta.name}: {error}") from None


def decode_access(found: Object) -> PostgresAccess:
    """A PostgresAccess from what the API server holds.

    Raises:
        AccessError: InvalidSpec, naming the field.
    """
    try:
        return found.decode(PostgresAccess)
    except msgspec.ValidationError as error:
        raise invalid("InvalidSpec", f"PostgresAccess {found.key}: {error}") from None
