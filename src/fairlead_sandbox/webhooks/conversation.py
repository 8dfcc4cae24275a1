"""Asking the webhooks about one write, in kube-apiserver's order.

Mutating webhooks are asked one after another, each about the object as the one before left it.
With ``reinvocationPolicy: IfNeeded`` a webhook is asked a second time if a later one has changed
the object. Validating webhooks are asked all at once about the object to be stored.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.patches import PatchError, json_patch
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.store import ObjectStore
from fairlead_sandbox.webhooks import reviews
from fairlead_sandbox.webhooks.hooks import Hook, Hooks, Phase
from fairlead_sandbox.webhooks.matching import Matcher, ReviewedWrite
from fairlead_sandbox.webhooks.reviews import Question, WebhookAnswer


class Unanswered(Exception):  # noqa: N818 - asks for answers, is no error
    """Ends an attempt of a write, because webhooks have to answer these questions first."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(f"{len(questions)} admission reviews wait for an answer")
        self.questions = questions


class Conversation(msgspec.Struct):
    """One request as its webhooks see it, and their answers so far."""

    user: JSON
    """The request's user as ``userInfo``."""
    dry_run: bool = False
    manager: str = ""
    """Field manager in the request's query."""
    # Mutable defaults are safe here: msgspec copies empty ones for each struct.
    answers: dict[str, WebhookAnswer] = {}
    stamp: dict[str, str] = {}
    """Generated metadata that must stay the same in the next attempt."""
    warnings: list[str] = []
    unnamed: bool = False
    """Whether the request names no object, as a deletecollection does."""

    def learn(self, question: Question, answer: WebhookAnswer) -> None:
        """Keep an answer for the next attempt."""
        self.answers[question.id] = answer
        self.warnings += [text for text in answer.warnings if text not in self.warnings]

    def another(self) -> Conversation:
        """Return a new conversation about one object of a collection that is being deleted."""
        # One list of warnings for all objects: there is one answer to a deletecollection.
        return Conversation(
            self.user, self.dry_run, self.manager, warnings=self.warnings, unnamed=True
        )

    def settle(self, meta: JSON) -> None:
        """Set uid, creation time and name of a new object to those of its first attempt."""
        for name in ("uid", "creationTimestamp", "name"):
            meta[name] = self.stamp.setdefault(name, meta.get(name, ""))


class Webhooks:
    """The webhooks of one control plane, asked about one write at a time."""

    def __init__(self, store: ObjectStore, registry: ResourceRegistry) -> None:
        self._hooks = Hooks(store)
        self._matcher = Matcher(store, registry)

    @property
    def any(self) -> bool:
        """Whether a webhook configuration exists."""
        return self._hooks.any

    def mutated(self, conversation: Conversation, write: ReviewedWrite) -> JSON | None:
        """Return the object as changed by mutating webhooks; None if they change nothing.

        Raises:
            StatusError: a webhook refuses, or could not be called and has failurePolicy Fail.
            Unanswered: a webhook has to be asked first.
        """
        hooks = self._hooks.of("mutating")
        if not hooks:
            return None
        completed = replace(write, body=_completed(write.type, write.body))
        first = completed.body
        again: set[str] = set()
        invoked: set[str] = set()
        # kube-apiserver asks a webhook again at most once, also if the second round changes the
        # object.
        for is_first in (True, False):
            for hook in hooks:
                if not (is_first or hook.id in again):
                    continue
                body = self._ask_to_change(conversation, hook, completed)
                if body is None:
                    continue
                # The webhooks asked before this change have not seen it and are asked again; the
                # later ones see it in their first turn.
                if body != completed.body:
                    again |= invoked
                    invoked.clear()
                    completed = replace(completed, body=body)
                if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                    invoked.add(hook.id)
        return None if completed.body == first else completed.body

    def _ask_to_change(
        self, conversation: Conversation, hook: Hook, write: ReviewedWrite
    ) -> JSON | None:
        """Return the object after one webhook; None if it does not apply or failed open."""
        resource_type = self._matcher.match(hook, write)
        if resource_type is None:
            return None
        question = _question(conversation, hook, resource_type, write)
        answer = conversation.answers.get(question.id)
        if answer is None:
            raise Unanswered([question])
        if not _is_allowed(hook, answer):
            return None
        return _patched(hook, resource_type, write, answer)

    def validate(self, conversation: Conversation, write: ReviewedWrite) -> None:
        """Ask the validating webhooks about the object that would be stored.

        Raises:
            StatusError: a webhook refuses, or could not be called and has failurePolicy Fail.
            Unanswered: some webhooks have to be asked first.
        """
        concerned = list(self._concerned(conversation, "validating", write))
        waiting = [
            question for _, question in concerned if question.id not in conversation.answers
        ]
        if waiting:
            raise Unanswered(waiting)
        for hook, question in concerned:
            _is_allowed(hook, conversation.answers[question.id])

    def _concerned(
        self, conversation: Conversation, phase: Phase, write: ReviewedWrite
    ) -> list[tuple[Hook, Question]]:
        concerned = []
        for hook in self._hooks.of(phase):
            resource_type = self._matcher.match(hook, write)
            if resource_type is not None:
                concerned.append((hook, _question(conversation, hook, resource_type, write)))
        return concerned


