"""A form for an object of a kind: blank or posted, with the object that it produces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON
from fairlead.portal.console.authoring import checking
from fairlead.portal.console.authoring.checking import INVALID
from fairlead.portal.console.authoring.defaults import without_defaults
from fairlead.portal.console.authoring.entries import (
    FilledInput,
    Posted,
    Room,
    TooMuchError,
    blank,
    posted,
    same,
)
from fairlead.portal.console.authoring.entries import filled as entry_with
from fairlead.portal.console.authoring.hints import Hint
from fairlead.portal.console.authoring.inputs import Input, describe
from fairlead.portal.console.authoring.printing import as_yaml, manifest
from fairlead.portal.console.authoring.values import tell, value


NAME, NAMESPACE, BRIEF, ADD, REMOVE = "!name", "!namespace", "!brief", "!add", "!remove"
"""Names of the form's controls that belong to no field of the schema."""
_NOT_WRITTEN = frozenset({"apiVersion", "kind", "metadata", "status"})
_NAME_HINT = "Lower-case letters, digits, - and dots."
_NAMESPACE_HINT = "The namespace in your cluster: lower-case letters, digits and -."
_SUBDOMAIN, _LABEL = 253, 63
"""Longest name of an object, and of a namespace, in characters."""


class Blank(msgspec.Struct, frozen=True):
    """The subject of a form: a kind, with the ``openAPIV3Schema`` of one version."""

    api_version: str
    kind: str
    namespaced: bool
    schema: Any


class ToldProblem(msgspec.Struct, frozen=True):
    """A problem for the summary, with its HTML id and its place in the object."""

    id: str
    place: str
    message: str


class Form(msgspec.Struct):
    """A form to show. ``yaml`` is set if it was requested and the form has no problem.

    ``focus`` names the control with the cursor; ``brief`` leaves out fields that equal defaults.
    """

    blank: Blank
    name: FilledInput
    namespace: FilledInput | None
    root: FilledInput
    brief: bool = True
    focus: str = ""
    problems: list[ToldProblem] = []
    object: JSON | None = None

    @property
    def yaml(self) -> str:
        """The object as YAML, "" without one."""
        return as_yaml(self.object) if self.object is not None else ""


def start(wanted: Blank, object_: JSON | None = None) -> Form:
    """Return a blank form, or one with an object's values."""
    given = object_ or {}
    metadata = given.get("metadata") or {}
    fields = {name: one for name, one in given.items() if name not in _NOT_WRITTEN}
    inputs = describe(wanted.schema, without=_NOT_WRITTEN)
    form = _form(wanted, metadata, entry_with(inputs, fields, "", Room()))
    _number(form)
    return form


def fields_of(body: bytes) -> list[tuple[str, str]]:
    """Parse a body of type application/x-www-form-urlencoded.

    Raises:
        TooMuchError: there are too many fields.
    """
    try:
        return parse_qsl(
            body.decode(errors="replace"), keep_blank_values=True, max_num_fields=Posted.FIELDS
        )
    except ValueError:
        raise TooMuchError from None


def read(wanted: Blank, fields: Iterable[tuple[str, str]]) -> Form:
    """Read a posted form.

    A list's button adds or removes a row, without any check. Other buttons request the object: the
    form then has the object or problems.

    Raises:
        TooMuchError: there are too many fields or too much text.
    """
    told = Posted(fields)
    inputs = describe(wanted.schema, without=_NOT_WRITTEN)
    metadata = {"name": told.text(NAME).strip(), "namespace": told.text(NAMESPACE).strip()}
    form = _form(wanted, metadata, posted(inputs, told, "", ""))
    form.brief = bool(told.text(BRIEF))
    if told.added or told.removed:
        form.focus = _focus(form.root, told)
    else:
        _make(form)
    _number(form)
    return form


