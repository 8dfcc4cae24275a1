"""Reading of the objects behind an endpoint: PostgresServers, Secrets and namespaces."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import ABANDON_ANNOTATION, PostgresAccess
from fairlead.api.postgresaccess.connection import (
    CASecretRef,
    SecretRef,
    ValueOrSecret,
)
from fairlead.api.postgresaccess.server import POSTGRESSERVERS, PostgresServer
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import BadRequest, Client, Forbidden, NotFound
from fairlead.client.authorities import AuthorityError, trust_only
from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules.desired import check_server, needed_names
from fairlead.postgres.controllers.rules.policy import (
    check_access,
    check_heir,
    check_host,
    check_own_connections,
    secret_namespace,
)
from fairlead.postgres.controllers.rules.resolution import (
    Certificates,
    check_connection,
    direct_endpoint,
    login_value,
    missing_secret,
    secret_data,
    secret_endpoint,
    server_endpoint,
    text_of,
)
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.watches import AccessWatches
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.connections.tls import is_pair
from fairlead.postgres.errors import AccessError, invalid


class _Kept(NamedTuple):
    """An endpoint, and the versions of the objects behind it."""

    server: tuple[str, int]
    secrets: Mapping[str, str]
    endpoint: Endpoint


class LastEndpoint(NamedTuple):
    """The endpoint of an access that goes.

    ``lost`` is the error in its credentials where they are those that were known last; ``going``
    tells that they went with their namespace, rather than being withdrawn.
    """

    endpoint: Endpoint
    lost: AccessError | None = None
    going: bool = False


_LOST = frozenset(
    {
        "ConnectionInvalid",
        "ConnectionSecretForbidden",
        "ConnectionSecretMissing",
        "ServerNotFound",
    }
)
"""Reasons of errors in the objects behind an endpoint, which may have been other ones before."""


class EndpointSources:
    """Finds the endpoints of servers, with the credentials for them.

    With ``watches``, objects of the platform team (PostgresServers, their Secrets, labels of
    namespaces) are requested only after a change, or where the caches lack them. Without it, and
    for tenants' own Secrets, each call reads all objects. ``reader`` is the subject of messages
    about rights: the operator, or the user of a command.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        watches: AccessWatches | None = None,
        *,
        reader: str = "the operator",
    ) -> None:
        self._client = client
        self._reader = reader
        self._settings = settings
        self._watches = watches
        self.installation_id = settings.latest.installation
        self._endpoints: dict[str, _Kept] = {}
        self.last = LastEndpoints()

    async def installation(self) -> str:
        """Return the id that tells this installation's claims on roles from those of others.

        It is the settings' own, else the uid of namespace kube-system, which is never made again,
        and without kube-system that of default.
        """
        if not self.installation_id:
            try:
                namespace = await self._client.get(NAMESPACES, "kube-system")
            except NotFound:
                namespace = await self._client.get(NAMESPACES, "default")
            self.installation_id = namespace.meta.uid
        return self.installation_id

    async def endpoint(self, access: PostgresAccess, *, enforce: bool) -> Endpoint:
        """Return the endpoint of an access.

        Args:
            access: the object with the connection.
            enforce: whether the server's profile must allow the access, which a deletion does not
                need. The settings are enforced in any case.

        Raises:
            AccessError: an object is missing, invalid or not allowed.
        """
        endpoint = await self._endpoint(access, enforce=enforce)
        if self._watches is not None:
            self.last.resolved(access, endpoint)
        return endpoint

    async def last_endpoint(self, access: PostgresAccess) -> LastEndpoint:
        """Return the endpoint of an access that goes; without its objects, the one known last.

        Raises:
            AccessError: an object is missing, invalid or not allowed, and no endpoint is known.
        """
        try:
            return LastEndpoint(await self.endpoint(access, enforce=False))
        except AccessError as error:
            if error.reason not in _LOST:
                raise
            going = error.reason == "ConnectionSecretMissing" and self._goes(access)
            lost = _only_abandoned(error, access) if going else error
        endpoint = self.last.of(access)
        if endpoint is None:
            raise lost
        if access.spec.connection.server_ref is None:
            # The settings may have changed since the endpoint was found.
            settings = self._settings.current
            check_host(endpoint.host, endpoint.port, access.metadata.namespace, settings)
        return LastEndpoint(endpoint, lost, going)

    def _goes(self, access: PostgresAccess) -> bool:
        """Whether the Secrets of an own connection are in a namespace that is being deleted."""
        connection, namespace = access.spec.connection, access.metadata.namespace
        if self._watches is None or connection.server_ref is not None:
            return False
        where = secret_namespace(connection, namespace, self._settings.current)
        namespace_object = self._watches.namespaces.get("", where)
        return namespace_object is not None and namespace_object.meta.deleting

    async def _endpoint(self, access: PostgresAccess, *, enforce: bool) -> Endpoint:
        connection, namespace = access.spec.connection, access.metadata.namespace
        check_connection(connection)
        settings = self._settings.current
        if connection.server_ref is not None:
            server = await self._server(connection.server_ref.name)
            if enforce:
                labels = await self._labels(namespace)
                check_access(access, needed_names(access), server, labels, settings)
            return await self.server_endpoint(server)
        check_own_connections(settings)
        if enforce:
            check_access(access, (), None, {}, settings)
        secrets = secret_namespace(connection, namespace, settings)
        endpoint = await self._own_endpoint(access, secrets)
        listed = check_host(endpoint.host, endpoint.port, namespace, settings)
        return replace(endpoint, discreet=not listed, of_tenant=True)

    async def check_heir(self, access: PostgresAccess) -> None:
        """Refuse a spec.orphanTo that may not receive the role's objects.

        Raises:
            AccessError: PolicyDenied; or the server is missing or invalid.
        """
        reference = access.spec.connection.server_ref
        server = await self._server(reference.name) if reference is not None else None
        check_heir(access.spec, access.metadata.namespace, server, self._settings.current)

    async def server_endpoint(self, server: PostgresServer) -> Endpoint:
        """Return the endpoint of a PostgresServer, the same one until an object behind it changes.

        Raises:
            AccessError: a Secret is missing or incomplete.
        """
        meta = server.metadata
        version = (meta.uid, meta.generation)
        cached = self._endpoints.get(meta.name)
        if cached is not None and cached.server == version and self._unchanged(cached.secrets):
            return cached.endpoint
        what = f"PostgresServer {meta.name}"
        reader = _Reader(self._client, self._settings.namespace, self._reader)
        name = server.spec.credentials_secret_ref.name
        credentials = secret_data(await reader.get(name, what))
        certificates = await reader.certificates(
            server.spec.ca_secret_ref, server.spec.client_certificate_secret_ref, what
        )
        endpoint = server_endpoint(server, credentials, certificates)
        if self._watches is not None:
            self._endpoints[meta.name] = _Kept(version, reader.versions, endpoint)
            self._forget_others()
        return endpoint

    def _unchanged(self, secrets: Mapping[str, str]) -> bool:
        if self._watches is None:
            return False
        for name, version in secrets.items():
            secret = self._watches.credentials.get(self._settings.namespace, name)
            if secret is None or secret.meta.resource_version != version:
                return False
        return True

    def _forget_others(self) -> None:
        """Forget the endpoints of deleted servers, with their passwords."""
        if self._watches is not None:
            for name in [
                server
                for server in self._endpoints
                if self._watches.servers.get("", server) is None
            ]:
                del self._endpoints[name]

    async def _server(self, name: str) -> PostgresServer:
        server_object = self._watches.servers.get("", name) if self._watches is not None else None
        try:
            # The cache may lack a server that was created a moment ago.
            server_object = server_object or await self._client.get(POSTGRESSERVERS, name)
        except (BadRequest, NotFound):
            raise AccessError(
                "ServerNotFound",
                f"PostgresServer {name} of spec.connection.serverRef does not exist; create it,"
                " or correct the name",
            ) from None
        return decode_server(server_object)

    async def _labels(self, namespace: str) -> Mapping[str, str]:
        namespace_object = (
            self._watches.namespaces.get("", namespace) if self._watches is not None else None
        )
        return (namespace_object or await self._client.get(NAMESPACES, namespace)).meta.labels

    async def _own_endpoint(self, access: PostgresAccess, namespace: str) -> Endpoint:
        def has_read(name: str, version: str) -> None:
            if self._watches is not None:
                meta, secret = access.metadata, Key(namespace, name)
                key = Key(meta.namespace, meta.name)
                self._watches.named_secrets.has_read(key, secret, version)

        connection = access.spec.connection
        reader = _Reader(self._client, namespace, self._reader, has_read)
        certificates = await reader.certificates(
            connection.ca_secret_ref, connection.client_certificate_secret_ref, "spec.connection"
        )
        name = connection.existing_secret
        if name is not None:
            data = secret_data(await reader.get(name, "spec.connection.existingSecret"))
            return secret_endpoint(connection, data, name, namespace, certificates)
        reference = connection.password.secret_ref if connection.password is not None else None
        return direct_endpoint(
            connection,
            await reader.value(connection.username, "spec.connection.username"),
            await reader.value(connection.password, "spec.connection.password"),
            certificates,
            source="spec.connection"
            if reference is None
            else f"Secret {namespace}/{reference.name}",
        )


