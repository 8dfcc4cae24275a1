"""Label and field selectors, in their text form and as ``metav1.LabelSelector``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from fairlead.api.label_names import label_value_errors, qualified_name_errors
from fairlead.api.meta import JSON


Operator = Literal["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]

# The grammar and the error texts are those of k8s.io/apimachinery, pkg/labels/selector.go, whose
# messages clients see.
_TOKEN = re.compile(r"(==|!=|=|!|,|\(|\)|<|>)|([^\s=!,()<>]+)")
_FIELD_PART = re.compile(r"(?:\\.|[^\\,]|\\$)+", re.DOTALL)


_ATOMIC_LIST: JSON = {"x-kubernetes-list-type": "atomic"}


class LabelSelectorRequirement(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A requirement of a ``metav1.LabelSelector``."""

    key: Annotated[str, Meta(description="Name of the label.")]
    operator: Annotated[str, Meta(description="In, NotIn, Exists or DoesNotExist.")]
    values: Annotated[
        list[str], Meta(extra_json_schema=_ATOMIC_LIST, description="Values for In and NotIn.")
    ] = []


class LabelSelectorTerms(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """``metav1.LabelSelector``: objects must meet all requirements; an empty one selects all."""

    match_labels: Annotated[
        dict[str, str], Meta(description="Labels that an object must have, with these values.")
    ] = {}
    match_expressions: Annotated[
        Sequence[LabelSelectorRequirement],
        Meta(
            extra_json_schema=_ATOMIC_LIST,
            description="Requirements for the labels of an object, which must meet all of them.",
        ),
    ] = []


# As Kubernetes marks its own selectors: server-side apply replaces one as a whole.
AtomicLabelSelector = Annotated[
    LabelSelectorTerms | None, Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})
]


class SelectorError(ValueError):
    """A selector that cannot be read; the text is Kubernetes' own."""


