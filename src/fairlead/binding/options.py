"""Options of the binding controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


CrossNamespace = Literal["false", "requester", "true"]
"""Values of ``--cross-namespace``."""
SERVICE_ACCOUNTS_ELSEWHERE = "service-accounts-of-other-namespaces"
"""Denied requesters that depend on the binding: service accounts outside of its namespace."""
NONE_DENIED = "none"
"""Value of ``--cross-namespace-denied-requesters`` that denies no requester."""
DEFAULT_DENIED = (SERVICE_ACCOUNTS_ELSEWHERE,)
DEFAULT_WORKERS = 16
DEFAULT_NAMESPACE = "fairlead-binding"


class BindingOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The flags of ``fairlead binding run``.

    ``cross_namespace`` allows services of other namespaces in bindings of
    binding.operators.coreos.com. Their Secrets are then read with the controller's rights, unless
    an admission webhook records the user in ``servicebinding.io/requester``. Without the flag such
    services are allowed if the key in the Secret ``requester_key``, a namespace and a name, proves
    that record, and never if it is None. ``denied_requesters`` are users and groups whose proof
    does not count, as patterns in which ``*`` is any text, or ``SERVICE_ACCOUNTS_ELSEWHERE``.
    ``workers`` is the number of concurrent passes per API.
    """

    cross_namespace: bool = False
    requester_key: tuple[str, str] | None = None
    denied_requesters: tuple[str, ...] = DEFAULT_DENIED
    workers: int = DEFAULT_WORKERS


def denied_mistake(cross_namespace: CrossNamespace, denied: Sequence[str]) -> str:
    """Return why the values of ``--cross-namespace-denied-requesters`` cannot be used; else ""."""
    flag = "--cross-namespace-denied-requesters"
    if tuple(denied) == DEFAULT_DENIED:
        return ""
    if cross_namespace != "requester":
        return f"{flag} needs --cross-namespace requester"
    if not all(name.strip() for name in denied):
        return f"{flag} has no name: give that of a user or group, or {NONE_DENIED}"
    if NONE_DENIED in denied and len(denied) > 1:
        return f"{flag} {NONE_DENIED} denies no requester: leave it out, or the other names"
    return ""


class AdmissionOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The flags of the webhook server, which is off without them.

    ``address`` is the listening address, ``hosts`` are the names and addresses by which API
    servers call it, ``namespace`` is the program's own, which has its certificate and is, like
    kube-system, exempt from the webhooks. ``fail_open`` are webhooks whose failure does not block
    writes. ``projected`` are plurals and groups of workloads that are bound on creation, and with
    ``fail_closed`` a failure to do so blocks their creation.
    """

    address: str
    hosts: tuple[str, ...]
    namespace: str
    fail_open: tuple[str, ...] = ()
    projected: tuple[tuple[str, str], ...] = ()
    fail_closed: bool = False
