"""Layout of parts and lines: columns from left to right, joined parts at similar heights.

All lengths are in user units of the drawing, which are sixteenths of an em.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec

from fairlead.portal.console.topology.collapse import Picture, Tie
from fairlead.portal.console.topology.ordering import Layers, Neighbours, ordered


WIDTH: Final = 168
"""Width of a part."""
MARGIN: Final = 8
"""Margin around the drawing."""
LABEL: Final = 112
"""Width of the label of a broken line."""
BEHIND: Final = 6
"""Horizontal offset of the outlines that show that a part stands for several objects."""
_HEAD: Final = 30
"""Height of the column titles."""
_SIDE: Final = 24
"""Height of the cluster titles above columns."""
_BETWEEN: Final = 18
"""Gap between two parts of a column."""
_PASSING: Final = 14
"""Height of the slot of a line that passes a column."""
_BEND: Final = 40
"""Width of a line's bend from one height to another."""
_SETTLINGS: Final = 6
"""Number of passes over all columns that move parts to the height of their neighbours."""


class Box(msgspec.Struct, frozen=True):
    """A part's place, by its upper left corner."""

    x: int
    y: int


class Mark(msgspec.Struct, frozen=True):
    """The end of a line at a part; ``side`` is 1 for a line that goes to the right."""

    x: int
    y: int
    side: int
    ties: tuple[int, ...]


class Title(msgspec.Struct, frozen=True):
    """A title above columns from ``x`` to ``end``."""

    x: int
    end: int
    text: str


