"""Builders: what an API is to the pipeline, which is its stages and how its contexts are made.

``DefaultBuilder`` is binding.operators.coreos.com, ``SpecBuilder`` servicebinding.io. Builders are
values: each method gives another one, with a stage more, less or in another's place.
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
from fairlead.binding.pipeline import Handler, Pipeline, Stage, at_once, stage
from fairlead.binding.reads import Answer, Read, Snapshot


ContextT_co = TypeVar("ContextT_co", bound=Context, covariant=True)
OtherT = TypeVar("OtherT", bound=Context)
Provider: TypeAlias = Callable[[Object, Snapshot], OtherT]


class StageError(ValueError):
    """A stage that is not there, or there twice; the text names it and those that are there."""


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
        """The names of the stages in their order."""
        return [one.name for one in self.stages]

    def before(self, name: str, *added: Stage | Handler) -> Self:
        """Insert stages before the one with a name."""
        at = self._position(name)
        return self._with([*self.stages[:at], *added, *self.stages[at:]])

    def after(self, name: str, *added: Stage | Handler) -> Self:
        """Insert stages after the one with a name."""
        at = self._position(name) + 1
        return self._with([*self.stages[:at], *added, *self.stages[at:]])

    def replace(self, name: str, handler: Handler) -> Self:
        """Put another handler in the place, and under the name, of a stage."""
        at = self._position(name)
        put = Stage(name, handler, self.stages[at].always)
        return self._with([*self.stages[:at], put, *self.stages[at + 1 :]])

    def without(self, *names: str) -> Self:
        """Remove stages."""
        gone = {self._position(name) for name in names}
        return self._with([one for at, one in enumerate(self.stages) if at not in gone])

    def provided_by(self, provider: Provider[OtherT]) -> Builder[OtherT]:
        """The same stages over contexts of another provider."""
        return Builder(self.stages, provider)

    def build(self) -> Pipeline:
        """The pipeline of these stages."""
        return Pipeline(self.stages)

    async def run(
        self, binding: Object, snapshot: Snapshot, pipeline: Pipeline | None = None
    ) -> ContextT_co:
        """Make one pass over a binding; ``pipeline`` has other stages than the builder's.

        The context says what came of it: ``changes`` is what to write, ``status`` the status.

        Raises:
            InvalidBinding: the binding contradicts itself.
            msgspec.ValidationError: it does not fit its type.
            TooManyReadsError: a handler does not stop asking.
            Exception: what the snapshot's responder has raised.
        """
        context = self.provider(binding, snapshot)
        await (pipeline or self.build()).process(context)
        return context

    def process(self, binding: Object, answer: Callable[[Read], Answer]) -> ContextT_co:
        """Make one pass as :meth:`run` does, over answers that are there at once.

        Raises:
            RuntimeError: a handler waits for something else than its context.
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
    """A responder that never waits."""

    def __init__(self, answer: Callable[[Read], Answer]) -> None:
        self._answer = answer

    async def answers(self, reads: Sequence[Read]) -> Sequence[Answer]:
        return [self._answer(read) for read in reads]

    async def give_way(self) -> None:
        """Go on: there are no other passes."""


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
    """servicebinding.io; ``workloads`` finds those of another place than Kubernetes."""

    def __init__(self, *, workloads: FindWorkloads | None = None) -> None:
        def provider(binding: Object, snapshot: Snapshot) -> SpecContext:
            return SpecContext(binding, snapshot, workloads=workloads)

        required = Stage(_REQUIRED, required_entries("type"))
        super().__init__([*_COLLECT, binding_secret, find_workloads, required, *_CLOSE], provider)


class DefaultBuilder(Builder[CoreosContext]):
    """binding.operators.coreos.com.

    ``workloads`` finds those of another place than Kubernetes; ``cross_namespace`` lets bindings
    name services of other namespaces, ``requester_key`` does where it proves who asked for them.
    """

    def __init__(
        self,
        *,
        cross_namespace: bool = False,
        requester_key: tuple[str, str] | None = None,
        workloads: FindWorkloads | None = None,
    ) -> None:
        def provider(binding: Object, snapshot: Snapshot) -> CoreosContext:
            return CoreosContext(
                binding,
                snapshot,
                cross_namespace=cross_namespace,
                requester_key=requester_key,
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
