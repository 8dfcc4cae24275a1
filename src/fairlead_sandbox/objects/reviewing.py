"""Where a write meets the admission webhooks, for those who have a request behind them."""

from __future__ import annotations

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.objects.core import Core
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.webhooks.conversation import Conversation
from fairlead_sandbox.webhooks.matching import ReviewedWrite, Verb


class Review:
    """One write as webhooks see it; without a conversation no webhook is asked."""

    def __init__(
        self,
        core: Core,
        type_: ResourceType,
        old: Record | None,
        conversation: Conversation | None,
        subresource: str = "",
    ) -> None:
        self._core = core
        self._type = type_
        self._old = type_.to_dict(old) if old is not None and conversation is not None else None
        self._conversation = conversation
        self._subresource = subresource

    def mutated(self, key: Key, body: JSON) -> JSON | None:
        """The body as the mutating webhooks want it; None when they leave it as it is.

        Raises:
            StatusError: refused.
            Unanswered: a webhook has yet to be asked.
        """
        if self._conversation is None:
            return None
        return self._core.webhooks.mutated(self._conversation, self._attributes(key, body))

    def validate(self, key: Key, body: JSON) -> None:
        """Ask the validating webhooks about what would be stored.

        Raises:
            StatusError: refused.
            Unanswered: some webhooks have yet to be asked.
        """
        if self._conversation is not None:
            self._core.webhooks.validate(self._conversation, self._attributes(key, body))

    def delete(self, key: Key) -> None:
        """Ask all webhooks about a delete.

        Raises:
            StatusError: refused.
            Unanswered: some webhooks have yet to be asked.
        """
        if self._conversation is None:
            return
        # A request that deletes a collection names no object, and its reviews name none either.
        if self._conversation.unnamed:
            key = Key(key.namespace, "")
        write = ReviewedWrite("DELETE", self._type, key, self._subresource, None, self._old)
        self._core.webhooks.mutated(self._conversation, write)
        self._core.webhooks.validate(self._conversation, write)

    def _attributes(self, key: Key, body: JSON) -> ReviewedWrite:
        verb: Verb = "CREATE" if self._old is None else "UPDATE"
        return ReviewedWrite(verb, self._type, key, self._subresource, body, self._old)
