"""Whether a binding's Secret holds a kubeconfig that can be used."""

from __future__ import annotations

from datetime import datetime

from fairlead.api.kubebind import ClusterSecretKeyRef
from fairlead.api.kubebind.conditions import SECRET_VALID, KubeBindCondition, false, true
from fairlead.api.timestamps import parse_time
from fairlead.konnector import bounds


NOT_FOUND = "KubeconfigSecretNotFound"
INVALID = "KubeconfigSecretInvalid"


def grace_left(created: str | None, now: datetime) -> float:
    """Return the seconds until the missing Secret of an object of that age is reported.

    They are never more than bounds.GRACE_SECONDS, for the server's clock may be ahead.
    """
    if not created:
        return 0.0
    age = (now - parse_time(created)).total_seconds()
    return min(max(bounds.GRACE_SECONDS - age, 0.0), bounds.GRACE_SECONDS)


def reconcile(
    ref: ClusterSecretKeyRef, *, exists: bool, content: bytes, unreadable: str, fault: str
) -> KubeBindCondition:
    """Return the condition SecretValid.

    Args:
        ref: the binding's reference to its kubeconfig.
        exists: whether the Secret is there.
        content: the content of the key; b"" if the key is missing.
        unreadable: why the Secret could not be read at all, such as a missing right; "" if it was.
        fault: the fault of the content, without quoting it.
    """
    where = f"Secret {ref.namespace}/{ref.name}"
    if not exists and unreadable:
        return false(SECRET_VALID, NOT_FOUND, f"{where} cannot be read: {unreadable}")
    if not exists:
        return false(
            SECRET_VALID,
            NOT_FOUND,
            f"{where} not found: create it with the provider's kubeconfig under key {ref.key!r}",
        )
    if not content:
        return false(
            SECRET_VALID,
            INVALID,
            f"{where} has no key {ref.key!r}: put the provider's kubeconfig there",
        )
    if fault:
        remedy = "`fairlead bind` replaces it with that of an invitation"
        return false(SECRET_VALID, INVALID, f"{where}, key {ref.key!r}: {fault}; {remedy}")
    return true(SECRET_VALID)
