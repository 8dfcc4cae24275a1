"""The page of an object: its verdict first, then what the verdict rests on."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml

from fairlead.api.conditions import Condition
from fairlead.api.links import Chain, LinkName
from fairlead.api.meta import JSON, Object
from fairlead.api.nesting import NestedTooDeeply
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import (
    Judgement,
    condition_remedy,
    condition_state,
    conditions_of,
    short,
)
from fairlead.portal import bounds
from fairlead.portal.model.timeline import TimelineEntry, Transition


WORDS: Final[Mapping[State, str]] = {
    "failed": "failed",
    "waiting": "waiting",
    "unknown": "unknown",
    "ok": "healthy",
}
"""Words of states for people, where nothing more precise is known; the worst first."""

STATES: Final[tuple[State, ...]] = tuple(WORDS)
"""The states, the worst first."""

RANKS: Final[Mapping[State, int]] = {state: rank for rank, state in enumerate(STATES)}
"""Ranks of states; 0 is the worst."""

HIDDEN: Final = "(not shown)"
_Dumper: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""Dumper of libyaml if it is installed: pages dump YAML on the event loop."""
_DATA = ("data", "stringData")
"""Parts of a Secret whose values are never shown."""
_SECRET: Final = re.compile(
    r"passw(or)?d|secret|token|credential|private.?key|kubeconfig|api.?key", re.IGNORECASE
)
_IN_ADDRESS: Final = re.compile(r"(://[^/\s:@]*:)[^@\s/]+(@)")
_NAMES: Final = re.compile(
    r"(generatedSecret|name|key|namespace|.*(Name|Names|Ref|Refs|Namespace|Policy))", re.ASCII
)
"""Fields that name a Secret or a key, and contain no secret themselves."""


def keys_of(body: JSON) -> list[str]:
    """Return the names of a Secret's keys, [] for other kinds."""
    if not _is_secret(body):
        return []
    parts = (body.get(part) for part in _DATA)
    return sorted({key for part in parts if isinstance(part, dict) for key in part})


def parts(body: JSON) -> tuple[tuple[str, str], ...]:
    """Return title and YAML of an object's parts: ``spec``, ``status``, others.

    A Secret has none, since its parts contain values.
    """
    if _is_secret(body):
        return ()
    first = [name for name in ("spec", "status") if name in body]
    rest = [name for name in body if name not in {"apiVersion", "kind", "metadata", *first}]
    return tuple((name, text(masked(body[name], name))) for name in (*first, *rest))


def difference(former: JSON, latter: JSON, names: tuple[str, str]) -> tuple[str, ...]:
    """Return the lines of a unified diff of spec and status; () if both are equal.

    Args:
        former: the object of the first cluster.
        latter: its copy in the other cluster.
        names: names of the two clusters.
    """
    first, second = (
        text({part: masked(body.get(part) or {}, part) for part in ("spec", "status")}, sort=True)
        for body in (former, latter)
    )
    lines = difflib.unified_diff(
        first.splitlines()[: bounds.COMPARED_LINES],
        second.splitlines()[: bounds.COMPARED_LINES],
        *names,
        n=2,
        lineterm="",
    )
    return tuple(lines)


def text(value: Any, *, sort: bool = False) -> str:
    """Return a value as YAML, cut if it is too long."""
    try:
        dumped: str = yaml.dump(
            value, Dumper=_Dumper, sort_keys=sort, allow_unicode=True, width=100
        )
    except (yaml.YAMLError, RecursionError):
        return "it cannot be shown"
    dumped = dumped.removesuffix("...\n").rstrip("\n")
    if len(dumped) <= bounds.PART_CHARACTERS:
        return dumped
    return dumped[: bounds.PART_CHARACTERS].rpartition("\n")[0] + "\n# the rest is not shown"


def masked(value: Any, field: str = "") -> Any:
    """Return a copy without values of secret fields and without passwords in addresses.

    ``field`` is the name of the field that has the value.
    """
    return _masked(value, secret=bool(field) and _hides(field, value, inside=False))


