"""A binding goes in order: its objects' copies, then the CRDs, then the binding itself.

Without this the CRDs would be collected together with the binding, and with it the way to the
provider: their objects would keep finalizers that nobody can take off any more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.kubebind_conditions import CONNECTED, Condition, false
from fairlead.api.meta import Object, ObjectMeta


FINALIZER_UNBIND = "kubebind.io/unbind"
"""On an APIServiceBinding that has CRDs; ours, other konnectors do not know it."""
UNBINDING = "Unbinding"


class Plan(msgspec.Struct, frozen=True):
    """CRDs to delete, the condition to show, or the release."""

    delete: list[Object] = []
    condition: Condition | None = None
    release: bool = False


def reconcile(
    binding: ObjectMeta, crds: Sequence[Object], *, claimed: Sequence[str], obstacle: str
) -> Plan:
    """What to do about one binding.

    Args:
        binding: its metadata.
        crds: the CRDs that it owns and that are still there.
        claimed: claimed objects that still have a copy.
        obstacle: why the provider cannot be reached, "" when it can.
    """
    if not binding.deleting or FINALIZER_UNBIND not in binding.finalizers:
        return Plan()
    if not crds and not claimed:
        return Plan(release=True)
    waiting = [f"CustomResourceDefinition {crd.meta.name}" for crd in crds] + list(claimed)
    message = f"unbinding: waiting until copies on the provider are gone for {', '.join(waiting)}"
    if obstacle:
        message += (
            f"; {obstacle}. To give up the provider's copies, remove the finalizer "
            f"kubebind.io/syncer from the objects and {FINALIZER_UNBIND} from this binding"
        )
    return Plan(
        delete=[crd for crd in crds if not crd.meta.deleting],
        condition=false(CONNECTED, UNBINDING, message, severity="Warning"),
    )
