"""The append log: every change of every object is a row, and its row id is the resourceVersion.

Watch resume, consistent paging and lists at an old version are queries on it. Compaction removes
rows that newer ones have replaced, after which older versions can no longer be asked for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple


ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    rv INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS log_object ON log (collection, namespace, name, rv);
CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_INSERT = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)"
_MARK = "INSERT OR REPLACE INTO mark VALUES (?, ?)"
# A row that is replaced only after :rv stays: it is the object's state in lists from :rv on.
_COMPACT = """
DELETE FROM log WHERE rv <= :rv AND (type = 'DELETED' OR EXISTS (
    SELECT 1 FROM log AS newer WHERE newer.collection = log.collection
    AND newer.namespace = log.namespace AND newer.name = log.name
    AND newer.rv > log.rv AND newer.rv <= :rv))
"""


class LogRow(NamedTuple):
    """One change as it is stored; a deletion carries the object's last state."""

    rv: int
    collection: str
    namespace: str
    name: str
    type: ChangeType
    body: bytes


class FolderLock:
    """A folder that no other sandbox uses meanwhile; nothing is written to know it.

    Raises:
        OSError: another one uses it, or it cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder, os.O_RDONLY)
        try:
            # The kernel gives this lock back however the process ends: a crash leaves nothing to
            # clean up.
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._handle)
            if error.errno not in {errno.EACCES, errno.EAGAIN}:
                raise
            text = "is in use by another sandbox: stop that one, or choose another folder"
            raise OSError(f"{folder} {text}") from None

    def release(self) -> None:
        """Let others use the folder."""
        os.close(self._handle)


class Log:
    """Rows in SQLite: in memory, or in a file in WAL mode that survives the process.

    A file is written with ``synchronous=FULL``: what :meth:`append` returned from is on disk.
    Writes may come from another thread than reads; each has its own connection to a file.

    Raises:
        OSError: the file cannot be used.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.durable = path is not None
        self._lock = threading.Lock()
        try:
            self._writer = self._connect(path)
            self._writer.executescript(_SCHEMA)
            # Every connection to :memory: would be a database of its own
            # (https://www.sqlite.org/inmemorydb.html).
            self._reader = self._connect(path) if self.durable else self._writer
        except sqlite3.Error as error:
            raise OSError(f"{path} cannot be used: {error}") from None

    @staticmethod
    def _connect(path: Path | None) -> sqlite3.Connection:
        # Without an isolation level Python begins no transactions by itself: where each begins and
        # ends is said in _transaction.
        connection = sqlite3.connect(
            path or ":memory:", isolation_level=None, check_same_thread=False
        )
        if path is not None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA busy_timeout=10000")
        return connection

    def close(self) -> None:
        """Release the file."""
        self._reader.close()
        if self.durable:
            self._writer.close()

    def append(self, rows: Iterable[LogRow]) -> None:
        """Store rows in one transaction."""
        with self._transaction() as connection:
            connection.executemany(_INSERT, rows)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._writer.execute("BEGIN")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                # SQLite has rolled back by itself when the disk is full.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def last(self) -> int:
        """The newest resourceVersion, 0 in an empty log; compaction does not lower it."""
        # The newest change may be a deletion that compaction has removed; its version is still not
        # given to another change.
        newest = self._reader.execute("SELECT max(rv) FROM log").fetchone()[0] or 0
        return max(int(newest), self.compacted())

    def compacted(self) -> int:
        """The version up to which history is gone."""
        return int(self.mark("compacted") or 0)

    def mark(self, name: str) -> str | None:
        """A named value kept beside the log."""
        row = self._reader.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def compact(self, rv: int) -> None:
        """Forget what was replaced or deleted up to and including ``rv``."""
        with self._transaction() as connection:
            # Mark and rows change in one transaction: with the rows gone and no mark, a watch
            # would resume over the gap instead of getting a 410.
            connection.execute(_MARK, ("compacted", str(rv)))
            connection.execute(_COMPACT, {"rv": rv})

    def changes(self, collection: str, after: int, until: int, limit: int = -1) -> list[LogRow]:
        """The first changes of a collection in (after, until], oldest first; -1 is all of them."""
        cursor = self._reader.execute(
            "SELECT * FROM log WHERE rv > ? AND rv <= ? AND collection = ? ORDER BY rv LIMIT ?",
            (after, until, collection, limit),
        )
        return list(map(LogRow._make, cursor))

    def before(self, row: LogRow) -> LogRow | None:
        """The change of the same object before this one, unless it was a deletion."""
        found = self._reader.execute(
            "SELECT * FROM log WHERE collection = ? AND namespace = ? AND name = ? AND rv < ? "
            "ORDER BY rv DESC LIMIT 1",
            (row.collection, row.namespace, row.name, row.rv),
        ).fetchone()
        previous = LogRow._make(found) if found else None
        return None if previous is None or previous.type == "DELETED" else previous

    def state(self, rv: int, collection: str = "") -> Iterator[LogRow]:
        """The objects that existed at ``rv``, of one collection or of all."""
        condition = "AND collection = ? " if collection else ""
        parameters = (rv, collection) if collection else (rv,)
        # SQLite takes the other columns from the row that has the maximum
        # (https://www.sqlite.org/lang_select.html#bareagg).
        cursor = self._reader.execute(
            "SELECT max(rv), collection, namespace, name, type, body FROM log "  # noqa: S608
            f"WHERE rv <= ? {condition}GROUP BY collection, namespace, name",
            parameters,
        )
        return (row for row in map(LogRow._make, cursor) if row.type != "DELETED")