def _masked(value: Any, *, secret: bool) -> Any:
    if isinstance(value, dict):
        return {
            key: _masked(inner, secret=_hides(str(key), inner, inside=secret))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_masked(inner, secret=secret) for inner in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if secret and value else _IN_ADDRESS.sub(rf"\1{HIDDEN}\2", value)


def _hides(key: str, value: Any, *, inside: bool) -> bool:
    """Whether the texts in a field are secret: its name says so, or that of an outer field."""
    if _SECRET.search(key) or inside:
        # spec.generatedSecret, secretRef.name, secretRef.key and the like are names.
        return isinstance(value, dict | list) or not _NAMES.fullmatch(key)
    return False


def _is_secret(body: JSON) -> bool:
    return body.get("kind") == "Secret"


_CONTROLLER: Final = "the controller of its kind"
"""The awaited part, if a chain breaks at the object itself."""


class PageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The first words of a page: the state, what is awaited since when, why, and the remedy.

    ``awaited`` is "" where nothing is; ``link`` is the link of a chain that decides, so that the
    page need not repeat it.
    """

    state: State
    message: str = ""
    reason: str = ""
    awaited: str = ""
    since: str = ""
    remedy: str = ""
    link: LinkName | None = None
    remarks: tuple[str, ...] = ()


class ConditionRow(msgspec.Struct, frozen=True):
    """A condition as a page shows it, with its earlier transitions that this process saw.

    A fact has no state.
    """

    condition: Condition
    state: State | None
    remedy: str
    before: tuple[Transition, ...] = ()


class Side(msgspec.Struct, frozen=True):
    """An object in one cluster: a title, and title and YAML of each part."""

    title: str
    parts: tuple[tuple[str, str], ...]


class ThingPage(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page of an object shows.

    ``facts`` are pairs of a label and its text, ``differences`` the lines of a diff of both sides,
    None if only one is seen. ``keys`` are the names of a Secret's entries, ``related`` kind and
    name of the objects that its fields name. ``crumbs`` lead to the bindings that bring it.
    """

    kind: str
    name: str
    namespace: str
    answer: PageAnswer
    command: str
    facts: tuple[tuple[str, str], ...] = ()
    chains: tuple[Chain, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()
    sides: tuple[Side, ...] = ()
    differences: tuple[str, ...] | None = None
    keys: tuple[str, ...] = ()
    related: tuple[tuple[str, str], ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    notes: tuple[str, ...] = ()
    crumbs: tuple[tuple[str, str], ...] = ()


def answer_of(verdict: Judgement, chains: Sequence[Chain]) -> PageAnswer:
    """Return the first words of a page: those of the broken link, or of the verdict."""
    remarks = tuple(remark.text for remark in verdict.remarks)
    broken = [chain for chain in chains if chain.broken is not None]
    chain = next((chain for chain in broken if not chain.works), None)
    if chain is None:
        # An app keeps its login while what gave it is broken: only changes do not arrive.
        remarks += tuple(f"changes do not arrive: {chain.message}" for chain in broken)
        # A chain of several links tells more than an object that says nothing of itself.
        joined = verdict.state == "unknown" and any(len(chain.links) > 1 for chain in chains)
        state: State = "ok" if broken or joined else verdict.state
        return PageAnswer(
            state=state,
            message=verdict.message if state == verdict.state else "",
            reason=verdict.reason if state == verdict.state else "",
            since=verdict.since,
            remedy=verdict.remedy
            if state != "ok"
            else next((chain.next_step for chain in broken), ""),
            link=next((chain.broken for chain in broken), None),
            remarks=remarks,
        )
    links = [link for link in chain.links if link.name == chain.broken and link.state != "ok"]
    link = next((link for link in links if link.message == chain.message), links[0])
    # What is not there has no time: the object waits for it since it says so.
    since = link.since or (verdict.since if verdict.state in {"failed", "waiting"} else "")
    awaited = f"PostgreSQL {link.object}" if link.name == "role" else link.object
    return PageAnswer(
        state="failed" if any(link.state == "failed" for link in chain.links) else "waiting",
        message=short(link.about),
        reason=short(link.reason),
        awaited=_CONTROLLER if link.object == chain.subject else awaited,
        since=short(since),
        remedy=short(chain.next_step),
        link=chain.broken,
        remarks=remarks,
    )


def shown_conditions(
    obj: Object, transitions: Iterable[Transition] = ()
) -> tuple[ConditionRow, ...]:
    """Return the conditions of an object, the worst first."""
    every = list(transitions)
    shown = [
        ConditionRow(
            condition,
            state := condition_state(obj, condition),
            "" if state in {None, "ok"} else condition_remedy(obj, condition),
            tuple(transition for transition in every if transition.type == condition.type),
        )
        for condition in conditions_of(obj)
    ]
    return tuple(sorted(shown, key=_by_state))


def _by_state(row: ConditionRow) -> tuple[int, bool, str]:
    return RANKS[row.state or "ok"], row.state is None, row.condition.type


def body_of(obj: Object) -> JSON:
    """Return an object's body; {} if it is nested too deeply to be shown."""
    try:
        return obj.to_dict()
    except NestedTooDeeply:
        return {}


def explain_command(kind: str, name: str, namespace: str) -> str:
    """Return the command that explains an object in its consumer's cluster."""
    command = f"fairlead explain {kind.lower()}/{name}"
    return f"{command} -n {namespace}" if namespace else command


def side_of(title: str, body: JSON) -> Side:
    """Return an object in one cluster, for its page."""
    return Side(title, parts(body))


def differences_of(here: JSON, provider: JSON) -> tuple[str, ...]:
    """Return the differences between an object and its copy on the provider."""
    return difference(here, provider, ("this cluster", "provider"))
