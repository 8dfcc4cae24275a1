"""The part of Go's text/template that bindings use most.

Text, comments, trim markers, and actions that are pipelines of fields, literals and functions.
Variables, ``if``, ``with``, ``range``, ``define`` and ``printf`` are refused by name, so that a
template that needs them says so in a condition instead of rendering something else.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote_plus

from fairlead.binding.expressions.gotext import go_json, go_text


_ACTION = re.compile(r"\{\{(?P<left>- )?(?P<body>.*?)(?P<right> -)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<raw>`[^`]*`)|(?P<number>-?\d+(?:\.\d+)?)"""
    r"""|(?P<root>\$)?(?P<field>(?:\.[^\W\d]\w*)+|\.)|(?P<only>\$)|(?P<word>[^\W\d]\w*)"""
    r"""|(?P<mark>[|()])|(?P<bad>\S))"""
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'"}
_REFUSED = {
    *("if", "else", "end", "range", "with", "define", "template", "block", "break", "continue"),
    *("printf", "slice", "call", "js", "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge"),
}
_MISSING = object()

Function = Callable[..., Any]


class TemplateError(ValueError):
    """A template that cannot be read, is not supported, or does not fit its data."""


class Template:
    """One template; ``functions`` are added to the built-in ones.

    Raises:
        TemplateError: it cannot be read, or needs what is not supported.
    """

    def __init__(
        self,
        text: str,
        *,
        name: str,
        functions: Mapping[str, Function] | None = None,
        no_value: str = "<no value>",
        escape: Callable[[str], str] = str,
    ) -> None:
        self._name = name
        self._no_value = no_value
        self._escape = escape
        self._functions = {**_BUILTINS, **(functions or {})}
        self._parts = [*self._split(text)]

    def render(self, data: Mapping[str, Any]) -> str:
        """The template's text for the data.

        Raises:
            TemplateError: a field or function does not fit the data.
        """
        return "".join(
            part if isinstance(part, str) else self._print(self._pipeline(part, data))
            for part in self._parts
        )

    def _split(self, text: str) -> list[str | list[list[re.Match[str]]]]:
        parts: list[str | list[list[re.Match[str]]]] = []
        position, trim = 0, False
        for found in _ACTION.finditer(text):
            before = text[position : found.start()]
            self._check_text(before)
            before = before.lstrip() if trim else before
            parts.append(before.rstrip() if found["left"] else before)
            body, trim, position = found["body"], bool(found["right"]), found.end()
            if not (body.lstrip().startswith("/*") and body.rstrip().endswith("*/")):
                parts.append(self._parse(body))
        rest = text[position:]
        self._check_text(rest)
        parts.append(rest.lstrip() if trim else rest)
        return parts

    def _check_text(self, text: str) -> None:
        if "{{" in text:
            raise self._error("unclosed action")

    def _parse(self, body: str) -> list[list[re.Match[str]]]:
        commands: list[list[re.Match[str]]] = [[]]
        for token in _TOKEN.finditer(body.strip()):
            if token["mark"] == "|":
                commands.append([])
            elif token["bad"] or token["mark"] or token["only"]:
                raise self._error(f"{token[0].strip()!r} in an action is not supported yet")
            else:
                self._check_word(token["word"])
                commands[-1].append(token)
        if not all(commands):
            raise self._error("missing value for command")
        return commands

    def _check_word(self, word: str | None) -> None:
        if word is None or word in self._functions or word in {"true", "false", "nil"}:
            return
        if word in _REFUSED:
            raise self._error(f"{word} is not supported yet")
        raise self._error(f'function "{word}" not defined')

    def _pipeline(self, commands: list[list[re.Match[str]]], data: Mapping[str, Any]) -> Any:
        value: Any = _MISSING
        for position, command in enumerate(commands):
            piped = [] if position == 0 else [value]
            first, *rest = command
            arguments = [self._operand(token, data) for token in rest] + piped
            if first["word"] and first["word"] in self._functions:
                value = self._call(first["word"], arguments)
            elif arguments:
                raise self._error(f"{first[0].strip()} is no function but has arguments")
            else:
                value = self._operand(first, data)
        return value

    def _call(self, name: str, arguments: list[Any]) -> Any:
        plain = [None if argument is _MISSING else argument for argument in arguments]
        try:
            return self._functions[name](*plain)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            raise self._error(f"error calling {name}: its arguments do not fit") from None

    def _operand(self, token: re.Match[str], data: Mapping[str, Any]) -> Any:
        if token["text"]:
            return re.sub(
                r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token["text"][1:-1], flags=re.DOTALL
            )
        if token["raw"]:
            return token["raw"][1:-1]
        if token["number"]:
            text = token["number"]
            return float(text) if "." in text else int(text)
        if token["word"]:
            words = {"true": True, "false": False, "nil": None}
            if token["word"] in words:
                return words[token["word"]]
            return self._call(token["word"], [])
        return self._field(token["field"], data)

    def _field(self, path: str, data: Mapping[str, Any]) -> Any:
        value: Any = data
        for name in path.split(".")[1:] if path != "." else []:
            if value is _MISSING or value is None:
                return _MISSING
            if not isinstance(value, Mapping):
                raise self._error(f"can't evaluate field {name} of {path}")
            value = value.get(name, _MISSING)
        return value

    def _print(self, value: Any) -> str:
        if value is _MISSING or value is None:
            return self._no_value
        return self._escape(go_text(value))

    def _error(self, text: str) -> TemplateError:
        return TemplateError(f"template: {self._name}:1: {text}")


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, dict):
            if not isinstance(key, str):
                raise TypeError
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key >= 0:
            value = value[key]
        else:
            raise TypeError
    return value


def _length(value: Any) -> int:
    return len(value.encode()) if isinstance(value, str) else len(value)


_BUILTINS: dict[str, Function] = {
    "json": go_json,
    "index": _index,
    "len": _length,
    "print": lambda *values: "".join(go_text(value) for value in values),
    "html": lambda *values: html.escape("".join(map(go_text, values))),
    "urlquery": lambda *values: quote_plus("".join(map(go_text, values))),
}
