"""The generated Secret: written before the database, removed with its PostgresAccess."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import SECRETS
from fairlead.api.timestamps import moment
from fairlead.client import AlreadyExists, Client, Conflict, NotFound
from fairlead.client.lookups import find
from fairlead.postgres import bounds
from fairlead.postgres.controllers.access.claims import InstallationKey
from fairlead.postgres.controllers.access.passes import Action, Credentials, Observed
from fairlead.postgres.controllers.rules.desired import Desired
from fairlead.postgres.controllers.rules.login_secret import (
    can_be,
    check_name,
    check_ours,
    check_template,
    content,
    given_password,
    given_secret,
    is_leftover,
    login_in,
    missing_password_secret,
    moves,
    secret_body,
    secret_values,
    uris_of,
)
from fairlead.postgres.controllers.rules.rotation import (
    Choice,
    PasswordRules,
    asked_for,
    choose,
    is_late,
    keeps_password,
    password_info,
)
from fairlead.postgres.controllers.watches import BY_CONTROLLER, AccessWatches
from fairlead.postgres.database.plans.password import fingerprint
from fairlead.postgres.errors import AccessError
from fairlead.runtime import Delta, commit


@dataclass(slots=True)
class _Made:
    """A Secret with a new password, for the pass that follows at once.

    ``used`` is set when a pass has read it here, before the cache had it.
    """

    secret: Object
    used: bool = False


class Published(NamedTuple):
    """Whether the Secret exists, the role keeps its own password, or a new password is due."""

    published: bool
    keeps_password: bool
    rotating: bool


class Publication:
    """Writes and removes generated Secrets, and leaves Secrets of other owners alone.

    Args:
        client: the client of the cluster.
        watches: the caches of accesses and Secrets, which save requests.
        key: the installation's key, for fingerprints of passwords.
        changed: called with an access whose Secret another writer has changed meanwhile.
    """

    def __init__(
        self,
        client: Client,
        watches: AccessWatches,
        key: InstallationKey,
        *,
        changed: Callable[[Object], object],
    ) -> None:
        self._client = client
        self._watches = watches
        self._key = key
        self._changed = changed
        self._written: dict[Key, _Made] = {}
        self._withdrawn: dict[Key, str] = {}
        """Uids of Secrets that were removed because their login does not work."""
        self._making: dict[Key, Object | None] = {}
        """Secrets under writing, with the version that the cache has received meanwhile."""

    def observe(self, desired: Desired) -> Published:
        """Return the state of the Secret by the cache and our own writes, without a request."""
        meta, access = desired.obj.meta, desired.access
        key = Key(meta.namespace, access.spec.generated_secret)
        cached, written = self._watches.secrets.get(*key), self._written.get(key)
        if cached is None or cached.meta.uid != self._withdrawn.get(key):
            self._withdrawn.pop(key, None)
        else:
            # The cache is late: with this Secret the pass would send its password again.
            cached = None
        secret = written.secret if cached is None and written is not None else cached
        exists = secret is not None and secret.meta.owned_by(meta.uid)
        # The cache may be late: the write of the Secret decides.
        rotating = (
            cached is not None
            and access.spec.password_secret_ref is None
            and isinstance(desired.password, PasswordRules)
            and (
                asked_for(meta, cached.meta) or is_late(desired.password, access.status, moment())
            )
        )
        return Published(exists, keeps_password(access, published=exists), rotating)

    async def has_own(self, desired: Desired) -> bool:
        """Whether the access has a Secret, which the cache may lack.

        A Secret of access-operator has our owner reference and not the label that the cache
        selects.
        """
        return await self._own(desired) is not None

    async def _own(self, desired: Desired) -> Object | None:
        name, meta = desired.access.spec.generated_secret, desired.obj.meta
        # The API server refuses a request for an invalid name, and no such Secret exists.
        secret = await find(self._client, SECRETS, name, meta.namespace) if can_be(name) else None
        return secret if secret is not None and secret.meta.owned_by(meta.uid) else None

    def is_cached(self, desired: Desired, observed: Observed) -> bool:
        """Whether the cache has the Secret that the pass has left.

        A Secret that was created and deleted while the watch was behind is in no later list, and
        no event would report its deletion.
        """
        if not observed.credentials.secret_uid:
            return True
        name = desired.access.spec.generated_secret
        return self._watches.secrets.get(desired.obj.meta.namespace, name) is not None

    async def peek(self, desired: Desired, observed: Observed) -> Credentials:
        """Return the present login and its password.

        The password is a random one without a Secret, and "" where the role keeps its own.
        """
        spec = desired.access.spec
        if observed.keeps_password:
            return Credentials(login=spec.username)
        existing = await self._own(desired)
        # A due password is generated when the plan is carried out, and no plan shows it.
        rules, source = desired.rules, existing.meta if existing is not None else None
        has = login_in(existing)
        given = "" if spec.password_secret_ref is None else has[1]
        choice = choose(desired.access, rules, source, has, given=given, now=moment())
        return Credentials(login=choice.login, password=choice.password or rules.generate())

    def is_news(self, delta: Delta) -> bool:
        """Whether a change of a Secret is by another writer than this process."""
        key = delta.object.key
        if key in self._making and delta.new is not None:
            # The event may come before the answer, which decides whether the write was ours.
            self._making[key] = delta.new
            return False
        written = self._written.get(key)
        if written is None:
            return True
        echo = delta.new is not None and _is_same(delta.new, written.secret)
        if written.used or not echo:
            del self._written[key]
        return not echo

    def used(self, desired: Desired) -> None:
        """Note that no pass needs the new Secret any more: the cache follows."""
        key = Key(desired.obj.meta.namespace, desired.access.spec.generated_secret)
        written, cached = self._written.get(key), self._watches.secrets.get(*key)
        if written is None:
            return
        written.used = True
        if cached is not None and _is_same(cached, written.secret):
            del self._written[key]

    async def write(self, desired: Desired, observed: Observed) -> Credentials:
        """Create or update the Secret: it keeps its password, or gets the given or a new one.

        Returns:
            The login and its password, with their part of the status. A password that replaces
            another one, or belongs to the other login, is only generated: the Secret gets it in a
            second call, once the server has it.

        Raises:
            AccessError: the Secret has another owner, the template or the policy is invalid, or no
                client could log in with the password.
        """
        spec, meta = desired.access.spec, desired.obj.meta
        check_name(spec.generated_secret)
        if spec.secret_template is not None:
            check_template(spec.secret_template)
        rules = desired.rules
        given = spec.password_secret_ref is not None
        if observed.keeps_password:
            return replace(observed.credentials, left=None, login=spec.username)
        password = await self._given(desired) if given else ""
        # A Secret that the cache lacks most likely does not exist: then one create is enough. Two
        # logins get their password before the Secret: a late cache would replace one in use.
        key = Key(meta.namespace, spec.generated_secret)
        is_known = key in self._written or self._watches.secrets.get(*key) is not None
        read = is_known or rules.rotation == "TwoLogins"
        for attempt in range(bounds.SECRET_TRIES):
            try:
                existing = await self._existing(desired) if read else None
                return await self._store(desired, observed, rules, password, existing)
            except (AlreadyExists, NotFound):
                if attempt + 1 == bounds.SECRET_TRIES:
                    raise
                read = True
        raise AssertionError

    async def _given(self, desired: Desired) -> str:
        spec, namespace = desired.access.spec, desired.obj.meta.namespace
        name = given_secret(spec)
        source = await find(self._client, SECRETS, name, namespace)
        version = source.meta.resource_version if source is not None else ""
        secret = Key(namespace, name)
        self._watches.named_secrets.has_read(desired.obj.key, secret, version)
        if source is None:
            raise missing_password_secret(name, namespace)
        return given_password(spec, source)

    async def _existing(self, desired: Desired) -> Object | None:
        access, obj, namespace = desired.access, desired.obj, desired.obj.meta.namespace
        name, template = access.spec.generated_secret, access.spec.secret_template
        existing = self._just_made(Key(namespace, name))
        if existing is None:
            existing = await find(self._client, SECRETS, name, namespace)
        if existing is not None and is_leftover(existing, obj):
            await self._delete(existing)
            existing = await find(self._client, SECRETS, name, namespace)
        if existing is not None:
            check_ours(existing, obj, template.type if template else "Opaque")
        return existing

    def _just_made(self, key: Key) -> Object | None:
        """Return the Secret of the last pass's write, None where the cache has another one."""
        written, cached = self._written.get(key), self._watches.secrets.get(*key)
        if written is None:
            return None
        # Without an event our write is trusted once: later the Secret may be gone unseen.
        if cached is None and not written.used:
            written.used = True
            return written.secret
        del self._written[key]
        is_same = cached is not None and _is_same(cached, written.secret)
        return written.secret if is_same and not written.used else None

    async def _store(
        self,
        desired: Desired,
        observed: Observed,
        rules: PasswordRules,
        given: str,
        existing: Object | None,
    ) -> Credentials:
        """Write the Secret, unless the server must have the login or its password first."""
        access, obj = desired.access, desired.obj
        source = existing or await self._former(desired)
        has = login_in(source)
        shown = "" if given or not has[1] else await self._fingerprint(desired, has[1])
        choice = choose(
            access,
            rules,
            source.meta if source is not None else None,
            has,
            given=given,
            now=moment(),
            fingerprint=shown,
            answers=observed.role == "free",
        )
        credentials = _chosen(rules, observed.credentials, choice, has[1])
        credentials = replace(credentials, uris=uris_of(access, source))
        values = secret_values(
            access.spec,
            desired.known_place.endpoint,
            credentials.password,
            credentials.login,
            uris=credentials.uris,
        )
        content_wanted = content(access.spec.secret_template, values, choice.mark)
        body = secret_body(obj, access.spec.generated_secret, content_wanted, existing)
        is_open = observed.credentials.left is Action.CHANGE_PASSWORD
        # A server that has answered in this pass may be in the Secret. A new password must be
        # there first in any case.
        settled = observed.role == "free" or observed.synced is not None
        settled = settled or is_open or credentials.is_new or credentials.is_staged
        if credentials.left is None and not settled and moves(existing, content_wanted):
            credentials = replace(credentials, left=Action.SYNC_DATABASE)
        if credentials.left is not None:
            return credentials
        if credentials.is_new:
            stored = await self._make(obj, existing, body)
            shown = ""
        else:
            stored = await self._write(obj, existing, body)
        shown = shown or await self._fingerprint(desired, credentials.password)
        info = password_info(rules, access.status.password, shown, moment())
        return replace(credentials, secret_uid=stored.meta.uid, info=info)

    async def _make(self, access: Object, existing: Object | None, body: JSON) -> Object:
        """Write a Secret with a new password; its event in the cache starts no pass."""
        key = Key(access.meta.namespace, body["metadata"]["name"])
        self._making[key] = None
        stored = None
        try:
            stored = await self._write(access, existing, body)
            self._written[key] = _Made(stored)
        finally:
            latest = self._making.pop(key)
            if latest is not None and (stored is None or not _is_same(latest, stored)):
                self._changed(access)
        return stored

    async def _write(self, access: Object, existing: Object | None, body: JSON) -> Object:
        if existing is None:
            return await self._client.create(SECRETS, body, access.meta.namespace)
        return await commit(self._client, SECRETS, existing, body)

    async def _fingerprint(self, desired: Desired, password: str) -> str:
        key = self._key.value or await self._key()
        return fingerprint(key, desired.obj.meta.uid, password)

    async def _former(self, desired: Desired) -> Object | None:
        """Return the Secret of a former name, whose password stays in use; None without one."""
        for name in self._former_names(desired):
            secret = await find(self._client, SECRETS, name, desired.obj.meta.namespace)
            if secret is None or not _controls(desired.obj, secret):
                continue
            try:
                if login_in(secret)[1]:
                    return secret
            except AccessError:
                continue
        return None

    def _former_names(self, desired: Desired) -> list[str]:
        access, uid = desired.access, desired.obj.meta.uid
        names = {one.meta.name for one in self._watches.secrets.by_index(BY_CONTROLLER, uid)}
        if access.status.secret is not None:
            names.add(access.status.secret.name)
        return sorted(names - {access.spec.generated_secret, ""})

    async def remove_former(self, desired: Desired) -> None:
        """Delete the Secrets that spec.generatedSecret named before, once the new one works."""
        for name in self._former_names(desired):
            secret = await find(self._client, SECRETS, name, desired.obj.meta.namespace)
            if secret is not None and _controls(desired.obj, secret):
                await self._delete(secret)

    async def _delete(self, secret: Object) -> None:
        try:
            await self._client.delete(
                SECRETS, secret.meta.name, secret.meta.namespace, uid=secret.meta.uid
            )
        # The uid is a precondition: a conflict means that another Secret has the name by now.
        except (NotFound, Conflict):
            return

    async def withdraw(self, desired: Desired) -> None:
        """Delete the Secrets of an access whose server has refused the login in them."""
        key = Key(desired.obj.meta.namespace, desired.access.spec.generated_secret)
        secret = await self._own(desired)
        await self.remove(desired)
        if secret is not None:
            self._withdrawn[key] = secret.meta.uid

    async def remove(self, desired: Desired) -> None:
        """Delete the Secrets of an access, for a cluster may run no garbage collector."""
        meta = desired.obj.meta
        names = [desired.access.spec.generated_secret, *self._former_names(desired)]
        # The API server refuses a request for an invalid name, and no such Secret exists.
        for name in filter(can_be, names):
            self._written.pop(Key(meta.namespace, name), None)
            self._withdrawn.pop(Key(meta.namespace, name), None)
            existing = await find(self._client, SECRETS, name, meta.namespace)
            if existing is not None and existing.meta.owned_by(meta.uid):
                await self._delete(existing)


