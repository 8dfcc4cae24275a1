"""The commands' view of a cluster: its settings, servers, credentials and claims.

A missing right of the user becomes an item of ``notes`` where the command can go on, and an error
where it cannot. Only :meth:`Surroundings.make_key` writes.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from fairlead.api.meta import Key, Object, ObjectMeta
from fairlead.api.postgresaccess import POSTGRESACCESSES, PostgresAccess
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.api.postgresaccess.server import POSTGRESSERVERS, PostgresServer
from fairlead.api.resource import SECRETS, Resource
from fairlead.client import ApiError, Client, ClientError, Forbidden, NotFound
from fairlead.client.lookups import find
from fairlead.postgres.controllers.access.claims import scope_of
from fairlead.postgres.controllers.keys import KEY_SECRET, installation_key
from fairlead.postgres.controllers.rules.desired import (
    ServerPlace,
    expires_at,
    may_adopt,
    shares_groups,
    wanted_of,
)
from fairlead.postgres.controllers.rules.login_secret import (
    check_name,
    check_ours,
    check_template,
    current_login,
    current_password,
    given_password,
    given_secret,
    is_leftover,
    missing_password_secret,
)
from fairlead.postgres.controllers.rules.resolution import secret_data
from fairlead.postgres.controllers.rules.rotation import (
    current_of,
    keeps_password,
    password_defaults,
    password_rules,
    rotation_of,
    turns_of,
)
from fairlead.postgres.controllers.servers.sources import EndpointSources, decode_server
from fairlead.postgres.controllers.settings import Settings, in_charge, in_force
from fairlead.postgres.database.plans import logins
from fairlead.postgres.database.plans import password as passwords
from fairlead.postgres.database.plans.plan import WantedState
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.errors import AccessError, invalid
from fairlead.postgres.options import PostgresOptions


HIDDEN = "***"
"""Text in place of an unknown value: the uid of a new object, a key that the user may not read."""


class NotInstalledError(ClientError):
    """The CRDs of PostgresAccess are not installed in the cluster."""


class Surroundings:
    """One cluster, as far as the user of a command may read it."""

    def __init__(
        self, client: Client, settings: PostgresOptions, installation: str, key: bytes
    ) -> None:
        self.client = client
        self.settings = settings
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
            NotInstalledError: the CRDs are not installed.
            AccessError: the Controller in charge has invalid fields.
            ClientError: the cluster cannot be reached, or refuses.
        """
        notes: list[str] = []
        settings = PostgresOptions(namespace=namespace)
        try:
            found = await list_installed(client, CONTROLLERS, namespace)
            settings = in_force(settings, in_charge(found))
        except Forbidden:
            notes.append(
                f"you may not list Controllers in namespace {namespace}: the settings that they"
                " have are taken for the defaults"
            )
        made = cls(client, settings, await _installation(client), await _key(client, namespace))
        made.notes += notes
        return made

    def claim(self, meta: ObjectMeta) -> RoleClaim:
        """Return the claim of an object, with :data:`HIDDEN` for its unknown parts."""
        text = str(Key(meta.namespace, meta.name))
        hashed = hmac.digest(self._key, text.encode(), "sha256").hex()[:32] if self._key else ""
        return RoleClaim(
            installation=self.installation or HIDDEN,
            object=hashed or HIDDEN,
            uid=meta.uid or HIDDEN,
            namespace=meta.namespace,
            name=meta.name,
        )

    def scope(self, place: ServerPlace, access: PostgresAccess) -> str | None:
        """Return the scope of the access's shared groups, "" without them, None where unknown."""
        if not shares_groups(access, place.endpoint):
            return ""
        if not self.knows_claims:
            self.notes.append(
                f"the installation or its key is not known: the grants of {access.metadata.key},"
                " which a group has, are not compared"
            )
            return None
        return scope_of(place.owner, self._key)

    async def make_key(self) -> None:
        """Create the key of the claims unless the operator has done so.

        Raises:
            AccessError: KeyInvalid, where the installation's id or its key is missing.
        """
        if not self.installation:
            raise invalid(
                "KeyInvalid",
                "which cluster this is cannot be read: get the right to get Namespace kube-system",
            )
        if self._key:
            return
        try:
            self._key = await installation_key(self.client, self.settings.namespace)
        except ApiError as error:
            raise invalid(
                "KeyInvalid",
                f"Secret {self.settings.namespace}/{KEY_SECRET} cannot be made, which claims are"
                f" written with: {error.message}",
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
            found = await find(self.client, POSTGRESSERVERS, name)
        if found is None:
            raise AccessError(
                "ServerNotFound",
                f"PostgresServer {name} does not exist; kubectl get postgresservers lists those"
                " that do",
            )
        return decode_server(found)

    async def wanted(
        self, access: PostgresAccess, place: ServerPlace, *, blind: Collection[str] = ()
    ) -> WantedState:
        """Return the wanted state of an access, with a new password where it has none yet.

        Args:
            access: the object.
            place: the server of its role.
            blind: reasons of errors after which the password is not compared, * for all.

        Raises:
            AccessError: see :meth:`password`.
        """
        login, password, keeps = "", "", False
        try:
            keeps = await self.keeps_password(access)
            if not keeps:
                login, found = await self._login(access)
                password = found or passwords.generate()
        except AccessError as error:
            if error.reason not in blind and "*" not in blind:
                raise
            if error.reason == "SecretForbidden":
                key = access.metadata.key
                self.notes.append(f"{error.message}: the password of {key} is not compared")
        except ApiError:
            if "*" not in blind:
                raise
        login = login or logins.current_login(
            rotation_of(access.spec),
            access.spec.username,
            found="",
            known=current_of(access.status.logins),
        )
        return wanted_of(
            access,
            self.claim(access.metadata),
            password=password,
            keeps=keeps,
            ends=expires_at(access),
            turns=turns_of(access, login),
            adopt=may_adopt(access, self.settings),
            scope=self.scope(place, access),
        )

    async def keeps_password(self, access: PostgresAccess) -> bool:
        """Whether the role keeps its own password, so that the access has no Secret.

        Raises:
            AccessError: as in :meth:`password`.
        """
        if not keeps_password(access, published=False):
            return False
        spec, meta = access.spec, access.metadata
        password_rules(spec, password_defaults(self.settings.passwords))
        secret = await self._secret(spec.generated_secret, meta.namespace)
        published = secret is not None and bool(meta.uid) and secret.meta.owned_by(meta.uid)
        return keeps_password(access, published=published)

    async def _login(self, access: PostgresAccess) -> tuple[str, str | None]:
        """Return login and password of the generated Secret, None where a new password is due."""
        spec = access.spec
        rotation = rotation_of(spec)
        password = await self.password(access)
        secret = await self._secret(spec.generated_secret, access.metadata.namespace)
        found = current_login(secret)
        if spec.password_secret_ref is None and logins.must_rotate(
            rotation, spec.username, found=found
        ):
            password = None
        login = logins.current_login(
            rotation,
            spec.username,
            found=found,
            known=current_of(access.status.logins),
            rotating=password is None,
        )
        return login, password

    async def password(self, access: PostgresAccess) -> str | None:
        """Return the password of the generated or the given Secret, None where a new one is due.

        Raises:
            AccessError: the Secret or the password policy is refused, by the operator's rules;
                SecretForbidden, where the user may not read the Secret.
        """
        spec, meta = access.spec, access.metadata
        check_name(spec.generated_secret)
        if spec.secret_template is not None:
            check_template(spec.secret_template)
        password_rules(spec, password_defaults(self.settings.passwords))
        found = await self._secret(spec.generated_secret, meta.namespace)
        mine = Object(POSTGRESACCESSES.api_version, POSTGRESACCESSES.kind, meta, b"")
        if found is not None and is_leftover(found, mine):
            found = None
        if found is not None:
            check_ours(
                found, mine, spec.secret_template.type if spec.secret_template else "Opaque"
            )
        name = given_secret(spec)
        if not name:
            return current_password(found) or None
        given = await self._secret(name, meta.namespace)
        if given is None:
            raise missing_password_secret(name, meta.namespace)
        return given_password(spec, given)

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
        NotInstalledError: the server does not know the kind.
        ClientError: the server refused the request or cannot be reached.
    """
    with installed(POSTGRESACCESSES):
        return await find(client, POSTGRESACCESSES, name, namespace)


@contextmanager
def installed(resource: Resource) -> Iterator[None]:
    """Replace the error for an unknown kind by one with a remedy.

    Raises:
        NotInstalledError: the server does not know the kind.
    """
    try:
        yield
    except NotFound as error:
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
        found = await find(client, SECRETS, KEY_SECRET, namespace)
        return secret_data(found).get("key", b"") if found is not None else b""
    except (ApiError, AccessError):
        return b""
