"""The functions that rules can call, by name.

Each module has the overloads of one subject, with their types, implementation and price. Together
they are the library of kube-apiserver 1.33, listed in "CEL in Kubernetes", without the
authorizer, which rules of CRDs cannot use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead_sandbox.schema.cel.library import (
    amounts,
    core,
    formats,
    lists,
    network,
    optionals,
    texts,
    timing,
)
from fairlead_sandbox.schema.cel.library.core import TYPES
from fairlead_sandbox.schema.cel.library.overloads import Overload


def _by_name() -> Mapping[str, Sequence[Overload]]:
    overloads: dict[str, list[Overload]] = {}
    for module in (core, texts, lists, timing, network, amounts, formats, optionals):
        for overload in module.OVERLOADS:
            overloads.setdefault(overload.signature.name, []).append(overload)
    return overloads


FUNCTIONS = _by_name()
"""Overloads by the name of their function or operator (``_+_``, ``@in``)."""

__all__ = ["FUNCTIONS", "TYPES", "Overload"]
