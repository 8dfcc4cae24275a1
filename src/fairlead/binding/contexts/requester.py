"""The author of a binding, and what they may do, by the annotation that admission writes."""

from __future__ import annotations

import json

from fairlead.api.meta import ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.binding.reads import ReadError, ReadFailure, RightsReview, Snapshot


MOST_REQUESTER_BYTES = 16 * 1024
"""Bytes of the annotation of a requester, with all groups; each question names them."""
_NO_USER = (
    "the controllers were made to change the binding's spec, so no user has requested its present"
    " content; look at it, and edit it"
)


class Requester:
    """The user who edited a binding last, where that is known.

    Without one all is allowed. A user without a name, which the annotation has where the
    controllers themselves were made to change the spec, may do nothing.
    """

    def __init__(self, snapshot: Snapshot, binding: ObjectMeta) -> None:
        self._snapshot = snapshot
        self._author = _author(binding.annotations.get(REQUESTER_ANNOTATION, ""))
        # A user with the right to delete a binding needs none of its author's rights.
        self._asked = None if binding.deleting else self._author

    @property
    def is_known(self) -> bool:
        """Whether rights are looked at in this pass."""
        return self._asked is not None

    def question(
        self, verb: str, resource: Resource, namespace: str, name: str
    ) -> RightsReview | None:
        """Return the review of a right, None where nothing has to be asked."""
        if self._asked is None or not self._asked[0]:
            return None
        return _review(self._asked, verb, resource, namespace, name)

    def question_of(self, verb: str, resource: Resource, meta: ObjectMeta) -> RightsReview | None:
        """Return the review of a right on an object, None where nothing has to be asked."""
        return self.question(verb, resource, meta.namespace, meta.name)

    async def check(
        self, verb: str, resource: Resource, namespace: str, name: str, refusal: str
    ) -> None:
        """Check a right; ``refusal`` says what cannot be done without it.

        Raises:
            ReadError: the author may not, or the right cannot be looked at.
        """
        if self._asked is None:
            return
        if not self._asked[0]:
            raise ReadError(ReadFailure("Denied", f"{refusal}: {_NO_USER}"))
        if not await self._snapshot.review(_review(self._asked, verb, resource, namespace, name)):
            raise ReadError(ReadFailure("Denied", refusal))

    async def may_update(self, resource: Resource, meta: ObjectMeta) -> bool:
        """Whether the author may update an object, also when the binding goes."""
        if self._author is None:
            return True
        question = _review(self._author, "update", resource, meta.namespace, meta.name)
        return bool(self._author[0]) and await self._snapshot.review(question)


def _review(
    author: tuple[str, tuple[str, ...]], verb: str, resource: Resource, namespace: str, name: str
) -> RightsReview:
    # A right in one namespace is none on what is in no namespace.
    namespace = namespace if resource.namespaced else ""
    return RightsReview(*author, verb, resource, namespace, name)


def _author(annotation: str) -> tuple[str, tuple[str, ...]] | None:
    """Return user and groups of the annotation; None, which allows all, when it says nothing.

    The user has no name, and may do nothing, where the annotation is larger than a requester can
    be.
    """
    if len(annotation) > MOST_REQUESTER_BYTES:
        return "", ()
    try:
        info = json.loads(annotation)
        return str(info["username"]), tuple(str(group) for group in info.get("groups") or ())
    except (ValueError, KeyError, TypeError):
        return None
