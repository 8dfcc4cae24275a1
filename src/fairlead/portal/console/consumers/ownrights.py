"""Actions on consumers with the rights of the client's user, by the commands' code."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final, assert_never

import structlog

from fairlead.api.kubebind import BINDER_NAME
from fairlead.api.meta import JSON, Object
from fairlead.api.reasons.model import State
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    NAMESPACES,
    ROLEBINDINGS,
    SECRETS,
    SELFSUBJECTACCESSREVIEWS,
    SERVICEACCOUNTS,
)
from fairlead.api.timestamps import now
from fairlead.client import Client, ClientError, NotFound
from fairlead.portal.console.consumers.access import ADMINISTERS
from fairlead.portal.console.consumers.actions import (
    ACTIONS,
    Action,
    ActionProgress,
    ActionWish,
    ConsumerToken,
    UndoneError,
)
from fairlead.portal.console.consumers.directory import TOPIC
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.handshake.reviews import AccessReviews
from fairlead.portal.handshake.reviews import ReviewedAction as Review
from fairlead.portal.identity.people import Prefixes
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.provider.commands.handover import hand_over
from fairlead.provider.commands.revoke.work import RevokeError, revoke
from fairlead.provider.commands.rotation.work import RotateError, rotate
from fairlead.provider.credentials import stored_kubeconfig
from fairlead.provider.identity import InviteError
from fairlead.provider.namespaces import identity_of
from fairlead.provider.options import InviteOptions
from fairlead.provider.tokens import token_secrets


BELIEVED_SECONDS = 5.0
"""Lifetime of the user's cached rights, in seconds."""
SECONDS = 600.0
"""Longest wait of a rotation or a revocation, in seconds, as for the commands."""
_LINES = 200
"""Largest number of an action's last lines that are kept."""
_KEPT = 100
"""Largest number of finished actions whose result is kept, one per consumer."""
_FAILED = (ClientError, InviteError, RevokeError, RotateError, UndoneError)
_log = structlog.get_logger(logger_name="fairlead.portal.console")


class _Work:
    """A running or finished action."""

    def __init__(self, session: BrowserSession, action: Action, consumer: Object) -> None:
        self.session = session.key
        self.action: Action = action
        self.consumer = consumer
        self.begun = now()
        self.lines: deque[str] = deque(maxlen=_LINES)
        self.state: State = "waiting"
        self.told = ""
        self.delivers = False
        self.task: asyncio.Task[None] | None = None


