"""Overloads: one function of CEL for one combination of argument types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fairlead_sandbox.schema.cel.costs import ONE, Price
from fairlead_sandbox.schema.cel.types import Signature, signature
from fairlead_sandbox.schema.cel.values import CelError


class Overload(NamedTuple):
    """One signature of a function, with its implementation and its price.

    With ``counted`` the function ``run`` gets the object's effort before the values, because it
    may do more work than its price says. ``steps`` of effort are spent at each call.
    """

    signature: Signature
    run: Callable[..., Any]
    price: Price
    counted: bool
    steps: int


def function(
    text: str,
    run: Callable[..., Any],
    price: Price = ONE,
    *,
    name: str = "",
    counted: bool = False,
    steps: int = 0,
) -> Overload:
    """Return an overload by its signature: ``<string>.charAt(int) -> string``."""
    return Overload(signature(text, name), run, price, counted, steps)


PARSING = 100
"""Steps of effort to parse a short text, such as an address."""


@contextmanager
def in_words(*words: str) -> Iterator[None]:
    """Turn Python's errors in the block into a CelError, with their message or the given one."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise CelError(words[0] if words else str(error)) from None
