"""The lexer of templates, in linear time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from fairlead.api.golang.literals import quote


class LexedToken(NamedTuple):
    """A token of a template; an ``error`` token has the message as its text, and is the last."""

    kind: str
    text: str
    position: int

    def __str__(self) -> str:
        if self.kind in {"eof", "error"}:
            return self.text
        # Go counts nil and the dot among its keywords.
        if self.kind in {"keyword", "nil", "dot"}:
            return f"<{self.text}>"
        if len(self.text) > _SHOWN:
            return f"{quote(self.text[:_SHOWN])}..."
        return quote(self.text)


SPACE = " \t\r\n"
_SHOWN = 10
_KEYWORDS = {
    *("block", "break", "continue", "define", "else", "end", "if", "range", "template", "with"),
}
_WORDS = {"true": "bool", "false": "bool", "nil": "nil"}
_SPACES = re.compile(r"[ \t\r\n]+")
_WORD = re.compile(r"\w*")
# It matches more than numbers, as Go's lexer does: literals.number refuses the rest.
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*(?:[pP][+-]?[0-9_]*)?"
    r"|0[oO][0-7_]*\.?[0-7_]*|0[bB][01_]*\.?[01_]*"
    r"|[0-9_]*\.?[0-9_]*(?:[eE][+-]?[0-9_]*)?)i?"
)
# Possessive (*+): a quote without an end fails at once, without backtracking.
_QUOTED = {
    '"': ("string", re.compile(r'"(?:[^"\\\n]|\\[^\n])*+"'), "unterminated quoted string"),
    "'": ("char", re.compile(r"'(?:[^'\\\n]|\\[^\n])*+'"), "unterminated character constant"),
    "`": ("raw", re.compile(r"`[^`]*+`"), "unterminated raw quoted string"),
}
_SINGLE = {"=": "assign", "|": "pipe"}


class _Wrong(Exception):  # noqa: N818 (becomes a token)
    """The message of the error token."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.position = position


