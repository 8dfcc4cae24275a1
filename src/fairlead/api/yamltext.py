"""Bounded reading of YAML: a hostile text neither crashes the program nor fills its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml


# libyaml's loader is much faster, and PyYAML may have been built without it.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loader of JSON's types alone: dates stay texts."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own declaration
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class UnwelcomeYAMLError(ValueError):
    """Valid YAML beyond a bound; the message continues a sentence that begins with its name."""


YAMLError = yaml.YAMLError


def load(text: str | bytes, *, aliases: bool, max_depth: int, max_nodes: int = 0) -> Any:
    """Load the value of one document.

    Args:
        text: the document; bytes are UTF-8.
        aliases: whether YAML aliases are allowed; a small text of aliases expands to a huge value.
        max_depth: the most collections that may be nested.
        max_nodes: the most values, without the contents of aliases; 0 for any number.

    Raises:
        UnwelcomeYAMLError: it is too deep or too large, has aliases, or a value that is none of
            its type. libyaml's constructor overflows the C stack on deep nesting, so this is
            found out before anything is built.
        yaml.YAMLError: it is no YAML, or has tags of a language.
    """
    _check_shape(text, aliases=aliases, max_depth=max_depth, max_nodes=max_nodes)
    with _building():
        return yaml.load(text, _Loader)  # noqa: S506  a safe loader


def load_all(text: str | bytes, *, aliases: bool, max_depth: int, max_nodes: int = 0) -> list[Any]:
    """Load the values of all documents in a stream; see :func:`load`.

    ``max_nodes`` limits the values of all documents, with aliases expanded; 0 is no limit.

    Raises:
        UnwelcomeYAMLError: one of them is too deep or too large, or has aliases or a value that
            is none of its type.
        YAMLError: it is no YAML, or has tags of a language.
    """
    _check_shape(text, aliases=aliases, max_depth=max_depth)
    if max_nodes:
        _check_size(text, max_nodes)
    with _building():
        return list(yaml.load_all(text, _Loader))


@contextmanager
def _building() -> Iterator[None]:
    """Turn PyYAML's errors about values that do not fit their type into one error."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, ValueError) as error:
        raise UnwelcomeYAMLError(
            "has a value that cannot be read, such as a number of thousands of digits"
        ) from error


def refusal(error: Exception) -> str:
    """Return why a text is not read as YAML, in the same words for all commands.

    The text continues a sentence that begins with the name of the text, or with "it".
    """
    if isinstance(error, UnwelcomeYAMLError):
        return str(error)
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    return f"is not valid YAML: {problem(error)}"


def problem(error: Exception) -> str:
    """Return the error and its line number, without the line, which may hold a secret."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem} (line {error.problem_mark.line + 1})"
    if isinstance(error, yaml.reader.ReaderError):
        return f"unacceptable character at position {error.position}"
    return type(error).__name__


def _check_shape(text: str | bytes, *, aliases: bool, max_depth: int, max_nodes: int = 0) -> None:
    # Events come one by one, so that a bound is noticed before anything is built.
    depth = nodes = 0
    for event in yaml.parse(text, _Loader):
        nodes += isinstance(event, yaml.NodeEvent)
        if max_nodes and nodes > max_nodes:
            raise UnwelcomeYAMLError(f"has more than {max_nodes:,} values")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > max_depth:
                raise UnwelcomeYAMLError(f"is nested more than {max_depth} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent) and not aliases:
            raise UnwelcomeYAMLError("has YAML aliases, which are not allowed here")


def _check_size(text: str | bytes, most: int) -> None:
    """Refuse a text with too many values; an alias counts as all the values that it stands for."""
    open_, anchors = [0], {}
    names: list[str | None] = []
    for event in yaml.parse(text, _Loader):
        size = 0
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append(1)
            names.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            size = open_.pop()
            # A collection without an anchor is kept under None, which no alias names.
            anchors[names.pop()] = size
        elif isinstance(event, yaml.ScalarEvent):
            size = 1
            anchors[event.anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            size = anchors.get(event.anchor, 0)
        open_[-1] += size
        if open_[-1] > most:
            raise UnwelcomeYAMLError(f"has more than {most} values when its aliases are expanded")
