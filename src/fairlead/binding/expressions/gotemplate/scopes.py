"""Variables: names during parsing, values during rendering, both found by one lookup."""

from __future__ import annotations

from typing import Any


class Names:
    """The declared names."""

    def __init__(self) -> None:
        self._order = ["$"]
        self._counts = {"$": 1}

    def declare(self, name: str) -> None:
        """Declare a name."""
        self._order.append(name)
        self._counts[name] = self._counts.get(name, 0) + 1

    def __contains__(self, name: str) -> bool:
        return self._counts.get(name, 0) > 0

    def mark(self) -> int:
        """The place to cut back to."""
        return len(self._order)

    def cut(self, mark: int) -> None:
        """Forget what was declared since."""
        for name in self._order[mark:]:
            self._counts[name] -= 1
        del self._order[mark:]


class Variables:
    """The values of one call of a template, of which the last with a name counts."""

    def __init__(self, dot: Any) -> None:
        self._order: list[tuple[str, list[Any]]] = []
        self._cells: dict[str, list[list[Any]]] = {}
        self.push("$", dot)

    def push(self, name: str, value: Any) -> None:
        """A new variable."""
        cell = [value]
        self._order.append((name, cell))
        self._cells.setdefault(name, []).append(cell)

    def cell(self, name: str) -> list[Any] | None:
        """The place of a variable's value, None when there is no such variable."""
        cells = self._cells.get(name)
        return cells[-1] if cells else None

    def latest(self, place: int) -> list[Any]:
        """The cell of the variable that was pushed last (1), or before it (2)."""
        return self._order[-place][1]

    def mark(self) -> int:
        """The place to cut back to."""
        return len(self._order)

    def cut(self, mark: int) -> None:
        """Forget what was pushed since."""
        while len(self._order) > mark:
            name, _ = self._order.pop()
            self._cells[name].pop()
