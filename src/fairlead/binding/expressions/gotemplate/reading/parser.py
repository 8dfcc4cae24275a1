"""The parser: from tokens to the templates that a text defines."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from fairlead.api.golang.literals import LiteralError, unquote
from fairlead.binding.expressions.gotemplate.bounds import SOURCE
from fairlead.binding.expressions.gotemplate.nodes import (
    ActionNode,
    Branch,
    CallNode,
    Jump,
    Node,
    PipelineNode,
    TemplateError,
    TextNode,
)
from fairlead.binding.expressions.gotemplate.reading.lexer import LexedToken
from fairlead.binding.expressions.gotemplate.reading.pipelines import Pipelines
from fairlead.binding.expressions.gotemplate.scopes import DeclaredNames


Templates = dict[str, list[Node]]


class _Block(msgspec.Struct):
    """An open block: the text itself, ``define``, ``block`` or a branch."""

    word: str
    position: int
    names: DeclaredNames
    mark: int
    name: str = ""
    pipeline: PipelineNode | None = None
    body: list[Node] = msgspec.field(default_factory=list)
    otherwise: list[Node] | None = None
    opened: LexedToken | None = None
    """The token where Go reports a wrong end of a ``block``."""
    chained: bool = False
    """Whether ``else if`` or ``else with`` opened it: one ``end`` closes it and the outer one."""
    ranges: int = 0
    """Number of open ``range`` in the same template, this one included."""

    @property
    def current(self) -> list[Node]:
        return self.body if self.otherwise is None else self.otherwise


def parse(text: str, name: str, functions: Collection[str]) -> Templates:
    """Parse a text to templates by name; the text itself is ``name``.

    Raises:
        TemplateError: the text is invalid or too long.
    """
    if len(text) > SOURCE:
        raise TemplateError(f"template: {name}: template has more than {SOURCE} characters")
    return _Parser(text, name, functions).parse()


class _Parser(Pipelines):
    """Keeps open blocks in a list, not on the stack: they may nest as deep as the text is long."""

    def __init__(self, text: str, name: str, functions: Collection[str]) -> None:
        super().__init__(text, name, functions)
        self.templates: Templates = {}
        self.open = [_Block("", 0, self.names, 1)]

    @property
    def top(self) -> _Block:
        return self.open[-1]

    def parse(self) -> Templates:
        while (token := self.next()).kind != "eof":
            if token.kind == "text":
                self.top.current.append(TextNode(token.text))
            elif token.kind == "left":
                self.started = token
                self.action()
                self.started = None
            else:
                raise self.unexpected(token, "input")
        if len(self.open) > 1:
            raise self.error("unexpected EOF")
        self.add(self.name, self.top.body)
        return self.templates

    def action(self) -> None:
        token = self.next_word()
        match token.text if token.kind == "keyword" else "":
            case "if" | "with" | "range":
                self.branch(token)
            case "else":
                self.turn()
            case "end":
                self.end()
            case "template":
                self.call()
            case "break" | "continue":
                self.jump(token)
            case "block":
                self.block()
            # In Go define stands outside of all blocks; inside it is a word without a command.
            case "define" if len(self.open) == 1:
                self.define()
            case _:
                self.back(token)
                place = self.peek().position
                node = ActionNode(place, self.pipeline("command", "right"))
                self.top.current.append(node)

    def branch(self, token: LexedToken, *, chained: bool = False) -> None:
        mark = self.names.mark()
        pipeline = self.pipeline(token.text, "right")
        self.open.append(
            _Block(
                token.text,
                pipeline.position,
                self.names,
                mark,
                pipeline=pipeline,
                chained=chained,
                ranges=self.top.ranges + (token.text == "range"),
            )
        )

    def turn(self) -> None:
        """Process ``else``, with an optional ``if`` or ``with``."""
        following = self.peek_word()
        opens = following.kind == "keyword" and following.text in {"if", "with"}
        if not opens:
            self.expect("right", "else")
        top = self.top
        self.check_place(top, "else")
        if top.otherwise is not None:
            raise self.error("expected end; found {{else}}")
        top.otherwise = []
        # The else of a range is outside of its loop: break there belongs to an outer one.
        top.ranges -= top.word == "range"
        # Only the block's own word chains. After another one Go goes on with the text, and fails
        # there.
        if opens and top.word == following.text:
            self.next_word()
            self.started = None
            self.branch(following, chained=True)

    def check_place(self, top: _Block, word: str) -> None:
        """Raise TemplateError if ``else`` or ``end`` is not allowed here."""
        if not top.word:
            raise self.error(f"unexpected {{{{{word}}}}}")
        if top.word in {"define", "block"} and word == "else":
            self.latest = top.opened or self.latest
            raise self.error(f"unexpected {{{{{word}}}}} in {top.word} clause")

    def end(self) -> None:
        self.expect("right", "end")
        self.check_place(self.top, "end")
        # Go's chains are nested blocks, all of which end here.
        while self.close().chained:
            pass

    def close(self) -> _Block:
        block = self.open.pop()
        if block.pipeline is None:
            self.add(block.name, block.body)
            self.names = block.names
        else:
            block.names.cut(block.mark)
            node = Branch(block.position, block.word, block.pipeline, block.body, block.otherwise)
            self.top.current.append(node)
        return block

    def define(self) -> None:
        self.started = None
        token = self.next_word()
        if token.kind not in {"string", "raw"}:
            raise self.unexpected(token, "define clause")
        name = self.unquoted(token)
        self.expect("right", "define clause")
        self.enter("define", name)

    def block(self) -> None:
        token = self.next_word()
        name = self.template_name(token, "block clause")
        pipeline = self.pipeline("block clause", "right")
        self.top.current.append(CallNode(token.position, name, token.text, pipeline))
        self.enter("block", name)

    def enter(self, word: str, name: str) -> None:
        """Open a template of its own, without the variables of the outer one."""
        opened = self.latest if word == "block" else None
        self.open.append(_Block(word, 0, self.names, 0, name=name, opened=opened))
        self.names = DeclaredNames()

    def call(self) -> None:
        token = self.next_word()
        name = self.template_name(token, "template clause")
        pipeline = None
        if (following := self.next_word()).kind != "right":
            self.back(following)
            pipeline = self.pipeline("template clause", "right")
        self.top.current.append(CallNode(token.position, name, token.text, pipeline))

    def template_name(self, token: LexedToken, context: str) -> str:
        if token.kind not in {"string", "raw"}:
            raise self.unexpected(token, context)
        return self.unquoted(token)

    def unquoted(self, token: LexedToken) -> str:
        try:
            return unquote(token.text)
        except LiteralError as error:
            raise self.error(str(error)) from None

    def jump(self, token: LexedToken) -> None:
        shown = f"{{{{{token.text}}}}}"
        if (following := self.next_word()).kind != "right":
            raise self.unexpected(following, shown)
        if not self.top.ranges:
            raise self.error(f"{shown} outside {{{{range}}}}")
        self.top.current.append(Jump(token.text))

    def add(self, name: str, body: list[Node]) -> None:
        template = self.templates.get(name)
        # A definition replaces an empty one, and an empty one never replaces another, as in Go.
        if template is None or _is_empty(template):
            self.templates[name] = body
        elif not _is_empty(body):
            raise self.error(f'template: multiple definition of template "{name}"')


def _is_empty(body: list[Node]) -> bool:
    return all(isinstance(node, TextNode) and not node.text.strip() for node in body)
