"""Chains of links, and where each breaks first, from its source."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.api.links import ORDER, Link, LinkName, worst
from fairlead.binding.commands.chain import Chain as BindingChain


class Chain(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The links of one subject, from what uses it to where it comes from.

    ``broken`` names the link that the others wait for; ``reason``, ``message`` and ``next_step``
    are its own.
    """

    subject: str
    ready: bool
    links: tuple[Link, ...]
    broken: LinkName | None = None
    reason: str = ""
    message: str = ""
    next_step: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All chains that were asked for; ``ready`` when none of them is broken."""

    target: str
    ready: bool
    chains: tuple[Chain, ...]
    notes: tuple[str, ...] = ()


def of_binding(found: BindingChain) -> Chain:
    """A binding's chain in the words of all chains."""
    return Chain(
        subject=found.binding,
        ready=found.ready,
        links=found.links,
        broken=found.broken,
        reason=found.reason,
        message=found.message,
        next_step=found.next_step,
    )


def join(subject: str, links: Iterable[Link]) -> Chain:
    """Put links in their order; what fails because a link behind it does is waiting."""
    ordered = sorted(links, key=lambda one: ORDER.index(one.name))
    judged: list[Link] = []
    for link in reversed(ordered):
        behind = any(one.state in {"failed", "waiting"} for one in judged)
        follows = link.state == "failed" and behind
        judged.append(msgspec.structs.replace(link, state="waiting") if follows else link)
    first = worst(judged)
    return Chain(
        subject=subject,
        ready=first is None,
        links=tuple(reversed(judged)),
        broken=first.name if first is not None else None,
        reason=(first.reason or "Waiting") if first is not None else "",
        message=first.message if first is not None else "",
        next_step=first.remedy if first is not None else "",
    )
