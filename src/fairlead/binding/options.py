"""What an operator of the binding controllers may decide."""

from __future__ import annotations

import msgspec


DEFAULT_WORKERS = 16
DEFAULT_NAMESPACE = "fairlead-binding"


class BindingOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The flags of ``fairlead binding run``.

    ``cross_namespace`` lets bindings of binding.operators.coreos.com name services of other
    namespaces. Their Secrets are then read with the controller's rights, unless an admission
    webhook notes in ``servicebinding.io/requester`` on whose behalf. Without it, they may where
    that note is proven with the key in the Secret ``requester_key``, a namespace and a name; where
    that is None, they never may. ``workers`` is the number of bindings of one API that are worked
    on at once.
    """

    cross_namespace: bool = False
    requester_key: tuple[str, str] | None = None
    workers: int = DEFAULT_WORKERS


class AdmissionOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The flags of the webhook server, which is off without them.

    ``address`` is where it listens, ``hosts`` are the names and addresses by which API servers
    call it, ``namespace`` is the program's own, where its certificate is and about which, as
    about kube-system, it never says anything. With ``projector`` workloads are bound as they are
    created.
    """

    address: str
    hosts: tuple[str, ...]
    namespace: str
    projector: bool = False
