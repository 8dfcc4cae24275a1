"""What the catalogs said, as values: the input of every plan.

A role's comment makes a claim: it says for which PostgresAccess of which installation the role was
made. Comments on roles are shared by all databases, readable by everyone and not the role's own to
change, so a claim settles conflicts between namespaces and between clusters on one server.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


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


_PREFIX = "managed by Fairlead: "

CLAIM_PATTERN = _PREFIX + "{%"
"""What every claim is LIKE."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Whose role it is; ``installation`` is one cluster's operator."""

    installation: str
    namespace: str
    name: str
    uid: str

    def text(self) -> str:
        """The comment."""
        return _PREFIX + msgspec.json.encode(self).decode()

    def same_object(self, other: Claim) -> bool:
        """Whether both name one object, a recreated one included."""
        return (self.installation, self.namespace, self.name) == (
            other.installation,
            other.namespace,
            other.name,
        )


def parse_claim(comment: str | None) -> Claim | None:
    """The claim that a role's comment makes, if it makes one."""
    if comment is None or not comment.startswith(_PREFIX):
        return None
    try:
        return msgspec.json.decode(comment.removeprefix(_PREFIX), type=Claim)
    except msgspec.DecodeError:
        return None


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
