"""Strategic merge patch: a merge patch that knows how the lists of built-in kinds merge.

Directives: ``$patch`` (replace, delete, merge), ``$retainKeys``, ``$setElementOrder/<list>`` and
``$deleteFromPrimitiveList/<list>``. Sources: "Strategic Merge Patch" in sig-api-machinery's notes,
and answers of kube-apiserver 1.20.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.patches.errors import PatchError


PATCH = "$patch"
"""Directive of an object: replace, delete or merge."""
SET_ORDER = "$setElementOrder/"
"""Prefix of the directive that orders a list."""
DELETE_FROM = "$deleteFromPrimitiveList/"
"""Prefix of the directive that deletes scalars from a list."""

Entry: TypeAlias = tuple[Hashable, Any]
"""An item of a list after its identity."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def merge_objects(
    current: list[Any] | None,
    patch: list[Any],
    order: Any,
    key: str,
    merge: Callable[[JSON, JSON], JSON],
) -> list[Any]:
    """Return a list of objects with those of the patch merged in; ``key`` identifies an object.

    A missing list (None) becomes the items of the patch, in their order.

    Raises:
        PatchError: an item of the patch has no key, or the order contradicts the patch.
    """
    replace, removed, items = _split(patch, key)
    if current is None:
        return [merge({}, item) for item in items]
    _check_order(patch, items, order, key)
    if replace:
        return [merge({}, item) for item in items]
    before = [_name(item, key) for item in current]
    result = [
        (name, item) for name, item in zip(before, current, strict=True) if name not in removed
    ]
    _merge_items(result, [(_name(item, key), item) for item in items], merge)
    if not isinstance(order, list):
        return in_order(result, [_name(item, key) for item in items], before)
    # As in kube-apiserver, a new item in the place of a removed one counts as an old item.
    names = [name for name, _ in result][: len(before)] if removed else before
    return in_order(result, [_name(item, key) for item in order], names)


def identity(value: Any) -> Hashable:
    """Return the identity of a list's value; 1 and 1.0 share one, 1 and true do not."""
    if isinstance(value, dict | list):
        return "json", _encode(value)
    return (type(value) is bool, value)


def _name(item: Any, key: str) -> Hashable:
    return identity(item.get(key) if isinstance(item, dict) else None)


def _merge_items(
    entries: list[Entry], items: list[tuple[Hashable, JSON]], merge: Callable[[JSON, JSON], JSON]
) -> None:
    """Merge each item into the first of its name; a list may have several (ports of a Service)."""
    places: dict[Hashable, int] = {}
    for index, (name, _) in enumerate(entries):
        places.setdefault(name, index)
    for name, item in items:
        index = places.setdefault(name, len(entries))
        if index == len(entries):
            entries.append((name, merge({}, item)))
        else:
            entries[index] = (name, merge(entries[index][1], item))


def _split(patch: list[Any], key: str) -> tuple[bool, set[Hashable], list[JSON]]:
    """Return whether the list is replaced, the keys to remove, and the items to merge."""
    replace, removed, items = False, set[Hashable](), list[JSON]()
    for item in patch:
        if not isinstance(item, dict):
            raise PatchError(f"invalid patch item {item!r}: an object is expected", 400)
        directive = item.get(PATCH)
        if directive == "replace":
            replace = True
            continue
        # kube-apiserver has no such directive for lists either, and answers 500.
        if directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch", 500)
        if key not in item:
            raise PatchError(
                f"map: {go_map(item)} does not contain declared merge key: {key}", 500
            )
        if directive == "delete":
            removed.add(_name(item, key))
        else:
            items.append(item)
    return replace, removed, items


def _check_order(patch: list[Any], items: list[JSON], order: Any, key: str) -> None:
    """Raise unless the order names every item of the patch, in the same sequence."""
    if not isinstance(order, list) or not items:
        return
    names = iter([_name(item, key) for item in order])
    if not all(_name(item, key) in names for item in items):
        raise PatchError(
            f"The order in patch list:\n{go_map(patch)}\n"
            f" doesn't match $setElementOrder list:\n{go_map(order)}\n",
            500,
        )


def merge_scalars(current: list[Any], patch: list[Any], order: Any) -> list[Any]:
    """Return a list of scalars as a set, with those of the patch added.

    Raises:
        PatchError: an item of the patch is no scalar.
    """
    for item in patch:
        if isinstance(item, dict | list):
            raise PatchError(f"invalid patch item {go_map(item)}: a scalar is expected", 400)
    # Reversed, so that the first of equal values stays: 1 and 1.0 have one identity.
    by_identity = {identity(item): item for item in reversed([*current, *patch])}
    merged = [
        (name, by_identity[name]) for name in dict.fromkeys(map(identity, [*current, *patch]))
    ]
    ranked = order if isinstance(order, list) else patch
    return in_order(merged, list(map(identity, ranked)), list(map(identity, current)))


