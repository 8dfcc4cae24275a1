"""The reasons of PostgresAccess, PostgresServer and Controller."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from fairlead.api.reasons.model import Reason, Reasons


StepName = Literal["object", "server", "policy", "role", "Secret", "grants"]
"""A step of an access, from its object to a login that works."""

_AGAIN = "wait: the operator tries again by itself"
_FIELD = "correct the field that the message names"
_OTHER_NAME = "choose another spec.username in another PostgresAccess"

_OF_STEP: Final[Mapping[StepName, tuple[Reason, ...]]] = MappingProxyType(
    {
        "object": (
            Reason(
                "ApprovalPending",
                "spec.approval is Manual, and the plan has no approval yet",
                "look at status.plan, and approve it",
                "waiting",
            ),
            Reason("AttributeInvalid", "the server does not know the parameter or value", _FIELD),
            Reason(
                "Ended",
                "only in condition Expiring: the login has expired",
                "set a later end to keep the login, or delete the object",
                "ok",
            ),
            Reason(
                "EndsSoon",
                "only in condition Expiring: the login expires soon",
                "set a later end to keep the login",
                "ok",
            ),
            Reason(
                "Expired",
                "the time of spec.expiresAfter has passed",
                "raise spec.expiresAfter, or create another PostgresAccess",
            ),
            Reason("GrantInvalid", "fields of a grant contradict each other", _FIELD),
            Reason("InvalidSpec", "a field cannot be used", _FIELD),
            Reason(
                "LoginEnded",
                "the time of spec.attributes.validUntil has passed",
                "set a later spec.attributes.validUntil, or remove it",
            ),
            Reason(
                "MemberOfInvalid", "the operator cannot grant the roles of spec.memberOf", _FIELD
            ),
            Reason("NameInvalid", "PostgreSQL would shorten the name, or refuse it", _FIELD),
            Reason(
                "Observed",
                "spec.mode is Observe: the operator changes nothing",
                "set spec.mode to Enforce to have the operator carry the plan out",
                "waiting",
            ),
            Reason("SchemaReserved", "the schema is PostgreSQL's own", _FIELD),
            Reason(
                "Suspended",
                "spec.suspend is set: the operator does nothing",
                "set spec.suspend to false",
                "waiting",
            ),
            Reason(
                "Unseen",
                "the operator has not processed the present spec yet",
                "see whether the operator runs: kubectl -n fairlead-postgres get pods, or"
                " fairlead postgres run",
                "waiting",
            ),
            Reason(
                "UsernameChanged",
                "spec.username cannot change",
                "set it back, and create another PostgresAccess",
            ),
        ),
        "server": (
            Reason(
                "AnswerTooLarge",
                "the reply is larger than a PostgreSQL server would send",
                "check that host and port are those of a PostgreSQL server",
            ),
            Reason(
                "AuthenticationFailed",
                "the server refuses the administrator's login",
                "write the administrator's present password into the Secret of the PostgresServer"
                " or of spec.connection",
            ),
            Reason(
                "ConnectionFailed",
                "no PostgreSQL server answers, or it is read-only",
                "start the server, or correct the address in its PostgresServer or connection;"
                " the operator tries again by itself",
            ),
            Reason(
                "ConnectionInvalid",
                "the connection contradicts itself, or its Secret lacks a key",
                _FIELD,
            ),
            Reason(
                "ConnectionSecretForbidden",
                "PostgresAccesses may not use Secrets of that namespace",
                "have the namespace added to the Controller's allowedSecretNamespaces, or move the"
                " Secret",
            ),
            Reason(
                "ConnectionSecretMissing",
                "the Secret with the credentials does not exist",
                "create the Secret that the message names",
            ),
            Reason(
                "DiskFull",
                "the server's disk is full",
                "make room on the server's disk; the operator tries again by itself",
            ),
            Reason(
                "OutOfMemory",
                "the server has no memory left",
                "give the server more memory; the operator tries again by itself",
            ),
            Reason(
                "RoleIsFull",
                "the administrator's role has no connection left",
                "raise the connection limit of the administrator's role",
            ),
            Reason(
                "ServerNotFound",
                "there is no PostgresServer with that name",
                "kubectl get postgresservers, and correct spec.connection.serverRef",
            ),
            Reason(
                "TLSFailed",
                "the operator cannot verify the server's certificate, or the server has no TLS",
                "set caSecretRef to the CA of the server's certificate, or sslMode to a mode that"
                " the server supports",
            ),
        ),
        "policy": (
            Reason(
                "ControllerInvalid",
                "the Controller cannot be used",
                "correct the Controller in the operator's namespace",
            ),
            Reason(
                "PolicyDenied",
                "the PostgresServer or the Controller does not allow a field",
                "ask the team that runs the server or the operator to allow it, or request less",
            ),
            Reason("UserExcluded", "the operator excludes the username", _OTHER_NAME),
        ),
        "role": (
            Reason(
                "AdoptionRefused",
                "the role exists, no PostgresAccess manages it, and the operator may not adopt it",
                "choose another spec.username, or drop the role, or set spec.adoptionPolicy:"
                " IfUnclaimed where the Controller has allowAdoption: true",
            ),
            Reason(
                "OwnsObjects",
                "the role cannot be dropped because it owns objects; it can no longer log in",
                "give the objects of the role to another role (REASSIGN OWNED), or drop them, or"
                " set spec.cleanupPolicy to Orphan or Cascade",
                # Who writes the access sets the policy, and who runs the server has its objects.
                consumer="set spec.cleanupPolicy to Orphan or Cascade, or ask the provider's team"
                " to give the objects of the role to another role",
                provider="give the objects of the role to another role (REASSIGN OWNED), or drop"
                " them, or ask the consumer's team for another cleanup policy",
            ),
            Reason(
                "Removing",
                "the operator removes a large role step by step",
                "wait; status.deletion shows the progress",
                "waiting",
            ),
            Reason(
                "UserReserved",
                "the name belongs to PostgreSQL or to the operator's administrator",
                _OTHER_NAME,
            ),
            Reason(
                "PasswordRefused",
                "the server's policy refuses the password, or the server does not accept SCRAM"
                " verifiers",
                "set passwordFormat: Plain on the PostgresServer, or change length or alphabet of"
                " spec.passwordPolicy, whichever the message names",
            ),
            Reason(
                "UsernameConflict",
                "another access, installation or cluster holds the role",
                f"{_OTHER_NAME}, or delete the PostgresAccess that holds the role; on a restored"
                " copy of a server, or if the other cluster is gone: fairlead postgres take-over",
            ),
        ),
        "Secret": (
            Reason(
                "KeyInvalid",
                "Secret fairlead-postgres-key was changed by hand",
                "restore the Secret, or delete it",
            ),
            Reason(
                "PasswordInvalid",
                "no client could log in with the password",
                "write the password again, or empty its key to have one made",
            ),
            Reason("PasswordPolicyInvalid", "the password policy cannot be used", _FIELD),
            Reason(
                "PasswordSecretMissing",
                "the Secret of spec.passwordSecretRef does not exist",
                "create the Secret that spec.passwordSecretRef names",
            ),
            Reason(
                "SecretConflict",
                "the Secret belongs to another object, or the operator cannot write it",
                "set spec.generatedSecret to a name that is free, or delete the Secret",
            ),
            Reason(
                "SecretForbidden",
                "you may not read the Secret",
                "ask for the right to read the Secret",
                "unknown",
            ),
            Reason("SecretTemplateInvalid", "spec.secretTemplate cannot be used", _FIELD),
        ),
        "grants": (
            Reason("Conflict", "another session wrote at the same time", _AGAIN, "waiting"),
            Reason(
                "DatabaseNotFound",
                "the database does not exist",
                "create the database, or correct spec.grants",
            ),
            Reason(
                "Drifted",
                "only in explain: the role was changed by hand",
                "wait: the operator heals it, or see fairlead postgres plan",
                "waiting",
            ),
            Reason(
                "GroupConflict",
                "another role already has the name of the group",
                "rename or drop the role that the message names, or set spec.groups: None",
            ),
            Reason(
                "InsufficientPrivilege",
                "the operator's administrator lacks a right on the server",
                "grant it as the owner or a superuser: fairlead postgres plan prints the SQL",
            ),
            Reason(
                "Locked",
                "another session holds a lock on what the access needs",
                _AGAIN,
                "waiting",
            ),
            Reason(
                "ObjectNotFound",
                "objects of a grant do not exist",
                "create the objects, or correct spec.grants",
            ),
            Reason(
                "Reconciling",
                "the operator is working on the object",
                "wait until the operator is done",
                "waiting",
            ),
            Reason(
                "RoleNotFound",
                "the role does not exist",
                "create the role, or correct its name",
            ),
            Reason(
                "SchemaNotFound",
                "the schema does not exist",
                "create the schema, or correct spec.grants",
            ),
            Reason(
                "StatementFailed",
                "PostgreSQL refuses for a reason that Fairlead does not know",
                "search the server's log for the SQLSTATE in the message; the operator tries"
                " again by itself",
            ),
            Reason("TimedOut", "the server is slow", _AGAIN, "waiting"),
            Reason(
                "TooManyGrantees",
                "the object has too many grantees",
                "share a group role with spec.memberOf",
            ),
            Reason(
                "Unapproved",
                "the server changed while the operator carried out an approved plan",
                "wait: the next pass makes the new plan, which needs another approval",
                "waiting",
            ),
            Reason(
                "Unfinished",
                "the database needs more changes of privileges than the operator makes in one"
                " pass",
                "wait: the operator continues by itself",
                "waiting",
            ),
            Reason(
                "UnsupportedPrivilege",
                "this kind of object, or this version of PostgreSQL, has no such privilege",
                "leave the privilege out",
            ),
        ),
    }
)

_OTHERS: Final = (
    Reason("Reachable", "a PostgresServer answers", state="ok"),
    Reason("Ready", "the object is as its spec says", state="ok"),
    Reason("ReconcileSuccess", "the object is as its spec says", state="ok"),
    Reason(
        "ApiError",
        "the API server of the cluster refuses a request",
        "grant the operator the right, or change the policy or webhook, that the message names; it"
        " tries again by itself",
    ),
    Reason("DatabaseSyncFailed", "a step failed in the database", "see the reason in its message"),
    Reason("FinalizeFailed", "the removal has failed", "see the reason in its message"),
    Reason("SecretSyncFailed", "the Secret was not written", "see the reason in its message"),
    Reason(
        "InvalidControllerNamespace",
        "the Controller is not in the operator's namespace, so the operator ignores it",
        "create the Controller in the operator's namespace",
    ),
    Reason(
        "MultipleControllersFound",
        "there are several Controllers, and the operator uses the oldest",
        "delete all but one",
    ),
    Reason("RoleRenamed", "an Event: a role was renamed by hand", "rename it back, or leave it"),
    Reason(
        "ServerChanged",
        "an Event: the PostgresAccess moved to another server, and its role stays on the old one",
        "drop the role there when the migration is over",
    ),
)

POSTGRES: Final = Reasons(
    "PostgresAccess", (*_OTHERS, *(one for some in _OF_STEP.values() for one in some))
)


_OPERATORS_OWN = frozenset({"InsufficientPrivilege", "KeyInvalid", "StatementFailed"})
"""Reasons, beside those of server and policy, of which no field of the access is the cause."""


def is_operators(reason: str) -> bool:
    """Whether who runs the operator and the server has to act, and not who writes the access."""
    return step_of(reason) in {"server", "policy"} or reason in _OPERATORS_OWN


def step_of(reason: str) -> StepName:
    """Return the step of an access that fails for this reason; grants for an unknown one."""
    for name, some in _OF_STEP.items():
        if any(one.name == reason for one in some):
            return name
    return "grants"


# access-operator's reasons name stages; the finer reason begins the message.
_INNER = re.compile(r"([A-Z][A-Za-z]+): (.*)", re.DOTALL)
_STAGES = {"FinalizeFailed", "SecretSyncFailed", "DatabaseSyncFailed"}


def finer(reason: str, message: str) -> tuple[str, str]:
    """Return the reason that begins a stage's message, and the rest; else both unchanged."""
    inner = _INNER.fullmatch(message)
    if reason in _STAGES and inner is not None:
        return inner[1], inner[2]
    return reason, message
