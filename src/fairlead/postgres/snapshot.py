"""What the catalogs said, as values: the input of every plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from fairlead.postgres.claim import Claim


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The server and the session's own role on it.

    ``version`` is ``server_version_num``; ``system_identifier`` is the same under every host
    name of one server.
    """

    version: int
    version_text: str
    system_identifier: str
    admin: str
    superuser: bool
    reads_verifiers: bool


class RoleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One row of pg_roles; ``powers`` are the attributes that no access may have."""

    oid: int
    name: str
    login: bool
    powers: frozenset[str] = frozenset()
    claim: Claim | None = None
    verifier: str | None = None


class DatabaseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One database: whose it is, and who may do what with it directly."""

    name: str
    connectable: bool
    owned: bool = False
    held: frozenset[str] = frozenset()
    public: frozenset[str] = frozenset()
    dependent: bool = False
    """Whether something in it depends on the role."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The maintenance database's view: the role, all databases, and the claims of ours."""

    server: ServerFacts
    role: RoleFacts | None
    databases: Mapping[str, DatabaseFacts]
    claimed: Mapping[str, Claim] = {}
    """Roles that carry a claim of this installation."""


Action = Literal["grant", "revoke", "absent"]
Level = Literal["schema", "table", "sequence", "routine"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One privilege on one object that is missing or not wanted; or a schema that is absent.

    ``arguments`` are the schemas and names of a routine's argument types.
    """

    action: Action
    level: Level
    schema: str
    name: str = ""
    privilege: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
