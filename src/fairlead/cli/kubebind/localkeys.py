"""Flags about the labels and annotations that do not cross."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from fairlead.konnector.policies.localkeys import ALL_KEYS, LocalMetadataKeys


F = TypeVar("F", bound=Callable[..., Any])


def local_keys_options(function: F) -> F:
    """Add ``--local-key`` and ``--crossing-key``; :func:`check_local_keys` checks their values."""
    for option in (
        click.option(
            "--crossing-key",
            "crossing_keys",
            multiple=True,
            metavar="KEY",
            help="Label or annotation that crosses although it is a mark of a delivery tool, "
            f"written as for --local-key; {ALL_KEYS} for all. May be given several times.",
        ),
        click.option(
            "--local-key",
            "local_keys",
            multiple=True,
            metavar="KEY",
            help="Label or annotation that stays in the cluster where it was set, beside the "
            "marks of delivery tools: KEY, PREFIX/* or KEY=VALUE. May be given several times.",
        ),
    ):
        function = option(function)
    return function


def check_local_keys(local: Sequence[str], crossing: Sequence[str]) -> None:
    """Check the values of both flags.

    Raises:
        click.UsageError: one is no pattern of keys.
    """
    for flag, more, fewer in (("--local-key", local, ()), ("--crossing-key", (), crossing)):
        try:
            LocalMetadataKeys.of(more, fewer)
        except ValueError as error:
            raise click.UsageError(f"{flag} {error}") from None
