"""Owners of an object's fields (``metadata.managedFields``), and how each write changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.patches.apply import paths
from fairlead_sandbox.patches.apply.paths import NOTHING, MalformedFieldsError, Path, Paths
from fairlead_sandbox.patches.apply.shapes import Shape
from fairlead_sandbox.patches.apply.walk import changes, fields, merge, remove, with_parents


BEFORE_FIRST_APPLY = "before-first-apply"
"""Manager of all fields of an object that had no owners before its first apply."""
ANCIENT_CHANGES = "ancient-changes"
"""Manager into which kube-apiserver merges the oldest updates."""
MOST_UPDATERS = 10
"""Maximum number of managers of updates; the oldest of more are merged into one."""

_UNOWNED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", paths.member(name))
            for name in (
                "creationTimestamp",
                "generation",
                "managedFields",
                "name",
                "namespace",
                "resourceVersion",
                "selfLink",
                "uid",
            )
        ),
    }
)
"""Paths without an owner: only the server sets them, or no write can change them."""


class FieldManager(NamedTuple):
    """A writer of fields: its name, operation, API version and subresource."""

    name: str
    operation: Literal["Apply", "Update"]
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        shown = f'"{self.name}"'
        if self.subresource:
            shown += f' with subresource "{self.subresource}"'
        return f"{shown} using {self.api_version}" if self.operation == "Update" else shown


class OwnedFields(NamedTuple):
    """The fields of one manager, and the time of its last change to them."""

    fields: Paths
    time: str = ""


Managed: TypeAlias = Mapping[FieldManager, OwnedFields]


class FieldConflict(NamedTuple):
    """A field that an apply would change and another manager owns."""

    manager: FieldManager
    path: Path

    @property
    def place(self) -> str:
        """The path as error messages show it."""
        return paths.text(self.path)


class ConflictsError(Exception):
    """An apply without force would change fields of other managers."""

    def __init__(self, conflicts: Sequence[FieldConflict]) -> None:
        super().__init__(_conflict_text(conflicts))
        self.conflicts = conflicts


def _conflict_text(conflicts: Sequence[FieldConflict]) -> str:
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {paths.text(path)}"
    lines = [f"Apply failed with {len(conflicts)} conflicts:"]
    current: FieldManager | None = None
    for manager, path in conflicts:
        if manager != current:
            lines[-1] += f" conflicts with {manager}:" if current is None else ""
            lines += [f"conflicts with {manager}:"] if current is not None else []
            current = manager
        lines.append(f"- {paths.text(path)}")
    return "\n".join(lines)


class _Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    manager: str = ""
    operation: Literal["Apply", "Update"] = "Update"
    api_version: str = ""
    time: str = ""
    fields_type: Literal["FieldsV1", ""] = ""
    fields_v1: Any = msgspec.field(default=None, name="fieldsV1")
    subresource: str = ""


def decode(entries: Any) -> Managed:
    """Return the owners in ``managedFields``.

    Raises:
        MalformedFieldsError: the entries cannot be read.
    """
    try:
        given = msgspec.convert(entries or [], list[_Entry])
    except msgspec.ValidationError as error:
        raise MalformedFieldsError(str(error)) from None
    owners: dict[FieldManager, OwnedFields] = {}
    for entry in given:
        manager = FieldManager(
            entry.manager, entry.operation, entry.api_version, entry.subresource
        )
        # A dot at the root means the object itself, which has no owner.
        owned = paths.decode(entry.fields_v1 or {}) - {()}
        before = owners.get(manager, OwnedFields(NOTHING)).fields
        owners[manager] = OwnedFields(owned | before, entry.time)
    return owners


def encode(managed: Managed) -> list[JSON]:
    """Return ``managedFields`` in kube-apiserver's order: applies first, then by time and name."""
    ordered = sorted(managed.items(), key=lambda item: (item[0].operation, item[1].time, item[0]))
    return [_encoded(manager, owned) for manager, owned in ordered]


def _encoded(manager: FieldManager, owned: OwnedFields) -> JSON:
    entry: JSON = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": paths.encode(owned.fields),
        "subresource": manager.subresource,
    }
    return {key: value for key, value in entry.items() if value or key == "fieldsV1"}


