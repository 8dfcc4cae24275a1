r"""Regular expressions of Go's ``regexp``, matched by RE2 in linear time.

Source: the syntax page of RE2. Go has no ``\C``, requires ASCII in the names of groups and limits
nesting to 1,000 levels; its Unicode tables are of another release. Answers of Go are recorded in
``tests/golden/patterns.jsonl``. At worst a match takes a step for each byte and each instruction
of the compiled pattern, so long matches are charged to the effort of their object.
"""

from __future__ import annotations

import re
from time import thread_time
from typing import Any

import re2

from fairlead_sandbox.schema.effort import Effort, ExhaustedError, without_collections


_UNMEASURED = 5_000
"""Worst steps of a match up to which no clock is read; a part of the steps is charged."""
_PART = 64
"""Worst steps of such a match for each step of effort."""
_LONGEST = 100_000_000
"""Worst steps of a match, above which it is refused; it could take about half a second."""
_MEMORY = 8 << 20
"""Maximum size of a compiled pattern, in bytes."""
_DEEPEST = 1000
"""Maximum nesting of groups that Go accepts, in levels."""
_GO_WORDS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "pattern too large - compile failed": "expression too large",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""Messages of Go by those of RE2."""
_INNER = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
"""Bytes inside of a UTF-8 character, after its first one."""
_UNKNOWN_TO_GO = re.compile(r"(?<!\\)(?:\\\\)*(\\C)|(\(\?P?<\w*[^\x00-\x7f]\w*>)")
"""Syntax that RE2 accepts and Go refuses."""


class Pattern:
    """A compiled pattern.

    Raises:
        ValueError: the text is no pattern of Go; the message is Go's.
    """

    __slots__ = ("_match", "_regexp", "_size")

    def __init__(self, text: str) -> None:
        self._regexp = _compile(text)
        self._size: int = self._regexp.programsize
        # The package's own search() makes an iterator and an object for each match, which takes
        # longer than the match itself on short texts.
        self._match = self._regexp._regexp.Match  # noqa: SLF001

    def search(self, text: str, effort: Effort) -> bool:
        """Whether the pattern matches anywhere in the text.

        Raises:
            ExhaustedError: the match takes too long.
        """
        encoded = text.encode("utf-8", "replace")
        steps = self._size * len(encoded)
        if steps < _UNMEASURED:
            effort.spend(steps // _PART)
            return self._has_match(encoded)
        if steps > _LONGEST:
            raise ExhaustedError
        with effort.timed():
            return self._has_match(encoded)

    def _has_match(self, encoded: bytes) -> bool:
        start: int = self._match(_ANYWHERE, encoded, 0, len(encoded))[0][0]
        return start >= 0

    def find(self, text: str, effort: Effort, limit: int = -1) -> list[str]:
        """Return the leftmost matches, at most ``limit`` of them; all if it is negative.

        Raises:
            ExhaustedError: the match takes too long.
        """
        encoded = text.encode("utf-8", "replace")
        if self._size * len(encoded) > _LONGEST:
            raise ExhaustedError
        with without_collections():
            return self._find(encoded, effort, limit)

    def _find(self, encoded: bytes, effort: Effort, limit: int) -> list[str]:
        started, spans, end = thread_time(), [], -1
        for match in self._regexp.finditer(encoded) if limit else ():
            start = match.start()
            # Go leaves out an empty match right after another, and any inside of a character.
            if match.end() == start and (start == end or encoded[start : start + 1] in _INNER):
                continue
            end = match.end()
            spans.append(match.group().decode())
            effort.spend_seconds(thread_time() - started)
            started = thread_time()
            if len(spans) == limit:
                break
        effort.spend_seconds(thread_time() - started)
        return spans


_ANYWHERE = re2._re2.RE2.Anchor.UNANCHORED  # noqa: SLF001
_KEPT = 512
"""Maximum number of compiled patterns in the cache."""
_patterns: dict[str, Pattern] = {}


def compile_pattern(text: str, effort: Effort) -> Pattern:
    """Return the compiled pattern of a text, from the cache if possible.

    Raises:
        ValueError: the text is no pattern of Go; the message is Go's.
        ExhaustedError: it takes too long to compile.
    """
    pattern = _patterns.get(text)
    if pattern is None:
        with effort.timed():
            pattern = Pattern(text)
        if len(_patterns) >= _KEPT:
            # The oldest goes; a dictionary keeps the order of insertion.
            del _patterns[next(iter(_patterns))]
        _patterns[text] = pattern
    return pattern


def _compile(text: str) -> Any:
    unknown = _UNKNOWN_TO_GO.search(text)
    if unknown is not None:
        words = "invalid escape sequence" if unknown[1] else "invalid named capture"
        raise _error(words, unknown[1] or unknown[2])
    if _depth(text) > _DEEPEST:
        raise _error("expression nests too deeply", text)
    try:
        return re2.compile(text.encode("utf-8", "replace"), _options())
    except re2.error as error:
        words, _, rest = error.args[0].decode("utf-8", "replace").partition(": ")
        part = text if words.startswith("pattern too large") else "" if words in _BARE else rest
        raise _error(_GO_WORDS.get(words, words), part) from None


# Go shows no part of the pattern in these messages.
_BARE = frozenset({"trailing \\"})


def _error(words: str, part: str) -> ValueError:
    return ValueError(f"error parsing regexp: {words}: `{part}`")


def _options() -> Any:
    options = re2.Options()
    options.max_mem = _MEMORY
    # RE2 would write each invalid pattern to stderr; the client gets the error.
    options.log_errors = False
    # Only whether and where a pattern matches is asked; without groups RE2 has less to do.
    options.never_capture = True
    return options


def _depth(text: str) -> int:
    """Return an upper bound of the nesting of parentheses, 0 if even their number is small."""
    if text.count("(") <= _DEEPEST:
        return 0
    deepest = depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        deepest = max(deepest, depth)
    return deepest
