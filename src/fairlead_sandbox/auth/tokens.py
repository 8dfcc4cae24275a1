"""ServiceAccount tokens: issuing, and checking against the objects that they are bound to.

The claims are those of "Managing Service Accounts": bound tokens have them under
``kubernetes.io``, tokens of Secrets under ``kubernetes.io/serviceaccount/*``.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import NamedTuple, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.types import Options

from fairlead.api.meta import JSON, Key
from fairlead.api.timestamps import moment
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.storage.store import ObjectStore


ISSUER = "https://kubernetes.default.svc.cluster.local"
"""Issuer and default audience of bound tokens."""
_LEGACY_ISSUER = "kubernetes/serviceaccount"
"""Issuer of the tokens in Secrets."""
_LEGACY = "kubernetes.io/serviceaccount/"
"""Prefix of the claims in the tokens of Secrets."""
_CACHE_SIZE = 4096
"""Maximum number of tokens whose verified claims are cached; a full cache is emptied."""
_ALGORITHM = "ES256"
SIGNATURE_ALONE: Options = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}
"""Options of PyJWT to check only the signature.

Times and audiences are checked at each use of a token, with kube-apiserver's messages.
"""


class TokenError(Exception):
    """A token is not this server's or is no longer valid; the text is kube-apiserver's."""


class Signer(Protocol):
    """Signs the claims of ServiceAccount tokens, and verifies them."""

    def sign(self, claims: JSON) -> str:
        """Return the claims as a signed token."""
        ...

    def verify(self, token: str) -> JSON:
        """Return the claims of a token after checking only its signature.

        Raises:
            TokenError: this signer did not sign the token.
        """
        ...


class KeySigner:
    """Signs with one private key, as ES256 (RFC 7515, RFC 7518 section 3.4)."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._public = key.public_key()
        der = self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        digest = base64.urlsafe_b64encode(hashlib.sha256(der).digest())
        self._header = {"kid": digest.rstrip(b"=").decode()}

    def sign(self, claims: JSON) -> str:
        """Return the claims as a signed token."""
        return jwt.encode(claims, self._key, _ALGORITHM, headers=self._header)

    def verify(self, token: str) -> JSON:
        """Return the claims of a token after checking only its signature.

        Raises:
            TokenError: this key did not sign the token.
        """
        try:
            # The algorithm is fixed here and not taken from the token's header (RFC 8725, section
            # 3.1).
            return jwt.decode(token, self._public, [_ALGORITHM], options=SIGNATURE_ALONE)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise TokenError("invalid bearer token") from None


class BoundObject(NamedTuple):
    """An object whose deletion ends the token: its collection, key and uid ("" for any uid)."""

    collection: str
    key: Key
    uid: str


class VerifiedClaims(NamedTuple):
    """The claims of a token with a valid signature; each use checks times and bindings again."""

    user: User
    audiences: tuple[str, ...]
    expires: float
    bindings: tuple[BoundObject, ...]
    secret: Key | None


