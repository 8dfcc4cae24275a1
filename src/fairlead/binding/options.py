"""Options of the binding controllers."""

from __future__ import annotations

import msgspec


DEFAULT_WORKERS = 16
DEFAULT_NAMESPACE = "fairlead-binding"


class BindingOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The flags of ``fairlead binding run``.

    ``cross_namespace`` allows services of other namespaces in bindings of
    binding.operators.coreos.com. Their Secrets are then read with the controller's rights, unless
    an admission webhook records the user in ``servicebinding.io/requester``. Without the flag such
    services are allowed if the key in the Secret ``requester_key``, a namespace and a name, proves
    that record, and never if it is None. ``workers`` is the number of concurrent passes per API.
    """

    cross_namespace: bool = False
    requester_key: tuple[str, str] | None = None
    workers: int = DEFAULT_WORKERS


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