class _Reader:
    """Reads the Secrets of one namespace for one endpoint, each once.

    ``has_read`` is called with the name and the version of each, "" where there is none.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        who: str,
        has_read: Callable[[str, str], None] = lambda _name, _version: None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._who = who
        self._has_read = has_read
        self._objects: dict[str, Object] = {}

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the Secrets that were read, by name."""
        return {name: found.meta.resource_version for name, found in self._objects.items()}

    async def get(self, name: str, what: str) -> Object:
        if name not in self._objects:
            self._objects[name] = await self._get(name, what)
        return self._objects[name]

    async def value(self, given: ValueOrSecret | None, field: str) -> str:
        if given is None:
            return ""
        if given.secret_ref is None:
            return given.value or ""
        if given.value is not None:
            raise invalid("ConnectionInvalid", f"{field} has value and secretRef; remove one")
        name, key = given.secret_ref.name, given.secret_ref.key
        what = f"{field}.secretRef"
        text = login_value(secret_data(await self.get(name, what)), key, name)
        if not text:
            raise _no_key(name, what, key)
        return text

    async def certificates(
        self, ca: CASecretRef | None, client: SecretRef | None, what: str
    ) -> Certificates:
        certificate, key = await self._pair(client.name, what) if client else ("", "")
        return Certificates(
            ca=await self._authority(ca, what) if ca else "",
            certificate=certificate,
            key=key,
        )

    async def _authority(self, given: CASecretRef, what: str) -> str:
        text = await self._text(given.name, given.key, what)
        try:
            trust_only(text.encode())
        except AuthorityError as error:
            raise invalid(
                "ConnectionInvalid", f"{given.key} in Secret {given.name} of {what} {error}"
            ) from None
        return text

    async def _pair(self, name: str, what: str) -> tuple[str, str]:
        """Return certificate and key; where they are no pair, a writer may be between the two."""

        async def read() -> tuple[str, str]:
            return await self._text(name, "tls.crt", what), await self._text(name, "tls.key", what)

        pair = await read()
        if is_pair(*pair):
            return pair
        await asyncio.sleep(bounds.CERTIFICATE_SECONDS)
        del self._objects[name]
        return await read()

    async def _text(self, name: str, key: str, what: str) -> str:
        text = text_of(secret_data(await self.get(name, what)), key, name)
        if not text:
            raise _no_key(name, what, key)
        return text

    async def _get(self, name: str, what: str) -> Object:
        try:
            secret = await self._client.get(SECRETS, name, self._namespace)
        except BadRequest:
            raise invalid(
                "ConnectionInvalid",
                f"{what} names a Secret {self._namespace}/{name}, which is not a valid name;"
                " correct it",
            ) from None
        except NotFound:
            self._has_read(name, "")
            raise missing_secret(name, self._namespace, what) from None
        except Forbidden:
            raise AccessError(
                "ConnectionSecretForbidden",
                f"{self._who} may not read Secret {self._namespace}/{name} of {what}; grant the"
                " right get on it",
            ) from None
        self._has_read(name, secret.meta.resource_version)
        return secret


