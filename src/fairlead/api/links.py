"""Links of the chain from a workload to a role: how each stands, and what helps.

Workload < binding < Secret < service < the provider's object < role: each needs the next one. The
systems tell of their links in this one way, and are joined by those who know several of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from fairlead.api.reasons.model import Reasons, State


LinkName = Literal["workload", "binding", "Secret", "service", "provider", "role"]

ORDER: Final[tuple[LinkName, ...]] = (
    *("workload", "binding", "Secret", "service", "provider", "role"),
)
"""Names of the links, from the user of the login to its source."""


class Link(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One link, and its state; ``waiting`` is one that goes on after another has.

    ``object`` names it, ``about`` is the text about it. ``since`` is the start of this state, as
    RFC 3339, "" if it is unknown.
    """

    name: LinkName
    object: str
    state: State
    about: str = ""
    reason: str = ""
    remedy: str = ""
    since: str = ""

    @property
    def message(self) -> str:
        """The object, and the text about it if there is one."""
        return f"{self.object}: {self.about}" if self.about else self.object


def wrong(
    table: Reasons, reason: str, *, name: LinkName, subject: str, about: str, remedy: str = ""
) -> Link:
    """Return a link in the state of its reason in a table; ``remedy`` replaces the table's own."""
    return Link(
        name=name,
        object=subject,
        state=table.state(reason),
        about=about,
        reason=reason,
        remedy=remedy or table.helps(reason),
    )


def worst(links: Iterable[Link]) -> Link | None:
    """Return the first link that has failed, else the first that waits; None if all are well."""
    every = list(links)
    failed = next((one for one in every if one.state == "failed"), None)
    return failed or next((one for one in every if one.state == "waiting"), None)
