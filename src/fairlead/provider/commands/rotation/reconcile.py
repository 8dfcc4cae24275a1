"""Decisions of a rotation: its next step, and whether the konnector uses the new token."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.kubebind import ClusterBinding
from fairlead.api.kubebind.conditions import CREDENTIALS_IN_USE, SECRET_VALID, get_condition
from fairlead.api.meta import Object
from fairlead.provider.tokens import TokenSecret, next_name


class RotationPlan(msgspec.Struct, frozen=True):
    """Name of the new token's Secret; ``written`` is True if the kubeconfig has its token."""

    name: str
    written: bool


def reconcile(tokens: Sequence[TokenSecret], in_use: str) -> RotationPlan:
    """Return the next step: a rotation that was begun is finished before there is another.

    Args:
        tokens: the consumer's tokens, the oldest first.
        in_use: the token in the kubeconfig that the konnector fetches.
    """
    ours = [one for one in tokens if one.generation]
    if not ours:
        return RotationPlan(next_name(tokens), written=False)
    newest = ours[-1]
    # The token was made, but the kubeconfig with it was not stored: the last run ended in between.
    if newest.token != in_use or not in_use:
        return RotationPlan(newest.name, written=False)
    # The older token is still there, so the rotation has not come to its end.
    if len(ours) > 1:
        return RotationPlan(newest.name, written=True)
    return RotationPlan(next_name(ours), written=False)


def missing(binding: Object | None, digest: str) -> str:
    """Return the reason why a kubeconfig is not known to be in use, "" if it is."""
    if binding is None:
        return "it has no ClusterBinding"
    status = binding.decode(ClusterBinding).status
    condition = get_condition(status.conditions, CREDENTIALS_IN_USE)
    if condition is not None and condition.message == digest:
        return ""
    if not status.last_heartbeat_time:
        return "no konnector has reported yet, and one may still start with an old invitation"
    valid = get_condition(status.conditions, SECRET_VALID)
    if valid is not None and valid.status == "False":
        return f"its konnector does not use the new credentials: {valid.message}"
    beat = f"its last heartbeat was at {status.last_heartbeat_time}"
    if condition is None:
        return f"{silent(binding)}; {beat}"
    return f"its konnector has not reported yet that it uses the new credentials; {beat}"


def tells(binding: Object | None) -> bool:
    """Whether the konnector reports which credentials it uses."""
    if binding is None:
        return False
    status = binding.decode(ClusterBinding).status
    return get_condition(status.conditions, CREDENTIALS_IN_USE) is not None


def silent(binding: Object) -> str:
    """Return the message that a konnector does not report which credentials it uses."""
    version = binding.decode(ClusterBinding).status.konnector_version or "of an unknown version"
    return f"its konnector ({version}) does not report which credentials it uses"
