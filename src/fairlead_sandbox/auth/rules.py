"""RBAC rules: matching of requests, coverage of other rules, and their text in messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fairlead.api.meta import JSON


class RequestAttributes(NamedTuple):
    """The verb and object of a request; ``resource`` includes the subresource (``pods/log``)."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether the request is for an object, not for a path such as ``/healthz``."""
        return not self.path


class Rule(NamedTuple):
    """One ``PolicyRule``; ``names`` is its ``resourceNames``, ``urls`` its ``nonResourceURLs``."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    @classmethod
    def parse(cls, body: JSON) -> Rule:
        """Return the rule of an entry in a role's ``rules``."""
        return cls(
            _texts(body.get("verbs")),
            _texts(body.get("apiGroups")),
            _texts(body.get("resources")),
            _texts(body.get("resourceNames")),
            _texts(body.get("nonResourceURLs")),
        )

    def matches(self, attributes: RequestAttributes) -> bool:
        """Whether verbs and resources of the rule match the request; ``names`` is not compared."""
        if attributes.verb not in self.verbs and "*" not in self.verbs:
            return False
        if attributes.path:
            return any(_url_matches(url, attributes.path) for url in self.urls)
        if attributes.group not in self.groups and "*" not in self.groups:
            return False
        return resource_matches(self.resources, attributes.resource)

    def to_json(self) -> JSON:
        """Return the rule as a SelfSubjectRulesReview lists it."""
        fields = {
            "verbs": self.verbs,
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
        }
        return {name: list(values) for name, values in fields.items() if values}

    def __str__(self) -> str:
        fields = {
            "APIGroups": self.groups,
            "Resources": self.resources,
            "ResourceNames": self.names,
            "NonResourceURLs": self.urls,
            "Verbs": self.verbs,
        }
        parts = [f"{name}:{quoted(values)}" for name, values in fields.items() if values]
        return "{" + ", ".join(parts) + "}"


def parse_rules(body: JSON) -> tuple[Rule, ...]:
    """Return the rules of a Role or ClusterRole."""
    return tuple(Rule.parse(rule) for rule in body.get("rules") or () if isinstance(rule, dict))


def quoted(values: Iterable[str]) -> str:
    """Return strings as Go prints a slice of them with ``%q``: ``["a" "b"]``."""
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _texts(value: Any) -> tuple[str, ...]:
    return (
        tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
    )


def resource_matches(resources: Sequence[str], resource: str) -> bool:
    """Whether the resources of a rule include ``resource``; ``*/log`` is any resource's log."""
    if resource in resources or "*" in resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in resources


def _url_matches(pattern: str, path: str) -> bool:
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern


MOST_COMPARISONS = 500_000
"""Maximum number of comparisons of a wanted rule's part with a held rule; they take 0.2 s."""


class TooManyPartsError(ValueError):
    """The wanted rules have too many combinations to be compared; the text has their number."""


def uncovered(granted: Sequence[Rule], rules: Sequence[Rule]) -> list[Rule]:
    """Return the parts of the wanted rules that the held rules do not cover, merged by verb.

    Raises:
        TooManyPartsError: there are too many parts; 100 verbs on 100 resources of 100 groups are
            a million.
    """
    # Rules that one held rule covers as a whole are never split, so that a copy of a large role
    # needs few comparisons.
    split = [rule for rule in rules if not any(_covers_all(one, rule) for one in granted)]
    count = sum(map(_part_count, split))
    if count * max(len(granted), 1) > MOST_COMPARISONS:
        raise TooManyPartsError(
            f"the rules have {count} combinations of verb, group, resource and name"
        )
    missing: dict[Rule, list[str]] = {}
    for rule in split:
        for part in _parts(rule):
            if not any(_covers(one, part) for one in granted):
                missing.setdefault(part._replace(verbs=()), []).extend(part.verbs)
    merged = [rule._replace(verbs=tuple(dict.fromkeys(verbs))) for rule, verbs in missing.items()]
    return sorted(merged, key=str)


def _parts(rule: Rule) -> Iterator[Rule]:
    """Yield the rule split into rules of one verb, group, resource and name each."""
    for verb in rule.verbs:
        for url in rule.urls:
            yield Rule(verbs=(verb,), urls=(url,))
        for group in rule.groups:
            for resource in rule.resources:
                for name in rule.names or ("",):
                    names = (name,) if name else ()
                    yield Rule((verb,), (group,), (resource,), names)


def _part_count(rule: Rule) -> int:
    objects = len(rule.groups) * len(rule.resources) * max(len(rule.names), 1)
    return len(rule.verbs) * (len(rule.urls) + objects)


def _covers_all(granted: Rule, rule: Rule) -> bool:
    """Whether one held rule covers the whole of another, in time linear in their sizes."""
    if "*" not in granted.verbs and not set(rule.verbs) <= set(granted.verbs):
        return False
    if rule.urls and "*" not in granted.urls and not set(rule.urls) <= set(granted.urls):
        return False
    if not rule.groups and not rule.resources:
        return bool(rule.urls)
    if "*" not in granted.groups and not set(rule.groups) <= set(granted.groups):
        return False
    # Patterns such as */log and /api/* are not resolved here. At worst a covered rule is split,
    # and its parts are compared with the patterns.
    if "*" not in granted.resources and not set(rule.resources) <= set(granted.resources):
        return False
    # An empty name stands for every object, which a rule with resourceNames does not cover.
    named = bool(rule.names) and "" not in rule.names
    return not granted.names or (named and set(rule.names) <= set(granted.names))


def _covers(granted: Rule, part: Rule) -> bool:
    if not _has(granted.verbs, part.verbs[0]):
        return False
    if part.urls:
        return any(_url_matches(url, part.urls[0]) for url in granted.urls)
    if not _has(granted.groups, part.groups[0]):
        return False
    if not resource_matches(granted.resources, part.resources[0]):
        return False
    return not granted.names or (bool(part.names) and part.names[0] in granted.names)


def _has(values: Sequence[str], value: str) -> bool:
    return value in values or "*" in values