def in_order(
    entries: Sequence[Entry], ranked: Sequence[Hashable], before: Sequence[Hashable]
) -> list[Any]:
    """Return the values of (name, value) pairs in the wanted order of their names.

    Entries without a wanted place keep their old places relative to the others; a wanted name that
    is new goes before them.
    """
    rank, stood = _places(ranked), _places(before)
    first = sorted(
        (entry for entry in entries if entry[0] in rank), key=lambda item: rank[item[0]]
    )
    rest = [entry for entry in entries if entry[0] not in rank]
    result: list[Any] = []
    ahead, others = deque(first), deque(rest)
    while ahead and others:
        name, other = ahead[0][0], others[0][0]
        later = name in stood and stood[name] > stood.get(other, 0)
        result.append((others if later else ahead).popleft()[1])
    return [*result, *(value for _, value in (*ahead, *others))]


def _places(names: Iterable[Hashable]) -> dict[Hashable, int]:
    """Return the first index of each name."""
    places: dict[Hashable, int] = {}
    for index, name in enumerate(names):
        places.setdefault(name, index)
    return places


def go_map(value: Any) -> str:
    """Return a value as Go prints a map with ``%v``, for the messages of patch errors."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_map(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_map, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


# The rules are facts of the Kubernetes API reference ("patch strategy: merge on key ..."). Lists
# without a rule are replaced as a whole.
class MergeRule(msgspec.Struct, frozen=True):
    """The rule of one field: how its list merges, and the rules of its members.

    ``merge`` with a key merges objects that are identified by it, without a key a set of scalars.
    """

    merge: bool = False
    key: str = ""
    fields: Mapping[str, MergeRule] = {}


NO_FIELDS: Mapping[str, MergeRule] = {}
"""The rules of a message without merging lists."""


def _keyed(key: str, fields: Mapping[str, MergeRule] = NO_FIELDS) -> MergeRule:
    return MergeRule(merge=True, key=key, fields=fields)


def _object(**fields: MergeRule) -> MergeRule:
    return MergeRule(fields=fields)


_SET = MergeRule(merge=True)
_CONDITIONS = _object(conditions=_keyed("type"))

_METADATA = _object(ownerReferences=_keyed("uid"), finalizers=_SET)

_CONTAINER = _keyed(
    "name",
    {
        "env": _keyed("name"),
        # By number alone: unlike server-side apply, whose key has the protocol too, a strategic
        # patch cannot tell the TCP and the UDP port of one number apart.
        "ports": _keyed("containerPort"),
        "volumeDevices": _keyed("devicePath"),
        "volumeMounts": _keyed("mountPath"),
    },
)

_POD_SPEC = _object(
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    ephemeralContainers=_CONTAINER,
    volumes=_keyed("name"),
    imagePullSecrets=_keyed("name"),
    hostAliases=_keyed("ip"),
    topologySpreadConstraints=_keyed("topologyKey"),
    resourceClaims=_keyed("name"),
    schedulingGates=_keyed("name"),
)

_TEMPLATE = _object(metadata=_METADATA, spec=_POD_SPEC)
_WORKLOAD = _object(template=_TEMPLATE)

_KINDS: Mapping[str, Mapping[str, MergeRule]] = {
    "CronJob": {"spec": _object(jobTemplate=_object(metadata=_METADATA, spec=_WORKLOAD))},
    "DaemonSet": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "Deployment": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "Job": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "MutatingWebhookConfiguration": {"webhooks": _keyed("name")},
    "Namespace": {"status": _CONDITIONS},
    "Node": {
        "spec": _object(podCIDRs=_SET),
        "status": _object(conditions=_keyed("type"), addresses=_keyed("type")),
    },
    "PersistentVolumeClaim": {"status": _CONDITIONS},
    "Pod": {
        "spec": _POD_SPEC,
        "status": _object(conditions=_keyed("type"), podIPs=_keyed("ip")),
    },
    "PodTemplate": {"template": _TEMPLATE},
    "ReplicaSet": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "ReplicationController": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "Service": {"spec": _object(ports=_keyed("port")), "status": _CONDITIONS},
    "ServiceAccount": {"secrets": _keyed("name"), "imagePullSecrets": _keyed("name")},
    "StatefulSet": {"spec": _WORKLOAD, "status": _CONDITIONS},
    "ValidatingWebhookConfiguration": {"webhooks": _keyed("name")},
}
"""Rules by kind and field."""


def fields_of(kind: str) -> Mapping[str, MergeRule]:
    """Return the rules of a built-in kind's fields; for an unknown kind only those of metadata."""
    return {"metadata": _METADATA, **_KINDS.get(kind, NO_FIELDS)}


