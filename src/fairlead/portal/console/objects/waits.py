"""The provider's end of an object's chain: what it waits for, since when, and the remedy.

The links are those of ``fairlead explain``. The provider sees only its own side, and not objects
that are still only in the consumer's cluster.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead.api.links import Link, LinkName
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import Judgement, short
from fairlead.explain.chains import join
from fairlead.postgres.commands.links import role_by_status


_WHOM: Final[dict[LinkName, str]] = {
    "provider": "the provider's controller of its kind",
    "role": "the PostgreSQL server, and the operator that speaks to it",
}


class ObjectWaits(msgspec.Struct, frozen=True):
    """An object's state in one sentence; ``on`` is the controller it waits for, "" without one."""

    state: State
    about: str = ""
    reason: str = ""
    on: str = ""
    since: str = ""
    helps: str = ""


def links_of(found: Object, verdict: Judgement) -> list[Link]:
    """Return the provider's links of an object: itself, and the role of a PostgresAccess."""
    link = Link(
        name="provider",
        object=f"{found.kind} {found.key}",
        state=verdict.state,
        about=verdict.message or verdict.reason or ("is Ready" if verdict.state == "ok" else ""),
        reason=verdict.reason,
        remedy=verdict.remedy,
        since=verdict.since,
    )
    group = found.api_version.partition("/")[0]
    if (group, found.kind) != (POSTGRESACCESSES.group, POSTGRESACCESSES.kind):
        return [link]
    return [link, role_by_status(found)]


def waits_of(found: Object, verdict: Judgement) -> ObjectWaits:
    """Return what an object waits for."""
    links = links_of(found, verdict)
    chain = join(f"{found.kind} {found.key}", links)
    if chain.broken is None:
        return ObjectWaits(verdict.state, verdict.message, verdict.reason, since=verdict.since)
    broken = next(one for one in chain.links if one.name == chain.broken)
    return ObjectWaits(
        state=broken.state,
        about=short(broken.about),
        reason=short(broken.reason),
        on=_WHOM.get(broken.name, broken.object),
        since=short(broken.since),
        helps=short(broken.remedy),
    )
