"""What is found before a program goes, and what a person may decide about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from fairlead.api.meta import Object
from fairlead.api.resource import Resource


Option = Literal["orphan", "force"]


class UninstallError(Exception):
    """A program was not taken away, or not wholly; says why and how to go on."""


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """What a person has decided.

    ``orphan`` lets go of what only the program could have cleaned up, ``force`` takes the program
    from those who use it, ``crds`` also takes CustomResourceDefinitions that have no object, and
    ``prepare`` leaves the objects of the manifests themselves to another tool, such as Helm.
    """

    orphan: bool = False
    force: bool = False
    crds: bool = False
    prepare: bool = False

    def allows(self, use: Use) -> bool:
        """Whether this use may be broken."""
        return self.orphan if use.option == "orphan" else self.force


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that still needs the program.

    ``what`` names it, ``remedy`` is what ends it well, and ``option`` is the choice that goes on
    all the same: ``breaks`` is what comes of that, for good.
    """

    what: str
    remedy: str
    option: Option
    breaks: str


class Found(msgspec.Struct, frozen=True):
    """An object of the program's manifests that is there."""

    resource: Resource
    object: Object

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.object.key}"


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """A program as it was found: who uses it, what would go in which order, and what stays."""

    program: str
    namespace: str
    uses: Sequence[Use]
    installed: Sequence[Found]
    crds: Sequence[str]
    notes: Sequence[str]

    def blocking(self, choices: Choices) -> list[Use]:
        """What is in use, and was not given up."""
        return [use for use in self.uses if not choices.allows(use)]

    def steps(self, choices: Choices) -> list[str]:
        """What will be taken away, in order."""
        found = [
            str(one) for one in self.installed if not (choices.prepare and left_to_others(one))
        ]
        namespaces = {f"Namespace {self.namespace}"}
        lines = [f"{one}, if nothing else is in it" if one in namespaces else one for one in found]
        if choices.crds and not choices.prepare:
            lines += [
                f"CustomResourceDefinition {name}, if no object of it is left"
                for name in self.crds
            ]
        return lines


_ALWAYS_TAKEN = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})


def left_to_others(found: Found) -> bool:
    """Whether an object is left to the tool that installed it, where one is said to come."""
    return found.resource.kind not in _ALWAYS_TAKEN


def refusal(survey: Survey, blocking: Sequence[Use]) -> str:
    """One sentence: that nothing was taken away, and by which options it would be."""
    flags = " ".join(f"--{one}" for one in sorted({use.option for use in blocking}))
    number = "1 thing" if len(blocking) == 1 else f"{len(blocking)} things"
    return (
        f"{survey.program} is still needed by {number}, and nothing was taken away: "
        f"{blocking[0].what}: {blocking[0].remedy}; or say {flags}"
    )
