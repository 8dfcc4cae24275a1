"""Failures of connections and statements as errors that name the remedy.

libpq gives no SQLSTATE for a failed connection, only a text. That text is parsed and thrown away;
of other errors one text is, which PostgreSQL gives without an SQLSTATE of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from fairlead.postgres import bounds
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.errors import AccessError, PasswordForm, Retry


class AnswerTooLargeError(psycopg.OperationalError):
    """An answer larger than any that PostgreSQL has a reason to send."""

    def __init__(self) -> None:
        super().__init__("the answer is too large")


class TooManyRoundsError(psycopg.OperationalError):
    """A server that asks for more rounds of SCRAM-SHA-256 than a login is worth."""

    def __init__(self, rounds: int) -> None:
        super().__init__("too many rounds")
        self.rounds = rounds


class InconstantError(psycopg.OperationalError):
    """A server that asks for SCRAM-SHA-256 but did not tell the number of rounds before."""

    def __init__(self) -> None:
        super().__init__("the server did not say that it would ask for SCRAM")


# The first sign in the text counts: the texts about pg_hba.conf end with "SSL encryption", and
# "too many connections for role" contains a sign of the server's own limits.
_CONNECT = (
    ("too many rounds", "TooManyRounds"),
    ("did not say that it would ask for scram", "Inconstant"),
    ("the answer is too large", "Chatters"),
    ("startup parameter", "Pooled"),
    ("command-line options", "Pooled"),
    ("password authentication failed", "AuthenticationFailed"),
    ("no password supplied", "AuthenticationFailed"),
    ("authentication method requirement", "AuthenticationMethod"),
    ("no pg_hba.conf entry", "HostRefused"),
    ("pg_hba.conf rejects", "HostRefused"),
    ("permission denied for database", "InsufficientPrivilege"),
    ("is not permitted to log in", "LoginForbidden"),
    ("ssl", "TLSFailed"),
    ("certificate", "TLSFailed"),
    ("starting up", "Starting"),
    ("shutting down", "Starting"),
    ("recovery", "Starting"),
    ("read-only", "ReadOnly"),
    ("too many connections for role", "RoleIsFull"),
    ("too many clients", "TooManyConnections"),
    ("too many connections", "TooManyConnections"),
    ("remaining connection slots", "TooManyConnections"),
    ("not currently accepting connections", "DatabaseNotFound"),
    ("resolve host", "Unresolved"),
    ("could not translate host name", "Unresolved"),
    ("timeout", "TimedOut"),
    ("connection refused", "Refused"),
)
_SENTENCES = {
    "AuthenticationFailed": (
        "AuthenticationFailed",
        "the server {server} refused the password of {user}; correct {source}",
    ),
    "TooManyRounds": (
        "AuthenticationFailed",
        (
            "the server {server} asks for {rounds} iterations of SCRAM-SHA-256 for the password"
            " of {user}; store the password again with at most {most}"
        ),
    ),
    "AuthenticationMethod": (
        "AuthenticationFailed",
        (
            "the server {server} asks for an authentication method other than scram-sha-256 or"
            " md5; change its pg_hba.conf, or set sslMode to verify-full if the login uses only"
            " a certificate"
        ),
    ),
    "HostRefused": (
        "AuthenticationFailed",
        (
            "{server} does not let {user} into {database} from here; change its pg_hba.conf, or"
            " sslMode"
        ),
    ),
    "LoginForbidden": (
        "AuthenticationFailed",
        "role {user} may not log in to {server}; give it LOGIN",
    ),
    "InsufficientPrivilege": (
        "InsufficientPrivilege",
        "{user} may not connect to database {database} on {server}; grant it CONNECT",
    ),
    "TLSFailed": (
        "TLSFailed",
        (
            "no trusted TLS connection to {server}; check CA, host name and dates of its"
            " certificate, and sslMode"
        ),
    ),
    "DatabaseNotFound": (
        "DatabaseNotFound",
        "database {database} does not exist on {server}, or takes no connections; create it",
    ),
    "Inconstant": (
        "ConnectionFailed",
        "the server {server} did not say in time how it checks passwords; trying again",
    ),
    "Chatters": (
        "ConnectionFailed",
        "{server} does not answer as PostgreSQL does; check host and port",
    ),
    "Pooled": (
        "ConnectionFailed",
        (
            "{server} is a pooler that does not pass on session options; set host and port to"
            " those of PostgreSQL"
        ),
    ),
    "Starting": ("ConnectionFailed", "the server {server} is not ready; waiting for it"),
    "ReadOnly": (
        "ConnectionFailed",
        "the server {server} is read-only; set host to the primary",
    ),
    "TooManyConnections": (
        "ConnectionFailed",
        "the server {server} has no connection left; raise max_connections",
    ),
    "RoleIsFull": (
        "RoleIsFull",
        "role {user} has no connection left on {server}; raise its connection limit",
    ),
    "Unresolved": ("ConnectionFailed", "the host of {server} has no address; check host"),
    "TimedOut": ("ConnectionFailed", "{server} did not answer in time; check host and port"),
    "Refused": ("ConnectionFailed", "nothing listens at {server}; check host and port"),
    "": ("ConnectionFailed", "no connection to {server}; check host, port and the server's log"),
}

_STATES = {
    "42501": (
        "InsufficientPrivilege",
        "{admin} may not {what}; grant it the right, or use another administrator",
    ),
    "3F000": ("SchemaNotFound", "the schema does not exist any more: could not {what}"),
    # pg_class and pg_attribute have no TOAST table, so a row with its ACL has to fit into one
    # page: a table has room for about 2,400 entries.
    "54000": (
        "TooManyGrantees",
        "no room for more grantees: could not {what}; share a group role with spec.memberOf",
    ),
    "55P03": ("Locked", "another session holds a lock needed to {what}; waiting for it"),
    "57014": ("TimedOut", "it took too long to {what}; trying again"),
    "2BP01": ("OwnsObjects", "another object depends on it now: could not {what}"),
    "25006": ("ConnectionFailed", "the server is read-only; set host to the primary"),
    "53100": ("DiskFull", "the disk of the server is full: could not {what}; make room"),
    # One state for both: the table of locks has a size of its own, whatever memory there is.
    "53200": (
        "OutOfMemory",
        (
            "the server has no memory or no locks left: could not {what}; raise"
            " max_locks_per_transaction, or give the server more memory"
        ),
    ),
}
LOCKED_STATE = "55P03"
"""SQLSTATE of a statement that did not get its lock in time."""
# XX000 is "tuple concurrently updated": GRANT and ALTER ROLE do not wait for another writer of the
# same row of a catalog, but fail.
TRANSIENT_STATES = frozenset({"XX000", "40P01", "40001", "23505", "42710"})
"""SQLSTATEs of concurrent writers: the same statement may well work the next time.

