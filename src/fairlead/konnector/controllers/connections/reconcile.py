"""Which providers to be connected to: one connection for each distinct kubeconfig."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

import msgspec

from fairlead.api.meta import Key


class SecretKey(msgspec.Struct, frozen=True, order=True):
    """One key of one Secret of the consumer."""

    secret: Key
    key: str


class Member(msgspec.Struct, frozen=True):
    """What wants a connection: a binding, or a bundle or labelled Secret with ``binding`` ""."""

    binding: str
    source: SecretKey


class Wanted(msgspec.Struct, frozen=True):
    """One connection that shall be, for whom, and which Secrets keep its kubeconfig."""

    kubeconfig: bytes
    bindings: frozenset[str] = frozenset()
    sources: frozenset[SecretKey] = frozenset()

    def joined(self, member: Member) -> Wanted:
        """The same connection with one more member."""
        bindings = self.bindings | ({member.binding} if member.binding else set())
        return Wanted(self.kubeconfig, bindings, self.sources | {member.source})


def identify(kubeconfig: bytes) -> str:
    """The key of a connection: equal content is one connection, whatever the Secret's name."""
    return sha256(kubeconfig).hexdigest()


def reconcile(
    members: Iterable[Member],
    contents: Mapping[SecretKey, bytes],
    running: Mapping[str, Wanted],
    *,
    usable: Callable[[bytes], bool],
) -> dict[str, Wanted]:
    """All connections that shall be, by :func:`identify`.

    A member whose Secret is gone or broken keeps the connection it has, so that the provider's
    copy of the kubeconfig can mend the Secret; without one it gets none.
    """
    result: dict[str, Wanted] = {}
    for member in members:
        content = contents.get(member.source, b"")
        if not content or not usable(content):
            content = _present(member, running)
        if content:
            identity = identify(content)
            result[identity] = result.get(identity, Wanted(content)).joined(member)
    return result


def _present(member: Member, running: Mapping[str, Wanted]) -> bytes:
    for wanted in running.values():
        if member.source in wanted.sources and member.binding in {"", *wanted.bindings}:
            return wanted.kubeconfig
    return b""
