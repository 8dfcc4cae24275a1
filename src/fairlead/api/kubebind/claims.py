"""Matching of objects with permission claims.

A selector matches in any of three ways: by labels, by name, or because another object refers to
the claimed one. A selector without any of them matches nothing. All names and namespaces here are
the consumer's. The rules are those of the code of kube-bind v1alpha2 where its documentation
differs, except for the namespace that a reference means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import gjson
from fairlead.api.kubebind.fields import (
    ExportResource,
    GroupResource,
    Isolation,
    NamedResource,
    PermissionClaim,
    Selector,
    SelectorReference,
)
from fairlead.api.kubebind.names import CLAIMABLE
from fairlead.api.meta import JSON, Key, ObjectMeta
from fairlead.api.selectors import LabelSelector, SelectorError


INVALID_PERMISSION_CLAIM = "InvalidPermissionClaim"
DUPLICATE_PERMISSION_CLAIM = "DuplicatePermissionClaim"


class ClaimError(NamedTuple):
    """Why claims can never be granted: the reason of a condition, and its message."""

    reason: str
    message: str


class Targets(NamedTuple):
    """Keys of objects that a referrer names; a key without a namespace matches in every one."""

    keys: frozenset[Key]

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces of the targets, with "" for any namespace."""
        return frozenset(key.namespace for key in self.keys)

    def cover(self, key: Key) -> bool:
        """Whether the targets include the object of this key."""
        return key in self.keys or Key("", key.name) in self.keys


def claimable(claim: GroupResource) -> bool:
    """Whether a claim may name this resource: one of :data:`CLAIMABLE` in the core group."""
    return not claim.group and claim.resource in CLAIMABLE


def check_claims(claims: Sequence[PermissionClaim]) -> ClaimError | None:
    """Return the error of the first claim that can never be granted; None if all can."""
    pairs: set[tuple[str, str]] = set()
    for index, claim in enumerate(claims):
        where = f"spec.permissionClaims[{index}]: {claim.name}"
        if not claimable(claim):
            allowed = ", ".join(sorted(CLAIMABLE))
            return ClaimError(
                INVALID_PERMISSION_CLAIM,
                f"{where} cannot be claimed; only {allowed} of the core group can",
            )
        if claim.group_resource in pairs:
            return ClaimError(
                DUPLICATE_PERMISSION_CLAIM,
                f"{where} is claimed twice; join both selectors in one claim",
            )
        pairs.add(claim.group_resource)
        if message := _selector_error(claim.selector):
            return ClaimError(INVALID_PERMISSION_CLAIM, f"{where}: labelSelector: {message}")
    return None


def matches(
    selector: Selector,
    meta: ObjectMeta,
    *,
    referrers: Callable[[SelectorReference], Iterable[JSON]],
) -> bool:
    """Whether a selector of a claim matches an object.

    Args:
        selector: the claim's.
        meta: the object's metadata, with the consumer's namespace.
        referrers: the consumer's objects of a reference's kind; asked last and only for
            references, because they may have to be listed. It gives none for a reference that
            :func:`reference_allowed` refuses or that has no version.
    """
    if label_matches(selector, meta.labels) or name_matches(selector.named_resources, meta.key):
        return True
    return any(
        reference_targets(reference, referrer).cover(meta.key)
        for reference in selector.references
        for referrer in referrers(reference)
    )


def label_matches(selector: Selector, labels: dict[str, str]) -> bool:
    """Whether the selector has a label selector that matches the labels."""
    if selector.label_selector is None:
        return False
    try:
        terms = LabelSelector.from_dict(msgspec.to_builtins(selector.label_selector))
    except SelectorError:
        # check_claims tells of it: until it is corrected, it selects nothing.
        return False
    return terms.matches(labels)


def name_matches(named: Iterable[NamedResource], key: Key) -> bool:
    """Whether the list names an object; an entry without a namespace names it in all."""
    return any(item.name == key.name and item.namespace in {"", key.namespace} for item in named)


def reference_targets(reference: SelectorReference, referrer: JSON) -> Targets:
    """Return the objects that a referrer names at the paths of a reference.

    Names and namespaces in the items of one array belong together; elsewhere each name goes with
    each namespace. A missing namespace means the referrer's own, or any if the referrer has none.
    """
    path = reference.json_path
    own = referrer.get("metadata", {}).get("namespace", "")
    if not path.namespace:
        sources = [(gjson.values(referrer, path.name), [own])]
    elif (items := gjson.paired(referrer, path.name, path.namespace)) is not None:
        sources = [(names, namespaces or [own]) for names, namespaces in items]
    else:
        # A namespace path that leads nowhere gives no target: the referrer's namespace would be a
        # guess.
        sources = [(gjson.values(referrer, path.name), gjson.values(referrer, path.namespace))]
    return Targets(
        frozenset(
            Key(namespace, name)
            for names, namespaces in sources
            for name in names
            for namespace in namespaces
        )
    )


def reference_allowed(
    reference: SelectorReference, resources: Iterable[ExportResource], *, isolation: Isolation
) -> bool:
    """Whether a reference may be followed: to exported kinds, or to any without isolation."""
    if isolation == "None":
        return True
    return any(resource.group_resource == reference.group_resource for resource in resources)


def reference_versions(
    reference: SelectorReference, resources: Iterable[ExportResource]
) -> list[str]:
    """Return the versions in which referring objects are read: its own, else the export's."""
    if reference.versions:
        return list(reference.versions)
    for resource in resources:
        if resource.group_resource == reference.group_resource:
            return list(resource.versions)
    return []


def _selector_error(selector: Selector) -> str:
    if selector.label_selector is None:
        return ""
    try:
        LabelSelector.from_dict(msgspec.to_builtins(selector.label_selector))
    except SelectorError as error:
        return str(error)
    return ""
