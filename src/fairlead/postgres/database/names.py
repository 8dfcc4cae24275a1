"""Which role names are taken, and how the patterns of server profiles match.

PostgreSQL cuts names at 63 bytes without a word, and identifiers end at a NUL byte, so both are
refused before any SQL is made.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from fairlead.postgres.errors import refusal


MAX_IDENTIFIER_BYTES = 63
"""NAMEDATALEN - 1 of a PostgreSQL that was built as it comes."""

_UNSEEN = {"Cf", "Cs", "Zl", "Zp"}
"""Unicode's categories of invisible and of bidirectional characters."""
_KEYWORDS = {"public", "none", "user", "current_user", "session_user", "current_role"}
_PROVIDERS = (
    "pg_",
    "rds_",
    "rdsadmin",
    "rdsrepladmin",
    "cloudsql",
    "alloydb",
    "azure_",
    "azuresu",
    "supabase_",
    "neon_",
    "crunchy_",
    "tsdb",
    "_rdb_",
    "_doadmin",
)
"""How names begin that PostgreSQL and those who run it for others keep for themselves."""
_PROVIDER_ROLES = {
    "alicloud_rds_admin",
    "avnadmin",
    "cloud_admin",
    "cnpg_pooler_pgbouncer",
    "doadmin",
    "enterprisedb",
    "streaming_replica",
}


def check_identifier(name: str, field: str) -> None:
    """Refuse what PostgreSQL would not take as it is.

    Raises:
        AccessError: NameInvalid, naming the field.
    """
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_IDENTIFIER_BYTES:
        raise refusal(
            "NameInvalid",
            f"{field} has {size} bytes; PostgreSQL takes names of 1 to {MAX_IDENTIFIER_BYTES}",
        )
    # What no encoding has would also spoil a statement that is about others too.
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise refusal("NameInvalid", f"{field} contains a control character; remove it")


def check_username(name: str) -> None:
    """Refuse names that cannot be roles of ours.

    Raises:
        AccessError: NameInvalid or UserReserved.
    """
    check_identifier(name, "spec.username")
    if name != name.strip() or any(unicodedata.category(one) in _UNSEEN for one in name):
        raise refusal(
            "NameInvalid",
            f"spec.username {name!a} begins or ends with a blank, or contains characters that"
            " nobody sees; remove them",
        )
    lowered = name.lower()
    if lowered.startswith(_PROVIDERS) or lowered in _KEYWORDS | _PROVIDER_ROLES:
        raise refusal(
            "UserReserved",
            f"spec.username {name!r} is reserved by PostgreSQL or its provider; choose another",
        )


def excluded(username: str, excluded_users: Iterable[str]) -> bool:
    """Whether the operator's options exclude this role; case counts."""
    return username in {name.strip() for name in excluded_users}


def matches(pattern: str, name: str, namespace: str) -> bool:
    """Whether a profile's pattern allows the name: ``*`` is anything, ``{namespace}`` is that."""
    parts = re.split(r"(\*|\{namespace\})", pattern)
    known = {"*": ".*", "{namespace}": re.escape(namespace)}
    expression = "".join(known.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(expression, name, re.DOTALL) is not None
