"""The commands' view of a cluster: its settings, servers, credentials and claims.

A missing right of the user becomes an item of ``notes`` where the command can go on, and an error
where it cannot. Only :meth:`Surroundings.make_key` writes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fairlead.api.kbind.names import FINALIZER_SYNCER as KBIND_FINALIZER_SYNCER
from fairlead.api.kubebind import FINALIZER_SYNCER
from fairlead.api.meta import Object, ObjectMeta
from fairlead.api.postgresaccess import POSTGRESACCESSES, PostgresAccess
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.api.postgresaccess.server import POSTGRESSERVERS, PostgresServer
from fairlead.api.resource import SECRETS, Resource
from fairlead.api.timestamps import moment
from fairlead.client import ApiError, Client, ClientError, Forbidden, NotFound
from fairlead.client.lookups import binding_of, find
from fairlead.postgres.controllers.access.claims import (
    KEY_SECRET,
    installation_key,
    object_hash,
    scope_of,
)
from fairlead.postgres.controllers.rules.desired import Desired, desired_of_access
from fairlead.postgres.controllers.rules.login_secret import (
    check_name,
    check_ours,
    check_template,
    given_password,
    given_secret,
    is_leftover,
    login_in,
    missing_password_secret,
)
from fairlead.postgres.controllers.rules.resolution import secret_data
from fairlead.postgres.controllers.rules.rotation import choose, keeps_password, next_login
from fairlead.postgres.controllers.servers.sources import EndpointSources, decode_server
from fairlead.postgres.controllers.settings import Settings, in_charge, in_force
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.errors import AccessError, invalid
from fairlead.postgres.options import PostgresOptions


HIDDEN = "***"
"""Text in place of an unknown value: the uid of a new object, a key that the user may not read."""


class KnownLogin(NamedTuple):
    """The login of an access, and the password that it keeps, "" where a new one is due.

    ``there`` tells that a Secret has a password, ``keeps`` that the role keeps an unknown one.
    """

    login: str
    password: str = ""
    there: bool = False
    keeps_password: bool = False


class NotInstalledError(ClientError):
    """The CRDs of PostgresAccess are not installed in the cluster."""


class ConsumerClusterError(ClientError):
    """A provider serves the PostgresAccesses of this cluster: roles and servers are elsewhere."""

    def __init__(self, bringer: str = "kube-bind") -> None:
        super().__init__(
            f"{bringer} brings {POSTGRESACCESSES.kind} to this cluster, so this is a consumer's"
            f" cluster: operator and servers are at its provider. Here {ANSWERS} shows how an"
            " access stands"
        )


ANSWERS = "`fairlead explain postgresaccess/NAME -n NAMESPACE`"
"""Command that answers in a consumer's cluster."""


