"""CEL text to a tree."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from fairlead.sandbox.schema.cel.errors import CompileError


class Node(NamedTuple):
    """One expression.

    ``kind`` is literal, ident, select, has, index, call or list; ``name`` is the field, the
    function or the operator; ``args`` are the operands, for a method call the receiver first.
    """

    kind: str
    name: str
    args: tuple[Node, ...]
    value: Any
    position: int
    method: bool = False
    depth: int = 1


class Token(NamedTuple):
    """A word of the text; ``kind`` is a group of the scanner."""

    kind: str
    text: str
    position: int


_SCANNER = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<double>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)"
    r"|(?P<int>0x[0-9a-fA-F]+|\d+)(?P<uint>[uU])?"
    r"|(?P<string>[rR]?(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<ident>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<op>\|\||&&|==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])"
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
_CONSTANTS = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)")
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


MAX_DEPTH = 100
"""How deep expressions may nest: each level takes a few frames of Python's stack."""


def parse(text: str) -> Node:
    """The tree of an expression.

    Raises:
        CompileError: a syntax error, or syntax outside the subset.
    """
    parser = _Parser(_tokens(text))
    node = parser.expression()
    parser.end()
    return node


def _tokens(text: str) -> list[Token]:
    tokens, position = [], 0
    while position < len(text):
        match = _SCANNER.match(text, position)
        if match is None or match["uint"]:
            raise CompileError(f"Syntax error: unexpected {text[position]!r}", position)
        if match.lastgroup != "space":
            tokens.append(Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    return [*tokens, Token("end", "<EOF>", len(text))]


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
        raise CompileError("expression recursion limit exceeded", position)
    return Node(kind, name, args, value, position, method, depth)


class _Parser:
    """Recursive descent with precedence climbing."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._open = 0

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
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
            message = f"Syntax error: {token.text!r} where {text!r} is expected"
            raise CompileError(message, token.position)

    def end(self) -> None:
        """Nothing may follow."""
        token = self._peek()
        if token.kind != "end":
            raise CompileError(f"Syntax error: unexpected {token.text!r}", token.position)

    def expression(self) -> Node:
        """``a ? b : c``, the loosest of all."""
        self._open += 1
        if self._open > MAX_DEPTH:
            raise CompileError("expression recursion limit exceeded", self._peek().position)
        node = self._ternary()
        self._open -= 1
        return node

    def _ternary(self) -> Node:
        condition = self._binary(1)
        position = self._peek().position
        if not self._accept("?"):
            return condition
        then = self._binary(1)
        self._expect(":")
        return _node("call", "?:", (condition, then, self.expression()), None, position)

    def _binary(self, least: int) -> Node:
        left = self._unary()
        while True:
            token = self._peek()
            level = _BINARY.get(token.text, 0) if token.kind in {"op", "ident"} else 0
            if level < least or not level:
                return left
            self._take()
            right = self._binary(level + 1)
            left = _node("call", token.text, (left, right), None, token.position)

    def _unary(self) -> Node:
        signs: list[Token] = []
        while self._peek().kind == "op" and self._peek().text in {"!", "-"}:
            signs.append(self._take())
        node = self._postfix()
        for sign in reversed(signs):
            name = "!" if sign.text == "!" else "neg"
            node = _node("call", name, (node,), None, sign.position)
        return node

    def _postfix(self) -> Node:
        node = self._primary()
        while True:
            position = self._peek().position
            if self._accept("."):
                node = self._member(node)
            elif self._accept("["):
                node = _node("index", "", (node, self.expression()), None, position)
                self._expect("]")
            else:
                return node

    def _member(self, target: Node) -> Node:
        token = self._take()
        if token.kind != "ident":
            raise CompileError(f"Syntax error: unexpected {token.text!r}", token.position)
        if self._accept("("):
            args = (target, *self._list(")"))
            return _node("call", token.text, args, None, token.position, method=True)
        return _node("select", token.text, (target,), None, token.position)

    def _list(self, closing: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._accept(closing):
            items.append(self.expression())
            if not self._accept(","):
                self._expect(closing)
                break
        return tuple(items)

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "ident":
            return self._name(token)
        if token.kind == "op" and token.text == "(":
            node = self.expression()
            self._expect(")")
            return node
        if token.kind == "op" and token.text == "[":
            return _node("list", "", self._list("]"), None, token.position)
        if token.kind in {"int", "double", "string"}:
            return _node("literal", token.kind, (), _literal(token), token.position)
        if token.text == "{":
            raise CompileError("map literals are not supported by this server", token.position)
        raise CompileError(f"Syntax error: unexpected {token.text!r}", token.position)

    def _name(self, token: Token) -> Node:
        if token.text in _CONSTANTS:
            kind = "null" if token.text == "null" else "bool"
            return _node("literal", kind, (), _CONSTANTS[token.text], token.position)
        if not self._accept("("):
            return _node("ident", token.text, (), None, token.position)
        args = self._list(")")
        if token.text != "has":
            return _node("call", token.text, args, None, token.position)
        if len(args) != 1 or args[0].kind != "select":
            raise CompileError("invalid argument to has() macro", token.position)
        return args[0]._replace(kind="has")


def _literal(token: Token) -> Any:
    if token.kind == "int":
        return int(token.text, 0) if "x" in token.text else int(token.text)
    if token.kind == "double":
        return float(token.text)
    if token.text[0] in "rR":
        return token.text[2:-1]
    return _ESCAPE.sub(_unescape, token.text[1:-1])


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    if len(code) == 3:
        return chr(int(code, 8))
    return _SIMPLE.get(code, code)