def _only_abandoned(error: AccessError, access: PostgresAccess) -> AccessError:
    """Return the error in credentials that cannot come back, with the remedy that is left."""
    what, _, _ = error.message.partition("; ")
    role = access.status.username or access.spec.username
    return AccessError(
        error.reason,
        f"{what}, and its namespace is being deleted; drop role {role} by hand, and annotate the"
        f" object with {ABANDON_ANNOTATION}=true",
    )


def _no_key(name: str, what: str, key: str) -> AccessError:
    return invalid("ConnectionInvalid", f"Secret {name} of {what} has no key {key}; add it")


def decode_server(obj: Object) -> PostgresServer:
    """Return the decoded PostgresServer of an object.

    Raises:
        AccessError: InvalidSpec; the message names the field.
    """
    try:
        server = obj.decode(PostgresServer)
    except msgspec.ValidationError as error:
        raise invalid(
            "InvalidSpec", f"PostgresServer {obj.meta.name}: {field_message(error)}"
        ) from None
    check_server(server)
    return server


class _Last(NamedTuple):
    """An endpoint, with the object and the connection of which it is."""

    uid: str
    connection: bytes
    endpoint: Endpoint


class LastEndpoints:
    """The endpoints at which accesses were last found, for deletions whose credentials are gone.

    A namespace that is deleted loses its Secrets in any order. Its roles must lose their logins
    all the same, and its objects must go. So this process keeps the endpoint of each access in
    memory, until the object is gone. It counts for that object alone, and only while
    spec.connection is the one by which it was found: the credentials of one object never reach
    another one's server. Equal endpoints are kept once.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], _Last] = {}
        self._shared: WeakValueDictionary[int, Endpoint] = WeakValueDictionary()

    def resolved(self, access: PostgresAccess, endpoint: Endpoint) -> None:
        """Keep an endpoint that was read; one at which the access was in sync stays."""
        if self.of(access) is None:
            self.synced(access, endpoint)

    def synced(self, access: PostgresAccess, endpoint: Endpoint) -> None:
        """Keep the endpoint at which the role of an access is."""
        number = hash(endpoint)
        shared = self._shared.get(number)
        if shared != endpoint:
            shared = self._shared[number] = endpoint
        meta = access.metadata
        self._last[meta.namespace, meta.name] = _Last(meta.uid, _digest(access), shared)

    def of(self, access: PostgresAccess) -> Endpoint | None:
        """Return the endpoint of an access, None without one for this object and connection."""
        meta = access.metadata
        last = self._last.get((meta.namespace, meta.name))
        if last is None or (last.uid, last.connection) != (meta.uid, _digest(access)):
            return None
        return last.endpoint

    def forget(self, namespace: str, name: str) -> None:
        """Forget the endpoint of an object that is gone, and its credentials."""
        self._last.pop((namespace, name), None)


def _digest(access: PostgresAccess) -> bytes:
    return hashlib.sha256(msgspec.json.encode(access.spec.connection)).digest()
