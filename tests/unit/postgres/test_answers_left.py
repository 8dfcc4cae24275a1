"""An answer that nobody waits for any more ends at once, and not in Python's collector."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from fairlead.postgres.database.connections import session
from fairlead.postgres.database.connections.session import LimitedConnection


class Unconnected(LimitedConnection):
    """A connection without a server."""

    def __init__(self) -> None:
        self.pgconn = type("PGconn", (), {"socket": -1})()

    def __del__(self, *_: object) -> None:
        """End as one that was closed."""


def test_steps_that_fail_at_their_end_are_ended_and_print_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_received", lambda number: 0)
    ended: list[str] = []

    def steps() -> Generator[int, int, None]:
        try:
            yield 1
        finally:
            ended.append("ended")
            # As at the end of a pipeline whose connection is closed.
            raise psycopg.OperationalError("connection pointer is NULL")

    own: Any = steps()
    answer = Unconnected()._limited(own)
    assert next(answer) == 1
    answer.close()
    assert ended == ["ended"]
