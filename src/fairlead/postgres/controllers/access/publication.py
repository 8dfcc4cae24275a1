"""Writes the generated Secret before the database, and removes it with the PostgresAccess."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fairlead.api.meta import JSON, Key, Object
from fairlead.api.postgresaccess import PostgresAccessStatus
from fairlead.api.resource import SECRETS
from fairlead.api.timestamps import moment
from fairlead.client import AlreadyExists, Client, Conflict, NotFound
from fairlead.client.lookups import find
from fairlead.postgres.controllers.access.passes import Pass
from fairlead.postgres.controllers.rules.login_secret import (
    can_be,
    check_name,
    check_ours,
    check_template,
    content,
    current_login,
    current_password,
    given_password,
    given_secret,
    is_leftover,
    missing_password_secret,
    secret_body,
    secret_values,
)
from fairlead.postgres.controllers.rules.rotation import (
    PasswordDefaults,
    PasswordRules,
    asked_for,
    current_of,
    ends_of,
    is_due,
    is_old,
    mark_of,
    password_info,
    password_rules,
    seconds_left,
)
from fairlead.postgres.controllers.watches import BY_CONTROLLER, AccessWatches
from fairlead.postgres.database.plans import logins
from fairlead.postgres.database.plans.password import fingerprint
from fairlead.postgres.errors import AccessError
from fairlead.runtime import Delta, Informer, commit


_ATTEMPTS = 4
"""Tries to write a Secret that others delete or create meanwhile."""


@dataclass(slots=True)
class _Made:
    """A Secret with a password just made, for the pass that follows at once.

    When that has ``used`` it, the cache has not told of it yet.
    """

    secret: Object
    used: bool = False


class Publication:
    """Writes and removes generated Secrets; those of others are never touched.

    Args:
        client: of the cluster.
        watches: tell which Secrets there are, which saves asking.
        key: the installation's, for fingerprints.
        opened: is called with each new lease on the Secrets of a namespace.
        changed: is called with an access whose Secret somebody else has written meanwhile.
        defaults: of password policies, as they are now.
    """

    def __init__(
        self,
        client: Client,
        watches: AccessWatches,
        key: Callable[[], Awaitable[bytes]],
        *,
        opened: Callable[[Informer], object],
        changed: Callable[[Object], object],
        defaults: Callable[[], PasswordDefaults],
    ) -> None:
        self._client = client
        self._watches = watches
        self._key = key
        self._opened = opened
        self._changed = changed
        self._defaults = defaults
        self._made: dict[Key, _Made] = {}
        self._making: dict[Key, Object | None] = {}
        """Secrets being written, as the cache has told of them meanwhile."""

    def exists(self, current: Pass) -> bool:
        """Whether there is a Secret already, by the cache's word or as we have just made it."""
        meta, spec = current.found.meta, current.decoded.spec
        secret = self._watches.secrets.get(meta.namespace, spec.generated_secret)
        made = self._made.get(Key(meta.namespace, spec.generated_secret))
        if secret is None and made is not None:
            secret = made.secret
        return secret is not None and secret.meta.owned_by(meta.uid)

    def seen(self, current: Pass) -> bool:
        """Whether the cache has the Secret that the pass has left.

        One that came and went while the watch was behind is in no list that follows, and nothing
        would tell that it is gone.
        """
        if current.facts.secret not in {"generated", "reused"}:
            return True
        name = current.decoded.spec.generated_secret
        return self._watches.secrets.get(current.found.meta.namespace, name) is not None

    async def password_of(self, current: Pass) -> str:
        """The password that there is; without a Secret one that nobody has, or "" to keep it."""
        spec, namespace = current.decoded.spec, current.found.meta.namespace
        if current.facts.keeping:
            current.login = spec.username
            return ""
        existing = None
        if self.exists(current):
            existing = await find(self._client, SECRETS, spec.generated_secret, namespace)
        # One that is due is made when the plan is carried out; of it the plan shows nothing.
        rules = password_rules(spec, self._defaults())
        kept = "" if current.facts.rotating else current_password(existing)
        if _changes_login(current, rules, existing):
            kept = ""
        current.login = _login(current, rules, existing, rotating=not kept)
        return kept or rules.generate()

    def version(self, namespace: str, name: str) -> str:
        """The resourceVersion of a generated Secret, or of one that spec.passwordSecretRef names.

        By the cache's word: "" where it has none. As long as it stays, nothing in the Secret has
        changed.
        """
        found = self._watches.secret(namespace, name)
        return found.meta.resource_version if found is not None else ""

    def is_news(self, delta: Delta) -> bool:
        """A predicate: it is not the Secret that we have just made."""
        key = delta.object.key
        if key in self._making and delta.new is not None:
            # A watch may tell of a write before its answer does: that decides whose it was.
            self._making[key] = delta.new
            return False
        made = self._made.get(key)
        if made is None:
            return True
        echo = delta.new is not None and _is_same(delta.new, made.secret)
        if made.used or not echo:
            del self._made[key]
        return not echo

    def used(self, current: Pass) -> None:
        """No pass follows that needs the Secret which this one has made: the cache will tell."""
        key = Key(current.found.meta.namespace, current.decoded.spec.generated_secret)
        made, cached = self._made.get(key), self._watches.secrets.get(*key)
        if made is None:
            return
        made.used = True
        if cached is not None and _is_same(cached, made.secret):
            del self._made[key]

    def may_rotate(self, current: Pass) -> bool:
        """Whether a new password may be due, by the cache's word; :meth:`write` decides."""
        meta, access = current.found.meta, current.decoded
        secret = self._watches.secrets.get(meta.namespace, access.spec.generated_secret)
        if secret is None or access.spec.password_secret_ref is not None:
            return False
        try:
            rules = password_rules(access.spec, self._defaults())
        except AccessError:
            return False
        return asked_for(meta, secret.meta) or _is_old(current, rules)

    def rotates_in(self, status: PostgresAccessStatus) -> float | None:
        """Seconds until the password is due or a login ends, 0 when it is late; None for never."""
        return seconds_left(status.password, moment(), status.logins)

    async def write(self, current: Pass) -> None:
        """Boxes S to W: reuse the password that is there or given, or make one.

        Learns the password, and what the status shall say of it once the server has it. A
        password that takes the place of another, or that of another login, is only made at first:
        it is written when the server has it.

        Raises:
            AccessError: the Secret is not ours, the template or the policy is wrong, or the
                password is one that nobody could log in with.
        """
        spec, meta = current.decoded.spec, current.found.meta
        check_name(spec.generated_secret)
        if spec.secret_template is not None:
            check_template(spec.secret_template)
        rules = password_rules(spec, self._defaults())
        # Watched before it is read, so that no change in between goes unseen.
        given = spec.password_secret_ref is not None
        await self._watches.follow_passwords(
            meta.namespace, meta.name, wanted=given, opened=self._opened
        )
        if current.facts.keeping:
            current.login = spec.username
            current.learn(secret="none")  # noqa: S106
            return
        password = await self._given(current) if given else ""
        current.iterations = rules.iterations
        stored = await self._publish(current, rules, password)
        if stored is None:
            return
        current.secret_uid = stored.meta.uid
        current.password_info = password_info(
            rules,
            current.decoded.status.password,
            await self._fingerprint(current, current.password),
            moment(),
        )

    async def _given(self, current: Pass) -> str:
        spec, namespace = current.decoded.spec, current.found.meta.namespace
        name = given_secret(spec)
        found = await find(self._client, SECRETS, name, namespace)
        if found is None:
            raise missing_password_secret(name, namespace)
        return given_password(spec, found)

    async def _publish(self, current: Pass, rules: PasswordRules, given: str) -> Object | None:
        name, namespace = current.decoded.spec.generated_secret, current.found.meta.namespace
        # What the cache does not know is most likely not there: then one request does it. Logins
        # that take turns have their password before the Secret, which must not be there then.
        key = Key(namespace, name)
        look = key in self._made or self._watches.secrets.get(*key) is not None
        look = look or rules.rotation == "TwoLogins"
        for attempt in range(_ATTEMPTS):
            try:
                existing = await self._existing(current) if look else None
                return await self._store(current, rules, given, existing)
            except (AlreadyExists, NotFound):
                if attempt + 1 == _ATTEMPTS:
                    raise
                look = True
        raise AssertionError

    async def _existing(self, current: Pass) -> Object | None:
        spec, namespace = current.decoded.spec, current.found.meta.namespace
        existing = self._just_made(Key(namespace, spec.generated_secret))
        if existing is None:
            existing = await find(self._client, SECRETS, spec.generated_secret, namespace)
        if existing is not None and is_leftover(existing, current.found):
            await self._delete(existing)
            existing = await find(self._client, SECRETS, spec.generated_secret, namespace)
        if existing is not None:
            type_ = spec.secret_template.type if spec.secret_template else "Opaque"
            check_ours(existing, current.found, type_)
        return existing

    def _just_made(self, key: Key) -> Object | None:
        """The Secret that the last pass has made, unless the cache tells of another one."""
        made, cached = self._made.get(key), self._watches.secrets.get(*key)
        if made is None:
            return None
        # This is trusted once: after that the Secret may be gone, and the cache have told of
        # nothing.
        if cached is None and not made.used:
            made.used = True
            return made.secret
        del self._made[key]
        is_same = cached is not None and _is_same(cached, made.secret)
        return made.secret if is_same and not made.used else None

    async def _store(
        self, current: Pass, rules: PasswordRules, given: str, existing: Object | None
    ) -> Object | None:
        access, found = current.decoded, current.found
        source = existing or await self._former(current)
        kept = given or current_password(source)
        mark = mark_of(found.meta)
        changes = _changes_login(current, rules, source)
        if kept and source is not None and not given:
            if changes or await self._due(current, rules, source, kept):
                kept = ""
            else:
                mark = mark_of(source.meta)
        login = _login(current, rules, source, rotating=not kept)
        # Stored before it is used: a password that only the database knew would be lost in a
        # crash. Of a login that nobody has been given yet nothing is lost, and so it comes first.
        staged = current.facts.secret == "staged" and login == current.login  # noqa: S105
        is_open = current.facts.secret == "changing"  # noqa: S105
        if is_open and (login != current.login or kept not in {"", current.password}):
            raise AccessError("Conflict", "the Secret has changed meanwhile; trying again")
        if staged and kept not in {"", current.password}:
            # Another replica's last write has come since the look: the login has to have its
            # password back.
            current.learn(synced=False)
        if kept or not (staged or is_open):
            current.password = kept or rules.generate()
        current.login = login
        values = secret_values(access.spec, current.reached.endpoint, current.password, login)
        wanted = content(access.spec.secret_template, values, mark)
        body = secret_body(found, access.spec.generated_secret, wanted, existing)
        turns = changes or (rules.rotation == "TwoLogins" and not kept)
        if turns and not staged:
            current.learn(secret="due")  # noqa: S106
            return None
        if not (staged or is_open) and _replaces(source, current.password):
            current.learn(secret="changing")  # noqa: S106
            return None
        if kept:
            stored = await self._write(found, existing, body)
        else:
            stored = await self._make(found, existing, body)
        current.learn(secret="reused" if kept else "generated")
        return stored

    async def _make(self, access: Object, existing: Object | None, body: JSON) -> Object:
        """Write a Secret with a new password, which is no news when the cache tells of it."""
        key = Key(access.meta.namespace, body["metadata"]["name"])
        self._making[key] = None
        stored = None
        try:
            stored = await self._write(access, existing, body)
            self._made[key] = _Made(stored)
        finally:
            seen = self._making.pop(key)
            if seen is not None and (stored is None or not _is_same(seen, stored)):
                self._changed(access)
        return stored

    async def _write(self, access: Object, existing: Object | None, body: JSON) -> Object:
        if existing is None:
            return await self._client.create(SECRETS, body, access.meta.namespace)
        return await commit(self._client, SECRETS, existing, body)

    async def _due(
        self, current: Pass, rules: PasswordRules, secret: Object, password: str
    ) -> bool:
        info, meta = current.decoded.status.password, current.found.meta
        fingerprint_ = await self._fingerprint(current, password)
        due = is_due(rules, meta, secret.meta, info, fingerprint_, moment())
        if due and not asked_for(meta, secret.meta):
            due = _is_old(current, rules)
        # While the server does not answer, the old password is the one that logs in.
        current.postponed = due and not current.facts.answers
        return due and not current.postponed

    async def _fingerprint(self, current: Pass, password: str) -> str:
        return fingerprint(await self._key(), current.found.meta.uid, password)

    async def _former(self, current: Pass) -> Object | None:
        """The Secret under a former name, whose password goes on to be used."""
        for name in self._former_names(current):
            found = await find(self._client, SECRETS, name, current.found.meta.namespace)
            if found is None or not _controls(current.found, found):
                continue
            try:
                if current_password(found):
                    return found
            except AccessError:
                continue
        return None

    def _former_names(self, current: Pass) -> list[str]:
        access, uid = current.decoded, current.found.meta.uid
        names = {one.meta.name for one in self._watches.secrets.by_index(BY_CONTROLLER, uid)}
        if access.status.secret is not None:
            names.add(access.status.secret.name)
        return sorted(names - {access.spec.generated_secret, ""})

    async def remove_renamed(self, current: Pass) -> None:
        """Delete Secrets of former names of spec.generatedSecret; the new one works by now."""
        for name in self._former_names(current):
            found = await find(self._client, SECRETS, name, current.found.meta.namespace)
            if found is not None and _controls(current.found, found):
                await self._delete(found)

    async def _delete(self, secret: Object) -> None:
        try:
            await self._client.delete(
                SECRETS, secret.meta.name, secret.meta.namespace, uid=secret.meta.uid
            )
        # With its uid as a precondition a conflict says that another Secret has the name by now.
        except (NotFound, Conflict):
            return

    async def remove(self, current: Pass) -> None:
        """Delete the Secrets, without waiting for a garbage collector that may not be there."""
        meta = current.found.meta
        names = [current.decoded.spec.generated_secret, *self._former_names(current)]
        # There is no Secret under a name that none can have, and the server would refuse to look.
        for name in filter(can_be, names):
            self._made.pop(Key(meta.namespace, name), None)
            existing = await find(self._client, SECRETS, name, meta.namespace)
            if existing is not None and existing.meta.owned_by(meta.uid):
                await self._delete(existing)
        await self._watches.follow_passwords(
            meta.namespace, meta.name, wanted=False, opened=self._opened
        )