def _completed(type_: ResourceType, body: JSON | None) -> JSON | None:
    """Return a copy of the body with its defaults, as kube-apiserver's decoder sets them."""
    if body is None:
        return None
    body = copy.deepcopy(body)
    type_.strategy.default(body)
    return body


_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
"""Kinds of the ``options`` in a review."""


def _question(
    conversation: Conversation, hook: Hook, resource_type: ResourceType, write: ReviewedWrite
) -> Question:
    # Kubernetes refuses such a dry run: without the webhook its result would say nothing, and with
    # it the dry run would change something.
    if conversation.dry_run and hook.has_side_effects:
        raise reviews.no_dry_run(hook.name)
    options = reviews.options(
        _OPTIONS[write.verb],
        dry_run=conversation.dry_run,
        # DeleteOptions has no fieldManager.
        manager="" if write.verb == "DELETE" else conversation.manager,
    )
    return reviews.question(
        hook,
        resource_type,
        write,
        conversation.user,
        dry_run=conversation.dry_run,
        options=options,
    )


def _is_allowed(hook: Hook, answer: WebhookAnswer) -> bool:
    """Whether the webhook allows the write; False if it could not be called, with policy Ignore.

    Raises:
        StatusError: the webhook refuses, or could not be called and has failurePolicy Fail.
    """
    if answer.failure:
        if hook.fails_open:
            return False
        raise reviews.failed(hook.name, answer.failure)
    if not answer.allowed:
        raise reviews.denial(hook.name, answer.status)
    return True


def _patched(
    hook: Hook, resource_type: ResourceType, write: ReviewedWrite, answer: WebhookAnswer
) -> JSON | None:
    try:
        operations = reviews.patch_of(answer)
    except ValueError as error:
        reason = f"received undecodable patch in webhook response: {error}"
        return _failed(hook, write, reason)
    if operations in ([], None):
        return write.body
    if write.body is None:
        raise reviews.internal(
            f'admission webhook "{hook.name}" attempted to modify the object, which is not '
            "supported for this operation"
        )
    try:
        # The patch is for the version that the webhook was asked in.
        body = json_patch(reviews.converted(write.body, write.type, resource_type), operations)
    except PatchError as error:
        if error.code == 400:
            reason = f"received undecodable patch in webhook response: {error.message}"
            return _failed(hook, write, reason)
        raise reviews.internal(error.detail or error.message) from None
    wrong = resource_type.misfit(body)
    if wrong or not isinstance(body.get("metadata"), dict):
        raise reviews.internal(wrong or "metadata is no object")
    return _completed(write.type, reviews.converted(body, resource_type, write.type))


def _failed(hook: Hook, write: ReviewedWrite, reason: str) -> JSON | None:
    if hook.fails_open:
        return write.body
    raise reviews.failed(hook.name, reason)
