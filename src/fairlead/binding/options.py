"""Options of the binding controllers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

import msgspec

from fairlead.api.flags import Flag


CrossNamespace = Literal["false", "requester", "true"]
"""Values of ``--cross-namespace``."""
SERVICE_ACCOUNTS_ELSEWHERE = "service-accounts-of-other-namespaces"
"""Denied requesters that depend on the binding: service accounts outside of its namespace."""
NONE_DENIED = "none"
"""Value of ``--cross-namespace-denied-requesters`` that denies no requester."""
DEFAULT_DENIED = (SERVICE_ACCOUNTS_ELSEWHERE,)
DEFAULT_WORKERS = 16
DEFAULT_NAMESPACE = "fairlead-binding"
WEBHOOKS = ("requester", "bindings", "mappings")
"""Webhooks that a flag can make fail open, each by itself."""
PROJECTOR = "projector"
"""The webhook that fails open by default: creation of all users' workloads waits for it."""


def _denied(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name != NONE_DENIED)


class BindingOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The flags of ``fairlead binding run``.

    Secrets of services in other namespaces are read with the controller's rights, unless an
    admission webhook records the user in ``servicebinding.io/requester``. Without
    ``cross_namespace`` such services are allowed if the key in the Secret ``requester_key``, a
    namespace and a name, proves that record, and never if it is None. ``denied_requesters`` are
    users and groups whose proof does not count, or ``SERVICE_ACCOUNTS_ELSEWHERE``.

    Attributes:
        cross_namespace: Whether bindings of binding.operators.coreos.com may name services of
            other namespaces. `requester` allows it if a webhook has recorded the requester of the
            binding, and the requester may read the service; this needs --webhooks-bind-address.
            `true` allows it for all bindings.
        denied_requesters: User or group, such as a delivery tool's. With --cross-namespace
            requester, bindings of this requester may not name services of other namespaces; *
            stands for any text. May be given several times, and replaces the default; `none`
            denies no requester.
        workers: Number of bindings of one API that are reconciled at the same time; most of them
            wait for an answer.
    """

    cross_namespace: Annotated[
        bool, Flag(default="false", parse="true".__eq__, choices=get_args(CrossNamespace))
    ] = False
    requester_key: tuple[str, str] | None = None
    denied_requesters: Annotated[
        tuple[str, ...],
        Flag("--cross-namespace-denied-requesters", "NAME", parse=_denied),
    ] = DEFAULT_DENIED
    workers: Annotated[int, Flag(least=1, most=1024)] = DEFAULT_WORKERS


def denied_mistake(cross_namespace: CrossNamespace, denied: Sequence[str]) -> str:
    """Return why the values of ``--cross-namespace-denied-requesters`` cannot be used; else ""."""
    flag = "--cross-namespace-denied-requesters"
    if tuple(denied) == DEFAULT_DENIED:
        return ""
    if cross_namespace != "requester":
        return f"{flag} needs --cross-namespace requester"
    if not all(name.strip() for name in denied):
        return f"{flag} is empty: name a user or group, or {NONE_DENIED}"
    if NONE_DENIED in denied and len(denied) > 1:
        return f"{flag} {NONE_DENIED} denies no requester: leave it out, or the other names"
    return ""


class AdmissionOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The flags of the webhook server, which is off without them.

    ``namespace`` is the program's own, which has its certificate and is, like kube-system, exempt
    from the webhooks. ``projected`` are plurals and groups.

    Attributes:
        address: Address for admission webhooks, which API servers must reach; without it none are
            served.
        hosts: Name or address by which API servers call the webhooks; default: the Service of
            `fairlead manifests`.
        fail_open: Webhook that lets writes through when it fails; may be given several times.
        projected: Resource, such as jobs.batch: a webhook binds its workloads when they are
            created; may be given several times.
        fail_closed: Webhook that, when it fails, keeps workloads of --project from being created.
    """

    address: Annotated[str, Flag("--webhooks-bind-address", "HOST:PORT", "")]
    hosts: Annotated[tuple[str, ...], Flag("--webhooks-host", "NAME", ())]
    namespace: str
    fail_open: Annotated[tuple[str, ...], Flag(choices=WEBHOOKS)] = ()
    projected: Annotated[tuple[tuple[str, str], ...], Flag("--project", "PLURAL.GROUP")] = ()
    fail_closed: Annotated[bool, Flag(default=None, parse=bool, choices=(PROJECTOR,))] = False
