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
_IGNORABLE = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2065, 0x2065),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0xE0000, 0xE0FFF),
)
"""First and last of other characters that are shown as nothing, or as a blank.

That is Default_Ignorable_Code_Point (https://www.unicode.org/reports/tr44/), without those of
Cf, and the pattern of Braille without a dot.
"""
GROUP_PREFIX = "fairlead_group_"
"""How the names of the groups begin that logins share; a digest of 32 digits follows."""
_GROUP = re.compile(GROUP_PREFIX + "[0-9a-f]{32}")
_KEYWORDS = {"public", "none", "user", "current_user", "session_user", "current_role"}
_PROVIDERS = (
    "pg_",
    "rds_",
    "rdsadmin",
    "rdsmetric",
    "rdsproxy",
    "rdsrepladmin",
    "rdstopmgr",
    "cloudsql",
    "alloydb",
    "azure_",
    "azuresu",
    "supabase_",
    "neon_",
    "crunchy_",
    "_crunchy",
    "pscale_",
    "mdb_",
    "tencentdb_",
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
    "neondb_owner",
    "pgbouncer",
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
    if name != name.strip() or any(map(_is_unseen, name)):
        raise refusal(
            "NameInvalid",
            f"spec.username {name!a} begins or ends with a blank, or contains invisible"
            " characters, or blanks that look like another; remove them",
        )
    if reserved(name) or is_group(name):
        raise refusal(
            "UserReserved",
            f"spec.username {name!r} is reserved by PostgreSQL or its provider; choose another",
        )


def _is_unseen(character: str) -> bool:
    """Whether a character is invisible, or a blank that is not the usual one."""
    category, number = unicodedata.category(character), ord(character)
    if category in _UNSEEN or (category == "Zs" and character != " "):
        return True
    return any(first <= number <= last for first, last in _IGNORABLE)


def is_group(name: str) -> bool:
    """Whether the name is one of those that groups of ours have."""
    return _GROUP.fullmatch(name) is not None


def check_no_group(name: str, field: str) -> None:
    """Refuse the names of our own groups, which belong to those who share them.

    Raises:
        AccessError: NameInvalid, naming the field.
    """
    if is_group(name):
        raise refusal(
            "NameInvalid",
            f"{field} {name} is a group that Fairlead makes for spec.groups: Shared; name another",
        )


def reserved(name: str) -> bool:
    """Whether PostgreSQL, or those who run it for others, keep this name for themselves."""
    lowered = name.lower()
    return lowered.startswith(_PROVIDERS) or lowered in _KEYWORDS | _PROVIDER_ROLES


def excluded(username: str, excluded_users: Iterable[str], patterns: Iterable[str] = ()) -> bool:
    """Whether the operator's settings exclude this role, by its name or by a pattern.

    Case counts. ``*`` in a pattern stands for anything.
    """
    if username in {name.strip() for name in excluded_users}:
        return True
    return any(matches(pattern.strip(), username, "{namespace}") for pattern in patterns)


def matches_any(patterns: Iterable[str], name: str, namespace: str) -> bool:
    """Whether one of the patterns allows the name, see :func:`matches`."""
    return any(matches(pattern, name, namespace) for pattern in patterns)


def matches(pattern: str, name: str, namespace: str) -> bool:
    """Whether a pattern allows the name: ``*`` is anything, ``{namespace}`` is the namespace.

    In time that grows with the product of both lengths at most, however many ``*`` there are.
    """
    parts = [part.replace("{namespace}", namespace) for part in pattern.split("*")]
    first, *rest = parts
    if not rest:
        return name == first
    last = rest.pop()
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for part in rest:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