def _chosen(rules: PasswordRules, before: Credentials, choice: Choice, there: str) -> Credentials:
    """Return the login with its password, and the action before the Secret has them.

    Args:
        rules: the rules of the password.
        before: the credentials of the pass so far.
        choice: the choice for the Secret.
        there: the password in the Secret, "" for none.

    Raises:
        AccessError: Conflict, where another writer has changed the Secret meanwhile.
    """
    # The Secret is written before the database: a crash would lose a password that only the
    # database has. A staged login is in no Secret yet, so that the database goes first.
    staged = before.is_staged and choice.login == before.login
    is_open = before.left is Action.CHANGE_PASSWORD
    password = choice.password or (before.password if staged or is_open else rules.generate())
    if is_open and (choice.login, password) != (before.login, before.password):
        raise AccessError("Conflict", "the Secret has changed meanwhile; trying again")
    left: Action | None = None
    if choice.turns and not staged:
        left = Action.STAGE_LOGIN
    # The other password in the Secret still works: the server must have the new one first.
    elif not (staged or is_open) and there not in {"", password}:
        left = Action.CHANGE_PASSWORD
    return replace(
        before,
        left=left,
        is_staged=staged,
        is_new=not choice.password,
        login=choice.login,
        password=password,
        iterations=rules.iterations,
        postponed=choice.postponed,
        # Another replica may have written the Secret since it was read: then the login gets the
        # password of that Secret back.
        elsewhere=staged and password != before.password,
    )


def _is_same(obj: Object, other: Object) -> bool:
    return (obj.meta.uid, obj.meta.resource_version) == (
        other.meta.uid,
        other.meta.resource_version,
    )


def _controls(access: Object, secret: Object) -> bool:
    owner = secret.meta.controller()
    return owner is not None and owner.uid == access.meta.uid