class Tokens:
    """Issues and checks the tokens of one control plane."""

    def __init__(self, store: ObjectStore, signer: Signer) -> None:
        self._store = store
        self._signer = signer
        self._cache: dict[str, VerifiedClaims] = {}

    def issue(
        self, account: Record, audiences: list[str], seconds: int, bound: BoundObject | None
    ) -> tuple[str, int]:
        """Return a token for a ServiceAccount, and its expiry in seconds since 1970."""
        now = int(moment().timestamp())
        namespace, name = account.key
        private: JSON = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account.meta.uid},
        }
        if bound is not None:
            kind = bound.collection.removesuffix("s")
            private[kind] = {"name": bound.key.name, "uid": bound.uid}
        claims: JSON = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        return self._signer.sign(claims), now + seconds

    def issue_legacy(self, account: Record, secret: str) -> str:
        """Return the token of a Secret; it does not expire."""
        namespace, name = account.key
        return self._signer.sign(
            {
                "iss": _LEGACY_ISSUER,
                f"{_LEGACY}namespace": namespace,
                f"{_LEGACY}secret.name": secret,
                f"{_LEGACY}service-account.name": name,
                f"{_LEGACY}service-account.uid": account.meta.uid,
                "sub": f"system:serviceaccount:{namespace}:{name}",
            }
        )

    def check(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> VerifiedClaims:
        """Return the claims of a token that is valid for one of these audiences.

        Raises:
            TokenError: the signature is wrong, the token has expired, its object has gone, or it
                is for other audiences.
        """
        verified = self._cache.get(token)
        if verified is None:
            verified = _read(self._signer.verify(token))
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            # Only the result of the signature is cached. Expiry and bindings are checked below at
            # each use.
            self._cache[token] = verified
        if verified.expires < moment().timestamp():
            raise TokenError("service account token has expired")
        for binding in verified.bindings:
            record = self._store.collection(binding.collection).get(binding.key)
            # The uid is compared, so that a new object of the same name does not revive the tokens
            # of the deleted one.
            if record is None or binding.uid not in {"", record.meta.uid}:
                raise TokenError("service account token has been invalidated")
        if verified.secret is not None:
            self._check_secret(verified.secret, token)
        # Tokens of Secrets have no audience and are valid for any.
        if verified.audiences and not set(verified.audiences) & set(audiences):
            raise TokenError(
                f"token audiences {_quoted(verified.audiences)} is invalid for the target "
                f"audiences {_quoted(audiences)}"
            )
        return verified

    def _check_secret(self, key: Key, token: str) -> None:
        record = self._store.collection("secrets").get(key)
        stored = base64.b64encode(token.encode())
        # The Secret must hold this very token: a new Secret of the same name, or one whose token
        # was replaced, does not make the old token valid.
        if record is None or stored not in record.raw:
            raise TokenError("service account token has been invalidated")


def _quoted(names: tuple[str, ...]) -> str:
    return "[" + " ".join(f'"{name}"' for name in names) + "]"


def _read(claims: JSON) -> VerifiedClaims:
    try:
        return _read_legacy(claims) if claims["iss"] == _LEGACY_ISSUER else _read_bound(claims)
    except (KeyError, TypeError, AttributeError):
        raise TokenError("invalid bearer token") from None


def _read_bound(claims: JSON) -> VerifiedClaims:
    private = claims["kubernetes.io"]
    namespace, account = private["namespace"], private["serviceaccount"]
    bindings = [BoundObject("serviceaccounts", Key(namespace, account["name"]), account["uid"])]
    for kind in ("pod", "secret"):
        if kind in private:
            key = Key(namespace, private[kind]["name"])
            bindings.append(BoundObject(f"{kind}s", key, private[kind]["uid"]))
    extra: dict[str, tuple[str, ...]] = {
        "authentication.kubernetes.io/credential-id": (f"JTI={claims['jti']}",)
    }
    if "pod" in private:
        extra["authentication.kubernetes.io/pod-name"] = (private["pod"]["name"],)
        extra["authentication.kubernetes.io/pod-uid"] = (private["pod"]["uid"],)
    user = account_user(namespace, account["name"], account["uid"], extra)
    return VerifiedClaims(user, tuple(claims["aud"]), claims["exp"], tuple(bindings), None)


def _read_legacy(claims: JSON) -> VerifiedClaims:
    namespace, name = claims[f"{_LEGACY}namespace"], claims[f"{_LEGACY}service-account.name"]
    uid = claims[f"{_LEGACY}service-account.uid"]
    bindings = (BoundObject("serviceaccounts", Key(namespace, name), uid),)
    secret = Key(namespace, claims[f"{_LEGACY}secret.name"])
    user = account_user(namespace, name, uid, {})
    return VerifiedClaims(user, (), float("inf"), bindings, secret)


def account_user(namespace: str, name: str, uid: str, extra: dict[str, tuple[str, ...]]) -> User:
    """Return the user of a ServiceAccount, with its groups."""
    groups = (
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    )
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra)
