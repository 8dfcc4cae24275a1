"""A CRD's schema, compiled once to functions that prune, default and validate objects."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from fairlead.api.label_names import label_value_errors, qualified_name_errors
from fairlead.api.meta import JSON
from fairlead_sandbox.schema.effort import ExhaustedError, Report
from fairlead_sandbox.schema.errors import FieldError, invalid, required, type_invalid
from fairlead_sandbox.schema.names import dns1035_label
from fairlead_sandbox.schema.objects.defaults import compile_defaulter
from fairlead_sandbox.schema.objects.lists import compile_list_check
from fairlead_sandbox.schema.objects.prune import compile_pruner
from fairlead_sandbox.schema.objects.rules import compile_rules
from fairlead_sandbox.schema.objects.scalars import Check, type_name
from fairlead_sandbox.schema.objects.values import compile_check


_INDEX = re.compile(r"\[(\d+)\]")


class _Place(NamedTuple):
    path: str
    schema: JSON
    new: Any
    old: Any


# A schema that became stricter would otherwise keep everybody from changing objects of before
# ("Validation ratcheting" in the CRD documentation). Old and new values meet by the names of
# fields and keys, and in lists of type map by the keys of items; another list is one value.
class Ratchet:
    """Compares an object with the one that it replaces, each place once."""

    def __init__(self, schema: JSON, new: JSON, old: JSON) -> None:
        self._root = _Place("", schema, new, old)
        self._equal: dict[str, bool] = {}

    def excuses(self, error: FieldError) -> bool:
        """Whether the error is of a value that was so before, or of a part of such a value."""
        place: _Place | None = self._root
        while place is not None:
            if self._is_equal(place):
                return True
            place = _next(place, error.field)
        return False

    def _is_equal(self, place: _Place) -> bool:
        is_equal = self._equal.get(place.path)
        if is_equal is None:
            is_equal = self._equal[place.path] = _is_equal(place.new, place.old)
        return is_equal


def _is_equal(new: Any, old: Any) -> bool:
    # Python takes 1 for True, and its dictionaries are equal in any order.
    return bool(new == old) and _encoded(new) == _encoded(old)


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _next(place: _Place, field: str) -> _Place | None:
    """The next place on the way to a field, where old and new value meet; None without one."""
    rest = field[len(place.path) :]
    if isinstance(place.new, dict) and isinstance(place.old, dict):
        return _member(place, rest)
    if isinstance(place.new, list) and isinstance(place.old, list):
        return _item(place, rest)
    return None


def _member(place: _Place, rest: str) -> _Place | None:
    # Names may have dots and brackets themselves: the longest that fits is meant.
    steps = {}
    for name in place.new:
        for step in (f".{name}" if place.path else name, f"[{name}]"):
            if rest.startswith(step) and rest[len(step) : len(step) + 1] in {"", ".", "["}:
                steps[step] = name
    if not steps:
        return None
    step = max(steps, key=len)
    name = steps[step]
    if name not in place.old:
        return None
    properties = place.schema.get("properties") or {}
    schema = properties.get(name, place.schema.get("additionalProperties"))
    path = place.path + step
    return _Place(path, _as_schema(schema), place.new[name], place.old[name])


def _item(place: _Place, rest: str) -> _Place | None:
    index = _INDEX.match(rest)
    keys = place.schema.get("x-kubernetes-list-map-keys")
    if index is None or not keys or int(index[1]) >= len(place.new):
        return None
    new = place.new[int(index[1])]
    if not isinstance(new, dict):
        return None
    for old in place.old:
        if isinstance(old, dict) and all(new.get(key) == old.get(key) for key in keys):
            schema = _as_schema(place.schema.get("items"))
            return _Place(place.path + index[0], schema, new, old)
    return None


def _as_schema(schema: Any) -> JSON:
    return schema if isinstance(schema, dict) else {}


def compile_embedded_check(schema: JSON, *, root: bool = True) -> Check | None:
    """Return the check of apiVersion, kind and metadata in embedded resources, None without."""
    own = not root and bool(schema.get("x-kubernetes-embedded-resource"))
    items = compile_embedded_check(schema["items"], root=False) if schema.get("items") else None
    members = {
        name: inner
        for name, member in (schema.get("properties") or {}).items()
        if (inner := compile_embedded_check(member, root=False))
    }
    additional = schema.get("additionalProperties")
    other = (
        compile_embedded_check(additional, root=False) if isinstance(additional, dict) else None
    )
    if not (own or items or members or other):
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) is list and items is not None:
            for index, item in enumerate(value):
                items(item, f"{path}[{index}]", errors)
        if type(value) is not dict:
            return
        if own:
            _envelope(value, path, errors)
        for name, member in value.items():
            check_member = members.get(name, other)
            if check_member is not None:
                check_member(member, f"{path}.{name}" if path else name, errors)

    return check


def _envelope(value: JSON, path: str, errors: Report) -> None:
    for name, complaint in (("apiVersion", _group_version), ("kind", _kind)):
        given = value.get(name)
        if given is None or given == "":
            errors.append(required(f"{path}.{name}"))
        elif not isinstance(given, str):
            errors.append(type_invalid(f"{path}.{name}", type_name(given), "must be a string"))
        elif wrong := complaint(given):
            errors.append(invalid(f"{path}.{name}", given, wrong))
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        _metadata(metadata, f"{path}.metadata", errors)
    elif metadata is not None:
        detail = "must be an object"
        errors.append(type_invalid(f"{path}.metadata", type_name(metadata), detail))


def _group_version(text: str) -> str:
    return f"unexpected GroupVersion string: {text}" if text.count("/") > 1 else ""


def _kind(text: str) -> str:
    wrong = dns1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {wrong}" if wrong else ""


def _metadata(metadata: JSON, path: str, errors: Report) -> None:
    labels = metadata.get("labels")
    for key, label in labels.items() if isinstance(labels, dict) else ():
        field = f"{path}.labels"
        errors.extend(invalid(field, key, text) for text in qualified_name_errors(key))
        errors.extend(invalid(field, label, text) for text in label_value_errors(str(label)))


_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""Reasons of errors after which CEL rules are not evaluated, as in kube-apiserver."""
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


