"""The drawing: SVG that works without script, color and style attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fairlead.api.reasons.model import State
from fairlead.portal.console.topology.collapse import DrawnPart, Picture, Tie, collapse
from fairlead.portal.console.topology.graph import (
    Graph,
    GraphNode,
    Shown,
    counted,
    own,
    told,
)
from fairlead.portal.console.topology.layout import (
    BEHIND,
    LABEL,
    MARGIN,
    WIDTH,
    Layout,
    Mark,
    lay_out,
)
from fairlead.portal.console.topology.text import cut, harmless, lines, plain, width
from fairlead.portal.console.topology.wiring import Breaks, Wired, breaks, chosen, wire
from fairlead.portal.model.states import RANKS, WORDS


_EM: Final = 16
"""Number of user units per em."""
_SMALL: Final = 12
"""Font size of most text, in user units."""
_LARGE: Final = 14
"""Font size of names, in user units."""
_PADDING: Final = 10
"""Padding at the left and right of a part's text, in user units."""
_ROOM: Final = WIDTH - 2 * _PADDING
_STATE_ROOM: Final = WIDTH - 30 - _PADDING
"""Width of a state's text beside its sign, in user units."""
_MOST_TOLD: Final = 5
"""Largest number of breaks that are listed above the drawing."""


class ShownText(msgspec.Struct, frozen=True):
    """A line of text in a part, placed by its baseline."""

    y: int
    text: str
    look: str


class ShownPart(msgspec.Struct, frozen=True):
    """A part for the template; ``told`` is its description in one sentence."""

    number: int
    x: int
    y: int
    state: State
    many: bool
    root: bool
    href: str
    told: str
    texts: tuple[ShownText, ...]
    words: str


class ShownLine(msgspec.Struct, frozen=True):
    """A line between two parts."""

    path: str
    state: State
    broken: bool


class ShownMark(msgspec.Struct, frozen=True):
    """The end of a line; a broken one has a ``label``, and ``told`` describes it."""

    head: str
    state: State
    broken: bool
    cross: int
    middle: int
    y: int
    label: tuple[str, ...]
    told: str


class ShownBreak(msgspec.Struct, frozen=True):
    """A node where chains break, and the number of its part."""

    number: int
    node: GraphNode
    text: str
    more: int


def _exact(since: str) -> Markup:
    return Markup('<time datetime="{0}">{0}</time>').format(harmless(since))


def draw(
    graph: Graph,
    shown: Shown = "all",
    *,
    ago: Callable[[str], Markup] = _exact,
    name: str = "topology",
) -> Markup:
    """Draw a graph, or only its chains with a problem.

    Args:
        graph: the graph; more than 50 nodes are collapsed.
        shown: which chains.
        ago: formats a time as a ``time`` element.
        name: prefix of the drawing's ids, unique within a page.
    """
    wired = chosen(wire(graph), shown)
    broken = breaks(wired)
    picture = collapse(wired, broken)
    return _Drawing(wired, broken, picture, ago, name).run()


