"""The append log: every change of an object is a row, and its row id is the resourceVersion.

Watches that resume, pages of a list and lists at an old version are queries on the log.
Compaction deletes rows that newer ones have replaced; older versions cannot be read afterwards.
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
CREATE INDEX IF NOT EXISTS log_change ON log (collection, rv);
CREATE TABLE IF NOT EXISTS mark (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
# The index log_object serves before, state and compaction, which look for the versions of one
# object. log_change serves changes: without it each batch of a watch reads all that is kept of its
# collection (20 to 50 ms instead of 0.8 ms at 50,000 rows). It costs a write 2.5 µs, and 34 bytes
# a row.
_INSERT = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)"
_MARK = "INSERT OR REPLACE INTO mark VALUES (?, ?)"
# A row that is replaced only after :rv stays, because lists at versions from :rv on need it.
_COMPACT = """
DELETE FROM log WHERE rv <= :rv AND (type = 'DELETED' OR EXISTS (
    SELECT 1 FROM log AS newer WHERE newer.collection = log.collection
    AND newer.namespace = log.namespace AND newer.name = log.name
    AND newer.rv > log.rv AND newer.rv <= :rv))
"""


class LogRow(NamedTuple):
    """One stored change; the row of a deletion has the object's last state."""

    rv: int
    collection: str
    namespace: str
    name: str
    type: ChangeType
    body: bytes


class FolderLock:
    """Lock of a data folder against other sandboxes; it writes no file.

    Raises:
        OSError: another sandbox uses the folder, or it cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder, os.O_RDONLY)
        try:
            # The kernel releases this lock when the process ends, also by a crash.
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._handle)
            if error.errno not in {errno.EACCES, errno.EAGAIN}:
                raise
            text = "is in use by another sandbox: stop that one, or choose another folder"
            raise OSError(f"{folder} {text}") from None

    def release(self) -> None:
        """Release the lock."""
        os.close(self._handle)


class Log:
    """Rows in SQLite: in memory, or in a file in WAL mode that survives the process.

    A file is written with ``synchronous=FULL``: rows are on disk when :meth:`append` returns.
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
        # Without an isolation level Python's sqlite3 begins no transactions of its own;
        # _transaction begins and ends them.
        connection = sqlite3.connect(
            path or ":memory:", isolation_level=None, check_same_thread=False
        )
        if path is not None:
            connection.execute("PRAGMA journal_mode=WAL")
            # In WAL mode SQLite syncs each commit only with FULL; NORMAL may lose the last ones at
            # a power failure.
            connection.execute("PRAGMA synchronous=FULL")
            # In WAL mode too the file is locked at times, such as for the recovery after a crash
            # (https://www.sqlite.org/wal.html, SQLITE_BUSY).
            connection.execute("PRAGMA busy_timeout=10000")
        return connection

    def close(self) -> None:
        """Close the database."""
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
                # If the disk is full, SQLite has rolled back already; a second ROLLBACK fails.
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def last(self) -> int:
        """Return the newest resourceVersion, 0 for an empty log; compaction does not lower it."""
        # The newest change may be a deletion whose row is compacted. Its version must not be used
        # again: clients have seen it.
        newest = self._reader.execute("SELECT max(rv) FROM log").fetchone()[0] or 0
        return max(int(newest), self.compacted())

    def compacted(self) -> int:
        """Return the version up to which history is deleted."""
        return int(self.mark("compacted") or 0)

    def mark(self, name: str) -> str | None:
        """Return a named value that is stored beside the log, None if it is not set."""
        row = self._reader.execute("SELECT value FROM mark WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def compact(self, rv: int) -> None:
        """Delete the rows that were replaced or deleted up to and including ``rv``."""
        with self._transaction() as connection:
            # Mark and rows change in one transaction: with the rows gone and no mark, a watch
            # would resume over the gap instead of getting a 410.
            connection.execute(_MARK, ("compacted", str(rv)))
            connection.execute(_COMPACT, {"rv": rv})

    def changes(self, collection: str, after: int, until: int, limit: int = -1) -> list[LogRow]:
        """Return the first changes of a collection in (after, until]; limit -1 means all."""
        cursor = self._reader.execute(
            "SELECT * FROM log WHERE rv > ? AND rv <= ? AND collection = ? ORDER BY rv LIMIT ?",
            (after, until, collection, limit),
        )
        return list(map(LogRow._make, cursor))

    def before(self, row: LogRow) -> LogRow | None:
        """Return the object's change before this one, None if there is none or it deleted it."""
        rows = self._reader.execute(
            "SELECT * FROM log WHERE collection = ? AND namespace = ? AND name = ? AND rv < ? "
            "ORDER BY rv DESC LIMIT 1",
            (row.collection, row.namespace, row.name, row.rv),
        ).fetchone()
        previous = LogRow._make(rows) if rows else None
        return None if previous is None or previous.type == "DELETED" else previous

    def state(self, rv: int, collection: str = "") -> Iterator[LogRow]:
        """Return the objects that existed at ``rv``, of one collection or of all."""
        condition = "AND collection = ? " if collection else ""
        parameters = (rv, collection) if collection else (rv,)
        # SQLite takes the other columns from the row that has the maximum
        # (https://www.sqlite.org/lang_select.html#bareagg).
        # The unary plus keeps SQLite from log_change, whose rows it would have to sort by object
        # (https://www.sqlite.org/optoverview.html).
        cursor = self._reader.execute(
            "SELECT max(rv), collection, namespace, name, type, body FROM log "  # noqa: S608
            f"WHERE +rv <= ? {condition}GROUP BY collection, namespace, name",
            parameters,
        )
        return (row for row in map(LogRow._make, cursor) if row.type != "DELETED")
