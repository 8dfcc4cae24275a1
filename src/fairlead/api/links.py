"""Links of the chain from a workload to a PostgreSQL role, and where the chain breaks first.

The order is workload, binding, Secret, service, provider's object, role: each link needs the next
one. Each system reports its own links in this form, ``fairlead.explain`` collects them, and
:func:`join` judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from fairlead.api.reasons.model import Reasons, State
from fairlead.api.reasons.postgres import StepName
from fairlead.api.reasons.verdict import Judgement, is_early


LinkName = Literal["workload", "binding", "Secret", "service", "provider", "role"] | StepName

ORDER: Final[tuple[LinkName, ...]] = (
    *("workload", "binding", "Secret", "service", "provider", "role"),
)
"""Names of the links, from the user of the login to its source.

The role's link has links of its own: the steps that the operator takes on the way to it.
"""


class Link(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One link, and its state; a ``waiting`` link goes on by itself when the next one is well.

    ``object`` names the object of the link, "" for a step; ``about`` describes its state.
    ``since`` is the start of the state in RFC 3339, "" if it is unknown.
    """

    name: LinkName
    object: str = ""
    state: State
    about: str = ""
    reason: str = ""
    remedy: str = ""
    since: str = ""

    @property
    def message(self) -> str:
        """The object's name, followed by ``about``, as far as they are set."""
        return ": ".join(filter(None, (self.object, self.about)))


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


def wrong(
    table: Reasons, reason: str, *, name: LinkName, subject: str, text: str, remedy: str = ""
) -> Link:
    """Return a link with the state of a reason, as its table has it.

    ``remedy`` replaces the remedy of the table.
    """
    return Link(
        name=name,
        object=subject,
        state=table.state(reason),
        about=text,
        reason=reason,
        remedy=remedy or table.helps(reason),
    )


def patient(links: Iterable[Link], now: datetime) -> list[Link]:
    """Return links without advice that is too early, as just after an edit."""
    return [
        msgspec.structs.replace(link, remedy="")
        if is_early(link.reason, link.since, now)
        else link
        for link in links
    ]


def following(link: Link) -> Link:
    """Return a link that fails because of another one: it waits, and the other has the remedy."""
    return msgspec.structs.replace(link, state="waiting", remedy="")


def blame_secret(links: Sequence[Link]) -> tuple[list[Link], Link | None]:
    """Return links whose Secret is another's with the failure at the Secret, and that link.

    The role and its access repeat what is wrong with the Secret, and wait for it. Behind a
    provider's object the Secret is another one, in the provider's cluster.
    """
    conflict = next((one for one in links if one.name == "role" and one.reason == _CONFLICT), None)
    secret = next((one for one in links if one.name == "Secret"), None)
    if conflict is None or secret is None or any(one.name == "provider" for one in links):
        return list(links), None
    cause = msgspec.structs.replace(
        secret,
        state="failed",
        about=conflict.about,
        reason=conflict.reason,
        remedy=conflict.remedy,
        since=conflict.since,
    )
    result = []
    for link in links:
        if link is secret:
            result.append(cause)
        elif link is conflict:
            waits = "waits until its Secret can be written"
            result.append(msgspec.structs.replace(following(link), about=waits))
        else:
            result.append(following(link) if link.reason == _CONFLICT else link)
    return result, cause


_CONFLICT: Final = "SecretConflict"


Follows: TypeAlias = Callable[[Link, Collection[LinkName]], bool]
"""Whether a failed link fails because of broken links behind it, which are given by name."""


def follows_any(link: Link, broken: Collection[LinkName]) -> bool:
    """Whether any link behind a failed one is broken."""
    return bool(broken)


def join(
    subject: str,
    links: Iterable[Link],
    *,
    follows: Follows = follows_any,
    ready: bool | None = None,
) -> Chain:
    """Sort links to a chain, and find its first break from the origin.

    A link that fails because of one behind it waits and is not broken.

    Args:
        subject: the object that the chain explains.
        links: its links, in any order.
        follows: whether a failed link fails because of those behind it.
        ready: whether the subject itself says that it is Ready; None if it says nothing of it.
    """
    ordered, cause = blame_secret(sorted(links, key=lambda link: ORDER.index(link.name)))
    judged: list[Link] = []
    broken: set[LinkName] = set()
    for link in reversed(ordered):
        waits = link.state == "failed" and link is not cause and follows(link, broken)
        judged.append(following(link) if waits else link)
        if link.state in {"failed", "waiting"}:
            broken.add(link.name)
    # ``judged`` begins at the origin, and ``worst`` takes the first.
    first = worst(judged)
    return Chain(
        subject=subject,
        ready=first is None and ready is not False,
        links=tuple(reversed(judged)),
        broken=first.name if first is not None else None,
        reason=(first.reason or "Waiting") if first is not None else "",
        message=first.message if first is not None else "",
        next_step=first.remedy if first is not None else "",
        works=first is not None and ready is True,
    )


def worst(links: Iterable[Link]) -> Link | None:
    """Return the first link that has failed, else the first that waits; None if all are well."""
    every = list(links)
    failed = next((one for one in every if one.state == "failed"), None)
    return failed or next((one for one in every if one.state == "waiting"), None)


def verdict_link(verdict: Judgement, *, name: LinkName, subject: str) -> Link:
    """Return the link of an object by the verdict on it.

    An object that says nothing of its state does not break a chain: it is there.
    """
    if verdict.state in {"ok", "unknown"} and not (verdict.state == "unknown" and verdict.reason):
        text = "is Ready" if verdict.type == "Ready" else "is there"
        for remark in verdict.remarks:
            text += f"; remark: {remark.text}"
            text += f" (since {remark.since})" if remark.since else ""
        return Link(name=name, object=subject, state="ok", about=text)
    return Link(
        name=name,
        object=subject,
        state=verdict.state,
        about=verdict.message or "says that it is not Ready",
        reason=verdict.reason or "NotReady",
        remedy=verdict.remedy,
        since=verdict.since,
    )
