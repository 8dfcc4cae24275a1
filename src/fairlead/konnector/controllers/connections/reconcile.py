"""Decides which connections have to run: one for each distinct kubeconfig."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

import msgspec

from fairlead.konnector.policies.work import ConnectionSpec, SecretKey


class ConnectionMember(msgspec.Struct, frozen=True):
    """User of a connection: a binding, or a bundle or labelled Secret with ``binding`` ""."""

    binding: str
    source: SecretKey


def identify(kubeconfig: bytes) -> str:
    """Return the key of a connection: equal content means one connection, in any Secret."""
    return sha256(kubeconfig).hexdigest()


def reconcile(
    members: Iterable[ConnectionMember],
    contents: Mapping[SecretKey, bytes],
    running: Mapping[str, ConnectionSpec],
    *,
    usable: Callable[[bytes], bool],
) -> dict[str, ConnectionSpec]:
    """Return all wanted connections, by :func:`identify`.

    A member whose Secret is gone or broken keeps the connection it has, so that the provider's
    copy of the kubeconfig can mend the Secret; without one it gets none.
    """
    result: dict[str, ConnectionSpec] = {}
    for member in members:
        content = contents.get(member.source, b"")
        if not content or not usable(content):
            content = _present(member, running)
        if content:
            identity = identify(content)
            spec = result.get(identity, ConnectionSpec(content))
            result[identity] = spec.joined(member.binding, member.source)
    return result


def _present(member: ConnectionMember, running: Mapping[str, ConnectionSpec]) -> bytes:
    for spec in running.values():
        # A binding that is new does not join by a kubeconfig that its Secret no longer has.
        if member.source in spec.sources and member.binding in {"", *spec.bindings}:
            return spec.kubeconfig
    return b""
