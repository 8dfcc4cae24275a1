"""The generations of a consumer's token, each a Secret of its own in the cluster namespace."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from fairlead.api.kubebind import BINDER_NAME
from fairlead.api.meta import Object


TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105  # the type of a Secret
ACCOUNT_ANNOTATION = "kubernetes.io/service-account.name"

ANNOTATION_TOKEN_MADE = "fairlead.dev/token-made"  # noqa: S105  # names an annotation
"""Annotation of a ClusterBinding with the time of the token that a rotation has kept.

Without it the first token is the one in use, which is as old as the object.
"""

_NAME = re.compile(rf"{BINDER_NAME}(?:-([1-9][0-9]{{0,8}}))?")


class TokenSecret(msgspec.Struct, frozen=True, kw_only=True):
    """One of the consumer's tokens; ``token`` is "" until the cluster has filled it in."""

    secret: Object
    generation: int
    token: str
    ca: bytes

    @property
    def name(self) -> str:
        """Name of the Secret."""
        return self.secret.meta.name


def token_secrets(secrets: Iterable[Object]) -> list[TokenSecret]:
    """Return the tokens of ServiceAccount ``kube-binder`` among the Secrets, the oldest first.

    A token with another name than ours, made by hand, counts as older than all others.
    """
    tokens: list[TokenSecret] = []
    for secret in secrets:
        body = secret.decode(_Secret)
        account = secret.meta.annotations.get(ACCOUNT_ANNOTATION)
        if body.type != TOKEN_TYPE or account != BINDER_NAME or secret.meta.deleting:
            continue
        tokens.append(
            TokenSecret(
                secret=secret,
                generation=_generation(secret.meta.name),
                token=body.data.get("token", b"").decode(),
                ca=body.data.get("ca.crt", b""),
            )
        )
    return sorted(tokens, key=lambda secret: (secret.generation, secret.name))


def made_at(binding: Object) -> str:
    """Return when the consumer's current token was made, by its ClusterBinding."""
    recorded = binding.meta.annotations.get(ANNOTATION_TOKEN_MADE, "")
    return recorded or binding.meta.creation_timestamp or ""


def next_name(existing: Iterable[TokenSecret]) -> str:
    """Return the name of a new token's Secret."""
    newest = max((one.generation for one in existing), default=0)
    return f"{BINDER_NAME}-{newest + 1}" if newest else BINDER_NAME


def chosen_token(existing: Iterable[TokenSecret], in_use: str) -> TokenSecret | None:
    """Return the token to hand out: the one in use, else the newest of ours.

    Kubernetes before 1.24 makes tokens of other names by itself, and may delete them.
    """
    last = None
    for secret in existing:
        if in_use and secret.token == in_use:
            return secret
        last = secret if secret.generation else last
    return last


def _generation(name: str) -> int:
    match = _NAME.fullmatch(name)
    if match is None:
        return 0
    return int(match.group(1) or "1")


class _Secret(msgspec.Struct):
    type: str = ""
    data: dict[str, bytes] = {}
