"""The watches of the operator, and the requests that a change enqueues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, READY
from fairlead.api.postgresaccess.connection import GROUP
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.postgres import bounds
from fairlead.postgres.controllers.large import cached, secret_metadata
from fairlead.postgres.controllers.rules.login_secret import SELECTOR
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import (
    Cluster,
    Delta,
    Informer,
    Mapper,
    Request,
    any_of,
    changed,
    metadata_changed,
    owner_mapper,
)


BY_SERVER = "server"
BY_CREDENTIALS = "credentials"
BY_CONTROLLER = "controller"


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Connection(msgspec.Struct, rename="camel", frozen=True):
    server_ref: _Name | None = None


class _AccessSpec(msgspec.Struct, rename="camel", frozen=True):
    connection: _Connection = _Connection()


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _AccessBody(msgspec.Struct, frozen=True):
    spec: _AccessSpec = _AccessSpec()


class _ServerSpec(msgspec.Struct, rename="camel", frozen=True):
    credentials_secret_ref: _Name | None = None
    ca_secret_ref: _Name | None = None
    client_certificate_secret_ref: _Name | None = None


class _ServerBody(msgspec.Struct, frozen=True):
    spec: _ServerSpec = _ServerSpec()


class _WithStatus(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class AccessWatches:
    """One lease on each informer, shared by the operator's controllers.

    Of large accesses there are stubs (``large``): a pass reads the whole object.
    In other namespaces the operator watches the Secrets with its own label, and the metadata of
    all Secrets where a PostgresAccess names one (:class:`NamedSecrets`).
    """

    def __init__(self, cluster: Cluster, options: PostgresOptions) -> None:
        self._cluster = cluster.name
        self.accesses = cluster.informer(POSTGRESACCESSES, transform=cached)
        self.servers = cluster.informer(POSTGRESSERVERS)
        self.secrets = cluster.informer(
            SECRETS, labels=SELECTOR, metadata_only=True, transform=secret_metadata
        )
        self.credentials = cluster.informer(
            SECRETS, namespace=options.namespace, metadata_only=True, transform=secret_metadata
        )
        self.namespaces = cluster.informer(NAMESPACES, metadata_only=True)
        self.controllers = cluster.informer(CONTROLLERS)
        self.accesses.add_index(BY_SERVER, _servers_of)
        self.secrets.add_index(BY_CONTROLLER, _controller_of)
        self.servers.add_index(BY_CREDENTIALS, _credentials_of)
        self.named_secrets = NamedSecrets(cluster, self.accesses, self.namespaces)

    def request_of(self, access: Object) -> Request:
        """Return the request for a PostgresAccess."""
        return Request(self._cluster, access.meta.namespace, access.meta.name)

    def accesses_of_secret(self) -> Mapper:
        """Return a mapper from a generated Secret to its PostgresAccess."""
        return owner_mapper(POSTGRESACCESSES.kind, GROUP, self._cluster)

    def accesses_of_server(self, delta: Delta) -> Iterable[Request]:
        """Yield the requests of all accesses that name the server."""
        return self._accesses_at(delta.object.meta.name)

    def every_access(self, _delta: Delta) -> Iterable[Request]:
        """Yield the requests of all accesses."""
        for access in self.accesses.list():
            yield self.request_of(access)

    def accesses_of_credentials(self, delta: Delta) -> Iterable[Request]:
        """Yield the requests of all accesses that name a server with this Secret."""
        for server in self.servers.by_index(BY_CREDENTIALS, delta.object.meta.name):
            yield from self._accesses_at(server.meta.name)

    def accesses_of_namespace(self, delta: Delta) -> Iterable[Request]:
        """Yield the requests of a namespace's accesses that name a server, and so its policy."""
        for access in self.accesses.list(delta.object.meta.name):
            if server_of(access):
                yield self.request_of(access)

    def _accesses_at(self, server: str) -> Iterable[Request]:
        for access in self.accesses.by_index(BY_SERVER, server):
            yield self.request_of(access)

    def servers_of_credentials(self, delta: Delta) -> Iterable[Request]:
        """Yield the requests of all PostgresServers that use the Secret."""
        for server in self.servers.by_index(BY_CREDENTIALS, delta.object.meta.name):
            yield Request(self._cluster, "", server.meta.name)


def condition_of(obj: Object | None, type_: str = READY) -> str:
    """Return the status of an object's condition, "" where it is missing or undecodable."""
    if obj is None:
        return ""
    try:
        conditions = obj.decode(_WithStatus).status.conditions or []
    except msgspec.ValidationError:
        return ""
    return next((one.status for one in conditions if one.type == type_), "")


wanted_otherwise = metadata_changed(
    "generation", "deletion_timestamp", "annotations", "finalizers"
)
"""Predicate for changes of more than the status."""

server_turned = any_of(wanted_otherwise, changed(condition_of))
"""Predicate for changes of a server's spec or metadata, or of its Ready condition."""

