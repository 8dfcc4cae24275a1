"""Actions on a consumer: a page each, with its preview and the command that does it."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec

from fairlead.api.meta import Object
from fairlead.portal.console.consumers.access import Access, gone
from fairlead.portal.console.consumers.directory import Directory, KnownConsumer
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.provider.commands.revoke.inventory import Inventory
from fairlead.provider.commands.rotation.reconcile import silent, tells
from fairlead.provider.konnectors import is_original
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


class ActionPage(View):
    """The preview of an action on a consumer, and the command that does it."""

    route = "/consumers/{namespace}/{action}"
    template = "consumer_action.html"

    def __init__(self, directory: Directory, access: Access) -> None:
        self._directory = directory
        self._access = access

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Hashable:
        """Return cluster namespace and action.

        Raises:
            MissingError: there is no such consumer or action, or the person is no administrator.
        """
        name, action = asked.name("namespace"), asked.name("action")
        await self._access.check(session, f"consumer {name}")
        if action not in ACTIONS:
            raise MissingError(
                f"There is no action {action}", f"The actions are {', '.join(ACTIONS)}."
            )
        if self._directory.consumer(name) is None:
            raise gone(name)
        return name, action

    def topics(self, scope: Any) -> Topics:
        """Return the topics of the consumer and of cluster-scoped objects."""
        return ("", str(scope[0]))

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the preview as of now."""
        namespace, action = scope
        known = self._directory.get(namespace)
        if known is None:
            raise gone(namespace)
        return {
            "row": known.row,
            "title": TITLES[action],
            "action": action,
            "preview": preview(self._directory, action, known),
        }


def preview(directory: Directory, action: Action, known: KnownConsumer) -> Preview:
    """Return the effects of an action by the caches."""
    row, namespace = known.row, known.row.namespace
    command = f"fairlead provider {action} {shlex.quote(namespace)}"
    match action:
        case "rotate":
            text = (
                f"{row.identity} ({namespace}) gets a new token, which its konnector fetches"
                " by itself; no object, export or namespace is deleted"
            )
            return Preview(text, command, (_moves(directory.binding(namespace)),))
        case "hand-over":
            text = (
                f"{row.identity} ({namespace}) belongs to {known.author or 'no author'}, and will"
                " belong to the person you name; no object, export or namespace is deleted"
            )
            kept = (
                "Its present kubeconfig stays valid for all who have it:"
                f" `fairlead provider rotate {namespace}` ends that."
            )
            return Preview(text, f"{command} --to ISSUER/SUB", (kept,))
        case "revoke":
            spaces = directory.provider_namespaces(namespace)
            inventory = Inventory(
                row.identity, namespace, len(row.exports), len(spaces), row.objects
            )
            begun = "Its revocation has begun: revoke it again to continue."
            return Preview(
                inventory.text(keep_data=False),
                command,
                (
                    *((begun,) if row.deleting else ()),
                    *(f"{problem}." for problem in row.not_counted.values()),
                ),
                tuple(directory.copies(namespace).items()),
                tuple(spaces),
                tuple(row.exports),
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