The last two mean that another writer has made the same role, or the same membership.

https://www.postgresql.org/docs/current/errcodes-appendix.html
"""


_INTERFERENCE = "tuple concurrently"
"""Text of an internal error by which another writer of the same row interfered."""
_NO_SUCH_VALUE = {"22003", "22023", "22P02", "42602"}
"""SQLSTATEs of a parameter that does not take the value."""
_NO_SUCH_PARAMETER = {"42704", "55P02"}
"""SQLSTATEs of a parameter that does not exist, or of a role that was dropped meanwhile."""

_TELLING = {"Chatters", "TLSFailed", "Unresolved", "TimedOut", "Refused", ""}
"""Kinds of failures that tell whether any server, PostgreSQL or not, listens at an address."""
_DISCREET = (
    "ConnectionFailed",
    "no connection to a PostgreSQL at {server}; check host, port, sslMode and certificates",
)

_SOURCE = "the credentials in {}"


class NotLetInError(AccessError):
    """A login that the server refused before it checked the password."""


class LoginRefusedError(AccessError):
    """A login whose password the server refused."""


class ServerFullError(AccessError):
    """A login to a server without a free connection."""


class SessionEndedError(AccessError):
    """A session that ended in the middle of its work, by its server or on the way to it."""


_TYPES: dict[str, type[AccessError]] = {
    "HostRefused": NotLetInError,
    "AuthenticationMethod": NotLetInError,
    "AuthenticationFailed": LoginRefusedError,
    "TooManyConnections": ServerFullError,
}


def explain_connect(
    error: Exception,
    server: str,
    database: str,
    user: str,
    *,
    discreet: bool = False,
    source: str = "",
    distrust: str = "",
) -> AccessError:
    """Return the reason and the remedy of a failed connection, without the text of its error.

    ``distrust`` says why the server's certificate was refused, "" if that is unknown.

    For a ``discreet`` connection all failures before PostgreSQL answers share one sentence: a
    tenant who chose the host must not learn what else is in the operator's network.
    """
    kind = _kind(error)
    reason, sentence = _DISCREET if discreet and kind in _TELLING else _SENTENCES[kind]
    if distrust:
        sentence = "no trusted TLS connection to {server}: {distrust}"
    type_ = _TYPES.get(kind, AccessError)
    named = {
        "server": server,
        "database": database,
        "user": user,
        "most": bounds.ITERATIONS_MOST,
        "source": _SOURCE.format(source) if source else "the credentials",
        "distrust": distrust,
    }
    rounds = error.rounds if isinstance(error, TooManyRoundsError) else 0
    return type_(reason, sentence.format(**named, rounds=rounds))


def refused(endpoint: Endpoint) -> LoginRefusedError:
    """Return the error of a login whose credentials the server has refused a moment ago."""
    reason, sentence = _SENTENCES["AuthenticationFailed"]
    source = _SOURCE.format(endpoint.source) if endpoint.source else "the credentials"
    named = {"server": str(endpoint), "user": endpoint.username, "source": source}
    return LoginRefusedError(reason, sentence.format(**named))


def _kind(error: Exception) -> str:
    text = str(error).lower()
    # The timeout of asyncio has no text.
    if isinstance(error, TimeoutError):
        text = "timeout"
    kind = next((kind for sign, kind in _CONNECT if sign in text), "")
    if not kind and "database" in text and "does not exist" in text:
        return "DatabaseNotFound"
    return kind


def is_without_tls(error: Exception) -> bool:
    """Whether a login failed for want of a TLS connection that can be trusted."""
    return _kind(error) == "TLSFailed"


def may_be_refused(error: Exception) -> bool:
    """Whether a login may have failed because of its password; a server speaks any language."""
    return _kind(error) in {"", "AuthenticationFailed", "AuthenticationMethod"}


def asks_for_other(error: Exception) -> bool:
    """Whether the server wants another authentication method than the offered ones."""
    return _kind(error) == "AuthenticationMethod"


def pooled(server: str) -> AccessError:
    """Return the error of a session whose options have not arrived: a pooler keeps them."""
    reason, sentence = _SENTENCES["Pooled"]
    return AccessError(reason, sentence.format(server=server))


def shut(database: str, who: str = "") -> AccessError:
    """Return the error of a database that accepts no login, as while it is being renamed."""
    waiting = "waiting for it"
    if who:
        waiting = f"{who} is renaming, moving or dropping it, or is waiting to do so"
    return AccessError(
        "Locked",
        f"another session holds a lock needed to connect to database {database}; {waiting}",
    )


def explain_statement(
    error: psycopg.Error, what: str, admin: str, field: str = "", sets: PasswordForm = ""
) -> AccessError:
    """Return the reason and the remedy of a failed statement, without the text of its error.

    Args:
        error: the error of the statement.
        what: completes "could not ...".
        admin: the role that ran the statement.
        field: the field of the spec with the parameter and value that the statement sets, "" if
            it sets none.
        sets: the form of the password that the statement sets.
    """
    if isinstance(error, AnswerTooLargeError):
        return AccessError(
            "AnswerTooLarge",
            f"the server's answer is too large: could not {what}; check that host and port are"
            " those of PostgreSQL, or name fewer objects in each access",
        )
    state = error.sqlstate or ""
    if state in _STATES:
        reason, sentence = _STATES[state]
        return AccessError(reason, sentence.format(what=what, admin=admin))
    # An error without an SQLSTATE is from libpq. Class 08 is about connections, and with 57P a
    # server ends sessions, for example at its shutdown.
    if not state or state.startswith(("08", "57P")):
        return SessionEndedError("ConnectionFailed", f"the connection broke off: could not {what}")
    if field and state in _NO_SUCH_VALUE | _NO_SUCH_PARAMETER:
        return AccessError(
            "AttributeInvalid",
            f"{field}: PostgreSQL does not know this parameter, or does not accept this value"
            f" (SQLSTATE {state}); correct it",
            # A parameter may come with an extension, or a role again; a value stays wrong.
            retry=Retry.CHANGE if state in _NO_SUCH_VALUE else Retry.BACKOFF,
        )
    # Servers that pass roles on to a control plane, as Neon does, fail with the state of an
    # internal error. Its text for another writer is in no catalog of translations.
    internal = state == "XX000" and _INTERFERENCE not in str(error)
    if sets and (state not in TRANSIENT_STATES or internal):
        return _refused_password(what, state, sets)
    if state in TRANSIENT_STATES:
        return AccessError("Conflict", f"other sessions interfered: could not {what}")
    return AccessError(
        "StatementFailed",
        f"PostgreSQL refused to {what} (SQLSTATE {state})",
    )


_PASSWORD_REMEDIES: Mapping[PasswordForm, str] = {
    "verifier": (
        "the server may not accept SCRAM verifiers, as with credcheck or on Neon: set"
        " passwordFormat: Plain on the PostgresServer, with sslMode verify-full, or allow"
        " verifiers there (credcheck.encrypted_password_allowed)"
    ),
    "plain": (
        "the server's password policy refuses such passwords: change length or alphabet of"
        " spec.passwordPolicy, or spec.username if the policy compares the two"
    ),
}


def _refused_password(what: str, state: str, sets: PasswordForm) -> AccessError:
    """Return the error of a server whose own policy refuses a password or a verifier."""
    return AccessError(
        "PasswordRefused",
        f"PostgreSQL refused to {what} (SQLSTATE {state}) with the password;"
        f" {_PASSWORD_REMEDIES[sets]}",
        retry=Retry.CHANGE,
    )


def refused_before(*, plain: bool) -> AccessError:
    """Return the error of a password that is not sent, for the server has refused others."""
    remedy = _PASSWORD_REMEDIES["plain" if plain else "verifier"]
    return AccessError(
        "PasswordRefused",
        "the server refused another password a moment ago, so the operator tries again later;"
        f" {remedy}",
        retry=Retry.CHANGE,
    )


def explain(error: AccessError | psycopg.Error, what: str, admin: str) -> AccessError:
    """Return the error as an AccessError; ``what`` completes "could not ..."."""
    return error if isinstance(error, AccessError) else explain_statement(error, what, admin)


def not_applied(what: str, admin: str) -> AccessError:
    """Return the failure of a change that PostgreSQL answered OK to, but did not make."""
    return AccessError(
        "InsufficientPrivilege",
        f"PostgreSQL did not {what}, and reported no error; {admin} lacks the grant option, or"
        " another role granted it",
    )
