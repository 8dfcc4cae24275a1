"""Inputs of a form with their values, taken from an object or from a posted form.

A control's name is the path of its value: percent-encoded field names and row numbers, joined by
dots. Controls beside a value add a suffix with ``!``, which percent-encoding never produces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from fairlead.portal.console.authoring import facts
from fairlead.portal.console.authoring.facts import UNSET
from fairlead.portal.console.authoring.inputs import Input
from fairlead.portal.console.authoring.printing import as_yaml


ROWS = 100
"""Largest number of rows of a list or map."""
WEIGHT = 2_000
"""Largest total of :attr:`Input.weight` of a form's entries."""
_ERRORS = 10
"""Largest number of reported problems per entry."""
ROW, KEY, KEEP, REST = "!row", "!key", "!keep", "!rest"
"""Suffixes of the controls of a row, a map's key, an empty group, and other fields."""
_KEY_INPUT = Input("text", "name")


class FilledInput(msgspec.Struct):
    """An input with its value and its problems.

    ``path`` is its control's name, ``label`` the visible name, ``id`` the HTML id. ``text`` and
    ``picked`` are the controls' values; ``kept`` says that a group is written even if empty.
    """

    input: Input
    path: str
    label: str
    text: str = ""
    picked: tuple[str, ...] = ()
    kept: bool = False
    children: list[FilledInput] = []
    rest: FilledInput | None = None
    rows: list[FilledInput] = []
    key: FilledInput | None = None
    errors: list[str] = []
    id: str = ""
    opened: bool = False

    @property
    def full(self) -> bool:
        """Whether the list or map has its largest number of rows."""
        most = self.input.schema.get(
            "maxProperties" if self.input.kind == "map" else "maxItems", ROWS
        )
        return len(self.rows) >= (min(most, ROWS) if isinstance(most, int) else ROWS)

    def wrong(self, message: str) -> None:
        """Add a problem, which follows the label; after some, further ones are dropped."""
        if len(self.errors) < _ERRORS:
            self.errors = [*self.errors, message]

    def walk(self) -> Iterator[FilledInput]:
        """Yield this entry and the entries inside it, in the order of the page."""
        yield self
        if self.key is not None:
            yield self.key
        for one in (*self.children, *self.rows):
            yield from one.walk()
        if self.rest is not None:
            yield self.rest

    def control(self) -> FilledInput:
        """Return the control of the entry that gets the cursor: its key or first plain input."""
        if self.key is not None:
            return self.key
        plain = (one for one in self.children if one.input.kind not in {"group", "list", "map"})
        return next(plain, self)


class Room:
    """The sum of input weights that a form may still add, out of :data:`WEIGHT`."""

    def __init__(self, left: int = WEIGHT) -> None:
        self.left = left

    def take(self, one: Input) -> bool:
        """Subtract an input's weight; return False if too little is left."""
        if one.weight > self.left:
            return False
        self.left -= one.weight
        return True


def below(path: str, name: str) -> str:
    """Return the name of the control for field or row ``name`` inside the one at ``path``."""
    coded = quote(name, safe="").replace(".", "%2E")
    return f"{path}.{coded}" if path else coded


def blank(one: Input, path: str = "") -> FilledInput:
    """Return an entry with its schema's defaults."""
    return filled(one, UNSET, path, Room())


def filled(one: Input, value: Any, path: str, room: Room) -> FilledInput:
    """Return an entry with a value; parts that its control cannot show are left out."""
    given = value is not UNSET
    if not given:
        value = one.default
    made = FilledInput(one, path, one.name)
    match one.kind:
        case "group":
            _fill_group(made, value if isinstance(value, dict) else {}, room)
            made.kept = (
                given and not one.required and one.keepable and same(made, blank(one, path))
            )
        case "list" | "map":
            _fill_rows(made, value, room)
        case "boxes":
            known = {option.value for option in one.options}
            found = map(facts.encode, value) if isinstance(value, list) else ()
            made.picked = tuple(told for told in found if told in known)
        case "lines":
            made.text = _lines(one, value)
        case _:
            made.text = "" if value is UNSET else _shown(one, value)
    return made


def _fill_group(made: FilledInput, value: dict[str, Any], room: Room) -> None:
    one = made.input
    made.children = [
        filled(child, value.get(child.name, UNSET), below(made.path, child.name), room)
        for child in one.children
    ]
    if one.rest is not None:
        names = {child.name for child in one.children}
        others = {name: item for name, item in value.items() if name not in names}
        made.rest = FilledInput(one.rest, made.path + REST, "other fields")
        made.rest.text = as_yaml(others) if others and facts.is_plain(others) else ""


def _fill_rows(made: FilledInput, value: Any, room: Room) -> None:
    one, item = made.input, made.input.item
    if item is None:
        return
    found: list[tuple[str, Any]] = []
    if isinstance(value, list) and one.kind == "list":
        found = [("", inner) for inner in value]
    elif isinstance(value, dict) and one.kind == "map":
        found = list(value.items())
    elif value is UNSET and one.required and one.kind == "list":
        # A required list of at least one item begins with a blank row.
        found = [("", UNSET)] if facts.count(one.schema, "minItems") else []
    for name, inner in found[:ROWS]:
        if not room.take(item):
            break
        row = filled(item, inner, below(made.path, str(len(made.rows))), room)
        add_row(made, row, name)


def add_row(made: FilledInput, row: FilledInput, key: str = "") -> None:
    """Append a row to a list or a map."""
    number = len(made.rows) + 1
    row.label = f"{made.label} {number}"
    if made.input.kind == "map":
        row.key = FilledInput(_KEY_INPUT, row.path + KEY, f"name {number}", text=key)
        row.label = row.label if row.input.kind == "group" else f"value {number}"
    made.rows.append(row)


