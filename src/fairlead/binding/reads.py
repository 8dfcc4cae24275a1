"""Reads of one pass over a binding, and their answers.

A context reads from a :class:`Snapshot`, which asks a :class:`Responder` once for each read, and
keeps the answers until the pass ends. What a snapshot was asked is what the binding depends on,
and so what the controller watches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal, Protocol, TypeAlias

import msgspec

from fairlead.api.meta import JSON, Object, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelMatcher, LabelSelector


MOST_READS = 1000
"""Questions of one pass, one after the other: more than hundreds of services need."""


class Get(msgspec.Struct, frozen=True):
    """One object; ``spec_only`` when its status is of no interest."""

    resource: Resource
    namespace: str
    name: str
    spec_only: bool = False


class ListAll(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """All objects of a resource in a namespace that ``labels`` match: without terms, every one."""

    resource: Resource
    namespace: str
    spec_only: bool = False
    labels: LabelSelector = LabelSelector()

    @cached_property
    def matcher(self) -> LabelMatcher:
        """``labels`` for many objects: each change of one is compared with them."""
        return LabelMatcher(self.labels)


class Marked(msgspec.Struct, frozen=True):
    """The objects of a resource in a namespace with a certain annotation, or with a certain owner.

    The answer may be of metadata alone, and be a moment old. What is ``optional`` is not looked at
    time and again while it must not be watched.
    """

    resource: Resource
    namespace: str
    annotation: str = ""
    owner: str = ""
    optional: bool = False
    spec_only: bool = True

    def matches(self, meta: ObjectMeta) -> bool:
        """Whether an object is one of them, wherever it is."""
        return (bool(self.annotation) and self.annotation in meta.annotations) or (
            bool(self.owner) and meta.owned_by(self.owner)
        )


class Lookup(msgspec.Struct, frozen=True, omit_defaults=True):
    """The resource of a kind, or of a plural when that is given."""

    group: str
    version: str
    kind: str = ""
    plural: str = ""


class Review(msgspec.Struct, frozen=True):
    """Whether a user may do this (SubjectAccessReview)."""

    user: str
    groups: tuple[str, ...]
    verb: str
    resource: Resource
    namespace: str
    name: str


FailureCode = Literal[
    "NotFound", "Forbidden", "NoMatch", "Invalid", "Denied", "Ineligible", "Error"
]


class Failure(msgspec.Struct, frozen=True):
    """Why a read has no result; ``Error`` may pass by itself, the others are answers.

    ``Ineligible`` is what no binding may have as its workload.
    """

    code: FailureCode
    message: str


class ReadError(Exception):
    """A read failed; the text is fit for a condition."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    @property
    def missing(self) -> bool:
        """Whether what was read is not there, or its kind is not, so that a watch tells of it."""
        return self.failure.code in {"NotFound", "NoMatch"}

    @property
    def transient(self) -> bool:
        """Whether the answer may change without a change of any object that is watched."""
        return self.failure.code in {"Error", "Forbidden", "Denied"}


Read: TypeAlias = Get | ListAll | Marked | Lookup | Review
Answer: TypeAlias = Object | tuple[Object, ...] | Resource | bool | Failure


class Responder(Protocol):
    """Answers the reads of one pass."""

    async def answers(self, reads: Sequence[Read]) -> Sequence[Answer]:
        """Answer reads that do not depend on one another, in their order.

        What it raises ends the pass.
        """

    async def give_way(self) -> None:
        """Let other passes work before this one goes on."""


class PassEnded(RuntimeError):  # noqa: N818 (an end, which no handler may take for its own error)
    """The pass cannot go on, whatever its handlers do."""


class TooManyReadsError(PassEnded):
    """A pass does not come to its end; the text names the limit and the remedy."""

    def __init__(self) -> None:
        super().__init__(
            f"the binding asks for more than {MOST_READS} reads, one after the other: have it "
            "name fewer services, or these fewer Secrets, or divide it into several bindings"
        )


class Unanswered(PassEnded):
    """The responder has failed; ``error`` is how."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Snapshot:
    """The answers of a responder to the reads of one pass; ``asked`` is what was asked."""

    def __init__(self, responder: Responder) -> None:
        self.asked: dict[Read, None] = {}
        self._responder = responder
        self._answers: dict[Read, Answer] = {}
        self._bodies: dict[Get, JSON] = {}
        self._questions = 0
        self._finished = False

    def put(self, read: Read, answer: Answer) -> None:
        """Answer a read."""
        self._answers[read] = answer

    def known(self, read: Read) -> Answer | None:
        """What was answered already, without asking."""
        return self._answers.get(read)

    async def get(self, read: Get) -> Object:
        """Read one object.

        Raises:
            ReadError: it is missing, or must not or cannot be read.
            PassEnded: the responder has failed, or the pass asks for too much.
        """
        answer = await self._answer(read)
        assert isinstance(answer, Object)  # noqa: S101 (a Get is answered by an object)
        return answer

    async def body(self, read: Get) -> JSON:
        """Read the body of one object, decoded once; raises as :meth:`get` does.

        A caller that changes it makes a copy.
        """
        found = await self.get(read)
        if read not in self._bodies:
            self._bodies[read] = found.to_dict()
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

    async def review(self, read: Review) -> bool:
        """Ask whether the user may do it; raises as :meth:`get` does."""
        return await self._answer(read) is True

    def finish(self) -> None:
        """Ask no more: from now on what has no answer is taken for what cannot be read."""
        self._finished = True

    async def want(self, reads: Iterable[Read]) -> None:
        """Have several reads answered at once, before one after the other is looked at.

        Raises:
            PassEnded: the responder has failed, or the pass asks for too much.
        """
        missing = [read for read in dict.fromkeys(reads) if read not in self._answers]
        if not missing or self._finished:
            return
        self._questions += 1
        if self._questions > MOST_READS:
            raise TooManyReadsError
        try:
            answers = await self._responder.answers(missing)
        except Exception as error:
            raise Unanswered(error) from error
        for read, answer in zip(missing, answers, strict=True):
            self.put(read, answer)

    async def give_way(self) -> None:
        """Let other passes work before this one goes on."""
        await self._responder.give_way()

    @property
    def unclear(self) -> bool:
        """Whether something that was asked has no answer yet, of a server that does not work."""
        answers = (self._answers.get(read) for read in self.asked)
        return any(isinstance(one, Failure) and one.code == "Error" for one in answers)

    async def _answer(self, read: Read) -> Answer:
        if self._finished and read not in self._answers:
            raise ReadError(Failure("Error", "it was not read in this pass"))
        # Noted as asked although it fails: a watch has to tell when the answer changes.
        self.asked[read] = None
        await self.want([read])
        answer = self._answers[read]
        if isinstance(answer, Failure):
            raise ReadError(answer)
        return answer
