"""Targets of an explanation, as a person writes them: ``deployment/web``."""

from __future__ import annotations

import re

import msgspec

from fairlead.api.resource import Resource
from fairlead.client import ClientError


class UnknownTargetError(ClientError):
    """The target does not exist, or cannot be explained."""


class ExplainedTarget(msgspec.Struct, frozen=True):
    """The target to explain: a workload or a binding; a kind of "" means all bindings.

    ``version`` is that of the kind, as in ``widgets.v1.example.org``; "" is any. ``namespace`` is
    that of ``binding/shop/all``; "" where none is in the text.
    """

    kind: str = ""
    name: str = ""
    version: str = ""
    namespace: str = ""

    @property
    def of_binding(self) -> bool:
        """Whether the target's kind is ServiceBinding or is missing, which means all bindings."""
        return self.kind.partition(".")[0] in {"", *_BINDING_WORDS}

    def is_api(self, resource: Resource) -> bool:
        """Whether the target's API group is missing or is the group of ``resource``."""
        group = self.kind.partition(".")[2]
        return group in {"", resource.group}

    def is_kind(self, resource: Resource) -> bool:
        """Whether the target's kind is ``resource``, by one of the names that kubectl accepts."""
        words = {resource.kind.lower(), resource.plural, *_SHORT.get(resource.plural, ())}
        return self.kind in words | {f"{word}.{resource.group}" for word in words}


_BINDING_WORDS = frozenset({"servicebinding", "servicebindings", "sbr", "sbrs"})
_SHORT = {
    "deployments": ("deploy",),
    "statefulsets": ("sts",),
    "daemonsets": ("ds",),
    "replicasets": ("rs",),
    "cronjobs": ("cj",),
}


def parse_target(text: str) -> ExplainedTarget:
    """Parse ``deployment/web``, or ``binding/shop/all`` with a namespace; "" means all bindings.

    Raises:
        ValueError: the text has another form.
    """
    if not text:
        return ExplainedTarget()
    kind, _, name = text.partition("/")
    namespace = ""
    if kind.lower().partition(".")[0] in _NAMED_WITH_NAMESPACE and name.count("/") == 1:
        namespace, _, name = name.partition("/")
    if not kind or not name or "/" in name or (not namespace and text.count("/") > 1):
        raise ValueError(
            f"{text!r} is not a target: use deployment/NAME, servicebinding/NAME, or nothing for "
            "all bindings of the namespace"
        )
    plural, _, rest = kind.lower().partition(".")
    version, _, group = rest.partition(".")
    if _VERSION.fullmatch(version) and group:
        return ExplainedTarget(f"{plural}.{group}", name, version, namespace)
    return ExplainedTarget(kind.lower(), name, namespace=namespace)


_NAMED_WITH_NAMESPACE = frozenset({"binding", "bindings"})
"""Words for kbind v2's Binding, which ``fairlead bindings`` names with its namespace."""

_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