class OwnRights:
    """Runs actions in the background as the client's user, one per consumer at a time.

    Args:
        client: the client with the user's rights.
        hub: wakes the pages of progress.
        seconds: longest wait of a revocation for deletions, in seconds.
        patience: longest wait of a rotation for the konnector, in seconds.
        believed: how long the user's rights are cached, in seconds.
    """

    name = "actions on consumers"

    def __init__(
        self,
        client: Client,
        hub: Hub,
        *,
        seconds: float = SECONDS,
        patience: float = SECONDS,
        believed: float = BELIEVED_SECONDS,
    ) -> None:
        self._client = client
        self._hub = hub
        self._seconds = seconds
        self._patience = patience
        self._believed = believed
        self._works: OrderedDict[str, _Work] = OrderedDict()
        self._known: dict[str, tuple[float, frozenset[Action]]] = {}

    async def run(self) -> None:
        """Wait until canceled, and cancel running actions then."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = [one.task for one in self._works.values() if one.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def may(self, session: BrowserSession, namespace: str) -> frozenset[Action]:
        """See :class:`Actions`.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        known = self._known.get(namespace)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        # From before the reviews: a right may be revoked during them.
        begun = time.monotonic()
        found: set[Action] = set()
        for action in ACTIONS:
            answers = await asyncio.gather(*map(self._allowed, _needed(action, namespace)))
            if all(answers):
                found.add(action)
        if len(self._known) > _KEPT:
            self._known.clear()
        self._known[namespace] = begun + self._believed, frozenset(found)
        return frozenset(found)

    async def tokens(self, namespace: str) -> Sequence[ConsumerToken] | None:
        """See :class:`Actions`.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        if not await self._allowed(Review.on(SECRETS, "list", namespace)):
            return None
        found = token_secrets((await self._client.list(SECRETS, namespace)).items)
        return [ConsumerToken(one.name, one.secret.meta.creation_timestamp or "") for one in found]

    def progress(self, namespace: str) -> ActionProgress | None:
        """See :class:`Actions`."""
        work = self._works.get(namespace)
        if work is None:
            return None
        return ActionProgress(
            work.action, work.state, work.begun, tuple(work.lines), work.told, work.delivers
        )

    def begin(
        self, session: BrowserSession, action: Action, consumer: Object, wish: ActionWish
    ) -> None:
        """See :class:`Actions`.

        Raises:
            UndoneError: another action on this consumer is running.
        """
        name = consumer.meta.name
        known = self._works.get(name)
        if known is not None and not known.told:
            raise UndoneError(
                f"{known.action} of {identity_of(consumer)} is running: wait until it has ended"
            )
        work = _Work(session, action, consumer)
        self._works[name] = work
        self._works.move_to_end(name)
        for old in [one for one, other in self._works.items() if other.told][:-_KEPT]:
            del self._works[old]
        work.task = asyncio.create_task(self._do(work, wish), name=f"{action} {name}")

    async def deliver(self, session: BrowserSession, namespace: str) -> bytes:
        """See :class:`Actions`.

        Raises:
            UndoneError: there is none for this session, or it was already delivered.
            ClientError: the API server refused or is unavailable.
        """
        work = self._works.get(namespace)
        if work is None or not work.delivers or work.session != session.key:
            raise UndoneError(
                "there is no kubeconfig to download: only the session that rotated gets it, once"
            )
        # Cleared before the await, so that of two concurrent requests only one gets it.
        work.delivers = False
        self._hub.changed(namespace)
        stored = await stored_kubeconfig(self._client, namespace)
        if stored.config is None:
            raise UndoneError(f"{namespace} no longer has a kubeconfig: invite it again")
        return stored.content

    async def _do(self, work: _Work, wish: ActionWish) -> None:
        def say(line: str) -> None:
            work.lines.append(line)
            self._hub.changed(work.consumer.meta.name)

        state: State = "failed"
        told = "it was interrupted: start it again to continue"
        try:
            told = await self._act(work, wish, say)
            state = "ok"
        except _FAILED as error:
            told = str(error)
        except Exception:  # noqa: BLE001  the page tells that it has ended
            _log.exception(
                "an action has failed", action=work.action, what=work.consumer.meta.name
            )
            told = "it has failed for a reason that is in the log; start it again to continue"
        finally:
            work.state, work.told = state, told
            work.delivers = state == "ok" and work.action == "rotate"
            self._hub.changed(work.consumer.meta.name, TOPIC)

    async def _act(self, work: _Work, wish: ActionWish, say: Callable[[str], None]) -> str:
        """Run the action, and return a sentence with the result."""
        name, identity = work.consumer.meta.name, identity_of(work.consumer)
        try:
            consumer = await self._client.get(NAMESPACES, name)
        except NotFound:
            raise UndoneError(f"{identity} no longer exists") from None
        # The namespace may have been deleted and created again since the form was shown.
        if consumer.meta.uid != work.consumer.meta.uid or not identity_of(consumer):
            raise UndoneError(f"{name} is another consumer's by now: load the page again")
        match work.action:
            case "rotate":
                await rotate(
                    self._client,
                    consumer,
                    options=InviteOptions(),
                    timeout=self._patience,
                    finish=wish.finish,
                    progress=say,
                )
                return f"{identity} has a new token"
            case "hand-over":
                former = await hand_over(self._client, consumer, wish.to)
                return f"{identity} belongs to {wish.to} now, before to {former or 'no one'}"
            case "revoke":
                await revoke(
                    self._client,
                    consumer,
                    keep_data=wish.keep_data,
                    force=wish.force,
                    timeout=self._seconds,
                    progress=say,
                )
                return f"{identity} is revoked"
            case _ as never:
                assert_never(never)

    async def _allowed(self, review: Review) -> bool:
        return await allowed(self._client, review)


class OwnAccess:
    """Checks the rights of the client's user, regardless of the session."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._logins = AccessReviews(client, Prefixes(), believed=BELIEVED_SECONDS)
        self._known = (0.0, False)

    async def administers(self, session: BrowserSession) -> bool:
        """See :class:`Access`.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        begun = time.monotonic()
        if self._known[0] <= begun:
            self._known = begun + BELIEVED_SECONDS, await allowed(self._client, ADMINISTERS)
        return self._known[1]

    async def login_may(self, namespace: str, action: Review) -> bool:
        """See :class:`Access`.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        return await self._logins.allows_account(namespace, BINDER_NAME, action)


async def allowed(client: Client, review: Review) -> bool:
    """Whether the client's user may do the action.

    Raises:
        ClientError: the API server refused or is unavailable.
    """
    attributes = {key: value for key, value in review._asdict().items() if value}
    body: JSON = {
        "apiVersion": SELFSUBJECTACCESSREVIEWS.api_version,
        "kind": SELFSUBJECTACCESSREVIEWS.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(SELFSUBJECTACCESSREVIEWS, body)
    return bool(answer.to_dict().get("status", {}).get("allowed"))


def _needed(action: Action, namespace: str) -> Sequence[Review]:
    """Return the rights that an action needs, as far as they are known before it."""
    secrets: Final = [Review.on(SECRETS, verb, namespace) for verb in ("list", "delete")]
    match action:
        case "rotate":
            return [
                *secrets,
                *(Review.on(SECRETS, one, namespace) for one in ("create", "update")),
            ]
        case "hand-over":
            return [Review.on(NAMESPACES, "update", name=namespace)]
        case "revoke":
            return [
                *secrets,
                Review.on(SERVICEACCOUNTS, "delete", namespace),
                *(Review.on(one, "list") for one in (ROLEBINDINGS, CLUSTERROLEBINDINGS)),
                *(Review.on(one, "delete") for one in (ROLEBINDINGS, CLUSTERROLEBINDINGS)),
                Review.on(NAMESPACES, "delete", name=namespace),
            ]
        case _ as never:
            assert_never(never)
