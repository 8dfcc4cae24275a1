"""The app of the story: it finds its database below SERVICE_BINDING_ROOT and uses it.

Run as ``python -m fairlead.demo.app``. It knows nothing of Fairlead: it reads the files of the
first binding whose ``type`` is postgresql, as the Service Binding specification tells apps to.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg import sql


TRIALS: Sequence[tuple[str, sql.SQL]] = (
    ("read orders", sql.SQL("SELECT count(*) FROM orders")),
    ("add an order", sql.SQL("INSERT INTO orders (item) VALUES ('rope')")),
    # WHERE reads the column, for which PostgreSQL wants SELECT beside UPDATE.
    ("change an order", sql.SQL("UPDATE orders SET item = 'chain' WHERE item = 'rope'")),
    # PostgreSQL checks the privilege before it looks for rows.
    ("delete orders", sql.SQL("DELETE FROM orders WHERE false")),
    ("create tables", sql.SQL("CREATE TABLE loot (id int)")),
    ("create roles", sql.SQL("CREATE ROLE pirate")),
)
"""Statements that the app tries, each in a transaction of its own that is rolled back."""


def find_binding(root: Path, type_: str) -> dict[str, str]:
    """Return the entries of the first binding with this ``type``.

    Raises:
        LookupError: there is no such binding below the root.
    """
    for directory in sorted(root.iterdir()) if root.is_dir() else []:
        kind = directory / "type"
        if kind.is_file() and kind.read_text().strip() == type_:
            return {
                entry.name: entry.read_text()
                for entry in directory.iterdir()
                # A kubelet puts ..data and the folder that it points to beside the entries.
                if entry.is_file() and not entry.name.startswith(".")
            }
    raise LookupError(f"no binding of type {type_} below {root}")


def connect(binding: dict[str, str], password: str) -> psycopg.Connection[tuple[object, ...]]:
    """Connect with the binding's address and the given password."""
    return psycopg.connect(
        host=binding["host"],
        port=binding["port"],
        dbname=binding["database"],
        user=binding["username"],
        password=password,
        connect_timeout=5,
    )


def attempt(connection: psycopg.Connection[tuple[object, ...]], statement: sql.SQL) -> bool:
    """Whether the database allows the statement in this session; it is rolled back."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def refused(binding: dict[str, str]) -> bool:
    """Whether a wrong password is refused, as SCRAM must."""
    try:
        connect(binding, binding["password"] + "-wrong").close()
    except psycopg.OperationalError:
        # The right password has just worked at the same address, so that the reason is the
        # password.
        return True
    return False


def main() -> int:
    """Log in, print the user and its rights; return 1 if there is no usable binding."""
    root = Path(os.environ.get("SERVICE_BINDING_ROOT", ""))
    try:
        binding = find_binding(root, "postgresql")
        with connect(binding, binding["password"]) as connection:
            row = connection.execute("SELECT current_user, current_database()").fetchone()
            if row is None:
                return 1
            print(f"current_user {row[0]} in database {row[1]}")
            for what, statement in TRIALS:
                print(f"{'may' if attempt(connection, statement) else 'may not'} {what}")
    except (LookupError, KeyError, OSError, psycopg.Error) as error:
        print(f"cannot use the database: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"wrong password {'refused' if refused(binding) else 'ACCEPTED'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
