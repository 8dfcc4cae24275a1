"""Switching between client-side and server-side ``kubectl apply`` on one object.

kubectl keeps its last client-side configuration in an annotation. It tells which fields were
kubectl's own, and an apply on the server keeps it up to date.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.patches.apply.managers import ConflictsError, FieldManager, Managed, applied
from fairlead_sandbox.patches.apply.shapes import Shape
from fairlead_sandbox.patches.apply.walk import ShapeError, changes, fields


ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation with kubectl's last client-side configuration."""
_KUBECTL = "kubectl"


def explains(shape: Shape, live: JSON, config: JSON, owners: Managed, who: FieldManager) -> bool:
    """Whether every conflict is on a field that kubectl applied and that is unchanged since.

    Raises:
        ShapeError: the configuration does not fit its kind.
    """
    before = _last_applied(live)
    # Client-side apply writes as the manager kubectl-client-side-apply, so kubectl's first apply
    # on the server would conflict with its own fields.
    if who.name != _KUBECTL or before is None:
        return False
    try:
        applied(shape, live, config, owners, who, "", force=False)
    except ConflictsError as error:
        try:
            own = fields(shape, before)
        except ShapeError:
            return False
        # A field that another client has changed since is a conflict even if kubectl applied it
        # once.
        since = changes(shape, before, live)
        unchanged = own - since.modified - since.removed
        return all(conflict.path in unchanged for conflict in error.conflicts)
    return False


def refresh(body: JSON, live: JSON, config: JSON, who: FieldManager) -> None:
    """Update the annotation to the new configuration, if kubectl applies and it exists."""
    if who.name != _KUBECTL or _last_applied(live) is None:
        return
    annotations = body["metadata"].get("annotations") or {}
    if ANNOTATION in annotations:
        text = msgspec.json.encode(config).decode() + "\n"
        body["metadata"]["annotations"] = {**annotations, ANNOTATION: text}


def _last_applied(live: JSON) -> JSON | None:
    text: Any = (live["metadata"].get("annotations") or {}).get(ANNOTATION)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=JSON)
    except msgspec.DecodeError:
        return None
