"""Parser of CEL: from the text of an expression to its syntax tree.

Source: "Syntax" of the CEL specification; the messages of syntax errors are Kubernetes'.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fairlead_sandbox.schema.cel.values import Uint


MAX_DEPTH = 100
"""Maximum nesting of an expression; each level takes a few frames of Python's stack."""
MAX_LENGTH = 100_000
"""Maximum length of an expression, in characters."""


class Issue(NamedTuple):
    """An error in an expression, at a position in its text."""

    message: str
    position: int


class CompileError(ValueError):
    """An expression is no CEL, or does not fit its schema; the text has place and error."""

    def __init__(self, text: str, issues: list[Issue]) -> None:
        ordered = sorted(dict.fromkeys(issues), key=lambda issue: issue.position)
        shown = "\n".join(_shown(text, issue) for issue in ordered)
        super().__init__(f"compilation failed: {shown}" if issues else text)

    @classmethod
    def plain(cls, message: str) -> CompileError:
        """Return an error without a position in the expression."""
        return cls(message, [])


def _shown(text: str, issue: Issue) -> str:
    before = text[: issue.position]
    line, column = before.count("\n"), len(before) - before.rfind("\n")
    snippet = text.split("\n")[line].replace("\t", " ")
    head = f"ERROR: <input>:{line + 1}:{column}: {issue.message}"
    return f"{head}\n | {snippet}\n | {'.' * (column - 1)}^"