def updated(
    shape: Shape, before: JSON, after: JSON, managed: Managed, manager: FieldManager, now: str
) -> Managed:
    """Return the owners after a write that is no apply: its manager takes each changed field."""
    changed = changes(shape, before, after)
    taken = changed.added | changed.modified
    # An update never conflicts: it takes changed fields from their owners, and removed fields lose
    # all of theirs.
    lost = taken | changed.removed
    result = _without(managed, lost) if lost else dict(managed)
    own = taken - _UNOWNED
    if own:
        owned = result.get(manager, OwnedFields(NOTHING)).fields
        result[manager] = OwnedFields(owned | own, now)
    return _capped(result)


def applied(
    shape: Shape,
    live: JSON,
    config: JSON,
    managed: Managed,
    manager: FieldManager,
    now: str,
    *,
    force: bool,
) -> tuple[JSON, Managed]:
    """Return the object and its owners after an apply.

    Fields that the manager applied before but no longer sends are removed, unless others own them.

    Raises:
        ConflictsError: without force, the apply would change fields of other managers.
        ShapeError: the configuration does not fit its kind.
    """
    applied_fields = fields(shape, config)
    others = {key: owned for key, owned in managed.items() if key != manager}
    result = merge(shape, live, config)
    last = managed.get(manager, OwnedFields(NOTHING))
    if last.fields:
        # Not removed are fields that others own too, and the parents of fields that are still
        # applied or owned.
        everyone = applied_fields.union(*(owned.fields for owned in others.values()))
        gone = with_parents(shape, last.fields) - with_parents(shape, everyone)
        result = remove(shape, result, gone)
    changed = changes(shape, live, result)
    taken = changed.added | changed.modified
    if not force:
        _refuse_conflicts(others, taken)
    owners = _without(others, taken | changed.removed)
    # A field with the value that another manager has set already is no conflict: both own it then.
    own = applied_fields - _UNOWNED
    # An apply that changes nothing keeps its time; otherwise each repetition would make a new
    # resourceVersion.
    same = own == last.fields and not any(changed) and manager in managed
    owners[manager] = OwnedFields(own, last.time if same else now)
    return result, _nonempty(owners)


def _refuse_conflicts(others: Managed, taken: Paths) -> None:
    conflicts = [
        FieldConflict(key, path)
        for key in sorted(others)
        for path in sorted(others[key].fields & taken)
    ]
    if conflicts:
        raise ConflictsError(conflicts)


def owner_of_all(shape: Shape, live: JSON, api_version: str, now: str) -> Managed:
    """Return the owners of an object that had none, for its first apply."""
    owned = changes(shape, {}, live).added - _UNOWNED
    return {FieldManager(BEFORE_FIRST_APPLY, "Update", api_version): OwnedFields(owned, now)}


def only(managed: Managed, manager: FieldManager, keep: Iterable[Path]) -> Managed:
    """Return the owners; ``manager`` keeps only the paths in ``keep``."""
    if manager not in managed:
        return managed
    owned = managed[manager]
    return _nonempty({**managed, manager: owned._replace(fields=frozenset(keep))})


def _without(managed: Managed, lost: Paths) -> dict[FieldManager, OwnedFields]:
    return _nonempty(
        {key: owned._replace(fields=owned.fields - lost) for key, owned in managed.items()}
    )


def _nonempty(managed: Managed) -> dict[FieldManager, OwnedFields]:
    return {key: owned for key, owned in managed.items() if owned.fields}


def _capped(managed: dict[FieldManager, OwnedFields]) -> Managed:
    updaters = [key for key in managed if key.operation == "Update"]
    if len(updaters) <= MOST_UPDATERS:
        return managed
    # The oldest are merged, as in kube-apiserver, so that managedFields cannot grow without end.
    updaters.sort(key=lambda key: (managed[key].time, key))
    # One more than the surplus, because the heir takes a place itself.
    for old in updaters[: len(updaters) - MOST_UPDATERS + 1]:
        owned = managed.pop(old)
        heir = FieldManager(ANCIENT_CHANGES, "Update", old.api_version)
        before = managed.get(heir, OwnedFields(NOTHING))
        managed[heir] = OwnedFields(before.fields | owned.fields, owned.time)
    return managed
