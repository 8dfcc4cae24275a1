"""Calls of the admission webhooks at the right steps of a write."""

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
        """Return the body as changed by mutating webhooks; None if they change nothing.

        Raises:
            StatusError: a webhook refuses the write.
            Unanswered: a webhook has to be asked first.
        """
        if self._conversation is None:
            return None
        return self._core.webhooks.mutated(self._conversation, self._attributes(key, body))

    def validate(self, key: Key, body: JSON) -> None:
        """Ask the validating webhooks about the object that would be stored.

        Raises:
            StatusError: a webhook refuses the write.
            Unanswered: some webhooks have to be asked first.
        """
        if self._conversation is not None:
            self._core.webhooks.validate(self._conversation, self._attributes(key, body))

    def delete(self, key: Key) -> None:
        """Ask the mutating and validating webhooks about a delete.

        Raises:
            StatusError: a webhook refuses the delete.
            Unanswered: some webhooks have to be asked first.
        """
        if self._conversation is None:
            return
        # kube-apiserver sends the reviews of a deletecollection without the object's name.
        if self._conversation.unnamed:
            key = Key(key.namespace, "")
        write = ReviewedWrite("DELETE", self._type, key, self._subresource, None, self._old)
        self._core.webhooks.mutated(self._conversation, write)
        self._core.webhooks.validate(self._conversation, write)

    def _attributes(self, key: Key, body: JSON) -> ReviewedWrite:
        verb: Verb = "CREATE" if self._old is None else "UPDATE"
        return ReviewedWrite(verb, self._type, key, self._subresource, body, self._old)
