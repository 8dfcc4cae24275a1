"""Go's regular expressions (RE2 syntax) in Python's ``re``."""

from __future__ import annotations

import re


_REWRITES = (
    (re.compile(r"\(\?P?<"), "(?P<"),
    (re.compile(r"\\z"), r"\\Z"),
    (re.compile(r"\[\[:alpha:\]\]"), "[A-Za-z]"),
    (re.compile(r"\[\[:alnum:\]\]"), "[A-Za-z0-9]"),
    (re.compile(r"\[:alnum:\]"), "A-Za-z0-9"),
    (re.compile(r"\[:alpha:\]"), "A-Za-z"),
    (re.compile(r"\[:digit:\]"), "0-9"),
    (re.compile(r"\[:lower:\]"), "a-z"),
    (re.compile(r"\[:upper:\]"), "A-Z"),
    (re.compile(r"\[:xdigit:\]"), "0-9A-Fa-f"),
    (re.compile(r"\[:space:\]"), r"\\s"),
    (re.compile(r"\\p\{L\}"), r"[^\\W\\d_]"),
    (re.compile(r"\\x\{([0-9A-Fa-f]+)\}"), r"\\u\1"),
)
_UNKNOWN_TO_RE2 = re.compile(r"\(\?(=|!|<=|<!|\()|(?<!\\)(\\\\)*\\[1-9]")


def compile_regex(pattern: str) -> re.Pattern[str]:
    """The pattern for ``search``; ``$`` is the end of the text alone, as in Go.

    Raises:
        ValueError: it is no regular expression of RE2, or one that Python has no word for.
    """
    if _UNKNOWN_TO_RE2.search(pattern):
        raise ValueError(f"error parsing regexp: invalid or unsupported Perl syntax: `{pattern}`")
    text = _ends(pattern)
    for old, new in _REWRITES:
        text = old.sub(new, text)
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        raise ValueError(f"error parsing regexp: {error.msg}: `{pattern}`") from error


def _ends(pattern: str) -> str:
    """Every ``$`` outside a class becomes the end of the text."""
    if "$" not in pattern or pattern.startswith("(?m"):
        return pattern
    result, inside, escaped = [], False, False
    for char in pattern:
        if not escaped and char in "[]":
            inside = char == "["
        result.append(r"\Z" if char == "$" and not inside and not escaped else char)
        escaped = char == "\\" and not escaped
    return "".join(result)
