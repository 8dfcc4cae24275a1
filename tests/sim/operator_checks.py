"""What must hold of the PostgresAccess operator: at commits, at statements, and at the end."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from tests.sim.databases import ADMINS, DATABASE, FIXED, SCHEMA, TABLES, Cluster, Row
from tests.sim.planes import Plane
from tests.sim.stores import Commit, held, one, watch_commits
from tests.sim.tenants import PRIVILEGES, Tenants

from fairlead.api.meta import JSON, Key, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, ROTATE_ANNOTATION
from fairlead.api.resource import LEASES, NAMESPACES, SECRETS


REST_STATEMENTS = 1200
"""Statements that all servers may get in the rest at the end."""
KEPT_SESSIONS = 2
"""Sessions that the operator may keep at each server, to see whether it is there."""
_SPOILT = base64.b64encode(b"spoilt").decode()
_OURS = "managed by Fairlead"
_CLAIMED = "managed by Fairlead: {"
_QUIET = frozenset({LEASES.group_resource, "events", "events.events.k8s.io"})
"""What is written at rest too."""
_ROLE = r'"((?:[^"]|"")+)"'
_DROPS = re.compile(
    rf"^(?:DROP ROLE (?:IF EXISTS )?|ALTER ROLE |DROP OWNED BY |REASSIGN OWNED BY "
    rf"|COMMENT ON ROLE ){_ROLE}"
)
_REVOKES = re.compile(rf"^REVOKE .* FROM {_ROLE}")
_IDENTIFIER = re.compile(_ROLE)


class Wish(NamedTuple):
    """What an access asks for, in short."""

    server: str
    username: str
    secret: str
    two: bool
    rights: frozenset[tuple[str, str]]


def wish_of(found: Object) -> Wish:
    """What an access asks for."""
    spec = found.to_dict()["spec"]
    rights = {
        (table, privilege)
        for grant in spec.get("grants") or ()
        if grant.get("on") == "Tables"
        for table in grant["names"]
        for privilege in grant["privileges"]
    }
    return Wish(
        spec["connection"]["serverRef"]["name"],
        spec["username"],
        spec["generatedSecret"],
        spec.get("passwordPolicy", {}).get("rotation") == "TwoLogins",
        frozenset(rights),
    )


class Checks(Tenants):
    """The invariants."""

    def watch(self) -> None:
        """Look at each commit and each line of a log from now on."""
        self.foreign: dict[Key, bytes] = {}
        """Secrets that are none of ours, byte by byte."""
        self.passwords: dict[str, None] = {}
        """All passwords that were ever in a Secret."""
        self.strangers: dict[str, list[Row]] = {}
        self._rest = 0
        watch_commits(
            self.simulation,
            self._count,
            self._learns_passwords,
            self._tells_no_password,
            self._keeps_foreign,
            self._forgets_foreign,
            self._ready_logs_in,
            self._two_logins_log_in,
        )
        self.simulation.on_log.append(self._logs_no_password)

    def remember(self, secret: Object) -> None:
        """Note a Secret that is none of ours, unless it has gone before its maker was answered."""
        found = one(self.plane, SECRETS, *reversed(secret.key))
        if found is not None and found.meta.uid == secret.meta.uid:
            self.foreign[secret.key] = secret.raw

    def remember_strangers(self) -> None:
        """Note what roles have that are none of ours."""
        self.strangers = {name: one.strangers() for name, one in self.clusters.items()}

    def saved(self, plane: Plane) -> object:
        """The Secrets that are none of ours."""
        return dict(self.foreign)

    def restored(self, plane: Plane, known: object) -> None:
        """Know them again as they were then."""
        assert isinstance(known, dict)
        self.foreign = dict(known)

    # --- at each commit

    def _count(self, commit: Commit) -> None:
        if commit.collection not in _QUIET:
            self.written.append(f"{commit.by} wrote {commit.collection} {commit.key}")

    def _learns_passwords(self, commit: Commit) -> None:
        if commit.collection == "secrets" and commit.change.type != "DELETED":
            for key, value in (commit.new.to_dict().get("data") or {}).items():
                if key == "password":
                    self.passwords[base64.b64decode(value).decode()] = None

    def _tells_no_password(self, commit: Commit) -> str | None:
        if commit.collection == "secrets":
            return None
        raw = commit.change.record.raw
        if any(password.encode() in raw for password in self.passwords if len(password) > 5):
            return f"{commit.by} has put a password into {commit.collection} {commit.key}"
        return None

    def _logs_no_password(self, text: str) -> None:
        if any(password in text for password in self.passwords if len(password) > 5):
            self.simulation.violated(f"a password stands in a log: {text}")

    def _by_replica(self, commit: Commit) -> bool:
        names = {replica.name for replica in self.replicas}
        return commit.writer is not None and commit.writer.name in names

    def _keeps_foreign(self, commit: Commit) -> str | None:
        if commit.collection != "secrets" or not self._by_replica(commit):
            return None
        if commit.key not in self.foreign:
            return None
        return f"{commit.by} has changed Secret {commit.key}, which is none of ours"

    def _forgets_foreign(self, commit: Commit) -> None:
        """What goes with its namespace, or by its owner's hand, is nobody's any more."""
        deleted = commit.collection == "secrets" and commit.change.type == "DELETED"
        if deleted and not self._by_replica(commit):
            self.foreign.pop(commit.key, None)

    def _ready_logs_in(self, commit: Commit) -> str | None:
        """A status that newly says that all is well tells of a Secret that opens a session."""
        if commit.collection != POSTGRESACCESSES.group_resource or not self._by_replica(commit):
            return None
        if commit.change.type == "DELETED" or not _is_ready(commit.new):
            return None
        before = commit.old
        if before is not None and _news(before) == _news(commit.new):
            return None
        return self._does_not_log_in(commit, commit.new, "says it is ready")

    def _two_logins_log_in(self, commit: Commit) -> str | None:
        """Of two logins the Secret has the one that works, at every moment."""
        if commit.collection != "secrets" or not self._by_replica(commit):
            return None
        if commit.change.type == "DELETED":
            return None
        old = commit.old
        if old is None or old.to_dict().get("data") == commit.new.to_dict().get("data"):
            return None
        for found in held(self.plane, POSTGRESACCESSES, commit.key.namespace):
            if commit.new.meta.owned_by(found.meta.uid) and wish_of(found).two:
                login = self.login_of(found)
                if login is None or not login.role.endswith(("_a", "_b")):
                    return None
                if _password(old) == _password(commit.new):
                    return None
                return self._does_not_log_in(commit, found, "has a new Secret")
        return None

    def _does_not_log_in(self, commit: Commit, found: Object, what: str) -> str | None:
        if found.meta.deleting:
            return None
        login = self.login_of(found)
        if login is None or (login.cluster.name, login.role) in self.given:
            return None
        if commit.writer is None or login.password.startswith("given-") or login.role == "spoilt":
            return None
        if login.cluster.takes(login.role, login.password):
            return None
        return (
            f"{commit.by}: {found.meta.namespace}/{found.meta.name} {what}, and its Secret does "
            f"not log in as {login.role} at {login.cluster.name}"
        )

    # --- at each statement

    def look_at_statement(self, cluster: Cluster, text: str) -> None:
        """A statement of the operator's tells no password and leaves alone what is not ours."""
        if any(password in text for password in self.passwords if len(password) > 5):
            self.simulation.violated(f"a password stands in a statement at {cluster.name}")
        for pattern in (_DROPS, _REVOKES):
            if found := pattern.match(text):
                role = found[1].replace('""', '"')
                self._touches(cluster, role, text)

    def _touches(self, cluster: Cluster, role: str, text: str) -> None:
        comment = cluster.comment(role)
        # One that is not there yet was made in the same transaction.
        if comment is None or comment.startswith(_OURS):
            return
        if role in FIXED or comment == "":
            short = re.sub(r"SCRAM-[^']*", "***", text)[:120]
            self.simulation.violated(f"{role} at {cluster.name} carries no claim of ours: {short}")

    # --- at the end

    def differences(self) -> list[str]:
        """What is not as the accesses ask for."""
        found: list[str] = []
        every = held(self.plane, POSTGRESACCESSES)
        for each in every:
            found += self._unlike(each)
        for name, cluster in self.clusters.items():
            wanted = {wish.username for wish in map(wish_of, every) if wish.server == name}
            for role in _claimed(cluster):
                base = role.removesuffix("_a").removesuffix("_b")
                if not {role, base} & wanted:
                    found.append(f"{name}: role {role} is ours, and nobody asks for it")
        return found

    def _unlike(self, found: Object) -> list[str]:
        name = f"{found.meta.namespace}/{found.meta.name}"
        wish, (ready, reason, message) = wish_of(found), _condition(found)
        cluster = self.clusters[wish.server]
        if found.meta.deleting:
            stuck = cluster.ask(
                "SELECT 1 FROM pg_shdepend WHERE refobjid = to_regrole(quote_ident(%s)) LIMIT 1",
                wish.username,
            )
            if "OwnsObjects" in message and stuck:
                return []
            return [f"{name} is being deleted still: {reason}: {message}"]
        if not ready:
            if self._is_true(found, wish, reason, message):
                return []
            return [f"{name} is not ready: {reason}: {message}"]
        if found.to_dict()["status"].get("observedGeneration") != found.meta.generation:
            return [f"{name} tells of an older spec"]
        login = self.login_of(found)
        if login is None:
            return [f"{name} has no Secret"]
        if left := self._stale_secrets(found, wish):
            return [f"{name}: {left}"]
        if not login.cluster.takes(login.role, login.password):
            return [f"{name}: its Secret does not log in as {login.role}"]
        has = _rights(cluster, wish.username)
        if has != wish.rights:
            where = f"{wish.username} at {wish.server}"
            return [f"{name}: {where} has {sorted(has)} and not {sorted(wish.rights)}"]
        return []

    def _stale_secrets(self, found: Object, wish: Wish) -> str:
        """What of the Secrets of an access is not yet as it shall be."""
        for secret in held(self.plane, SECRETS, found.meta.namespace):
            if not secret.meta.owned_by(found.meta.uid):
                continue
            if secret.meta.name != wish.secret:
                return f"Secret {secret.meta.name} has another name now"
            asked = found.meta.annotations.get(ROTATE_ANNOTATION)
            if asked != secret.meta.annotations.get(ROTATE_ANNOTATION) and asked:
                return "its password has not been made anew"
            if _SPOILT in (secret.to_dict().get("data") or {}).values():
                return "what somebody has spoilt in its Secret is not mended"
        return ""

    def _is_true(self, found: Object, wish: Wish, reason: str, message: str) -> bool:
        """Whether something is in the way of an access as its condition says."""
        said = f"{reason}: {message}"
        if "SecretConflict" in said:
            return Key(found.meta.namespace, wish.secret) in self.foreign or (
                (secret := one(self.plane, SECRETS, wish.secret, found.meta.namespace)) is not None
                and not secret.meta.owned_by(found.meta.uid)
            )
        cluster = self.clusters[wish.server]
        if "UsernameConflict" in said:
            return any(
                other.meta.uid != found.meta.uid
                and (theirs := wish_of(other)).server == wish.server
                and theirs.username == wish.username
                for other in held(self.plane, POSTGRESACCESSES)
            )
        if "AdoptionRefused" in said:
            names = (wish.username, f"{wish.username}_a", f"{wish.username}_b")
            comments = [cluster.comment(name) for name in names]
            return any(
                comment is not None and not comment.startswith(_CLAIMED) for comment in comments
            )
        return False

    def leftovers(self) -> list[str]:
        """Accesses, Secrets and roles that are still there."""
        found = [
            f"{each.key} is left: {_condition(each)[1:]}"
            for each in held(self.plane, POSTGRESACCESSES)
        ]
        found += [
            f"Secret {secret.key} is left"
            for namespace in held(self.plane, NAMESPACES)
            for secret in held(self.plane, SECRETS, namespace.meta.name)
            if any(owner.kind == "PostgresAccess" for owner in secret.meta.owner_references)
        ]
        for name, cluster in self.clusters.items():
            found += [f"{name}: role {role} is left" for role in _claimed(cluster)]
            found += [
                f"{name}: role {role} logs in still, and is retained"
                for (role,) in cluster.ask(
                    "SELECT rolname::text FROM pg_roles WHERE rolcanlogin AND rolname <> ALL (%s)"
                    " AND oid >= 16384 ORDER BY 1",
                    [*FIXED],
                )
            ]
        if not found:
            self._rest = sum(self.doors.statements.values())
        return found

    def check_end(self) -> list[str]:
        """What of others is not as it was, and what of ours has not ended."""
        found = []
        for name, cluster in self.clusters.items():
            if cluster.strangers() != self.strangers[name]:
                found.append(f"{name}: roles that are none of ours are not as they were")
            sessions = cluster.sessions()
            if len(sessions) > KEPT_SESSIONS or {*sessions} > {ADMINS[name]}:
                found.append(f"{name}: sessions are open still: {sessions}")
        sent = sum(self.doors.statements.values()) - self._rest
        self.simulation.figures["statements at rest"] = sent
        if sent > REST_STATEMENTS:
            found.append(f"{sent} statements were sent at rest")
        found += [
            f"Secret {key}, which is none of ours, is not as it was"
            for key, known in self.foreign.items()
            if (secret := one(self.plane, SECRETS, *reversed(key))) is None or secret.raw != known
        ]
        return found


