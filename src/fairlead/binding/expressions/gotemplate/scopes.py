"""Variables: names during parsing, values during rendering, both found by one lookup."""

from __future__ import annotations

from typing import Any


class DeclaredNames:
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
        """Return a mark to cut back to."""
        return len(self._order)

    def cut(self, mark: int) -> None:
        """Drop the names declared after a mark."""
        for name in self._order[mark:]:
            self._counts[name] -= 1
        del self._order[mark:]


class Variables:
    """The variables of one call of a template; of equal names the last one counts."""

    def __init__(self, dot: Any) -> None:
        self._order: list[tuple[str, list[Any]]] = []
        self._cells: dict[str, list[list[Any]]] = {}
        self.push("$", dot)

    def push(self, name: str, value: Any) -> None:
        """Add a variable."""
        cell = [value]
        self._order.append((name, cell))
        self._cells.setdefault(name, []).append(cell)

    def cell(self, name: str) -> list[Any] | None:
        """Return the cell with a variable's value, None without such a variable."""
        cells = self._cells.get(name)
        return cells[-1] if cells else None

    def latest(self, place: int) -> list[Any]:
        """Return the cell of the last variable (1), or of the one before it (2)."""
        return self._order[-place][1]

    def mark(self) -> int:
        """Return a mark to cut back to."""
        return len(self._order)

    def cut(self, mark: int) -> None:
        """Drop the variables added after a mark."""
        while len(self._order) > mark:
            name, _ = self._order.pop()
            self._cells[name].pop()