def _login(current: Pass, rules: PasswordRules, secret: Object | None, *, rotating: bool) -> str:
    """The login that the Secret shall have."""
    access, now = current.decoded, moment()
    ends = ends_of(access.status.logins)
    return logins.current_login(
        rules.rotation,
        access.spec.username,
        found=current_login(secret),
        known=current_of(access.status.logins),
        rotating=rotating,
        ending=[name for name, end in ends.items() if end > now],
    )


def _replaces(source: Object | None, password: str) -> bool:
    """Whether a Secret has another password so far, which logs in."""
    return source is not None and current_password(source) not in {"", password}


def _changes_login(current: Pass, rules: PasswordRules, secret: Object | None) -> bool:
    """Whether the Secret has a login of the other kind of rotation."""
    username = current.decoded.spec.username
    return logins.must_rotate(rules.rotation, username, found=current_login(secret))


def _is_old(current: Pass, rules: PasswordRules) -> bool:
    """Whether the clock asks for a new password, and no login would lose its grace for it."""
    status, now = current.decoded.status, moment()
    free = logins.may_rotate(rules.rotation, ends_of(status.logins), now)
    return free and is_old(rules, status.password, now)


def _is_same(one: Object, other: Object) -> bool:
    return (one.meta.uid, one.meta.resource_version) == (
        other.meta.uid,
        other.meta.resource_version,
    )


def _controls(access: Object, secret: Object) -> bool:
    owner = secret.meta.controller()
    return owner is not None and owner.uid == access.meta.uid
