"""Aggregated ClusterRoles: their rules are copied from the ClusterRoles that they select."""

from __future__ import annotations

import msgspec

from fairlead.api import resource as names
from fairlead.api.meta import JSON
from fairlead.api.selectors import LabelSelector
from fairlead_sandbox.objects import writes
from fairlead_sandbox.objects.core import Core
from fairlead_sandbox.storage.records import Change


# Deterministic, so that rules that differ only in the order of their members count as one.
_encode = msgspec.json.Encoder(order="deterministic").encode
_COLLECTION = names.CLUSTERROLES.group_resource


class Aggregator:
    """Keeps the rules of every aggregated ClusterRole current."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def __call__(self, change: Change) -> None:
        """Reconcile all aggregated roles if a ClusterRole has changed."""
        if change.collection == _COLLECTION:
            self.reconcile()

    def reconcile(self) -> None:
        """Write the rules of each aggregated role that differ from those of its selected roles."""
        type_ = self._core.registry.by_collection(_COLLECTION)
        if type_ is None:
            return
        records = list(self._core.store.collection(_COLLECTION).list())
        for record in records:
            # A search in the bytes: few roles are aggregated, and only those are decoded.
            if b'"aggregationRule"' not in record.raw or record.meta.deletion_timestamp:
                continue
            body = record.to_dict()
            selectors = _selectors(body)
            by_content: dict[bytes, JSON] = {}
            for other in records:
                if other is record or not any(one.matches(other.labels) for one in selectors):
                    continue
                for rule in other.to_dict().get("rules") or []:
                    by_content.setdefault(_encode(rule), rule)
            rules = list(by_content.values())
            if selectors and rules != (body.get("rules") or []):
                body["rules"] = rules
                writes.finish(self._core, type_, record.key, body)


def _selectors(body: JSON) -> list[LabelSelector]:
    rule = body.get("aggregationRule") or {}
    selectors = []
    for selector in rule.get("clusterRoleSelectors") or ():
        try:
            selectors.append(LabelSelector.from_dict(selector))
        except (ValueError, TypeError, AttributeError):
            # An invalid selector selects nothing; the others still count.
            continue
    return selectors