_RETAIN = "$retainKeys"
_DEFAULT = MergeRule()


def strategic_merge_patch(kind: str, current: JSON, patch: Any) -> JSON:
    """Return a copy of the object with the patch applied.

    Args:
        kind: the kind of a built-in resource.
        current: the object as stored.
        patch: the decoded body of the request.

    Raises:
        PatchError: 400 for a body that is no object or breaks ``$retainKeys``, 422 for a value
            of the wrong type, 500 (as kube-apiserver answers) for invalid directives.
    """
    if not isinstance(patch, dict):
        name = "array" if isinstance(patch, list) else type(patch).__name__
        text = f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"
        raise PatchError(text, 400)
    try:
        return _merge(current, patch, fields_of(kind))
    except _TypeMismatchError as error:
        detail = f'Invalid value: "{go_map(patch)}": {error}'
        text = f' "" is invalid: patch: {detail}'
        raise PatchError(text, 422, detail, "FieldValueInvalid") from None


class _TypeMismatchError(Exception):
    """The patch has a list for an object or the reverse; in Go's words a slice and a map."""


def _merge(current: JSON, patch: JSON, fields: Mapping[str, MergeRule]) -> JSON:
    directive = patch.get(PATCH)
    if directive == "replace":
        return {name: deepcopy(value) for name, value in patch.items() if name != PATCH}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise PatchError(f"unknown patch type: {directive} in map: {go_map(patch)}", 500)
    result = _retained(current, patch)
    for name in _field_names(patch):
        field = fields.get(name, _DEFAULT)
        # As in a merge patch (RFC 7386), null removes the field.
        if name in patch and patch[name] is None:
            result.pop(name, None)
        elif name in patch or name in result:
            result[name] = _merge_field(name, result.get(name), patch, field)
    return result


def _field_names(patch: JSON) -> list[str]:
    """Return the fields that a patch changes, directives counted for their lists."""
    names = dict.fromkeys(
        name.split("/", 1)[1] if name.startswith((SET_ORDER, DELETE_FROM)) else name
        for name in patch
        if name not in {PATCH, _RETAIN}
    )
    return list(names)


def _retained(current: JSON, patch: JSON) -> JSON:
    if _RETAIN not in patch:
        return dict(current)
    given = patch[_RETAIN]
    keep = {name for name in given if isinstance(name, str)} if isinstance(given, list) else set()
    named = {name for name in patch if not name.startswith("$")}
    if not isinstance(given, list) or not named <= keep:
        raise PatchError("invalid patch format of retainKeys", 400)
    return {name: value for name, value in current.items() if name in keep}


def _merge_field(name: str, current: Any, patch: JSON, field: MergeRule) -> Any:
    value = patch.get(name)
    if isinstance(value, dict):
        if isinstance(current, list) or field.merge:
            raise _TypeMismatchError("cannot restore slice from map")
        return _merge(current if isinstance(current, dict) else {}, value, field.fields)
    if name in patch and not isinstance(value, list):
        if isinstance(current, dict | list):
            expected = "map" if isinstance(current, dict) else "slice"
            raise _TypeMismatchError(f"cannot restore {expected} from {_go_type(value)}")
        return value
    if isinstance(current, dict):
        raise _TypeMismatchError("cannot restore map from slice")
    return _merge_list(name, current, patch, field)


def _merge_list(name: str, current: list[Any] | None, patch: JSON, field: MergeRule) -> list[Any]:
    order = patch.get(f"{SET_ORDER}{name}")
    items = patch.get(name)
    if not field.merge:
        # Without items the patch has only directives for the list, which need a merge rule.
        return deepcopy(current or [] if items is None else items)
    if field.key:
        return merge_objects(
            current,
            items or [],
            order,
            field.key,
            lambda old, new: _merge(old, new, field.fields or NO_FIELDS),
        )
    given = patch.get(f"{DELETE_FROM}{name}")
    removed = {identity(item) for item in given} if isinstance(given, list) else set()
    remaining = [item for item in current or [] if identity(item) not in removed]
    return merge_scalars(remaining, items or [], order)


def _go_type(value: Any) -> str:
    return {"str": "string", "int": "int64", "float": "float64"}.get(
        type(value).__name__, type(value).__name__
    )
