"""Builders: the stages of an API, and the provider of its contexts.

``DefaultBuilder`` is for binding.operators.coreos.com, ``SpecBuilder`` for servicebinding.io.
Builders are immutable: each method returns another one with a stage added, removed or replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Self, TypeAlias, TypeVar

from fairlead.api.meta import Object
from fairlead.binding.contexts.base import FindWorkloads
from fairlead.binding.contexts.coreos import CoreosContext
from fairlead.binding.contexts.protocol import Context
from fairlead.binding.contexts.spec import SpecContext
from fairlead.binding.handlers.collecting import (
    binding_definitions,
    binding_items,
    collect_preflight,
    direct_secret,
    owned_resources,
    provisioned_service,
)
from fairlead.binding.handlers.naming import apply_mappings, apply_naming
from fairlead.binding.handlers.projecting import (
    binding_secret,
    bindings_as_env,
    bindings_as_files,
    content_mark,
    find_workloads,
    inject_secret_ref,
    persist,
    postflight,
    required_entries,
)
from fairlead.binding.handlers.unbinding import drop_superseded, unbind, unbind_leftovers
from fairlead.binding.options import DEFAULT_DENIED
from fairlead.binding.pipeline import Handler, Pipeline, Stage, at_once, stage
from fairlead.binding.reads import Answer, Read, Snapshot


ContextT_co = TypeVar("ContextT_co", bound=Context, covariant=True)
OtherT = TypeVar("OtherT", bound=Context)
Provider: TypeAlias = Callable[[Object, Snapshot], OtherT]
"""Function that makes the context of a binding in a pass; it has no relation to kube-bind's."""


class StageError(ValueError):
    """A stage is missing or duplicated; the text names it and the existing ones."""


class Builder(Generic[ContextT_co]):
    """Stages and a context provider.

    Raises:
        StageError: two stages have one name.
    """

    def __init__(self, stages: Iterable[Stage | Handler], provider: Provider[ContextT_co]) -> None:
        self.provider = provider
        self.stages: tuple[Stage, ...] = ()
        self._set(stages)

    @property
    def names(self) -> list[str]:
        """The names of the stages in order."""
        return [one.name for one in self.stages]

    def before(self, name: str, *added: Stage | Handler) -> Self:
        """Return a builder with stages inserted before another."""
        at = self._position(name)
        return self._with([*self.stages[:at], *added, *self.stages[at:]])

    def after(self, name: str, *added: Stage | Handler) -> Self:
        """Return a builder with stages inserted after another."""
        at = self._position(name) + 1
        return self._with([*self.stages[:at], *added, *self.stages[at:]])

    def replace(self, name: str, handler: Handler) -> Self:
        """Return a builder with another handler for a stage, under its name."""
        at = self._position(name)
        put = Stage(name, handler, self.stages[at].always)
        return self._with([*self.stages[:at], put, *self.stages[at + 1 :]])

    def without(self, *names: str) -> Self:
        """Return a builder without some stages."""
        gone = {self._position(name) for name in names}
        return self._with([one for at, one in enumerate(self.stages) if at not in gone])

    def provided_by(self, provider: Provider[OtherT]) -> Builder[OtherT]:
        """Return a builder with the same stages and another provider of contexts."""
        return Builder(self.stages, provider)

    def build(self) -> Pipeline:
        """Return the pipeline of the stages."""
        return Pipeline(self.stages)

    async def run(
        self, binding: Object, snapshot: Snapshot, pipeline: Pipeline | None = None
    ) -> ContextT_co:
        """Make one pass over a binding; ``pipeline`` replaces the builder's stages.

        The returned context has the result: ``changes`` to write, and ``status``.

        Raises:
            InvalidBinding: the binding is contradictory.
            msgspec.ValidationError: it does not fit its type.
            TooManyReadsError: the pass has too many reads.
            Exception: an error of the snapshot's responder.
        """
        context = self.provider(binding, snapshot)
        await (pipeline or self.build()).process(context)
        return context

    def process(self, binding: Object, answer: Callable[[Read], Answer]) -> ContextT_co:
        """Make one pass as :meth:`run` does, with a synchronous answer to each read.

        Raises:
            RuntimeError: a handler awaits something else than its context.
        """
        return at_once(self.run(binding, Snapshot(_Answered(answer))))

    def _position(self, name: str) -> int:
        if name not in self.names:
            raise StageError(f"no stage is named {name}: there are {', '.join(self.names)}")
        return self.names.index(name)

    def _with(self, stages: Sequence[Stage | Handler]) -> Self:
        changed = copy.copy(self)
        changed._set(stages)  # noqa: SLF001 (a copy of its own)
        return changed

    def _set(self, stages: Iterable[Stage | Handler]) -> None:
        self.stages = tuple(one if isinstance(one, Stage) else stage(one) for one in stages)
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            raise StageError(
                f"two stages are named {', '.join(sorted(twice))}: give one another name with "
                "Stage(name, handler)"
            )


class _Answered:
    """A responder without I/O."""

    def __init__(self, answer: Callable[[Read], Answer]) -> None:
        self._answer = answer

    async def answers(self, reads: Sequence[Read]) -> Sequence[Answer]:
        return [self._answer(read) for read in reads]

    async def give_way(self) -> None:
        """Return at once: there are no other passes."""


# The stages of both APIs. What binding.operators.coreos.com alone has is in DefaultBuilder.
_REQUIRED = "required_entries"
_PERSIST = Stage("persist", persist, always=True)
_COLLECT = (
    unbind,
    unbind_leftovers,
    collect_preflight,
    provisioned_service,
    direct_secret,
    binding_definitions,
    binding_items,
)
_CLOSE = (
    bindings_as_env,
    bindings_as_files,
    content_mark,
    postflight,
    drop_superseded,
    _PERSIST,
)


class SpecBuilder(Builder[SpecContext]):
    """The builder of servicebinding.io; ``workloads`` finds workloads outside Kubernetes."""

    def __init__(self, *, workloads: FindWorkloads | None = None) -> None:
        def provider(binding: Object, snapshot: Snapshot) -> SpecContext:
            return SpecContext(binding, snapshot, workloads=workloads)

        required = Stage(_REQUIRED, required_entries("type"))
        super().__init__([*_COLLECT, binding_secret, find_workloads, required, *_CLOSE], provider)


class DefaultBuilder(Builder[CoreosContext]):
    """The builder of binding.operators.coreos.com.

    ``workloads`` finds workloads outside Kubernetes; ``cross_namespace`` allows services of other
    namespaces, ``requester_key`` only if it proves a requester who is none of
    ``denied_requesters``.
    """

    def __init__(
        self,
        *,
        cross_namespace: bool = False,
        requester_key: tuple[str, str] | None = None,
        denied_requesters: Sequence[str] = DEFAULT_DENIED,
        workloads: FindWorkloads | None = None,
    ) -> None:
        def provider(binding: Object, snapshot: Snapshot) -> CoreosContext:
            return CoreosContext(
                binding,
                snapshot,
                cross_namespace=cross_namespace,
                requester_key=requester_key,
                denied_requesters=denied_requesters,
                workloads=workloads,
            )

        stages = (
            *_COLLECT,
            owned_resources,
            apply_mappings,
            apply_naming,
            binding_secret,
            find_workloads,
            Stage(_REQUIRED, required_entries()),
            inject_secret_ref,
            *_CLOSE,
        )
        super().__init__(stages, provider)
