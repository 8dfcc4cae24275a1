"""What the pipeline asks of the cluster, and the answers it was given.

Handlers are plain functions, so they cannot wait. A context reads from a :class:`Snapshot`; a read
that has no answer yet raises :class:`Need`, which leaves the pipeline. The controller answers it
and runs the pipeline again from the start, on a fresh context. Since handlers write nothing but
their context, running them again is free of effects. What a snapshot was asked in the last run
is exactly what the binding depends on, and so what the controller watches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar, cast

import msgspec

from fairlead.api.meta import JSON, Object, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelMatcher, LabelSelector


T = TypeVar("T")


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


class Need(Exception):  # noqa: N818 (a request, not an error)
    """The pipeline cannot go on without these reads, which do not depend on one another.

    Without any it only gives way: others are to work before it goes on.
    """

    def __init__(self, *reads: Read) -> None:
        super().__init__(*reads)
        self.reads = reads


class Snapshot:
    """Answers by their reads; ``asked`` is what was asked since the last :meth:`restart`."""

    def __init__(self) -> None:
        self._answers: dict[Read, Answer] = {}
        self._notes: dict[Hashable, object] = {}
        self.asked: dict[Read, None] = {}

    def restart(self) -> None:
        """Forget what was asked, not what was answered."""
        self.asked = {}

    def put(self, read: Read, answer: Answer) -> None:
        """Answer a read."""
        self._answers[read] = answer
        self._notes.pop(("body", read), None)

    def known(self, read: Read) -> Answer | None:
        """What was answered already, without asking."""
        return self._answers.get(read)

    def get(self, read: Get) -> Object:
        """One object.

        Raises:
            Need: nobody answered it yet.
            ReadError: it is missing, or must not or cannot be read.
        """
        answer = self._answer(read)
        assert isinstance(answer, Object)  # noqa: S101 (a Get is answered by an object)
        return answer

    def body(self, read: Get) -> JSON:
        """The body of one object, decoded once; whoever changes it makes a copy.

        Raises:
            Need: nobody answered it yet.
            ReadError: it is missing, or must not or cannot be read.
        """
        return self.noted(("body", read), self.get(read).to_dict)

    def noted(self, name: Hashable, make: Callable[[], T]) -> T:
        """What was worked out from answers, which stay the same as long as the snapshot does."""
        if name not in self._notes:
            self._notes[name] = make()
        return cast("T", self._notes[name])

    def list(self, read: ListAll | Marked) -> tuple[Object, ...]:
        """All objects; raises as :meth:`get` does."""
        answer = self._answer(read)
        assert isinstance(answer, tuple)  # noqa: S101 (lists are answered by tuples)
        return answer

    def lookup(self, read: Lookup) -> Resource:
        """The resource of a kind; raises as :meth:`get` does."""
        answer = self._answer(read)
        assert isinstance(answer, Resource)  # noqa: S101 (a Lookup is answered by a resource)
        return answer

    def review(self, read: Review) -> bool:
        """Whether the user may do it; raises as :meth:`get` does."""
        return self._answer(read) is True

    def want(self, reads: Iterable[Read]) -> None:
        """Have several reads answered at once, before one after the other is looked at.

        Raises:
            Need: some have no answer yet.
        """
        missing = [read for read in reads if read not in self._answers]
        if missing:
            raise Need(*missing)

    @property
    def unclear(self) -> bool:
        """Whether something that was asked has no answer yet, of a server that does not work."""
        answers = (self._answers.get(read) for read in self.asked)
        return any(isinstance(one, Failure) and one.code == "Error" for one in answers)

    def _answer(self, read: Read) -> Answer:
        self.asked[read] = None
        # Noted as asked although it fails: a watch has to tell when the answer changes.
        if read not in self._answers:
            raise Need(read)
        answer = self._answers[read]
        if isinstance(answer, Failure):
            raise ReadError(answer)
        return answer