class SyntaxIssue(Exception):  # noqa: N818 - it never leaves the package
    """Stops the parser at the first syntax error."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.issue = Issue(message, position)


class Node(NamedTuple):
    """One expression of the tree.

    ``kind`` is literal, ident, select, has, call, list or map. ``name`` is the field, function or
    operator. ``args`` are the arguments: for a method call the receiver first, for a map keys and
    values in turn. ``value`` is a literal's value, or tells which elements are optional.
    """

    kind: str
    name: str
    args: tuple[Node, ...]
    value: Any
    position: int
    method: bool = False
    depth: int = 1


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


_QUOTED = (
    r"(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''"
    r"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
)
_RAW = r"(?:\"\"\".*?\"\"\"|'''.*?'''|\"[^\"\n]*\"|'[^'\n]*')"
# The order counts: 1.5 and 1u must not be read as 1, nor the prefix of r"x" as a name.
_SCANNER = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|\d+)[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|\d+)"
    rf"|(?P<raw>(?:[rR][bB]?|[bB][rR]){_RAW})"
    rf"|(?P<string>[bB]?{_QUOTED})"
    r"|(?P<ident>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op>\|\||&&|==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])",
    re.DOTALL | re.ASCII,
)
_BINARY = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 3,
    "<=": 3,
    ">": 3,
    ">=": 3,
    "in": 3,
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}
"""Binary operators with their precedence; a higher number binds tighter."""
_FUNCTIONS = {op: f"_{op}_" for op in _BINARY} | {"in": "@in"}
_CONSTANTS = {"true": True, "false": False, "null": None}
RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
"""Words reserved by the language, besides its constants and ``in``."""
_EXPECTED = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, "
    "STRING, BYTES, IDENTIFIER}"
)
_MAX_INT, _MAX_UINT = 2**63 - 1, 2**64 - 1


def parse(text: str) -> Node:
    """Return the syntax tree of an expression.

    Raises:
        CompileError: the text is no CEL.
    """
    try:
        if len(text) > MAX_LENGTH:
            size = f"size: {len(text)}, limit {MAX_LENGTH}"
            raise SyntaxIssue(f"expression code point size exceeds limit: {size}", 0)
        parser = _Parser(_tokens(text))
        node = parser.expression()
        parser.end()
    except SyntaxIssue as stopped:
        raise CompileError(text, [stopped.issue]) from None
    return node


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while position < len(text):
        match = _SCANNER.match(text, position)
        if match is None:
            rest = text[position : position + 40].partition("\n")[0]
            message = f"Syntax error: token recognition error at: '{rest}'"
            raise SyntaxIssue(message, position)
        if match.lastgroup != "space":
            tokens.append(_Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    return [*tokens, _Token("end", "<EOF>", len(text))]


class _Parser:
    """Parser by recursive descent, with precedence climbing for binary operators."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        # Nesting while parsing. The depth of nodes is counted beside it: a.b.c.d is deep without
        # nesting.
        self._open = 0

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek()
        self._next += 1
        return token

    def _accept(self, text: str) -> bool:
        token = self._peek()
        if token.kind == "op" and token.text == text:
            self._next += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            token = self._peek()
            raise SyntaxIssue(f"Syntax error: missing '{text}' at '{token.text}'", token.position)

    def end(self) -> None:
        """Raise unless the text is at its end.

        Raises:
            SyntaxIssue: more text follows.
        """
        token = self._peek()
        if token.kind != "end":
            message = f"Syntax error: extraneous input '{token.text}' expecting <EOF>"
            raise SyntaxIssue(message, token.position)

    def expression(self) -> Node:
        """Parse ``a ? b : c``, which binds the loosest."""
        self._open += 1
        if self._open > MAX_DEPTH:
            raise _too_deep(self._peek().position)
        node = self._binary(1)
        position = self._peek().position
        if self._accept("?"):
            # The grammar allows another ?: without parentheses only as the last operand.
            then = self._binary(1)
            self._expect(":")
            node = _call("_?_:_", (node, then, self.expression()), position)
        self._open -= 1
        return node

    def _binary(self, least: int) -> Node:
        node = self._unary()
        while True:
            token = self._peek()
            level = _BINARY.get(token.text, 0) if token.kind in {"op", "ident"} else 0
            if level < least or not level:
                return node
            self._next += 1
            node = _joined(token, node, self._binary(level + 1))

    def _unary(self) -> Node:
        token = self._peek()
        signs = 0
        # The grammar repeats ! or -, but does not mix them.
        while self._accept(token.text if token.text in {"!", "-"} else ""):
            signs += 1
            if signs > MAX_DEPTH:
                raise _too_deep(token.position)
        # The sign belongs to the literal: otherwise -9223372036854775808 could not be written.
        if token.text == "-" and signs % 2 and self._peek().kind in {"int", "double"}:
            node, signs = self._postfix(negative=True, position=token.position), 0
        else:
            node = self._postfix()
        name = "!_" if token.text == "!" else "-_"
        return _call(name, (node,), token.position) if signs % 2 else node

    def _postfix(self, *, negative: bool = False, position: int = 0) -> Node:
        node = self._number(negative, position) if negative else self._primary()
        while True:
            token = self._peek()
            if self._accept("."):
                node = self._member(node, token.position)
            elif self._accept("["):
                name = "_[?_]" if self._accept("?") else "_[_]"
                key = self.expression()
                self._expect("]")
                node = _call(name, (node, key), token.position)
            else:
                return node

    def _member(self, node: Node, dot: int) -> Node:
        optional = self._accept("?")
        field = self._take()
        if field.kind != "ident" or field.text in {"in", *_CONSTANTS}:
            words = f"no viable alternative at input '.{field.text}'"
            if field.kind == "ident":
                words = f"mismatched input '{field.text}' expecting IDENTIFIER"
            raise SyntaxIssue(f"Syntax error: {words}", field.position)
        if optional:
            name = Node("literal", "string", (), field.text, field.position)
            return _call("_?._", (node, name), dot)
        position = self._peek().position
        if self._accept("("):
            return _call(field.text, (node, *self._list(")")), position, method=True)
        return _node("select", field.text, (node,), None, dot)

    def _list(self, closing: str) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while not self._accept(closing):
            nodes.append(self.expression())
            if not self._accept(","):
                self._expect(closing)
                break
        return tuple(nodes)

    def _primary(self) -> Node:
        token = self._peek()
        if token.kind in {"int", "uint", "double"}:
            return self._number(False, token.position)
        self._next += 1
        if token.kind in {"string", "raw"}:
            value = _text(token)
            kind = "bytes" if isinstance(value, bytes) else "string"
            return Node("literal", kind, (), value, token.position)
        if token.text == "(":
            node = self.expression()
            self._expect(")")
            return node
        if token.text == "[":
            return self._list_literal(token.position)
        if token.text == "{":
            return self._map_literal(token.position)
        if token.kind == "ident" and token.text in _CONSTANTS:
            constant = _CONSTANTS[token.text]
            kind = "null" if constant is None else "bool"
            return Node("literal", kind, (), constant, token.position)
        # A leading dot makes a name absolute; rules have no container, so it changes nothing.
        if token.text == "." and self._peek().kind == "ident":
            token = self._take()
        if token.kind == "ident" and token.text != "in":
            return self._name(token)
        raise SyntaxIssue(
            f"Syntax error: mismatched input '{token.text}' expecting {_EXPECTED}", token.position
        )

    def _number(self, negative: bool, position: int) -> Node:
        token = self._take()
        sign = -1 if negative else 1
        if token.kind == "double":
            return Node("literal", "double", (), sign * float(token.text), position)
        digits = token.text.rstrip("uU")
        # Forty digits exceed every limit; int() raises on more than 4300.
        value = sign * (int(digits, 16) if "x" in digits else int(digits[:40]))
        if token.kind == "uint":
            if value > _MAX_UINT:
                raise SyntaxIssue("invalid uint literal", position)
            return Node("literal", "uint", (), Uint(value), position)
        if not -_MAX_INT - 1 <= value <= _MAX_INT:
            raise SyntaxIssue("invalid int literal", position)
        return Node("literal", "int", (), value, position)

    def _name(self, token: _Token) -> Node:
        if token.text in RESERVED:
            raise SyntaxIssue(f"reserved identifier: {token.text}", token.position)
        position = self._peek().position
        if self._accept("{"):
            message = f"undeclared reference to '{token.text}' (in container '')"
            raise SyntaxIssue(message, position)
        if not self._accept("("):
            return Node("ident", token.text, (), None, token.position)
        args = self._list(")")
        if token.text != "has":
            return _call(token.text, args, position)
        if len(args) != 1 or args[0].kind != "select":
            where = args[0].position if args else position
            raise SyntaxIssue("invalid argument to has() macro", where)
        return args[0]._replace(kind="has", position=position)

    def _list_literal(self, position: int) -> Node:
        items: list[Node] = []
        optional: list[bool] = []
        while not self._accept("]"):
            optional.append(self._accept("?"))
            items.append(self.expression())
            if not self._accept(","):
                self._expect("]")
                break
        return _node("list", "", tuple(items), tuple(optional), position)

    def _map_literal(self, position: int) -> Node:
        entries: list[Node] = []
        optional: list[bool] = []
        while not self._accept("}"):
            optional.append(self._accept("?"))
            entries.append(self.expression())
            self._expect(":")
            entries.append(self.expression())
            if not self._accept(","):
                self._expect("}")
                break
        return _node("map", "", tuple(entries), tuple(optional), position)


