"""Password hashes (scrypt, RFC 7914), one per line."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

import msgspec


COST = 1 << 15
"""scrypt's N of new hashes: a check takes about 0.1 s and 32 MiB."""
LEAST_COST = 1 << 14
"""Least N of an accepted hash."""
MOST_PASSWORD = 1024
"""Longest password, in bytes."""

_BLOCK, _PARALLEL = 8, 1
"""scrypt's r and p of new hashes."""
_MOST_COST, _MOST_BLOCK, _MOST_PARALLEL = 1 << 17, 16, 4
"""Largest N, r and p of an accepted hash, which bound memory and CPU of a check."""
_SIZE = 32
"""Length of a digest, in bytes."""
_FORM = "scrypt:N:r:p:SALT:HASH"
_REMEDY = "make one with fairlead provider hash-password"


class PasswordError(ValueError):
    """An unusable password or hash; the text contains neither."""


class PasswordHash(msgspec.Struct, frozen=True):
    """A password's hash with its scrypt parameters."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    digest: bytes

    @classmethod
    def parse(cls, line: str) -> PasswordHash:
        """Read a line that :func:`hash_line` made.

        Raises:
            PasswordError: the line is malformed, or the hash too weak or too costly.
        """
        parts = line.strip().split(":")
        if len(parts) != 6 or parts[0] != "scrypt":
            raise PasswordError(f"a password's hash has to be {_FORM}: {_REMEDY}")
        try:
            cost, block, parallel = (int(part) for part in parts[1:4])
            salt, digest = (base64.b64decode(part, validate=True) for part in parts[4:])
        except ValueError:
            raise PasswordError(f"a password's hash has to be {_FORM}: {_REMEDY}") from None
        if (
            not LEAST_COST <= cost <= _MOST_COST
            or cost & (cost - 1)
            or not 1 <= block <= _MOST_BLOCK
            or not 1 <= parallel <= _MOST_PARALLEL
            or len(salt) < 16
            or len(digest) < _SIZE
        ):
            raise PasswordError(f"a password's hash is too weak or too costly: {_REMEDY}")
        return cls(cost, block, parallel, salt, digest)

    @classmethod
    def of(cls, password: str, *, cost: int = COST) -> PasswordHash:
        """Hash a password with a new salt.

        Raises:
            PasswordError: the password is empty or too long.
        """
        encoded = password.encode()
        if not 0 < len(encoded) <= MOST_PASSWORD:
            raise PasswordError(f"a password has to have 1 to {MOST_PASSWORD} bytes")
        salt = secrets.token_bytes(16)
        empty = cls(cost, _BLOCK, _PARALLEL, salt, b"\0" * _SIZE)
        return msgspec.structs.replace(empty, digest=empty.digest_of(password))

    @property
    def line(self) -> str:
        """The hash as a line of the file of people."""
        salt, digest = (base64.b64encode(part).decode() for part in (self.salt, self.digest))
        return f"scrypt:{self.cost}:{self.block}:{self.parallel}:{salt}:{digest}"

    def digest_of(self, password: str) -> bytes:
        """Return the digest of a password by this hash's parameters."""
        return hashlib.scrypt(
            password.encode(),
            salt=self.salt,
            n=self.cost,
            r=self.block,
            p=self.parallel,
            # scrypt needs 128 * N * r bytes; OpenSSL's default limit of 32 MiB is just too little
            # for N of new hashes.
            maxmem=256 * self.cost * self.block,
            dklen=len(self.digest),
        )

    def matches(self, password: str) -> bool:
        """Whether ``password`` has this hash; the digests are compared in constant time."""
        if len(password.encode()) > MOST_PASSWORD:
            return False
        return hmac.compare_digest(self.digest_of(password), self.digest)


def hash_line(password: str) -> str:
    """Return the line for a password in the file of people.

    Raises:
        PasswordError: the password is empty or too long.
    """
    return PasswordHash.of(password).line
