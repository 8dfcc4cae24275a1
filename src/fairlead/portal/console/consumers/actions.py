"""Actions on a consumer: their preview, their progress, and the interface that runs them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol, get_args

import msgspec

from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.portal.console.consumers.directory import Directory
from fairlead.portal.identity.sessions import BrowserSession
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
"""Titles of the actions' pages."""


class Preview(msgspec.Struct, frozen=True):
    """The effects of an action on a consumer.

    ``text`` is a summary sentence, ``notes`` are further sentences; ``kinds`` counts the deleted
    objects by plural and group, ``namespaces`` and ``exports`` name the deleted ones. ``command``
    does the same in a terminal.
    """

    text: str
    command: str
    notes: tuple[str, ...] = ()
    kinds: tuple[tuple[str, int], ...] = ()
    namespaces: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()


class ActionWish(msgspec.Struct, frozen=True):
    """The form's options, which are the flags of the action's command."""

    to: str = ""
    finish: bool = False
    keep_data: bool = False
    force: bool = False


class ConsumerToken(msgspec.Struct, frozen=True):
    """A consumer's token: its Secret's name and creation time."""

    name: str
    created: str


class ActionProgress(msgspec.Struct, frozen=True):
    """The progress of an action; ``told`` is its result, "" while it runs."""

    action: Action
    state: State
    begun: str
    lines: tuple[str, ...]
    told: str = ""
    delivers: bool = False


class UndoneError(Exception):
    """An action cannot be started; the text says why."""


class Actions(Protocol):
    """Interface of what runs actions on consumers, with a person's rights."""

    async def may(self, session: BrowserSession, namespace: str) -> frozenset[Action]:
        """Return the actions that the session's person may do to a consumer.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        ...

    async def tokens(self, namespace: str) -> Sequence[ConsumerToken] | None:
        """Return a consumer's tokens; None without the right to list them.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        ...

    def progress(self, namespace: str) -> ActionProgress | None:
        """Return the progress of the latest action on a consumer, None without one."""
        ...

    def begin(
        self, session: BrowserSession, action: Action, consumer: Object, wish: ActionWish
    ) -> None:
        """Start an action on a consumer, given as its cluster namespace.

        Raises:
            UndoneError: the action cannot be started.
        """
        ...

    async def deliver(self, session: BrowserSession, namespace: str) -> bytes:
        """Return the kubeconfig of a rotation that this session started, once.

        Raises:
            UndoneError: there is none for this session, or it was already delivered.
            ClientError: the API server refused or is unavailable.
        """
        ...


class NoActions:
    """Refuses all actions: for programs without the rights, where only commands act."""

    async def may(self, session: BrowserSession, namespace: str) -> frozenset[Action]:
        """Return no action."""
        return frozenset()

    async def tokens(self, namespace: str) -> Sequence[ConsumerToken] | None:
        """Return None: the program may not read Secrets of consumers."""
        return None

    def progress(self, namespace: str) -> ActionProgress | None:
        """Return None: no action is under way."""
        return None

    def begin(
        self, session: BrowserSession, action: Action, consumer: Object, wish: ActionWish
    ) -> None:
        """Refuse.

        Raises:
            UndoneError: always.
        """
        raise UndoneError("this program may not do it: use the command")

    async def deliver(self, session: BrowserSession, namespace: str) -> bytes:
        """Refuse.

        Raises:
            UndoneError: always.
        """
        raise UndoneError("this program makes no kubeconfigs: use the command")


def check_wish(action: Action, wish: ActionWish, author: str) -> None:
    """Check the options of an action; ``author`` is the consumer's owner.

    Raises:
        ValueError: an option is invalid; the text names the remedy.
    """
    if action != "hand-over":
        return
    check_author(wish.to)
    if wish.to == author:
        raise ValueError(f"it is {author}'s already")


def preview(directory: Directory, action: Action, namespace: str) -> Preview | None:
    """Return the effects of an action by the caches; None without such a consumer."""
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
                " by itself; no object, export or namespace is deleted"
            )
            return Preview(text, command, (_moves(binding),))
        case "hand-over":
            text = (
                f"{identity_of(found)} ({namespace}) belongs to {whose}, and will belong to the"
                " person you name; no object, export or namespace is deleted"
            )
            kept = (
                "Its present kubeconfig stays valid for all who have it:"
                f" `fairlead provider rotate {namespace}` ends that."
            )
            return Preview(text, f"{command} --to ISSUER/SUB", (kept,))
        case "revoke":
            begun = "Its revocation has begun: revoke it again to continue."
            return Preview(
                inventory.text(keep_data=False),
                command,
                (begun,) if known.row.deleting else (),
                tuple(directory.copies(namespace).items()),
                tuple(one.meta.name for one in directory.provider_namespaces(namespace)),
                tuple(known.row.exports),
            )


def _moves(binding: Object | None) -> str:
    """Return a sentence on whether the konnector will take over a new token and report it."""
    if binding is None:
        return "It has no ClusterBinding: invite it again first."
    if record_of(binding).revoked:
        return "It is being revoked, and gets no new token."
    if is_original(binding) or not tells(binding):
        told = silent(binding)
        return (
            f"Both tokens stay valid, for {told}: check that its heartbeat continues, then delete"
            " the old token with --finish."
        )
    return (
        "Its konnector reports which credentials it uses: the old token is deleted once it uses"
        " the new one."
    )