def _too_deep(position: int) -> SyntaxIssue:
    return SyntaxIssue(f"expression recursion limit exceeded: {MAX_DEPTH}", position)


def _joined(token: _Token, left: Node, right: Node) -> Node:
    """Return the call of a binary operator; ``a && b && c`` becomes one flat call."""
    name = _FUNCTIONS[token.text]
    if token.text in {"&&", "||"}:
        first = left.args if left.name == name and left.kind == "call" else (left,)
        return _call(name, (*first, right), token.position)
    return _call(name, (left, right), token.position)


def _call(name: str, args: tuple[Node, ...], position: int, *, method: bool = False) -> Node:
    return _node("call", name, args, None, position, method=method)


def _node(
    kind: str,
    name: str,
    args: tuple[Node, ...],
    value: Any,
    position: int,
    *,
    method: bool = False,
) -> Node:
    depth = 1 + max((arg.depth for arg in args), default=0)
    if depth > MAX_DEPTH:
        raise _too_deep(position)
    return Node(kind, name, args, value, position, method, depth)


_ESCAPE = re.compile(
    r"\\(?:(?P<hex>[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})"
    r"|(?P<plain>[abfnrtv\\?\"'`])|(?P<wrong>.))",
    re.DOTALL,
)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _text(token: _Token) -> str | bytes:
    """Return the value of a string or bytes literal."""
    start = re.search(r"[\"']", token.text)
    assert start is not None  # noqa: S101 - the scanner has seen it
    prefix, quoted = token.text[: start.start()].lower(), token.text[start.start() :]
    width = 3 if quoted[:3] in {'"""', "'''"} and len(quoted) >= 6 else 1
    inner = quoted[width:-width].replace("\r\n", "\n").replace("\r", "\n")
    if token.kind == "raw":
        return inner.encode() if "b" in prefix else inner
    return _bytes(inner, token) if prefix else _ESCAPE.sub(lambda at: _char(at, token), inner)


def _char(match: re.Match[str], token: _Token) -> str:
    if match["wrong"] is not None:
        message = f"Syntax error: token recognition error at: '{token.text[: match.end() + 1]}'"
        raise SyntaxIssue(message, token.position)
    if match["plain"] is not None:
        return _PLAIN.get(match["plain"], match["plain"])
    code = int(match["octal"], 8) if match["octal"] else int(match["hex"][1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise SyntaxIssue("unable to unescape string", token.position)
    return chr(code)


def _bytes(text: str, token: _Token) -> bytes:
    result, position = bytearray(), 0
    for match in _ESCAPE.finditer(text):
        result += text[position : match.start()].encode()
        if match["hex"] and match["hex"][0] in "uU":
            raise SyntaxIssue("unable to unescape string", token.position)
        # In bytes an escape is one byte, while other characters are their UTF-8.
        result += _char(match, token).encode("latin-1")
        position = match.end()
    return bytes(result + text[position:].encode())