def _form(wanted: Blank, metadata: JSON, root: FilledInput) -> Form:
    def entry(path: str, name: str, told: str) -> FilledInput:
        one = Input("text", name, required=True, hint=Hint(told))
        text = metadata.get(name)
        return FilledInput(one, path, name, text if isinstance(text, str) else "")

    return Form(
        wanted,
        entry(NAME, "name", _NAME_HINT),
        entry(NAMESPACE, "namespace", _NAMESPACE_HINT) if wanted.namespaced else None,
        root,
    )


def _make(form: Form) -> None:
    """Set the form's object, or add the problems to its entries."""
    metadata: JSON = {"name": _name(form.name)}
    if form.namespace is not None:
        metadata["namespace"] = _name(form.namespace, dots=False)
    found = value(form.root)
    schema = form.blank.schema if isinstance(form.blank.schema, dict) else {}
    if found is not INVALID:
        for problem in checking.problems(form.root.input.schema, found):
            tell(form.root, problem)
    entries = [form.name, *([form.namespace] if form.namespace else []), *form.root.walk()]
    if not any(one.errors for one in entries):
        fields = without_defaults(schema, found) if form.brief else found
        form.object = manifest(form.blank.api_version, form.blank.kind, metadata, fields)


def _name(entry: FilledInput, *, dots: bool = True) -> str:
    """Return an entry's text, and add an error if it is not a valid name in Kubernetes."""
    name = entry.text
    most = _SUBDOMAIN if dots else _LABEL
    if not name:
        entry.errors = ["is required"]
    elif len(name) > most:
        entry.errors = [f"has {len(name)} characters, and may have at most {most}"]
    elif subdomain_errors(name) or (not dots and "." in name):
        allowed = (
            "lower-case letters, digits, - and dots"
            if dots
            else "lower-case letters, digits and -"
        )
        entry.errors = [f"has to be {allowed}, with a letter or digit at both ends"]
    return name


def _number(form: Form) -> None:
    """Number the entries' ids, open the groups with content, and list the problems."""
    places = [("metadata", form.name), ("metadata", form.namespace)]
    everything = [(f"{at}.{one.input.name}", one) for at, one in places if one is not None]
    everything += _places(form.root, "")
    for number, (at, one) in enumerate(everything):
        one.id = f"field-{number}"
        form.problems += [ToldProblem(one.id, at, message) for message in one.errors]
    _open(form.root, form.focus)


def _places(entry: FilledInput, at: str) -> list[tuple[str, FilledInput]]:
    found = [(at, entry)]
    if entry.key is not None:
        found.append((f"{at}: name", entry.key))
    for child in entry.children:
        found += _places(child, f"{at}.{child.input.name}".removeprefix("."))
    for number, row in enumerate(entry.rows):
        told = row.key.text.strip() if row.key else ""
        found += _places(row, f"{at}.{told}" if told else f"{at}[{number}]")
    if entry.rest is not None:
        found.append((f"{at}: other fields".removeprefix(": "), entry.rest))
    return found


def _open(entry: FilledInput, focus: str) -> bool:
    """Open a group that is required, has a value, an error or the cursor.

    Return True if an error or the cursor is inside, so that outer groups open, too.
    """
    inner = [_open(one, focus) for one in (*entry.children, *entry.rows)]
    others = [one for one in (entry.key, entry.rest) if one is not None]
    marked = bool(entry.errors) or any(one.errors for one in others)
    here = bool(focus) and focus in {entry.path, entry.path + ADD, *(one.path for one in others)}
    one = entry.input
    changed = one.kind == "group" and not one.required and not same(entry, blank(one, entry.path))
    entry.opened = one.required or changed or marked or here or any(inner)
    return marked or here or any(inner)


def _focus(root: FilledInput, told: Posted) -> str:
    """Return the first control of a new row, or the button that adds one after a removal."""
    path = told.added or told.removed.rpartition(".")[0]
    found = next((one for one in root.walk() if one.path == path and one.input.item), None)
    if found is None:
        return ""
    return found.rows[-1].control().path if told.added and found.rows else path + ADD