class Layout(msgspec.Struct, frozen=True):
    """A drawing's geometry; ``paths`` has a path for each tie, ``marks`` one for each end."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    paths: tuple[str, ...]
    marks: tuple[Mark, ...]
    titles: tuple[Title, ...]
    sides: tuple[Title, ...]


def lay_out(picture: Picture, height: int) -> Layout:
    """Lay out a picture with parts of height ``height``."""
    return _LayingOut(picture, height).run()


class _LayingOut:
    def __init__(self, picture: Picture, height: int) -> None:
        self._picture = picture
        self._height = height
        used = sorted({part.column for part in picture.parts})
        self._columns = [picture.columns[number] for number in used]
        self._at = [used.index(part.column) for part in picture.parts]
        self._layers: Layers = [[] for _ in used]
        for number, column in enumerate(self._at):
            self._layers[column].append(number)
        self._passing: dict[tuple[int, int], int] = {}
        self._top = _HEAD + (_SIDE if any(column.side for column in self._columns) else 0)
        self._before = [0] * len(used)
        self._after = [0] * len(used)
        self._loops = False

    def run(self) -> Layout:
        joined = self._joined()
        neighbours = Neighbours(self._layers, joined)
        self._layers = ordered(self._layers, neighbours)
        middles = self._middles(neighbours)
        self._reserve()
        lefts = self._lefts()
        boxes = tuple(
            Box(lefts[column], middles[number] - self._height // 2)
            for number, column in enumerate(self._at)
        )
        bottom = max((box.y + self._height for box in boxes), default=self._top)
        deepest = max((middles[item] for item in self._passing.values()), default=0)
        right = lefts[-1] + WIDTH + self._after[-1] + (_BEND if self._loops else 0) if lefts else 0
        return Layout(
            width=right + BEHIND + MARGIN,
            height=max(bottom, deepest + _PASSING) + BEHIND + MARGIN,
            boxes=boxes,
            paths=tuple(self._path(tie, lefts, middles) for tie in self._picture.ties),
            marks=self._marks(lefts, middles),
            titles=tuple(
                Title(left, left + WIDTH, column.title)
                for left, column in zip(lefts, self._columns, strict=True)
            ),
            sides=self._sides(lefts),
        )

    def _joined(self) -> list[tuple[int, int]]:
        """Return pairs of neighbours; a line that passes a column has a slot there per target."""
        joined: dict[tuple[int, int], None] = {}
        for tie in self._picture.ties:
            way = self._way(tie)
            if self._at[tie.source] > self._at[tie.target]:
                way.reverse()
            for pair in pairwise(way):
                joined[pair] = None
        return list(joined)

    def _way(self, tie: Tie) -> list[int]:
        """Return source, slots in the columns between, and target of a line."""
        source, target = self._at[tie.source], self._at[tie.target]
        if source == target:
            return []
        step = 1 if source < target else -1
        passed = [self._pass(tie.target, column) for column in range(source + step, target, step)]
        return [tie.source, *passed, tie.target]

    def _pass(self, target: int, column: int) -> int:
        found = self._passing.get((target, column))
        if found is None:
            found = len(self._at) + len(self._passing)
            self._passing[target, column] = found
            self._layers[column].append(found)
        return found

    def _middles(self, neighbours: Neighbours) -> dict[int, int]:
        """Return the vertical middle of each part and slot, near that of its neighbours."""
        middles: dict[int, float] = {}
        for layer in self._layers:
            middles |= zip(layer, self._stacked(layer, [0.0] * len(layer)), strict=True)
        columns = range(len(self._layers))
        for settling in range(_SETTLINGS):
            forth = settling % 2 == 0
            known = neighbours.before if forth else neighbours.after
            for column in columns if forth else reversed(columns):
                layer = self._layers[column]
                wanted = [
                    sum(middles[one] for one in known[item]) / len(known[item])
                    if known[item]
                    else middles[item]
                    for item in layer
                ]
                middles |= zip(layer, self._stacked(layer, wanted), strict=True)
        highest = min((middles[item] - self._tall(item) / 2 for item in middles), default=0.0)
        return self._whole({item: middle - highest for item, middle in middles.items()})

    def _whole(self, middles: dict[int, float]) -> dict[int, int]:
        """Round heights to whole numbers without overlaps."""
        made: dict[int, int] = {}
        for layer in self._layers:
            lowest = self._top
            for item in layer:
                half = self._tall(item) // 2
                made[item] = max(round(middles[item]) + self._top, lowest + half)
                lowest = made[item] + half + _BETWEEN - 1
        return made

    def _tall(self, item: int) -> int:
        return self._height if item < len(self._at) else _PASSING

    def _stacked(self, layer: Sequence[int], wanted: Sequence[float]) -> list[float]:
        """Return heights in order and without overlaps, as near to the wanted ones as possible.

        Items that would overlap move as a block at the mean of their wanted heights.
        """
        offsets: list[float] = []
        blocks: list[tuple[float, int]] = []
        offset = 0.0
        for number, item in enumerate(layer):
            if number:
                offset += (self._tall(layer[number - 1]) + self._tall(item)) / 2 + _BETWEEN
            offsets.append(offset)
            mean, count = wanted[number] - offset, 1
            # Pool adjacent violators: the least squares solution of wanted heights in a given
            # order.
            while blocks and blocks[-1][0] >= mean:
                before, many = blocks.pop()
                mean = (before * many + mean * count) / (many + count)
                count += many
            blocks.append((mean, count))
        means = [mean for mean, count in blocks for _ in range(count)]
        return [mean + offset for mean, offset in zip(means, offsets, strict=True)]

    def _reserve(self) -> None:
        """Reserve room for the labels of broken lines."""
        for tie in self._picture.ties:
            source, target = self._at[tie.source], self._at[tie.target]
            self._loops |= source == target == len(self._columns) - 1
            if tie.broken and source < target:
                self._before[target] = LABEL
            elif tie.broken:
                self._after[target] = LABEL

    def _lefts(self) -> list[int]:
        lefts: list[int] = []
        left = MARGIN
        for column in range(len(self._columns)):
            left += self._before[column] if column else 0
            lefts.append(left)
            left += WIDTH + self._after[column] + _BEND
        return lefts

    def _path(self, tie: Tie, lefts: list[int], middles: dict[int, int]) -> str:
        """Return the path of a line: straight past columns and labels, bent between them."""
        source, target = self._at[tie.source], self._at[tie.target]
        if source == target:
            right = lefts[source] + WIDTH
            out = right + self._after[source] + _BEND * 3 // 4
            start, end = middles[tie.source], middles[tie.target]
            return f"M{right} {start}C{out} {start} {out} {end} {right} {end}"
        forth = source < target
        way = self._way(tie)
        step = 1 if forth else -1
        at = lefts[source] + (WIDTH if forth else 0)
        told = [f"M{at} {middles[tie.source]}"]
        for number in range(1, len(way)):
            column = source + step * number
            start, end = middles[way[number - 1]], middles[way[number]]
            leave, arrive = self._bend(column, lefts, forth=forth)
            half = (leave + arrive) // 2
            told.append(f"H{leave}C{half} {start} {half} {end} {arrive} {end}")
            inside = lefts[column] + (0 if forth else WIDTH)
            told.append(f"H{inside if number == len(way) - 1 else inside + step * WIDTH}")
        return "".join(told)

    def _bend(self, column: int, lefts: list[int], *, forth: bool) -> tuple[int, int]:
        """Return the start and the end of a line's bend before a column."""
        if forth:
            arrive = lefts[column] - self._before[column]
            return arrive - _BEND, arrive
        arrive = lefts[column] + WIDTH + self._after[column]
        return arrive + _BEND, arrive

    def _marks(self, lefts: list[int], middles: dict[int, int]) -> tuple[Mark, ...]:
        ends: dict[tuple[int, int], list[int]] = {}
        for number, tie in enumerate(self._picture.ties):
            side = 1 if self._at[tie.source] < self._at[tie.target] else -1
            ends.setdefault((tie.target, side), []).append(number)
        return tuple(
            Mark(
                lefts[self._at[target]] + (0 if side > 0 else self._right(target)),
                middles[target],
                side,
                tuple(ties),
            )
            for (target, side), ties in ends.items()
        )

    def _right(self, number: int) -> int:
        """Return the width of a part; one that stands for several has outlines behind it."""
        return WIDTH + (BEHIND if self._picture.parts[number].size > 1 else 0)

    def _sides(self, lefts: list[int]) -> tuple[Title, ...]:
        """Return the cluster titles, each above adjacent columns of one cluster."""
        found: list[Title] = []
        last = ""
        for left, column in zip(lefts, self._columns, strict=True):
            if not column.side:
                last = ""
                continue
            start = found.pop().x if column.side == last else left
            found.append(Title(start, left + WIDTH, column.side))
            last = column.side
        return tuple(found)
