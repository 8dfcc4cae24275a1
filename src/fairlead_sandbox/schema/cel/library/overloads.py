"""One function of CEL for one combination of types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fairlead_sandbox.schema.cel.costs import ONE, Price
from fairlead_sandbox.schema.cel.types import Signature, signature
from fairlead_sandbox.schema.cel.values import CelError


class Overload(NamedTuple):
    """One signature of a function, with its body and its price.

    ``run`` takes the values, and before them the effort of the object if ``counted``: it may do
    more work than its price says. ``steps`` are what each call takes of that effort.
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
    """An overload by its signature: ``<string>.charAt(int) -> string``, ``size(A) -> int``."""
    return Overload(signature(text, name), run, price, counted, steps)


PARSING = 100
"""Steps of reading a short text, such as an address, in Python."""


@contextmanager
def in_words(*words: str) -> Iterator[None]:
    """Turns errors of Python into one of CEL, in its own words or in these."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise CelError(words[0] if words else str(error)) from None