class CompiledSchema:
    """The schema of one version of a custom resource, as functions."""

    def __init__(self, schema: JSON) -> None:
        self.schema = schema
        self._prune = compile_pruner(schema, root=True)
        self._default = compile_defaulter(_bare_root(schema))
        self._checks = [
            check
            for check in (
                compile_check(_bare_root(schema)),
                compile_embedded_check(schema),
                compile_list_check(schema),
            )
            if check
        ]
        self._rules = compile_rules(schema)

    def prune(self, obj: JSON) -> None:
        """Remove unspecified fields in place; the root keeps apiVersion, kind and metadata."""
        if self._prune is not None:
            self._prune(obj)

    def default(self, obj: JSON) -> None:
        """Set defaults in place, and remove nulls that the schema does not allow."""
        if self._default is not None:
            self._default(obj)

    def validate(self, obj: JSON, old: JSON | None = None) -> list[FieldError]:
        """Return the errors of an object.

        Args:
            obj: the object, pruned and defaulted.
            old: the object that it replaces: errors of what it has already are left out, and rules
                with ``oldSelf`` run.
        """
        errors = Report()
        try:
            self._check(obj, old, errors)
        except ExhaustedError as error:
            # Not errors.append, which would spend steps that are no longer left.
            return [*errors, error.error()]
        return errors

    def _check(self, obj: JSON, old: JSON | None, errors: Report) -> None:
        for check in self._checks:
            check(obj, "", errors)
        if old is not None and errors:
            ratchet = Ratchet(self.schema, obj, old)
            errors[:] = [error for error in errors if not ratchet.excuses(error)]
        if self._rules is None:
            return
        # Rules are compiled for the schema's types, and their cost is estimated within its limits;
        # values that violate either are not passed to them.
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(invalid("<nil>", None, _UNCHECKED))
            return
        self._rules(obj, old, errors)


def compile_schema(schema: JSON) -> CompiledSchema:
    """Compile an ``openAPIV3Schema`` in which :func:`validate_crd` found no errors.

    Raises:
        ValueError: a pattern or a rule cannot be compiled.
    """
    return CompiledSchema(schema)


def _bare_root(schema: JSON) -> JSON:
    """Return the schema with only the properties of the root's metadata to check.

    Its other keywords are skipped, because the server has checked metadata before.
    """
    properties = schema.get("properties") or {}
    if "metadata" not in properties:
        return schema
    metadata = {"type": "object", "properties": properties["metadata"].get("properties") or {}}
    return schema | {"properties": properties | {"metadata": metadata}}