class Surroundings:
    """One cluster, as far as the user of a command may read it."""

    def __init__(
        self, client: Client, settings: PostgresOptions, installation: str, key: bytes
    ) -> None:
        self.client = client
        self.settings = settings
        # The refusals of the operator's own code are told of the user, whose rights these are.
        self.sources = EndpointSources(client, Settings(settings), reader="you")
        self.installation = installation
        self._key = key
        self.notes: list[str] = []

    @classmethod
    async def of(cls, client: Client, namespace: str) -> Surroundings:
        """Read the settings, the installation's id and its key.

        Args:
            client: the client of the cluster.
            namespace: the namespace of the operator.

        Raises:
            ConsumerClusterError: a provider serves the accesses of this cluster.
            NotInstalledError: the CRDs are not installed.
            AccessError: the Controller in charge has invalid fields.
            ClientError: the cluster cannot be reached, or refuses.
        """
        notes: list[str] = []
        settings = PostgresOptions(namespace=namespace)
        binding = await binding_of(client, POSTGRESACCESSES)
        if binding:
            raise ConsumerClusterError(binding)
        try:
            objects = await list_installed(client, CONTROLLERS, namespace)
            # The flags of the operator are unknown here, so those of a Controller overlay the
            # defaults.
            settings = in_force(settings, in_charge(objects))
        except Forbidden:
            notes.append(
                f"you may not list Controllers in namespace {namespace}: the command uses the"
                " default settings instead of theirs"
            )
        except NotInstalledError as error:
            if binding is not None:
                raise
            # Who may not read CRDs may be a tenant of a consumer's cluster.
            raise NotInstalledError(
                f"{error}; in the cluster of a consumer of kube-bind, {ANSWERS} answers instead"
            ) from None
        surroundings = cls(
            client, settings, await _installation(client), await _key(client, namespace)
        )
        surroundings.notes += notes
        return surroundings

    def claim(self, meta: ObjectMeta) -> RoleClaim:
        """Return the claim of an object, with :data:`HIDDEN` for its unknown parts."""
        hashed = object_hash(self._key, meta.namespace, meta.name) if self._key else ""
        return RoleClaim(
            installation=self.installation or HIDDEN,
            object=hashed or HIDDEN,
            uid=meta.uid or HIDDEN,
            namespace=meta.namespace,
            name=meta.name,
        )

    def desired(self, access: PostgresAccess) -> Desired:
        """Return the desired state of an access, as the operator works it out."""
        return desired_of_access(access, self.settings, moment())

    def scope(self, desired: Desired) -> str | None:
        """Return the scope of the access's shared groups, "" without them, None where unknown."""
        if not desired.shares_groups:
            return ""
        if not self.knows_claims:
            self.notes.append(
                "the installation or its key is unknown: the command does not compare the grants"
                f" of {desired.access.metadata.key}, which a group holds"
            )
            return None
        return scope_of(desired.owner, self._key)

    async def make_key(self) -> None:
        """Create the key of the claims unless the operator has done so.

        Raises:
            AccessError: KeyInvalid, where the installation's id or its key is missing.
        """
        if not self.installation:
            raise invalid(
                "KeyInvalid",
                "the command cannot read which cluster this is: get the right to get Namespace"
                " kube-system",
            )
        if self._key:
            return
        try:
            self._key = await installation_key(self.client, self.settings.namespace)
        except ApiError as error:
            raise invalid(
                "KeyInvalid",
                f"cannot create Secret {self.settings.namespace}/{KEY_SECRET}, which claims need:"
                f" {error.message}",
            ) from None

    @property
    def knows_claims(self) -> bool:
        """Whether the claims have all their parts and can be compared with those of roles."""
        return bool(self._key and self.installation)

    async def server(self, name: str) -> PostgresServer:
        """Return the PostgresServer of a name.

        Raises:
            AccessError: ServerNotFound, or its fields are invalid.
        """
        with installed(POSTGRESSERVERS):
            server_object = await find(self.client, POSTGRESSERVERS, name)
        if server_object is None:
            raise AccessError(
                "ServerNotFound",
                f"PostgresServer {name} does not exist; kubectl get postgresservers lists those"
                " that do",
            )
        return decode_server(server_object)

    async def wanted_state(self, desired: Desired, *, blind: Collection[str] = ()) -> WantedState:
        """Return the wanted state of an access, with a new password where one is due.

        Args:
            desired: the desired state, with its server.
            blind: reasons of errors after which the password is not compared, * for all.

        Raises:
            AccessError: see :meth:`login`.
        """
        present = None
        try:
            present = await self.login(desired)
        except AccessError as error:
            if error.reason not in blind and "*" not in blind:
                raise
            if error.reason == "SecretForbidden":
                key = desired.access.metadata.key
                self.notes.append(
                    f"{error.message}: the command does not compare the password of {key}"
                )
        except ApiError:
            if "*" not in blind:
                raise
        login = present.login if present is not None else ""
        # Without the Secret the turn is told by the status alone.
        login = login or next_login(desired.access, "", moment(), rotating=False)
        # A password that is due is made up, so that the plan has its statement, with *** as in an
        # approval.
        password = "" if present is None else present.password or desired.rules.generate()
        keeps_password = present is not None and present.keeps_password
        return desired.wanted_state(
            self.claim(desired.access.metadata),
            self.scope(desired),
            login=login,
            password="" if keeps_password else password,
            keeps_password=keeps_password,
        )

    async def login(self, desired: Desired) -> KnownLogin:
        """Return login and password of the generated or the given Secret, as the operator does.

        Raises:
            AccessError: the Secret or the password policy is refused, by the operator's rules;
                SecretForbidden, where the user may not read the Secret.
        """
        access, mine, rules = desired.access, desired.obj, desired.rules
        spec, meta = access.spec, access.metadata
        check_name(spec.generated_secret)
        template = spec.secret_template
        if template is not None:
            check_template(template)
        secret_object = await self._secret(spec.generated_secret, meta.namespace)
        # An access that is not applied yet has no uid, and owns nothing.
        published = (
            secret_object is not None and bool(meta.uid) and secret_object.meta.owned_by(meta.uid)
        )
        if keeps_password(access, published=published):
            return KnownLogin(login=spec.username, keeps_password=True)
        # The operator makes such a Secret anew, with a new password.
        if secret_object is not None and is_leftover(secret_object, mine):
            secret_object = None
        if secret_object is not None:
            check_ours(secret_object, mine, template.type if template else "Opaque")
        given, name = "", given_secret(spec)
        if name:
            secret = await self._secret(name, meta.namespace)
            if secret is None:
                raise missing_password_secret(name, meta.namespace)
            given = given_password(spec, secret)
        has = login_in(secret_object)
        choice = choose(
            access,
            rules,
            secret_object.meta if secret_object else None,
            has,
            given=given,
            now=moment(),
        )
        return KnownLogin(choice.login, choice.password, there=bool(given or has[1]))

    async def _secret(self, name: str, namespace: str) -> Object | None:
        try:
            return await find(self.client, SECRETS, name, namespace)
        except Forbidden:
            raise AccessError(
                "SecretForbidden", f"you may not read Secret {namespace}/{name}"
            ) from None