class _Drawing:
    def __init__(
        self,
        wired: Wired,
        broken: Breaks,
        picture: Picture,
        ago: Callable[[str], Markup],
        name: str,
    ) -> None:
        self._wired = wired
        self._broken = broken
        self._picture = picture
        self._ago = ago
        self._name = name
        self._names = [[*_name(part)] for part in picture.parts]
        self._places = any(part.node.where for part in picture.parts)
        self._two = any(len(name) > 1 for name in self._names)

    def run(self) -> Markup:
        # Lines of text from above: the kind, one or two of the name, the place, and the state.
        height = 20 + 18 * (2 if self._two else 1) + (16 if self._places else 0) + 38
        layout = lay_out(self._picture, height)
        # By column and height: a keyboard and a screen reader go through the parts in this order.
        order = sorted(
            range(len(layout.boxes)), key=lambda one: (layout.boxes[one].x, layout.boxes[one].y)
        )
        needed = self._needed()
        lines_ = [
            ShownLine(path, tie.state, tie.broken)
            for path, tie in zip(layout.paths, self._picture.ties, strict=True)
        ]
        text = _TEMPLATE.render(
            name=self._name,
            width=layout.width,
            height=layout.height,
            em_width=f"{layout.width / _EM:g}",
            em_height=f"{layout.height / _EM:g}",
            part_width=WIDTH,
            part_height=height,
            margin=MARGIN,
            titles=layout.titles,
            sides=layout.sides,
            # SVG paints in document order, so broken and worse lines lie on top.
            lines=sorted(lines_, key=lambda line: (line.broken, -RANKS[line.state])),
            marks=self._marks(layout),
            parts=[self._part(number, layout, height, needed[number]) for number in order],
            summary=self._summary(),
            breaks=self._breaks(),
            words=WORDS,
            states=_present(self._picture),
            many=any(part.size > 1 for part in self._picture.parts),
            broken={tie.state for tie in self._picture.ties if tie.broken},
            behind=BEHIND,
            ago=self._ago,
        )
        return Markup(text)  # noqa: S704  the template escapes what goes into it

    def _needed(self) -> list[list[int]]:
        """Return the parts that each part needs."""
        needed: list[list[int]] = [[] for _ in self._picture.parts]
        for tie in self._picture.ties:
            needed[tie.source].append(tie.target)
        return needed

    def _part(self, number: int, layout: Layout, height: int, needed: Sequence[int]) -> ShownPart:
        part, box = self._picture.parts[number], layout.boxes[number]
        node = part.node
        texts = [ShownText(20, cut(node.kind, _ROOM, _SMALL), "kind")]
        for line in self._names[number]:
            texts.append(ShownText(texts[-1].y + 18, line, "name"))
        if self._places:
            texts.append(ShownText(texts[-1].y + 16, cut(node.where, _ROOM, _SMALL), "where"))
        return ShownPart(
            number=number,
            x=box.x,
            y=box.y,
            state=node.state,
            many=part.size > 1,
            root=part.roots > 0,
            href=node.href if own(node.href) else "",
            told=self._told(part, needed),
            texts=tuple(texts),
            words=cut(_short(part), _STATE_ROOM, _SMALL, bold=True),
        )

    def _told(self, part: DrawnPart, needed: Sequence[int]) -> str:
        """Return a part's description in one sentence."""
        node = part.node
        words = [f"{node.text}: {node.reason if part.size > 1 else _state(node)}"]
        if node.about:
            words.append(node.about)
        if node.since:
            words.append(f"since {node.since}")
        if needed:
            parts = self._picture.parts
            words.append(f"needs {_some([parts[one].node.text for one in needed])}")
        if part.roots and part.size == 1:
            words.append("the others wait for it" if self._waited_for(part) else "")
        if node.helps:
            words.append(f"remedy: {node.helps}")
        return plain("; ".join(word for word in words if word))

    def _waited_for(self, part: DrawnPart) -> bool:
        return any(
            self._picture.parts[tie.target] is part for tie in self._picture.ties if tie.broken
        )

    def _marks(self, layout: Layout) -> list[ShownMark]:
        return [self._mark(mark) for mark in layout.marks]

    def _mark(self, mark: Mark) -> ShownMark:
        ties = [self._picture.ties[number] for number in mark.ties]
        worst = min(ties, key=lambda tie: (not tie.broken, RANKS[tie.state]))
        back = mark.x - mark.side * 8
        shown = ShownMark(
            head=f"M{back} {mark.y - 5}L{mark.x - mark.side} {mark.y}L{back} {mark.y + 5}z",
            state=worst.state,
            broken=worst.broken,
            cross=mark.x - mark.side * 24,
            middle=mark.x - mark.side * (LABEL // 2 + 2),
            y=mark.y,
            label=(),
            told="",
        )
        if not worst.broken:
            return shown
        label = worst.label or WORDS[worst.state]
        return msgspec.structs.replace(
            shown,
            label=tuple(lines(label, LABEL - 8, _SMALL, bold=True)),
            told=self._said(worst, [tie for tie in ties if tie.broken]),
        )

    def _said(self, worst: Tie, ties: Sequence[Tie]) -> str:
        """Return the description of a broken line."""
        parts = self._picture.parts
        sources = [parts[tie.source].node.text for tie in ties]
        many = len(sources) > 1
        if worst.state == "failed":
            verb = "do not reach" if many else "does not reach"
        else:
            verb = "wait for" if many else "waits for"
        target = parts[worst.target].node
        why = f": {worst.label}" if worst.label else ""
        return plain(f"{_some(sources)} {verb} {target.text}{why}")

    def _summary(self) -> str:
        """Return the number of parts by state, as a sentence."""
        total = self._picture.total
        if not total:
            return "There is nothing to draw."
        tally = counted(node.state for node in self._wired.nodes)
        parts = "1 part" if total == 1 else f"{total:,} parts"
        return f"{parts}: {told(tally)}."

    def _breaks(self) -> list[ShownBreak]:
        """Return the worst breaks; the last has the number of those left out."""
        found = sorted(
            (RANKS[part.node.state], number)
            for number, part in enumerate(self._picture.parts)
            if part.roots
        )
        made: list[ShownBreak] = []
        for _, number in found[:_MOST_TOLD]:
            part = self._picture.parts[number]
            text = part.node.text if part.size == 1 else f"{part.node.kind}: {part.node.name}"
            made.append(ShownBreak(number, part.node, plain(text, 200), 0))
        told_of = sum(self._picture.parts[one.number].roots for one in made)
        more = len(self._broken.roots) - told_of
        if made and more > 0:
            made[-1] = msgspec.structs.replace(made[-1], more=more)
        return made


def _name(part: DrawnPart) -> list[str]:
    return lines(part.node.name, _ROOM, _LARGE, bold=True)


def _state(node: GraphNode) -> str:
    """Return a node's state in words, with its reason unless it is ok."""
    word = WORDS[node.state]
    return f"{word}: {node.reason}" if node.reason and node.state != "ok" else word


def _short(part: DrawnPart) -> str:
    """Return a part's state in words, with the reason if it fits."""
    node, problems = part.node, {**part.tally}
    if part.size == 1:
        words, shorter = _state(node), WORDS[node.state]
    else:
        problems.pop("ok", None)
        words, shorter = node.reason, told(problems)
    fits = width(words, _SMALL, bold=True) <= _STATE_ROOM
    return words if fits or not shorter else shorter


def _some(texts: Sequence[str]) -> str:
    """Join the first texts, with the number of the others."""
    more = f" and {len(texts) - 3:,} more" if len(texts) > 3 else ""
    return ", ".join(texts[:3]) + more


def _present(picture: Picture) -> list[State]:
    """Return the states that the legend has to explain."""
    states: Iterable[State] = (part.node.state for part in picture.parts)
    return list(counted(states))


def _finished(value: object) -> object:
    """Neutralize control characters of a value before the template inserts it."""
    return harmless(value) if isinstance(value, str) and not isinstance(value, Markup) else value


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("fairlead.portal.console.topology"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_finished,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters["plain"] = plain
_TEMPLATE: Final = _ENVIRONMENT.get_template("drawing.html")