def _shown(one: Input, value: Any) -> str:
    """Return a value as its control's text, "" if the control cannot hold it."""
    match one.kind:
        case "text" | "long":
            broken = {"\r", "\0"} | ({"\n"} if one.kind == "text" else set())
            return value if isinstance(value, str) and not broken & set(value) else ""
        case "number":
            plain = isinstance(value, int | float) and not isinstance(value, bool)
            return repr(value) if plain else ""
        case "mixed":
            if isinstance(value, str):
                # Quoted, since the text would be read back as a number or as a quoted text.
                return facts.encode(value) if needs_quotes(value) else value
            return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
        case "choice":
            told = facts.encode(value)
            return told if any(told == option.value for option in one.options) else ""
        case "check":
            return "true" if value is True else ""
        case _:
            return as_yaml(value) if facts.is_plain(value) else ""


def needs_quotes(value: str) -> bool:
    """Whether ``value`` of an int-or-string has to be written in quotes."""
    return (
        value[:1] in {"", '"'}
        or value != value.strip()
        or any(ord(one) < 32 for one in value)
        or value.removeprefix("-").removeprefix("+").isdecimal()
    )


def _lines(one: Input, value: Any) -> str:
    if not isinstance(value, list) or one.item is None:
        return ""
    lines = [_shown(one.item, inner) for inner in value]
    return "" if any(not line.strip() or "\n" in line for line in lines) else "\n".join(lines)


class Posted:
    """The fields of a posted form, by name; their number and size are limited.

    Raises:
        TooMuchError: there are too many fields or too much text.
    """

    FIELDS = 8_000
    """Largest number of fields."""
    TEXT = 128 * 1024
    """Largest size of all fields, in characters."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        self._rows: dict[str, list[str]] = {}
        left, letters = self.FIELDS, self.TEXT
        for name, value in fields:
            left -= 1
            letters -= len(name) + len(value)
            if min(left, letters) < 0:
                raise TooMuchError
            self._values.setdefault(name, []).append(_clean(value))
            if name.endswith(ROW):
                path, _, number = name.removesuffix(ROW).rpartition(".")
                self._rows.setdefault(path, []).append(number)
        self.added = self.text("!add")
        self.removed = self.text("!remove")
        self.room = Room()

    def text(self, name: str) -> str:
        """Return the first field of a name, "" without one."""
        return self._values.get(name, [""])[0]

    def all(self, name: str) -> tuple[str, ...]:
        """Return all fields of a name."""
        return tuple(self._values.get(name, ()))

    def rows(self, path: str) -> list[str]:
        """Return the row numbers of a list or map, without the removed one."""
        rows = dict.fromkeys(self._rows.get(path, ()))
        return [number for number in rows if f"{path}.{number}" != self.removed]


class TooMuchError(ValueError):
    """A form has too many fields or too much text."""

    def __init__(self) -> None:
        super().__init__(
            f"the form has more than {Posted.FIELDS:,} fields or {Posted.TEXT // 1024} KiB of"
            " text; write the object as YAML instead"
        )


def _clean(value: str) -> str:
    """Normalize line breaks, and replace characters that UTF-8 cannot encode."""
    # Browsers send line breaks of a text area as CRLF (HTML standard).
    told = value.replace("\r\n", "\n").replace("\r", "\n")
    return told.encode("utf-8", "replace").decode()


def posted(one: Input, fields: Posted, at: str, path: str) -> FilledInput:
    """Read an entry that was posted at ``at``; ``path`` is its name after rows were removed."""
    made = FilledInput(one, path, one.name)
    match one.kind:
        case "group":
            made.kept = one.keepable and not one.required and bool(fields.text(at + KEEP))
            made.children = [
                posted(child, fields, below(at, child.name), below(path, child.name))
                for child in one.children
            ]
            if one.rest is not None:
                made.rest = FilledInput(one.rest, path + REST, "other fields")
                made.rest.text = fields.text(at + REST)
        case "list" | "map":
            _read_rows(made, fields, at)
        case "boxes":
            chosen = set(fields.all(at))
            made.picked = tuple(one.value for one in one.options if one.value in chosen)
        case _:
            made.text = fields.text(at)
    return made


def _read_rows(made: FilledInput, fields: Posted, at: str) -> None:
    item = made.input.item
    if item is None:
        return
    for number in fields.rows(at):
        if len(made.rows) >= ROWS or not fields.room.take(item):
            made.errors = ["has more than a form can show; write the object as YAML instead"]
            return
        old = f"{at}.{number}"
        row = posted(item, fields, old, below(made.path, str(len(made.rows))))
        add_row(made, row, fields.text(old + KEY))
    if fields.added and fields.added == at and not made.full and fields.room.take(item):
        add_row(made, blank(item, below(made.path, str(len(made.rows)))))


def same(one: FilledInput, other: FilledInput) -> bool:
    """Whether two entries of one input have equal values."""
    if _own(one) != _own(other) or len(one.rows) != len(other.rows):
        return False
    inner = zip((*one.children, *one.rows), (*other.children, *other.rows), strict=True)
    return all(a.kept == b.kept and same(a, b) for a, b in inner)


def _own(entry: FilledInput) -> tuple[str, frozenset[str], str, str]:
    key, rest = (one.text if one is not None else "" for one in (entry.key, entry.rest))
    return entry.text, frozenset(entry.picked), key, rest
