"""The claim: a role's comment says for which PostgresAccess of which installation it was made.

Comments on roles are shared by all databases, readable by everyone and not the role's own to
change, so a claim settles conflicts between namespaces and between clusters on one server.
"""

from __future__ import annotations

import msgspec


_PREFIX = "managed by Fairlead: "


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


CLAIM_PATTERN = _PREFIX + "{%"
"""What every claim is LIKE."""


def parse_claim(comment: str | None) -> Claim | None:
    """The claim that a role's comment makes, if it makes one."""
    if comment is None or not comment.startswith(_PREFIX):
        return None
    try:
        return msgspec.json.decode(comment.removeprefix(_PREFIX), type=Claim)
    except msgspec.DecodeError:
        return None