def tokens(text: str) -> Iterator[LexedToken]:
    """Yield the tokens of a template; the last is ``eof`` or ``error``."""
    lexer = _Lexer(text)
    try:
        yield from lexer.texts()
    except _Wrong as wrong:
        yield LexedToken("error", str(wrong), wrong.position)
    else:
        yield LexedToken("eof", "EOF", len(text))


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0

    def texts(self) -> Iterator[LexedToken]:
        """Yield texts and the tokens of actions, until the end."""
        while self.position < len(self.text):
            start = self.text.find("{{", self.position)
            end = len(self.text) if start < 0 else start
            trims = start >= 0 and self.text[start + 2 : start + 3] == "-"
            trims = trims and self.text[start + 3 : start + 4] in set(SPACE)
            text = self.text[self.position : end]
            if text := text.rstrip(SPACE) if trims else text:
                yield LexedToken("text", text, self.position)
            self.position = end
            if start >= 0:
                yield from self.action(start, start + (4 if trims else 2))

    def action(self, start: int, position: int) -> Iterator[LexedToken]:
        # Go takes a comment only here, directly after {{ or {{- and a space.
        if self.text.startswith("/*", position):
            self.comment(start, position + 2)
            return
        yield LexedToken("left", "{{", start)
        self.position = position
        self.depth = 0
        while not self.closes():
            if token := self.inside():
                yield token
        if self.depth:
            raise _Wrong("unclosed left paren", self.position)
        yield LexedToken("right", "}}", self.position + (2 if self.trims() else 0))
        self.close()

    def comment(self, start: int, position: int) -> None:
        end = self.text.find("*/", position)
        if end < 0:
            raise _Wrong("unclosed comment", start)
        self.position = end + 2
        if not self.closes():
            raise _Wrong("comment ends before closing delimiter", start)
        self.close()

    def closes(self) -> bool:
        return self.text.startswith("}}", self.position) or self.trims()

    def trims(self) -> bool:
        space = self.text[self.position : self.position + 1]
        return space in set(SPACE) and self.text.startswith("-}}", self.position + 1)

    def close(self) -> None:
        if self.trims():
            # The trim marker is a space and -}}: four characters, and all spaces of the text after
            # it.
            spaces = _SPACES.match(self.text, self.position + 4)
            self.position = spaces.end() if spaces else self.position + 4
        else:
            self.position += 2

    def inside(self) -> LexedToken | None:
        """Return the next token of an action."""
        start = self.position
        if start >= len(self.text):
            raise _Wrong("unclosed action", start)
        character = self.text[start]
        if character in SPACE:
            return self.spaces()
        if character in _QUOTED:
            return self.quoted(character)
        if character in "$.":
            return self.field(character)
        if character in "+-" or "0" <= character <= "9":
            return self.number()
        if _is_word(character):
            return self.word()
        return self.mark(character)

    def take(self, kind: str, end: int) -> LexedToken:
        token = LexedToken(kind, self.text[self.position : end], self.position)
        self.position = end
        return token

    def spaces(self) -> LexedToken | None:
        end = _SPACES.match(self.text, self.position).end()  # type: ignore[union-attr]
        if self.text.startswith("-}}", end):
            # The trim marker needs the last space.
            end -= 1
        return self.take("space", end) if end > self.position else None

    def quoted(self, mark: str) -> LexedToken:
        kind, pattern, wrong = _QUOTED[mark]
        match = pattern.match(self.text, self.position)
        if not match:
            raise _Wrong(wrong, self.position)
        return self.take(kind, match.end())

    def field(self, mark: str) -> LexedToken:
        following = self.text[self.position + 1 : self.position + 2]
        # Go takes a point at the end of the text for the beginning of a number, too.
        if mark == "." and (not following or "0" <= following <= "9"):
            return self.number()
        end = self.end_of_word(self.position + 1)
        bare = end == self.position + 1
        self.check_end(end)
        return self.take("variable" if mark == "$" else "dot" if bare else "field", end)

    def word(self) -> LexedToken:
        end = self.end_of_word(self.position)
        self.check_end(end)
        word = self.text[self.position : end]
        return self.take("keyword" if word in _KEYWORDS else _WORDS.get(word, "word"), end)

    def end_of_word(self, position: int) -> int:
        end = _WORD.match(self.text, position).end()  # type: ignore[union-attr]
        # Python's \w has more characters than Go's letters and digits, such as ².
        if not self.text[position:end].isascii():
            for place in range(position, end):
                if not _is_word(self.text[place]):
                    return place
        return end

    def check_end(self, end: int) -> None:
        following = self.text[end : end + 1]
        if following and following not in " \t\r\n.,|:)(" and not self.text.startswith("}}", end):
            raise _Wrong(f"bad character {_named(following)}", self.position)

    def number(self) -> LexedToken:
        end = self.digits(self.position)
        if self.text[end : end + 1] in {"+", "-"}:
            # A complex number, such as 1+2i.
            end = self.digits(end)
            if self.text[end - 1] != "i":
                raise self.bad_number(end)
        return self.take("number", end)

    def digits(self, position: int) -> int:
        end = _NUMBER.match(self.text, position).end()  # type: ignore[union-attr]
        following = self.text[end : end + 1]
        if following and _is_word(following):
            raise self.bad_number(end + 1)
        return end

    def bad_number(self, end: int) -> _Wrong:
        text = quote(self.text[self.position : end])
        return _Wrong(f"bad number syntax: {text}", self.position)

    def mark(self, character: str) -> LexedToken:
        end = self.position + 1
        if character == ":":
            if not self.text.startswith("=", end):
                raise _Wrong("expected :=", self.position)
            return self.take("declare", end + 1)
        if character in "()":
            self.depth += 1 if character == "(" else -1
            if self.depth < 0:
                raise _Wrong("unexpected right paren", self.position)
            return self.take(character, end)
        if not " " <= character <= "~":
            text = f"unrecognized character in action: {_named(character)}"
            raise _Wrong(text, self.position)
        return self.take(_SINGLE.get(character, "mark"), end)


def _is_word(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character == "_"
    category = unicodedata.category(character)
    return category[0] == "L" or category == "Nd"


def _named(character: str) -> str:
    shown = f" '{character}'" if character.isprintable() else ""
    return f"U+{ord(character):04X}{shown}"
