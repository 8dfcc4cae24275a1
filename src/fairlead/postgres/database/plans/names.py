"""Checks of role names against reserved ones, and against the patterns of server profiles.

PostgreSQL silently cuts names at 63 bytes, and identifiers end at a NUL byte, so both are refused
before any SQL is composed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from fairlead.postgres.errors import refusal


MAX_IDENTIFIER_BYTES = 63
"""Longest name in bytes: NAMEDATALEN - 1 of PostgreSQL's default build."""

_UNSEEN = {"Cf", "Cs", "Zl", "Zp"}
"""Unicode categories of invisible and of bidirectional characters."""
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
"""Ranges of code points, with both ends, of other characters that look like nothing or a blank.

These are Default_Ignorable_Code_Point (https://www.unicode.org/reports/tr44/) without Cf, and the
Braille pattern without a dot.
"""
GROUP_PREFIX = "fairlead_group_"
"""Prefix of the names of shared groups; a digest of 32 hexadecimal digits follows."""
_GROUP = re.compile(GROUP_PREFIX + "[0-9a-f]{32}")
# PostgreSQL takes most of these as quoted names, but without quotes they mean something else.
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
"""Prefixes of names that PostgreSQL and providers of it reserve."""
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
    """Refuse a name that PostgreSQL would not take unchanged.

    Raises:
        AccessError: NameInvalid; the text names the field.
    """
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= MAX_IDENTIFIER_BYTES:
        raise refusal(
            "NameInvalid",
            f"{field} has {size} bytes; PostgreSQL allows names of 1 to {MAX_IDENTIFIER_BYTES}"
            " bytes",
        )
    # A character that no encoding has would also fail a statement that names other roles too.
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise refusal("NameInvalid", f"{field} contains a control character; remove it")


def check_username(name: str) -> None:
    """Refuse names that a role of an access must not have.

    Raises:
        AccessError: NameInvalid or UserReserved.
    """
    check_identifier(name, "spec.username")
    if name != name.strip() or any(map(_is_unseen, name)):
        raise refusal(
            "NameInvalid",
            f"spec.username {name!a} begins or ends with a blank, or contains invisible"
            " characters or unusual blanks; remove them",
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
    """Whether the name has the form of a shared group's name."""
    return _GROUP.fullmatch(name) is not None


def check_no_group(name: str, field: str) -> None:
    """Refuse the names of shared groups, whose members are managed by ``groups: Shared``.

    Raises:
        AccessError: NameInvalid; the text names the field.
    """
    if is_group(name):
        raise refusal(
            "NameInvalid",
            f"{field} {name} is a group that Fairlead creates for spec.groups: Shared; name"
            " another",
        )


def reserved(name: str) -> bool:
    """Whether PostgreSQL, or a provider of it, reserves the name."""
    # PostgreSQL itself reserves pg_ in lower case alone; another spelling would only mislead.
    lowered = name.lower()
    return lowered.startswith(_PROVIDERS) or lowered in _KEYWORDS | _PROVIDER_ROLES


def excluded(username: str, excluded_users: Iterable[str], patterns: Iterable[str] = ()) -> bool:
    """Whether the operator's settings exclude the role, by its name or by a pattern.

    Names are case-sensitive. ``*`` in a pattern matches any text.
    """
    if username in {name.strip() for name in excluded_users}:
        return True
    # Roles are excluded in all namespaces alike, so the placeholder stands for itself.
    return any(matches(pattern.strip(), username, "{namespace}") for pattern in patterns)


def matches_any(patterns: Iterable[str], name: str, namespace: str) -> bool:
    """Whether one of the patterns allows the name, see :func:`matches`."""
    return any(matches(pattern, name, namespace) for pattern in patterns)


def matches(pattern: str, name: str, namespace: str) -> bool:
    """Whether a pattern allows the name: ``*`` is any text, ``{namespace}`` is the namespace.

    The time grows at most with the product of both lengths, for any number of ``*``.
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
        # The first match is enough: it leaves the longest rest to the parts that follow.
        obj = name.find(part, at, end)
        if obj < 0:
            return False
        at = obj + len(part)
    return True