async def list_installed(client: Client, resource: Resource, namespace: str = "") -> list[Object]:
    """Return all objects of a kind of Fairlead.

    Raises:
        NotInstalledError: the server does not know the kind.
        ClientError: the server refused the request or cannot be reached.
    """
    with installed(resource):
        return (await client.list(resource, namespace)).items


async def get_access(client: Client, name: str, namespace: str) -> Object | None:
    """Return the PostgresAccess of a name, None where it does not exist.

    Raises:
        ConsumerClusterError: a provider serves it.
        NotInstalledError: the server does not know the kind.
        ClientError: the server refused the request or cannot be reached.
    """
    with installed(POSTGRESACCESSES):
        obj = await find(client, POSTGRESACCESSES, name, namespace)
    if obj is not None and is_provided(obj.meta):
        raise ConsumerClusterError
    return obj


def is_provided(access: ObjectMeta) -> bool:
    """Whether a provider serves an access, as it tells also those who may not read its CRD."""
    return not {FINALIZER_SYNCER, KBIND_FINALIZER_SYNCER}.isdisjoint(access.finalizers)


@contextmanager
def installed(resource: Resource) -> Iterator[None]:
    """Replace the error for an unknown kind by one with a remedy.

    Raises:
        NotInstalledError: the server does not know the kind.
    """
    try:
        yield
    except NotFound as error:
        # 404 is of a missing object too, for which the remedy would be wrong.
        if not error.unserved:
            raise
        raise NotInstalledError(
            f"the cluster does not know {resource.kind}: install the operator, or its CRDs with"
            " fairlead crds postgres | kubectl apply -f -"
        ) from None


async def _installation(client: Client) -> str:
    """Return the installation's id, "" where the user may not read it."""
    try:
        return await EndpointSources(client, Settings(PostgresOptions())).installation()
    except (Forbidden, NotFound):
        return ""


async def _key(client: Client, namespace: str) -> bytes:
    """Return the installation's key, empty where it is missing or the user may not read it."""
    try:
        secret = await find(client, SECRETS, KEY_SECRET, namespace)
        return secret_data(secret).get("key", b"") if secret is not None else b""
    except (ApiError, AccessError):
        return b""


def same_server(access: PostgresAccess, other: PostgresAccess) -> bool:
    """Whether both accesses are on one server, by its system identifier or else by its address."""
    first, second = access.status.server, other.status.server
    # One server may have several host names, but has one system identifier.
    if first is not None and second is not None and first.system_identifier:
        return first.system_identifier == second.system_identifier
    return _way(access) == _way(other)


def _way(access: PostgresAccess) -> str:
    """Return the address in an access's connection, to compare it with that of another access."""
    connection, namespace = access.spec.connection, access.metadata.namespace
    if connection.server_ref is not None:
        return f"PostgresServer {connection.server_ref.name}"
    if connection.existing_secret is not None:
        where = connection.existing_secret_namespace or namespace
        return f"Secret {where}/{connection.existing_secret}"
    return f"{connection.host}:{connection.port or 5432}"