def _condition(found: Object) -> tuple[bool, str, str]:
    for condition in found.to_dict().get("status", {}).get("conditions", ()):
        if condition["type"] == "Ready":
            return condition["status"] == "True", condition["reason"], condition["message"]
    return False, "", ""


def _is_ready(found: Object) -> bool:
    return _condition(found)[0]


def _news(found: Object) -> JSON:
    status = found.to_dict().get("status", {})
    return {
        "ready": _is_ready(found),
        "password": status.get("password", {}).get("fingerprint"),
        "secret": status.get("secret"),
    }


def _password(secret: Object) -> str:
    found: str = (secret.to_dict().get("data") or {}).get("password", "")
    return found


def _claimed(cluster: Cluster) -> list[str]:
    rows = cluster.ask(
        "SELECT rolname::text FROM pg_roles"
        " WHERE starts_with(shobj_description(oid, 'pg_authid'), %s) ORDER BY 1",
        _CLAIMED,
    )
    return [name for (name,) in rows]


def _rights(cluster: Cluster, role: str) -> frozenset[tuple[str, str]]:
    rows = cluster.ask(
        "SELECT t.name, p.name FROM unnest(%s::text[]) t(name), unnest(%s::text[]) p(name)"
        " WHERE to_regrole(quote_ident(%s)) IS NOT NULL"
        " AND has_table_privilege(to_regrole(quote_ident(%s)),"
        "                         to_regclass(%s || '.' || t.name), p.name)",
        [*TABLES],
        [*PRIVILEGES],
        role,
        role,
        SCHEMA,
        database=DATABASE,
    )
    return frozenset((table, privilege) for table, privilege in rows)