class Requirement(NamedTuple):
    """One term of a label selector."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels satisfy the term."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                # Like Kubernetes, an object without the label satisfies both.
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        try:
            # An absent label fails as a text does that is no number.
            number, bound = int(value or "x"), int(self.values[0])
        except ValueError:
            return False
        return number > bound if self.operator == "gt" else number < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case "gt" | "lt":
                return f"{self.key}{'>' if self.operator == 'gt' else '<'}{self.values[0]}"
        return f"{self.key}{self.operator}{self.values[0]}"


class LabelSelector(NamedTuple):
    """Label selector: all terms have to hold, and no terms match every object.

    With ``nothing`` it matches no object, as a missing ``metav1.LabelSelector`` does.
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        """Parse a ``labelSelector`` query parameter.

        Raises:
            SelectorError: the text is no selector, or a key or value in it is not valid.
        """
        # Kubernetes sorts the terms by key, which shows where it prints a selector.
        return cls(tuple(sorted(_Parser(text).requirements(), key=lambda term: term.key)))

    @classmethod
    def from_dict(cls, selector: JSON | None, *, most: int | None = None) -> LabelSelector:
        """Return the selector of a ``metav1.LabelSelector``; None matches nothing, {} everything.

        ``most`` limits the number of terms, and of values in each term.

        Raises:
            SelectorError: an operator is unknown, a key or value is not valid, or there are more
                than ``most``.
        """
        if selector is None:
            return cls(nothing=True)
        if most is not None:
            _check_length(selector, most)
        terms = [
            _requirement(key, "=", [value])
            for key, value in sorted((selector.get("matchLabels") or {}).items())
        ]
        operators: dict[str, Operator] = {
            "In": "in",
            "NotIn": "notin",
            "Exists": "exists",
            "DoesNotExist": "!",
        }
        for expression in selector.get("matchExpressions") or []:
            operator = operators.get(expression.get("operator", ""))
            if operator is None:
                name = expression.get("operator", "")
                raise SelectorError(f'"{name}" is not a valid label selector operator')
            terms.append(
                _requirement(expression.get("key", ""), operator, expression.get("values") or [])
            )
        return cls(tuple(sorted(terms, key=lambda term: term.key)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return not self.nothing and all(term.matches(labels) for term in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(term) for term in self.requirements)


class LabelMatcher:
    """A label selector compiled for many objects: it looks up only the labels that it names."""

    def __init__(self, selector: LabelSelector) -> None:
        self._nothing = selector.nothing
        self._values: dict[str, frozenset[str] | None] = {}
        self._refused: dict[str, frozenset[str] | None] = {}
        """Refused values by key, None if the key itself is refused."""
        self._others: list[Requirement] = []
        for term in selector.requirements:
            values = frozenset(term.values)
            match term.operator:
                case "=" | "==" | "in":
                    before = self._values.get(term.key)
                    self._values[term.key] = values if before is None else before & values
                case "exists":
                    self._values.setdefault(term.key, None)
                case "!=" | "notin":
                    denied = self._refused.get(term.key, frozenset())
                    self._refused[term.key] = None if denied is None else denied | values
                case "!":
                    self._refused[term.key] = None
                case _:
                    self._others.append(term)

    @property
    def keys(self) -> Iterable[str]:
        """Names of the labels that every selected object has."""
        return self._values.keys()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        # Fewer labels than wanted ones cannot have them all.
        if self._nothing or len(self._values) > len(labels):
            return False
        for key, values in self._values.items():
            if key not in labels or (values is not None and labels[key] not in values):
                return False
        # Through the shorter of both: a cache asks this for each of its objects.
        fewer = labels if len(labels) < len(self._refused) else self._refused
        for key in fewer:
            if key in labels and key in self._refused:
                denied = self._refused[key]
                if denied is None or labels[key] in denied:
                    return False
        return all(term.matches(labels) for term in self._others)


def _check_length(selector: JSON, most: int) -> None:
    labels, expressions = (
        selector.get(name) or () for name in ("matchLabels", "matchExpressions")
    )
    if len(labels) + len(expressions) > most:
        raise SelectorError(f"it has more than {most} terms: select by a label of their own")
    for expression in expressions:
        if len(expression.get("values") or ()) > most:
            raise SelectorError(
                f'the term of "{expression.get("key", "")}" has more than {most} values: '
                "select by a label of their own"
            )


def _requirement(key: str, operator: Operator, values: list[str]) -> Requirement:
    errors = qualified_name_errors(key)
    if errors:
        raise SelectorError(f'key: Invalid value: "{key}": ' + "; ".join(errors))
    shown = "[]string{" + ", ".join(f'"{value}"' for value in values) + "}"
    if operator in {"in", "notin"} and not values:
        raise SelectorError(
            "values: Invalid value: []string{}: for 'in', 'notin' operators, "
            "values set can't be empty"
        )
    if operator in {"exists", "!"} and values:
        raise SelectorError(
            f"values: Invalid value: {shown}: values set must be empty for "
            "exists and does not exist"
        )
    if operator in {"gt", "lt"}:
        _check_integer(values)
    for index, value in enumerate(values):
        errors = label_value_errors(value)
        if errors:
            raise SelectorError(
                f'values[{index}][{key}]: Invalid value: "{value}": ' + "; ".join(errors)
            )
    return Requirement(key, operator, tuple(values))


def _check_integer(values: list[str]) -> None:
    try:
        int(values[0])
    except ValueError:
        raise SelectorError(
            f"values[0]: Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value "
            "must be an integer"
        ) from None


class _Parser:
    """Kubernetes' grammar: key, !key, key=v, key==v, key!=v, key in (a,b), key notin (a), <, >."""

    def __init__(self, text: str) -> None:
        self._tokens = [
            (match[1] or match[2]) for match in _TOKEN.finditer(text) if match[1] or match[2]
        ]
        self._position = 0

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _next(self) -> str:
        symbol = self._peek()
        self._position += 1
        return symbol

    def requirements(self) -> Iterator[Requirement]:
        if not self._tokens:
            return
        while True:
            if self._peek() == ",":
                raise SelectorError("found ',', expected: !, identifier, or 'end of string'")
            yield self._requirement()
            symbol = self._next()
            if not symbol:
                return
            if symbol != ",":
                raise SelectorError(f"found '{symbol}', expected: ',' or 'end of string'")
            if not self._peek() or self._peek() == ",":
                raise SelectorError(f"found '{self._peek()}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        symbol = self._next()
        if symbol == "!":
            return _requirement(self._identifier(self._next()), "!", [])
        key = self._identifier(symbol)
        if self._peek() in {"", ","}:
            return _requirement(key, "exists", [])
        operator = self._next()
        match operator:
            case "=" | "==" | "!=":
                return _requirement(key, operator, [self._exact_value()])
            case "<" | ">":
                value = self._identifier(self._next())
                return _requirement(key, "lt" if operator == "<" else "gt", [value])
            case "in" | "notin":
                return _requirement(key, operator, self._values())
        raise SelectorError(
            f"unable to parse requirement: found '{operator}', expected: "
            "in, notin, =, ==, !=, gt, lt"
        )

    @staticmethod
    def _identifier(symbol: str) -> str:
        if symbol in {"", "=", "==", "!=", ",", "(", ")", "<", ">", "!"}:
            raise SelectorError(
                f"unable to parse requirement: found '{symbol}', expected: identifier"
            )
        return symbol

    def _exact_value(self) -> str:
        if self._peek() in {"", ","}:
            return ""
        return self._identifier(self._next())

    def _values(self) -> list[str]:
        if self._next() != "(":
            raise SelectorError(
                f"unable to parse requirement: found '{self._tokens[self._position - 1]}' "
                "expected: '('"
                if self._position <= len(self._tokens)
                else "unable to parse requirement: found '' expected: '('"
            )
        values: set[str] = set()
        while True:
            symbol = self._peek()
            if symbol in {",", ")"}:
                # An empty value is valid: "key in (,a)" matches the empty string too.
                values.add("")
            else:
                values.add(self._identifier(self._next()))
            symbol = self._next()
            if symbol == ")":
                return sorted(values)
            if symbol != ",":
                raise SelectorError(
                    f"unable to parse requirement: found '{symbol}', expected: ',' or ')'"
                )
            if self._peek() == ")":
                values.add("")
                self._next()
                return sorted(values)


class FieldTerm(NamedTuple):
    """One term of a field selector."""

    field: str
    value: str
    equal: bool = True


class FieldSelector(NamedTuple):
    """``field=value`` and ``field!=value`` terms that all have to hold."""

    terms: tuple[FieldTerm, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        r"""Parse a ``fieldSelector`` query parameter; ``\,`` and ``\=`` are literal.

        Raises:
            SelectorError: a term has no operator.
        """
        terms: list[FieldTerm] = []
        for part in _FIELD_PART.findall(text):
            match = re.match(r"((?:\\.|[^\\=!])*?)(!=|==|=)(.*)", part, re.DOTALL)
            if match is None:
                raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
            value = re.sub(r"\\([\\,=])", r"\1", match[3])
            terms.append(FieldTerm(match[1], value, equal=match[2] != "!="))
        return cls(tuple(terms))

    def matches(self, lookup: Callable[[str], str | None]) -> bool:
        """Whether an object is selected; ``lookup`` gives a field's text, None when absent."""
        # As in Kubernetes, an absent field is the empty text.
        return all(((lookup(term.field) or "") == term.value) == term.equal for term in self.terms)

    def __str__(self) -> str:
        def escape(value: str) -> str:
            return re.sub(r"([\\,=])", r"\\\1", value)

        return ",".join(
            f"{term.field}{'=' if term.equal else '!='}{escape(term.value)}" for term in self.terms
        )
