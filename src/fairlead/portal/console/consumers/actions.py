"""What administrators can do to a consumer, what goes with it, and who does it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol, get_args

import msgspec

from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.portal.console.consumers.directory import Directory
from fairlead.portal.identity.sessions import Session
from fairlead.provider.commands.handover import check_author
from fairlead.provider.commands.rotation.reconcile import silent, tells
from fairlead.provider.konnectors import is_original
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import record_of


Action = Literal["rotate", "hand-over", "revoke"]
ACTIONS: Final[Sequence[Action]] = get_args(Action)

TITLES: Final[Mapping[Action, str]] = {
    "rotate": "Give it a new token",
    "hand-over": "Hand it over",
    "revoke": "Revoke it",
}
"""What actions are called on pages."""


class Preview(msgspec.Struct, frozen=True):
    """What an action will do to a consumer.

    ``text`` says it in one sentence, ``notes`` what else counts; ``kinds`` are the numbers of
    objects that go, by plural and group, ``namespaces`` and ``exports`` their names. ``command``
    does the same in a terminal.
    """

    text: str
    command: str
    notes: tuple[str, ...] = ()
    kinds: tuple[tuple[str, int], ...] = ()
    namespaces: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()


class Wish(msgspec.Struct, frozen=True):
    """What a form asks for, beside the action: the flags of its command."""

    to: str = ""
    finish: bool = False
    keep_data: bool = False
    force: bool = False


class Token(msgspec.Struct, frozen=True):
    """A consumer's token, by the name of its Secret, and since when it is there."""

    name: str
    created: str


class Progress(msgspec.Struct, frozen=True):
    """How far an action has come; ``told`` is how it has ended, "" while it goes on."""

    action: Action
    state: State
    begun: str
    lines: tuple[str, ...]
    told: str = ""
    delivers: bool = False


class UndoneError(Exception):
    """An action cannot be begun; says why."""


class Actions(Protocol):
    """Does to consumers what administrators ask for."""

    async def may(self, session: Session, namespace: str) -> frozenset[Action]:
        """What the person of a session may have done to the consumer of a cluster namespace.

        Raises:
            ClientError: it cannot be asked.
        """
        ...

    async def tokens(self, namespace: str) -> Sequence[Token] | None:
        """A consumer's tokens; None where they cannot be seen.

        Raises:
            ClientError: they cannot be asked for.
        """
        ...

    def progress(self, namespace: str) -> Progress | None:
        """How far the latest action on a consumer has come, if it is known."""
        ...

    def begin(self, session: Session, action: Action, consumer: Object, wish: Wish) -> None:
        """Begin an action on the consumer of this cluster namespace.

        Raises:
            UndoneError: it cannot be begun.
        """
        ...

    async def deliver(self, session: Session, namespace: str) -> bytes:
        """The kubeconfig of a rotation that this session has begun, once.

        Raises:
            UndoneError: there is none for it, or not any more.
            ClientError: it cannot be read.
        """
        ...


class NoActions:
    """Does nothing: for programs that have no right to, where commands do it."""

    async def may(self, session: Session, namespace: str) -> frozenset[Action]:
        """None."""
        return frozenset()

    async def tokens(self, namespace: str) -> Sequence[Token] | None:
        """See :class:`Actions`: it may read no Secrets of others."""
        return None

    def progress(self, namespace: str) -> Progress | None:
        """See :class:`Actions`."""
        return None

    def begin(self, session: Session, action: Action, consumer: Object, wish: Wish) -> None:
        """Refuse.

        Raises:
            UndoneError: always.
        """
        raise UndoneError("this program may not do it: use the command")

    async def deliver(self, session: Session, namespace: str) -> bytes:
        """Refuse.

        Raises:
            UndoneError: always.
        """
        raise UndoneError("this program makes no kubeconfigs: use the command")


def check_wish(action: Action, wish: Wish, author: str) -> None:
    """Refuse what an action cannot be asked for; ``author`` is whose the consumer is.

    Raises:
        ValueError: it is such a thing; the text says what to do.
    """
    if action != "hand-over":
        return
    check_author(wish.to)
    if wish.to == author:
        raise ValueError(f"it is {author}'s already")


def preview(directory: Directory, action: Action, namespace: str) -> Preview | None:
    """What an action would do, as the caches have it; None where there is no such consumer."""
    found, inventory = directory.consumer(namespace), directory.inventory(namespace)
    known = directory.one(namespace)
    if found is None or inventory is None or known is None:
        return None
    binding = directory.binding(namespace)
    command = f"fairlead provider {action} {shlex.quote(namespace)}"
    whose = known.author or "no author"
    match action:
        case "rotate":
            text = (
                f"{identity_of(found)} ({namespace}) gets a new token, which its konnector fetches"
                " by itself; no object, export or namespace goes"
            )
            return Preview(text, command, (_moves(binding),))
        case "hand-over":
            text = (
                f"{identity_of(found)} ({namespace}) is {whose}'s, and will be of whom you name;"
                " no object, export or namespace goes"
            )
            kept = (
                f"Who has its kubeconfig keeps it: `fairlead provider rotate {namespace}` ends"
                " that."
            )
            return Preview(text, f"{command} --to ISSUER/SUB", (kept,))
        case "revoke":
            begun = "Its revocation has begun: to say it again goes on where that ended."
            return Preview(
                inventory.text(keep_data=False),
                command,
                (begun,) if known.row.deleting else (),
                tuple(directory.copies(namespace).items()),
                tuple(one.meta.name for one in directory.provider_namespaces(namespace)),
                tuple(known.row.exports),
            )


def _moves(binding: Object | None) -> str:
    """Whether the konnector can be expected to take a new token over, and to tell so."""
    if binding is None:
        return "It has no ClusterBinding: invite it again first."
    if record_of(binding).revoked:
        return "It is being revoked, and gets no token any more."
    if is_original(binding) or not tells(binding):
        told = silent(binding)
        return (
            f"Both tokens stay valid, for {told}: see whether its heartbeat goes on, then have"
            " the old token taken away with --finish."
        )
    return (
        "Its konnector tells which credentials it uses: the old token is taken away once it uses"
        " the new one."
    )
