"""JSON Web Tokens signed with ES256 (RFC 7515, RFC 7518 section 3.4)."""

from __future__ import annotations

import base64
import hashlib

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from fairlead.api.meta import JSON


_SIZE = 32
_ALGORITHM = ec.ECDSA(hashes.SHA256())


class TokenError(Exception):
    """The text is no token of ours."""


class Signer:
    """Signs and verifies with one key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        der = self._public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        header = {"alg": "ES256", "kid": _encode(hashlib.sha256(der).digest())}
        self._header = _encode(msgspec.json.encode(header))

    def sign(self, claims: JSON) -> str:
        """The claims as a token."""
        payload = f"{self._header}.{_encode(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(payload.encode(), _ALGORITHM))
        return f"{payload}.{_encode(r.to_bytes(_SIZE, 'big') + s.to_bytes(_SIZE, 'big'))}"

    def verify(self, token: str) -> JSON:
        """The claims of a token that this key signed.

        Raises:
            TokenError: it did not.
        """
        payload, _, signature = token.rpartition(".")
        header, _, claims = payload.partition(".")
        try:
            raw = _decode(signature)
            if header != self._header or len(raw) != 2 * _SIZE:
                raise TokenError("invalid bearer token")
            r, s = int.from_bytes(raw[:_SIZE], "big"), int.from_bytes(raw[_SIZE:], "big")
            self._public.verify(encode_dss_signature(r, s), payload.encode(), _ALGORITHM)
            return msgspec.json.decode(_decode(claims), type=JSON)
        except (InvalidSignature, ValueError):
            raise TokenError("invalid bearer token") from None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
