"""Passwords: generated, checked, and sent to the server as SCRAM verifiers (RFC 5802, RFC 7677).

No statement contains a password, so none is in the server's log or in pg_stat_activity, and a
password that looks like a verifier is hashed like any other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import string
import stringprep
import unicodedata

from fairlead.postgres import bounds
from fairlead.postgres.errors import invalid


MAX_PASSWORD_BYTES = 1024
"""Longest password in bytes that libpq takes."""
LENGTH = 32
"""Characters of a generated password; from an alphabet of 64 they have 192 random bits."""
ITERATIONS = 4096
"""Rounds of SCRAM-SHA-256, PostgreSQL's default (scram_iterations)."""
ALPHABETS = {
    "urlsafe": string.ascii_letters + string.digits + "-_",
    "alphanumeric": string.ascii_letters + string.digits,
    "hex": string.digits + "abcdef",
}
_SALT_BYTES = 16
"""Random bytes of a salt, as many as PostgreSQL uses."""
_VERIFIER = re.compile(
    r"SCRAM-SHA-256\$(?P<iterations>\d{1,9}):(?P<salt>[A-Za-z0-9+/=]+)"
    r"\$(?P<stored>[A-Za-z0-9+/=]+):(?P<server>[A-Za-z0-9+/=]+)"
)


def generate(length: int = LENGTH, characters: str = ALPHABETS["urlsafe"]) -> str:
    """Return a new password of so many characters, each drawn at random."""
    return "".join(secrets.choice(characters) for _ in range(length))


def fingerprint(key: bytes, uid: str, password: str) -> str:
    """Return the HMAC-SHA256 of an object's password, in hexadecimal.

    Args:
        key: the key of the installation; without it a reader cannot try passwords.
        uid: the UID of the object, so that equal passwords of two objects differ here.
        password: the password.
    """
    return hmac.digest(key, f"password\0{uid}\0{password}".encode(), "sha256").hex()


def check(password: str, what: str) -> None:
    """Refuse passwords that no client could log in with.

    Args:
        password: the password.
        what: names its key and Secret, for messages.

    Raises:
        AccessError: PasswordInvalid.
    """
    size = len(password.encode())
    if size > MAX_PASSWORD_BYTES:
        raise invalid(
            "PasswordInvalid",
            f"{what} has {size} bytes, more than {MAX_PASSWORD_BYTES}; shorten it",
        )
    if "\0" in password:
        raise invalid("PasswordInvalid", f"{what} contains a NUL byte; change it")


def verifier(password: str, *, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    """Return the SCRAM verifier that PostgreSQL stores, with a new salt by default."""
    used = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    client, signing = scram_keys(password, used, iterations)
    stored = base64.b64encode(hashlib.sha256(client).digest()).decode()
    server = base64.b64encode(signing).decode()
    encoded = base64.b64encode(used).decode()
    return f"SCRAM-SHA-256${iterations}:{encoded}${stored}:{server}"


def scram_keys(password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """Return the client's and the server's key (RFC 5802, section 3); the client's logs in."""
    salted = hashlib.pbkdf2_hmac("sha256", prepared(password), salt, iterations)
    return hmac.digest(salted, b"Client Key", "sha256"), hmac.digest(
        salted, b"Server Key", "sha256"
    )


def verifies(password: str, stored: str | None) -> bool:
    """Whether the stored verifier belongs to the password."""
    match = _VERIFIER.fullmatch(stored or "")
    # Another writer may have stored it with any number of rounds, which are computed here.
    if match is None or not 0 < int(match["iterations"]) <= bounds.ITERATIONS_MOST:
        return False
    try:
        salt = base64.b64decode(match["salt"], validate=True)
    except ValueError:
        return False
    again = verifier(password, salt=salt, iterations=int(match["iterations"]))
    return hmac.compare_digest(again, stored or "")


def prepared(password: str) -> bytes:
    """Apply SASLprep (RFC 4013); as in servers, bytes that it does not allow stay as they are."""
    if password.isascii():
        return password.encode()
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in password
        if not stringprep.in_table_b1(character)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    return password.encode() if not normal or _prohibited(normal) else normal.encode()


def _prohibited(text: str) -> bool:
    tables = (
        stringprep.in_table_a1,
        stringprep.in_table_c12,
        stringprep.in_table_c21_c22,
        stringprep.in_table_c3,
        stringprep.in_table_c4,
        stringprep.in_table_c5,
        stringprep.in_table_c6,
        stringprep.in_table_c7,
        stringprep.in_table_c8,
        stringprep.in_table_c9,
    )
    if any(table(character) for character in text for table in tables):
        return True
    # RFC 3454, section 6: text with letters written from right to left (d1) has none of the
    # other direction (d2), and begins and ends with such a letter.
    if not any(map(stringprep.in_table_d1, text)):
        return False
    mixed = any(map(stringprep.in_table_d2, text))
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return mixed or not ends