relabelled = metadata_changed("labels")
"""Predicate for new and deleted namespaces, and changes of their labels."""

rewritten = metadata_changed("uid", "resource_version")
"""Predicate for every write of an object, whatever its content."""


def server_of(access: Object) -> str:
    """Return the PostgresServer that an access names, "" for none or an undecodable spec."""
    try:
        reference = access.decode(_AccessBody).spec.connection.server_ref
    except msgspec.ValidationError:
        return ""
    return reference.name if reference else ""


def _servers_of(access: Object) -> list[str]:
    name = server_of(access)
    return [name] if name else []


def _controller_of(secret: Object) -> list[str]:
    owner = secret.meta.controller()
    return [owner.uid] if owner else []


def _credentials_of(server: Object) -> list[str]:
    try:
        spec = server.decode(_ServerBody).spec
    except msgspec.ValidationError:
        return []
    references = (
        spec.credentials_secret_ref,
        spec.ca_secret_ref,
        spec.client_certificate_secret_ref,
    )
    return [one.name for one in references if one]


class NamedSecrets:
    """Watches the Secrets of tenants that accesses name, as long as one names them.

    A connection or a password may be in a Secret of the tenant. One watch of the metadata for each
    namespace tells when such a Secret changes; the pass that follows reads that object alone.
    ``opened`` is called with each new lease on the Secrets of a namespace.
    """

    def __init__(self, cluster: Cluster, accesses: Informer, namespaces: Informer) -> None:
        self._cluster = cluster.name
        self._lease = cluster.informer
        self._accesses = accesses
        self._namespaces = namespaces
        self._leases: dict[str, Informer] = {}
        self._readers: dict[str, dict[str, set[Key]]] = {}
        """Accesses that name a Secret, by its namespace and its name."""
        self._versions: dict[Key, dict[Key, str | None]] = {}
        """Version in which an access has read each of its Secrets, "" for none; None unread."""
        self.opened: Callable[[Informer], object] = lambda _: None

    async def follow(self, access: Key, secrets: Collection[Key]) -> None:
        """Watch the Secrets that an access names now, and no longer those that it named before.

        To be called before they are read, so that no change in between goes unseen.
        """
        before = self._versions.get(access, {})
        for secret in secrets:
            if secret not in before:
                named = self._readers.setdefault(secret.namespace, {})
                named.setdefault(secret.name, set()).add(access)
            # A namespace may have been beyond the limit, or missing, until now.
            self._open(secret.namespace, exists=secret.namespace == access.namespace)
        if secrets:
            self._versions[access] = {secret: before.get(secret) for secret in secrets}
        else:
            self._versions.pop(access, None)
        for secret in before.keys() - set(secrets):
            await self._leave(access, secret)

    def _open(self, namespace: str, *, exists: bool) -> None:
        # A tenant may name any number of namespaces, but creates none.
        exists = exists or self._namespaces.get("", namespace) is not None
        if namespace in self._leases or not exists or len(self._leases) >= bounds.NAMESPACES:
            return
        lease = self._lease(
            SECRETS, namespace=namespace, metadata_only=True, transform=secret_metadata
        )
        self._leases[namespace] = lease
        self.opened(lease)

    async def _leave(self, access: Key, secret: Key) -> None:
        named = self._readers[secret.namespace]
        named[secret.name].discard(access)
        if not named[secret.name]:
            del named[secret.name]
        if named:
            return
        del self._readers[secret.namespace]
        lease = self._leases.pop(secret.namespace, None)
        if lease is not None:
            await lease.close()

    def has_read(self, access: Key, secret: Key, version: str) -> None:
        """Note the version in which an access has read a Secret, "" where there is none."""
        versions = self._versions.get(access, {})
        if secret in versions:
            versions[secret] = version

    def are_watched(self, access: Key) -> bool:
        """Whether each change of the Secrets that an access names is going to be heard."""
        leases = [self._leases.get(one.namespace) for one in self._versions.get(access, ())]
        return all(one is not None and one.has_synced and not one.error for one in leases)

    def accesses_of(self, delta: Delta) -> Iterable[Request]:
        """Yield the requests of the accesses that have not read this version of the Secret."""
        meta = delta.object.meta
        version = meta.resource_version if delta.new is not None else ""
        owner = meta.controller()
        for key in tuple(self._readers.get(meta.namespace, {}).get(meta.name, ())):
            access = self._accesses.get(*key)
            # A Secret that the access itself generates has a watch of its own, without echoes.
            its_own = owner is not None and access is not None and owner.uid == access.meta.uid
            if not its_own and self._versions[key][delta.object.key] != version:
                yield Request(self._cluster, *key)

    async def close(self) -> None:
        """End all watches; the next pass of each access begins them again."""
        leases = [*self._leases.values()]
        for register in (self._leases, self._readers, self._versions):
            register.clear()
        for lease in leases:
            await lease.close()
