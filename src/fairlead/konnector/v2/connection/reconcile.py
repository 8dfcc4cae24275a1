"""Conditions and status of a Connection, by its Secret and by what its link has seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.kbind import (
    Connection,
    ConnectionStatus,
    ExportedAPI,
    KubeconfigSecretRef,
)
from fairlead.api.kbind.names import (
    ANOTHER_KONNECTOR,
    AS_EXPECTED,
    CLUSTER_IDENTITY_CHANGED,
    CONNECTED,
    DRAINING_BINDINGS,
    FORBIDDEN,
    LEASE_HELD,
    PENDING,
    PERMISSION_DENIED,
    READY,
    SECRET_NOT_FOUND,
    SECRET_REFUSED,
    SECRET_VALID,
)
from fairlead.api.kbind.types import ActiveSchemaSource
from fairlead.api.meta import Object
from fairlead.konnector import bounds
from fairlead.konnector.v2.conditions import ReportedConditions
from fairlead.konnector.v2.renewals import Holder


class SecretFault(msgspec.Struct, frozen=True):
    """Reason and message of a Secret that cannot be used."""

    reason: str
    message: str


class LinkState(msgspec.Struct, frozen=True):
    """Observations of a link about its provider; none at first.

    ``silent`` and ``forbidden`` are messages: why nothing is known of the provider, and which
    right is missing, "" if none is. ``apis`` is None while they are not known, and ``source`` is
    where they are read.
    """

    remote_uid: str = ""
    silent: str = ""
    forbidden: str = ""
    apis: tuple[ExportedAPI, ...] | None = None
    source: ActiveSchemaSource | None = None
    holder: Holder = ""
    lease_problem: str = ""


class PullFaults(msgspec.Struct, frozen=True):
    """Messages about CRDs that pullPolicy All does not pull: for want of rights, and others."""

    forbidden: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


class ConnectionState(msgspec.Struct, frozen=True):
    """A Connection and all that decides about its status.

    ``link`` is None without a usable Secret. ``untried`` says why the newest kubeconfig is not in
    use, "" if it is. ``bindings`` are those that name the Connection, ``leaving`` the copies that
    bindings have left at its provider.
    """

    connection: Connection
    local_uid: str
    secret_fault: SecretFault | None = None
    link: LinkState | None = None
    untried: str = ""
    pulls: PullFaults = PullFaults()
    bindings: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()


class ConnectionOutcome(msgspec.Struct, frozen=True):
    """Status of a Connection, None to leave it, and whether bindings can use its provider."""

    status: ConnectionStatus | None
    usable: bool


def secret_fault(
    ref: KubeconfigSecretRef,
    namespace: str,
    *,
    exists: bool,
    content: bytes,
    unreadable: str,
    fault: str,
    refused: bool,
) -> SecretFault | None:
    """Return why a Connection's Secret cannot be used, None if it can.

    Args:
        ref: the reference of the Connection.
        namespace: the konnector's namespace.
        exists: whether the Secret is there.
        content: content of the key; b"" if the key is missing.
        unreadable: why the Secret cannot be read at all; "" if it was.
        fault: the fault of the kubeconfig, without quoting it; "" if there is none.
        refused: whether the kubeconfig runs a program or reads files.
    """
    where = f"Secret {ref.namespace}/{ref.name}"
    if ref.namespace != namespace:
        return SecretFault(
            SECRET_REFUSED,
            f"the konnector does not read {where}: it reads only Secrets of its own namespace "
            f"{namespace}; create the Secret there, and another Connection that names it",
        )
    if not exists:
        reason = f"cannot be read: {unreadable}" if unreadable else "not found"
        return SecretFault(
            SECRET_NOT_FOUND,
            f"{where} {reason}; it has to contain the provider's kubeconfig under key {ref.key!r}",
        )
    if not content:
        return SecretFault(
            SECRET_NOT_FOUND,
            f"{where} has no key {ref.key!r}: put the provider's kubeconfig there",
        )
    if fault:
        reason = SECRET_REFUSED if refused else SECRET_NOT_FOUND
        return SecretFault(reason, f"{where}, key {ref.key!r}: {fault}")
    return None


def exported_apis(crds: Iterable[Object]) -> tuple[ExportedAPI, ...]:
    """Return the APIs of labelled CRDs that serve a version, in the order of their names.

    A CRD that cannot be read is left out.
    """
    apis = []
    for crd in crds:
        try:
            spec = crd_spec(crd)
        except msgspec.ValidationError:
            continue
        if spec.served:
            apis.append(
                ExportedAPI(
                    name=crd.meta.name,
                    group=spec.group,
                    resource=spec.names.plural,
                    scope="Namespaced" if spec.namespaced else "Cluster",
                    versions=spec.served,
                )
            )
    return tuple(sorted(apis, key=lambda api: api.name))


def reconcile(state: ConnectionState, *, now: str) -> ConnectionOutcome:
    """Return the status of a Connection, and whether its provider can be used."""
    conditions = ReportedConditions(
        state.connection.status.conditions, state.connection.metadata.generation, now
    )
    if state.link is not None and state.link.holder == "Another":
        # All else in the status is the other konnector's to write.
        conditions.set(ANOTHER_KONNECTOR, "True", LEASE_HELD, _another(state.local_uid))
        return ConnectionOutcome(_status(state, conditions, {}), usable=False)
    conditions.remove(ANOTHER_KONNECTOR)
    if state.secret_fault is not None:
        fault = state.secret_fault
        conditions.set(SECRET_VALID, "False", fault.reason, fault.message)
        conditions.remove(CONNECTED)
        return _unready(state, conditions, fault.reason, fault.message)
    ref = state.connection.spec.kubeconfig_secret_ref
    conditions.set(
        SECRET_VALID,
        "True",
        AS_EXPECTED,
        f"Secret {ref.namespace}/{ref.name} has a kubeconfig that can be used",
    )
    return _linked(state, conditions)


def _linked(state: ConnectionState, conditions: ReportedConditions) -> ConnectionOutcome:
    link = state.link
    if link is None:
        return ConnectionOutcome(None, usable=False)
    if changed := _changed_identity(state, link):
        conditions.set(CONNECTED, "False", CLUSTER_IDENTITY_CHANGED, changed)
        return _unready(state, conditions, CLUSTER_IDENTITY_CHANGED, changed)
    if link.silent:
        message = "; ".join(part for part in (link.silent, state.untried) if part)
        conditions.set(CONNECTED, "False", PENDING, message)
        return _unready(state, conditions, PENDING, message)
    if not link.remote_uid:
        if not link.forbidden:
            return ConnectionOutcome(None, usable=False)
        conditions.remove(CONNECTED)
        conditions.set(PERMISSION_DENIED, "True", FORBIDDEN, link.forbidden)
        return _unready(state, conditions, FORBIDDEN, link.forbidden)
    notes = (f"cluster {link.remote_uid} answers", state.untried, link.lease_problem)
    conditions.set(CONNECTED, "True", AS_EXPECTED, "; ".join(note for note in notes if note))
    uids = {"remote_cluster_uid": link.remote_uid, "local_cluster_uid": state.local_uid}
    if link.forbidden:
        conditions.set(PERMISSION_DENIED, "True", FORBIDDEN, link.forbidden)
        return _unready(state, conditions, FORBIDDEN, link.forbidden, fields=uids)
    # Neither the exports nor whether another konnector is at work are known at first.
    if link.apis is None or not link.holder:
        return ConnectionOutcome(None, usable=False)
    if state.pulls.forbidden:
        # It holds up no binding, so that the Connection is ready all the same.
        message = _some(state.pulls.forbidden)
        remedy = (
            f"fairlead accept connection/{state.connection.metadata.name} grants what is missing"
        )
        conditions.set(PERMISSION_DENIED, "True", FORBIDDEN, f"{message}: {remedy}")
    elif conditions.has(PERMISSION_DENIED):
        conditions.set(
            PERMISSION_DENIED,
            "False",
            AS_EXPECTED,
            "the provider lets the konnector read everything that it needs",
        )
    status = {
        **uids,
        "active_schema_source": link.source,
        "exported_apis": list(link.apis),
    }
    if state.connection.metadata.deleting:
        return _unready(state, conditions, "", "", usable=True, fields=status)
    count = "1 API is" if len(link.apis) == 1 else f"{len(link.apis)} APIs are"
    message = f"{count} offered"
    if state.pulls.others:
        message += f"; not pulled: {_some(state.pulls.others)}"
    conditions.set(READY, "True", AS_EXPECTED, message)
    return ConnectionOutcome(_status(state, conditions, status), usable=True)


def _some(messages: Sequence[str]) -> str:
    """Return the first of some messages, and how many more there are."""
    more = len(messages) - bounds.NAMED
    return "; ".join([*messages[: bounds.NAMED], *([f"and {more} more"] if more > 0 else [])])


def _unready(
    state: ConnectionState,
    conditions: ReportedConditions,
    reason: str,
    message: str,
    *,
    usable: bool = False,
    fields: Mapping[str, object] | None = None,
) -> ConnectionOutcome:
    """Set Ready to False; a Connection that is deleted tells what it waits for."""
    if state.connection.metadata.deleting:
        if state.bindings:
            waiting = f"waits for bindings that name it: {_named(state.bindings)}"
        else:
            waiting = f"waits for what bindings have left: {_named(state.leaving)}"
        message = f"{waiting}; {message}" if message else waiting
        reason = DRAINING_BINDINGS
    conditions.set(READY, "False", reason, message)
    return ConnectionOutcome(_status(state, conditions, fields or {}), usable=usable)


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


_MOST_NAMES = 10
"""Largest number of bindings or kinds of copies that a message names."""


def _changed_identity(state: ConnectionState, link: LinkState) -> str:
    """Return the message about another cluster than the pinned one, "" if both are the same."""
    status = state.connection.status
    if status.local_cluster_uid and state.local_uid != status.local_cluster_uid:
        return (
            f"the Connection was created in cluster {status.local_cluster_uid}, and this is "
            f"cluster {state.local_uid}: delete it, and create a new one here"
        )
    if status.remote_cluster_uid and link.remote_uid not in {"", status.remote_cluster_uid}:
        return (
            f"cluster {link.remote_uid} answers, but the Connection first connected to cluster "
            f"{status.remote_cluster_uid}: restore that cluster, or create another Connection"
        )
    return ""


def _another(uid: str) -> str:
    return (
        f"another konnector renews Lease kbind/consumer-{uid} at the provider, so this one "
        "does nothing: stop one of the two"
    )


def _status(
    state: ConnectionState, conditions: ReportedConditions, fields: Mapping[str, object]
) -> ConnectionStatus:
    return msgspec.structs.replace(state.connection.status, conditions=conditions.all, **fields)
