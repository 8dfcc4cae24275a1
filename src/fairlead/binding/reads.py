"""Reads of one pass over a binding, and their answers.

A context reads from a :class:`Snapshot`, which asks a :class:`Responder` once for each read and
keeps the answers until the end of the pass. The reads of a snapshot are the binding's
dependencies, which the controller watches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

import msgspec

from fairlead.api.meta import JSON, Object, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelMatcher, LabelSelector
from fairlead.binding import bounds


class Get(msgspec.Struct, frozen=True):
    """A read of one object; ``spec_only`` if changes of its status do not matter."""

    resource: Resource
    namespace: str
    name: str
    spec_only: bool = False


class ListAll(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """A read of a namespace's objects that match ``labels``; without terms all match."""

    resource: Resource
    namespace: str
    spec_only: bool = False
    labels: LabelSelector = LabelSelector()

    @cached_property
    def matcher(self) -> LabelMatcher:
        """``labels``, compiled: each change of an object is compared with them."""
        return LabelMatcher(self.labels)


class Marked(msgspec.Struct, frozen=True):
    """A read of a namespace's objects with an annotation, or with an owner.

    The answer may have only metadata, and lag for a moment. An ``optional`` read is not repeated
    while its watch is forbidden.
    """

    resource: Resource
    namespace: str
    annotation: str = ""
    owner: str = ""
    optional: bool = False
    spec_only: bool = True

    def matches(self, meta: ObjectMeta) -> bool:
        """Whether the object has the annotation or the owner; the namespace is not compared."""
        return (bool(self.annotation) and self.annotation in meta.annotations) or (
            bool(self.owner) and meta.owned_by(self.owner)
        )


class Lookup(msgspec.Struct, frozen=True, omit_defaults=True):
    """A read of the resource of a kind, or of a plural if given."""

    group: str
    version: str
    kind: str = ""
    plural: str = ""


class RightsReview(msgspec.Struct, frozen=True):
    """A read of a user's right (SubjectAccessReview)."""

    user: str
    groups: tuple[str, ...]
    verb: str
    resource: Resource
    namespace: str
    name: str


FailureCode = Literal[
    "NotFound", "Forbidden", "NoMatch", "Invalid", "Denied", "Ineligible", "Error"
]


class ReadFailure(msgspec.Struct, frozen=True):
    """The reason why a read has no result; ``Error`` may be temporary, others are answers.

    ``Ineligible`` is for a kind that may not be a workload.
    """

    code: FailureCode
    message: str


class ReadError(Exception):
    """A read failed; the text fits into a condition."""

    def __init__(self, failure: ReadFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    @property
    def missing(self) -> bool:
        """Whether the object or its kind does not exist; a watch shows its creation."""
        return self.failure.code in {"NotFound", "NoMatch"}

    @property
    def transient(self) -> bool:
        """Whether the answer may change without a change of a watched object."""
        return self.failure.code in {"Error", "Forbidden", "Denied"}


Read: TypeAlias = Get | ListAll | Marked | Lookup | RightsReview
Answer: TypeAlias = Object | tuple[Object, ...] | Resource | bool | ReadFailure


class Responder(Protocol):
    """Answers the reads of one pass."""

    async def answers(self, reads: Sequence[Read]) -> Sequence[Answer]:
        """Answer independent reads, in order.

        An exception ends the pass.
        """

    async def give_way(self) -> None:
        """Let other passes work before this one continues."""


class PassEnded(RuntimeError):  # noqa: N818 (an end, which no handler may take for its own error)
    """The pass cannot continue."""


class TooManyReadsError(PassEnded):
    """A pass has too many reads; the text names the limit and the remedy."""

    def __init__(self) -> None:
        super().__init__(
            f"the binding needs more than {bounds.READS} reads, one after the other: name fewer"
            " services in it, or fewer Secrets in these services, or divide it into several"
            " bindings"
        )


class UnansweredRead(PassEnded):
    """The pass cannot continue because a read got no answer; ``error`` is the cause."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Snapshot:
    """The answers to the reads of one pass; ``reads`` has them in their order."""

    def __init__(self, responder: Responder) -> None:
        self.reads: dict[Read, None] = {}
        self._responder = responder
        self._answers: dict[Read, Answer] = {}
        self._bodies: dict[Get, JSON] = {}
        self._questions = 0
        self._finished = False

    def put(self, read: Read, answer: Answer) -> None:
        """Store the answer to a read."""
        self._answers[read] = answer

    def stored(self, read: Read) -> Answer | None:
        """Return the stored answer to a read, None without one."""
        return self._answers.get(read)

    async def get(self, read: Get) -> Object:
        """Read one object.

        Raises:
            ReadError: the object is missing, or its read is forbidden or failed.
            PassEnded: the responder failed, or the pass has too many reads.
        """
        answer = await self._answer(read)
        assert isinstance(answer, Object)  # noqa: S101 (a Get is answered by an object)
        return answer

    async def body(self, read: Get) -> JSON:
        """Read the body of one object, decoded once; raises as :meth:`get` does.

        Callers must copy it before changing it.
        """
        obj = await self.get(read)
        if read not in self._bodies:
            self._bodies[read] = obj.to_dict()
        return self._bodies[read]

    async def list(self, read: ListAll | Marked) -> tuple[Object, ...]:
        """Read all objects; raises as :meth:`get` does."""
        answer = await self._answer(read)
        assert isinstance(answer, tuple)  # noqa: S101 (lists are answered by tuples)
        return answer

    async def lookup(self, read: Lookup) -> Resource:
        """Read the resource of a kind; raises as :meth:`get` does."""
        answer = await self._answer(read)
        assert isinstance(answer, Resource)  # noqa: S101 (a Lookup is answered by a resource)
        return answer

    async def review(self, read: RightsReview) -> bool:
        """Ask whether the user has the right; raises as :meth:`get` does."""
        return await self._answer(read) is True

    def finish(self) -> None:
        """Send no further reads: reads without an answer fail from now on."""
        self._finished = True

    async def want(self, reads: Iterable[Read]) -> tuple[Answer | None, ...]:
        """Answer several reads with one request, before they are used one by one.

        Returns:
            The answers in order; after :meth:`finish` None for what was not read before.

        Raises:
            PassEnded: the responder failed, or the pass has too many reads.
        """
        wanted_reads = list(reads)
        missing = [read for read in dict.fromkeys(wanted_reads) if read not in self._answers]
        if missing and not self._finished:
            self._questions += 1
            if self._questions > bounds.READS:
                raise TooManyReadsError
            try:
                answers = await self._responder.answers(missing)
            except Exception as error:
                raise UnansweredRead(error) from error
            self._answers.update(zip(missing, answers, strict=True))
        return tuple(map(self._answers.get, wanted_reads))

    async def give_way(self) -> None:
        """Let other passes work before this one continues."""
        await self._responder.give_way()

    @property
    def unclear(self) -> bool:
        """Whether any read failed with ``Error``, so that its answer is unknown."""
        answers = (self._answers.get(read) for read in self.reads)
        return any(isinstance(one, ReadFailure) and one.code == "Error" for one in answers)

    async def _answer(self, read: Read) -> Answer:
        is_answered = read in self._answers
        if self._finished and not is_answered:
            raise ReadError(ReadFailure("Error", "it was not read in this pass"))
        # Recorded even if it fails: a watch has to show when the answer changes.
        self.reads[read] = None
        if not is_answered:
            await self.want([read])
        answer = self._answers[read]
        if isinstance(answer, ReadFailure):
            raise ReadError(answer)
        return answer
