"""The columns of a Table, and durations as ``kubectl get`` prints them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fairlead.api.meta import JSON
from fairlead.api.timestamps import moment, parse_time


@dataclass(frozen=True)
class Column:
    """One column of a Table; ``cell`` reads its value from the object."""

    name: str
    cell: Callable[[JSON], Any]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> JSON:
        """Return the column as ``metav1.TableColumnDefinition``."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


_NAME_TEXT = "Name must be unique within a namespace and cannot be changed."
NAME = Column("Name", lambda body: body["metadata"]["name"], format="name", description=_NAME_TEXT)


def age(body: JSON) -> str:
    """Return the age of the object in kubectl's short form."""
    return since(body["metadata"].get("creationTimestamp"))


def since(text: str | None) -> str:
    """Return the time since ``text`` in kubectl's short form; ``<unknown>`` without a time."""
    if not text:
        return "<unknown>"
    try:
        return human_duration(moment() - parse_time(text))
    except ValueError:
        return "<invalid>"


def elapsed(start: str | None, end: str | None) -> str:
    """Return the time from start to end, or to now without an end; "" without a start."""
    if not start:
        return ""
    if not end:
        return since(start)
    try:
        return human_duration(parse_time(end) - parse_time(start))
    except ValueError:
        return "<invalid>"


def human_duration(duration: timedelta) -> str:
    """Return a duration in at most two units, as Kubernetes' HumanDuration prints it."""
    seconds = int(duration.total_seconds())
    # A second into the future counts as now, because the clocks of two machines differ a little
    # (HumanDuration of k8s.io/apimachinery).
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


AGE = Column("Age", age, description="How long ago the object was created.")
