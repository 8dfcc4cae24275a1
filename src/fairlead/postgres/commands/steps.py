"""The steps of an access from its object to a login that works, and what each reason means.

Pure: what a status says is sorted into steps here, and what helps is said for each reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.postgresaccess import READY, PostgresAccess


StepName = Literal["object", "server", "policy", "role", "Secret", "grants"]
StepState = Literal["ok", "failed", "waiting", "unknown"]

STEPS: Final[tuple[StepName, ...]] = ("object", "server", "policy", "role", "Secret", "grants")
"""In their order."""


class ExplainedStep(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One step, and how it stands; ``waiting`` is one that the operator has yet to take."""

    name: StepName
    state: StepState
    message: str = ""
    reason: str = ""


_OF_STEP: Final[Mapping[StepName, frozenset[str]]] = MappingProxyType(
    {
        "object": frozenset(
            {
                "ApprovalPending",
                "AttributeInvalid",
                "Expired",
                "GrantInvalid",
                "InvalidSpec",
                "MemberOfInvalid",
                "NameInvalid",
                "Observed",
                "SchemaReserved",
                "Suspended",
                "UsernameChanged",
            }
        ),
        "server": frozenset(
            {
                "AnswerTooLarge",
                "AuthenticationFailed",
                "ConnectionFailed",
                "ConnectionInvalid",
                "ConnectionSecretForbidden",
                "ConnectionSecretMissing",
                "DiskFull",
                "OutOfMemory",
                "RoleIsFull",
                "ServerNotFound",
                "TLSFailed",
            }
        ),
        "policy": frozenset({"ControllerInvalid", "PolicyDenied", "UserExcluded"}),
        "role": frozenset({"AdoptionRefused", "OwnsObjects", "UserReserved", "UsernameConflict"}),
        "Secret": frozenset(
            {
                "KeyInvalid",
                "PasswordInvalid",
                "PasswordPolicyInvalid",
                "PasswordSecretMissing",
                "SecretConflict",
                "SecretTemplateInvalid",
            }
        ),
    }
)

NEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ServerNotFound": "kubectl get postgresservers, and correct spec.connection.serverRef",
        "ConnectionSecretMissing": "create the Secret that the message names",
        "ConnectionFailed": "have the server run and answer where its PostgresServer or connection"
        " says; the operator tries again by itself",
        "AuthenticationFailed": "write the administrator's password anew into the Secret of the"
        " PostgresServer or of spec.connection",
        "TLSFailed": "set caSecretRef to the CA of the server's certificate, or sslMode to what"
        " the server has",
        "PolicyDenied": "ask who runs the server or the operator to allow it, or ask for less",
        "ControllerInvalid": "mend the Controller in the operator's namespace",
        "UserExcluded": "choose another spec.username in another PostgresAccess",
        "UsernameConflict": "choose another spec.username in another PostgresAccess, or have the"
        " one deleted that holds it",
        "AdoptionRefused": "choose another spec.username, or drop the role, or set"
        " spec.adoptionPolicy: IfUnclaimed where the Controller has allowAdoption: true",
        "UserReserved": "choose another spec.username in another PostgresAccess",
        "OwnsObjects": "give what the role owns to another role (REASSIGN OWNED), or drop it, or"
        " set spec.cleanupPolicy to Orphan or Cascade",
        "SecretConflict": "set spec.generatedSecret to a name that is free, or delete the Secret",
        "PasswordSecretMissing": "create the Secret that spec.passwordSecretRef names",
        "DatabaseNotFound": "create the database, or correct spec.grants",
        "SchemaNotFound": "create the schema, or correct spec.grants",
        "ObjectNotFound": "create the objects, or correct spec.grants",
        "RoleNotFound": "create the role, or correct its name",
        "InsufficientPrivilege": "have the statements that give the rights run by who may",
        "TooManyGrantees": "set spec.groups: Shared, or share a group role by spec.memberOf",
        "RoleIsFull": "raise the connection limit of the administrator's role",
        "DiskFull": "make room on the server's disk; the operator tries again by itself",
        "OutOfMemory": "give the server more memory; the operator tries again by itself",
        "GroupConflict": "rename or drop the role of the message, or set spec.groups: None",
        "Locked": "wait: the operator tries again by itself",
        "Conflict": "wait: the operator tries again by itself",
        "TimedOut": "wait: the operator tries again by itself",
        "StatementFailed": "look for the SQLSTATE of the message in the server's log; the operator"
        " tries again by itself",
        "Suspended": "set spec.suspend to false",
        "Expired": "raise spec.expiresAfter, or create another PostgresAccess",
        "Observed": "set spec.mode to Enforce to have it done",
        "Unseen": "see whether the operator runs: kubectl -n fairlead-postgres get pods, or"
        " fairlead postgres run",
    }
)
"""What helps, by reason; the messages themselves name the object."""

NO_HEIR = (
    "set spec.orphanTo to a role without powers that the server's profile allows, or give what the"
    " role owns to another role (REASSIGN OWNED), or drop it"
)
"""What helps where what a role owns may not go to whom Orphan would give it."""

_INNER = re.compile(r"([A-Z][A-Za-z]+): (.*)", re.DOTALL)
_STAGES = {"FinalizeFailed", "SecretSyncFailed", "DatabaseSyncFailed"}


def step_of(reason: str) -> StepName:
    """In which step something fails for this reason."""
    return next((name for name, reasons in _OF_STEP.items() if reason in reasons), "grants")


def finer(reason: str, message: str) -> tuple[str, str]:
    """The reason that a stage's message begins with, and the rest; else both as they are."""
    inner = _INNER.fullmatch(message)
    if reason in _STAGES and inner is not None:
        return inner[1], inner[2]
    return reason, message


def told(access: PostgresAccess) -> tuple[bool, str, str]:
    """What the status says of this generation: whether it is Ready, the reason, the message."""
    ready = get_condition(access.status.conditions, READY)
    meta = access.metadata
    if ready is None:
        return False, "Unseen", "the operator has not looked at it yet"
    if access.status.observed_generation != meta.generation:
        if access.spec.suspend:
            return False, "Unseen", "spec.suspend is set, and the spec has changed otherwise too"
        return False, "Unseen", "the operator has not looked at it since it was changed"
    reason, message = finer(ready.reason, ready.message)
    return ready.status == "True" and not meta.deleting, reason, message


def from_status(access: PostgresAccess) -> dict[StepName, ExplainedStep]:
    """All steps by what the status says alone."""
    ready, reason, message = told(access)
    if ready:
        return {
            name: ExplainedStep(name=name, state="ok", message="by its status") for name in STEPS
        }
    if reason == "Unseen":
        return {name: ExplainedStep(name=name, state="unknown", message=message) for name in STEPS}
    failing = step_of(reason)
    waits = reason in {"Locked", "Conflict", "TimedOut", "Reconciling"}
    found: dict[StepName, ExplainedStep] = {}
    state: StepState = "ok"
    for name in STEPS:
        if name == failing:
            how: StepState = "waiting" if waits else "failed"
            found[name] = ExplainedStep(name=name, state=how, message=message, reason=reason)
            state = "unknown"
        else:
            note = "by its status" if state == "ok" else "not reached"
            found[name] = ExplainedStep(name=name, state=state, message=note)
    return found
