"""The survey of a program before its removal, and a person's choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from fairlead.api.meta import Object
from fairlead.api.resource import Resource


Option = Literal["orphan", "force"]


class UninstallError(Exception):
    """The removal is refused or unfinished; the text gives the reason and how to go on."""


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """A person's choices.

    ``orphan`` releases the objects that only the program could have cleaned up, ``force`` removes
    the program despite its users, ``crds`` also deletes CustomResourceDefinitions that have no
    object, and ``prepare`` leaves the objects of the manifests themselves to another tool, such as
    Helm.
    """

    orphan: bool = False
    force: bool = False
    crds: bool = False
    prepare: bool = False

    def allows(self, use: Use) -> bool:
        """Whether the choices allow the removal despite this use."""
        return self.orphan if use.option == "orphan" else self.force


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """One user of the program.

    ``what`` names it, and ``remedy`` is the command that ends the use without damage. ``option``
    is the choice that removes the program all the same, ``breaks`` the lasting damage of that
    choice.
    """

    what: str
    remedy: str
    option: Option
    breaks: str


class FoundObject(msgspec.Struct, frozen=True):
    """An existing object of the program's manifests."""

    resource: Resource
    object: Object

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.object.key}"


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """A program in a cluster: its users, the steps of its removal, its CRDs and notes."""

    program: str
    namespace: str
    uses: Sequence[Use]
    installed: Sequence[FoundObject]
    crds: Sequence[str]
    notes: Sequence[str]

    def blocking(self, choices: Choices) -> list[Use]:
        """Return the uses that the choices do not allow to break."""
        return [use for use in self.uses if not choices.allows(use)]

    def steps(self, choices: Choices) -> list[str]:
        """Return the objects to delete as text, in order."""
        steps = [
            str(obj) for obj in self.installed if not (choices.prepare and left_to_others(obj))
        ]
        # Only after all other deletions can it be seen whether something else is in the namespace.
        namespaces = {f"Namespace {self.namespace}"}
        lines = [f"{one}, if nothing else is in it" if one in namespaces else one for one in steps]
        if choices.crds and not choices.prepare:
            lines += [
                f"CustomResourceDefinition {name}, if no object of it is left"
                for name in self.crds
            ]
        return lines


# Another tool has an order of its own: if it deletes the server first, writes wait for it or fail.
_ALWAYS_TAKEN = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})


def left_to_others(obj: FoundObject) -> bool:
    """Whether ``prepare`` leaves an object for another tool, such as Helm, to delete."""
    return obj.resource.kind not in _ALWAYS_TAKEN


def refusal(survey: Survey, blocking: Sequence[Use]) -> str:
    """Return one sentence: the removal is refused, and the options that would allow it."""
    flags = " ".join(f"--{one}" for one in sorted({use.option for use in blocking}))
    number = "1 thing" if len(blocking) == 1 else f"{len(blocking)} things"
    return (
        f"{survey.program} is still needed by {number}, and nothing was taken away: "
        f"{blocking[0].what}: {blocking[0].remedy}; or give {flags}"
    )
