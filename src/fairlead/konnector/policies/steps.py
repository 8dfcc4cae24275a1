"""Both ends of one object, and the steps that bring them together.

An end is the object in one cluster: the consumer's object, or its copy on the provider.

The vocabulary between the policies, which choose a step, and the engine, which carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fairlead.api.meta import JSON, Key, Object
from fairlead.konnector.policies.merge import Owned


Side = Literal["consumer", "provider"]

FOREIGN_OBJECT: Final = "ForeignObjectExists"
OWNED_BY_ANOTHER: Final = "OwnedByAnother"
OWNER_UNKNOWN: Final = "OwnerUnknown"
NAME_TOO_LONG: Final = "NameTooLong"
NAMESPACE_REFUSED: Final = "NamespaceRefused"
COPY_HELD: Final = "CopyHeld"
"""The reason of a :class:`Refuse` that keeps the copy of another cluster's object."""
CONFLICTS: Final = frozenset(
    {FOREIGN_OBJECT, OWNED_BY_ANOTHER, OWNER_UNKNOWN, NAME_TOO_LONG, NAMESPACE_REFUSED}
)
"""The reasons of :class:`Refuse` that the binding's condition ``Conflicts`` counts."""
SYNC_FAILED: Final = "SyncFailed"
WRITE_UNDONE: Final = "WriteUndone"
COPY_DELETED: Final = "CopyDeleted"
"""Reasons of Events: a server refuses an object, or others undo its writes or delete its copy."""
DELETION: Final = "deletion of the provider's copy"
"""The reason of a :class:`Wait` for the end of a copy."""


class StepOutcome(NamedTuple):
    """Digests of the wanted and the stored content of one end after a write.

    A server may add defaults to the written object, or prune fields that its schema lacks.
    Comparing both ends would then find the same difference for ever. So the outcome of a write is
    remembered: while the outcome is the same, another write would change nothing.
    """

    desired: bytes
    stored: bytes


class Content(NamedTuple):
    """An immutable JSON value of one end, and its digest."""

    value: Any
    digest: bytes

    def outcome(self, current: Content) -> StepOutcome | None:
        """Return the outcome to remember if this was wanted; None if both are equal."""
        return None if self.digest == current.digest else StepOutcome(self.digest, current.digest)


def content(value: Any) -> Content:
    """Return a JSON value with its digest."""
    return Content(value, digest(value))


def outcome(desired: Any, current: Any) -> StepOutcome | None:
    """Return the outcome of two JSON values; None if they are equal."""
    return content(desired).outcome(content(current))


def digest(value: Any) -> bytes:
    """Return 16 bytes that identify a JSON value, in any order of members; None for missing."""
    encoded = msgspec.json.encode(value, order="deterministic")
    return blake2b(encoded, digest_size=16).digest()


