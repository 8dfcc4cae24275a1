"""Chains of links, and the first break of each from its source."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.api.links import ORDER, Link, LinkName, blame_secret, following, worst
from fairlead.binding.commands.chain import BindingChain


class Chain(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The links of a subject, from its workload to its origin.

    ``broken`` names the broken link that is nearest to the origin; ``reason``, ``message`` and
    ``next_step`` are those of that link.
    """

    subject: str
    ready: bool
    links: tuple[Link, ...]
    broken: LinkName | None = None
    reason: str = ""
    message: str = ""
    next_step: str = ""
    works: bool = False
    """Whether the subject itself is Ready, though a link is broken: an app keeps its login."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The requested chains; ``ready`` if none of them is broken."""

    target: str
    ready: bool
    chains: tuple[Chain, ...]
    notes: tuple[str, ...] = ()


def of_binding(binding_chain: BindingChain) -> Chain:
    """Convert the chain of a binding."""
    return Chain(
        subject=binding_chain.binding,
        ready=binding_chain.ready,
        links=binding_chain.links,
        broken=binding_chain.broken,
        reason=binding_chain.reason,
        message=binding_chain.message,
        next_step=binding_chain.next_step,
        works=binding_chain.works and not binding_chain.ready,
    )


def join(subject: str, links: Iterable[Link]) -> Chain:
    """Return the chain of sorted links; a link that fails because of a later one is waiting."""
    ordered, cause = blame_secret(sorted(links, key=lambda link: ORDER.index(link.name)))
    judged: list[Link] = []
    # From the origin on: a link may fail for want of the one behind it, so that only the first
    # failure from there is a cause.
    for link in reversed(ordered):
        behind = any(one.state in {"failed", "waiting"} for one in judged)
        follows = link.state == "failed" and behind and link is not cause
        judged.append(following(link) if follows else link)
    # ``judged`` begins at the origin, and ``worst`` takes the first.
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