class Pair(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Both ends of one object as one pass knows them, with what servers have said of them.

    ``key`` is the consumer's. ``target`` is the place of the provider's end, None while the
    provider has assigned no namespace. ``gone`` are the sides of which the server itself, not a
    cache, has said that the object does not exist. ``namespace_asked`` is True if there is an
    APIServiceNamespace for the consumer's namespace, ``namespace_refusal`` is why the provider
    assigns none ("" if it does not refuse), ``namespace_gone`` is True if the provider itself says
    that there is no APIServiceNamespace. ``owned`` are the fields of the copy that are ours, None
    while the provider was not asked, and ``wrote`` tells whether it says that a konnector has
    written the copy. ``read`` tells whether the consumer's object is the server's own answer, and
    not a cache's. ``created`` is the uid of a copy that was just created. ``outcomes`` are those
    of the last writes that differ from the wanted content.
    """

    key: Key
    consumer: Object | None = None
    provider: Object | None = None
    target: Key | None = None
    gone: frozenset[Side] = frozenset()
    namespace_asked: bool = True
    namespace_refusal: str = ""
    namespace_gone: bool = False
    owned: Owned | None = None
    wrote: bool = False
    read: bool = False
    created: str = ""
    outcomes: Mapping[Side, StepOutcome] = {}

    def at(self, side: Side) -> Object | None:
        """Return the end on this side."""
        return self.consumer if side == "consumer" else self.provider

    def place(self, side: Side) -> Key | None:
        """Return the place of the end on this side."""
        return self.key if side == "consumer" else self.target

    def converged(self, side: Side, now: StepOutcome | None) -> bool:
        """Whether the end on this side is the outcome of its last write, or equal anyway."""
        return now is None or self.outcomes.get(side) == now

    def compared(
        self,
        side: Side,
        desired: Callable[[Object], Any],
        current: Callable[[Object], Any],
        same: Callable[[Object, Object], bool] = lambda _consumer, _provider: False,
    ) -> StepOutcome | None:
        """Return the outcome for the end on this side; None if its content is the wanted one.

        Args:
            side: the side of the copy.
            desired: makes what is wanted of the original.
            current: makes what is there of the copy.
            same: whether both ends are equal byte by byte, which spares reading them.
        """
        consumer, provider = self.consumer, self.provider
        if consumer is None or provider is None:
            return None
        memo = self._memo
        # The outcome of a write is compared right after it, and again for the step that follows.
        if (side, None) not in memo:
            source: Side = "consumer" if side == "provider" else "provider"
            memo[side, None] = None
            if not same(consumer, provider):
                new, old = self.contents((source, desired), (side, current))
                memo[side, None] = new.outcome(old)
        came: StepOutcome | None = memo[side, None]
        return came

    def content(self, side: Side, of: Callable[[Object], Any]) -> Content:
        """Return the content that a function makes of the end on this side, computed once.

        Raises:
            ValueError: there is no object on this side.
        """
        (value,) = self.contents((side, of))
        return value

    def contents(self, *parts: tuple[Side, Callable[[Object], Any]]) -> list[Content]:
        """Return the contents that functions make of ends, each computed once for this pair.

        Raises:
            ValueError: there is no object on one of these sides.
        """
        memo, values = self._memo, {}
        for side, of in parts:
            if (side, of) not in memo:
                obj = self.consumer if side == "consumer" else self.provider
                if obj is None:
                    raise ValueError(f"nothing of {self.key} is on the {side}'s side")
                values[side, of] = of(obj)
        for part, value in values.items():
            memo[part] = Content(value, digest(value))
        return [memo[part] for part in parts]

    @property
    def _memo(self) -> dict[tuple[Side, object], Any]:
        # Beside the fields, and so no part of a comparison of two pairs. A key with None in place
        # of a function is an outcome, which depends on both ends.
        memo: dict[tuple[Side, object], Any] = self.__dict__.setdefault("memo", {})
        return memo

    def knowing(self, **more: Any) -> Pair:
        """Return the pair with more knowledge about the same two objects."""
        pair = msgspec.structs.replace(self, **more)
        pair.__dict__.update(self.__dict__)
        return pair

    def having(self, side: Side, obj: Object | None) -> Pair:
        """Return the pair with another object on this side; the other end is unchanged."""
        pair = msgspec.structs.replace(self, **{side: obj})
        memo = {name: one for name, one in self._memo.items() if name[0] != side and name[1]}
        pair.__dict__["memo"] = memo
        return pair

    def without(self, side: Side) -> Pair:
        """Return the pair without the end on this side, as the server itself has said."""
        return self.having(side, None).knowing(gone=self.gone | {side})


class Step(msgspec.Struct, frozen=True, tag=True):
    """The base of all steps."""


class Done(Step, frozen=True):
    """Do nothing: no step is left."""


class InSync(Done, frozen=True):
    """Do nothing: both ends exist and have the wanted content."""


class Wait(Step, frozen=True):
    """Wait for an event, or so many seconds at most."""

    reason: str
    seconds: float | None = None


class Refuse(Step, frozen=True):
    """Leave the object alone until a person acts."""

    reason: str
    message: str


class AskNamespace(Step, frozen=True):
    """Create the APIServiceNamespace."""


class ConfirmNamespace(Step, frozen=True):
    """Ask the provider whether the APIServiceNamespace is gone, and all objects with it."""


class Read(Step, frozen=True):
    """Read the object from the server of one side: whether it exists, and its field managers."""

    side: Side


class PatchMetadata(Step, frozen=True):
    """Merge members into the metadata of the seen object; a later version is left alone."""

    side: Side
    metadata: JSON


class Create(Step, frozen=True):
    """Create the object in the cluster of ``side``."""

    side: Side
    body: JSON


class Replace(Step, frozen=True):
    """Replace the object in the cluster of ``side``, without its status.

    ``body`` has the uid and the resourceVersion that were seen: no later version is overwritten.
    """

    side: Side
    body: JSON


class Apply(Step, frozen=True):
    """Apply the object in the cluster of ``side`` by server-side apply.

    Without ``force`` an object that is there, with fields of other managers, is looked at instead.
    ``namespace`` is created if it is missing.
    """

    side: Side
    body: JSON
    force: bool = True
    namespace: JSON | None = None


class ReplaceStatus(Step, frozen=True):
    """Replace the status of the object in the cluster of ``side``; as with :class:`Replace`.

    That a server refuses an ``optional`` status is no fault: the next step follows.
    """

    side: Side
    body: JSON
    optional: bool = False


class Delete(Step, frozen=True):
    """Delete the object in the cluster of ``side``, but no newer object of the same name."""

    side: Side
    key: Key
    uid: str


class Settle(Step, frozen=True):
    """Remember that another write of the wanted content would change nothing on this side."""

    side: Side


TERMINAL = (Done, Wait, Refuse)
"""Steps that are not carried out."""
CROSSINGS = (Create, Apply, Replace, ReplaceStatus, Delete)
"""Steps that copy content from one cluster to the other.

Other steps only ask, or prepare: a server that accepts a finalizer may refuse the writes after it.
"""
