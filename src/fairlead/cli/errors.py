"""Errors as one clear line on stderr: exit code 1, or 2 for wrong usage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def explained(*, debug: bool = False) -> Iterator[None]:
    """Turn whatever is raised inside into one line; with ``debug`` let it through.

    Raises:
        click.ClickException: carries the line and the exit code.
    """
    try:
        yield
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as error:
        if debug:
            raise
        raise click.ClickException(explain(error)) from None


def explain(error: BaseException) -> str:
    """One line for a person; of several errors the first."""
    if isinstance(error, BaseExceptionGroup):
        return explain(error.exceptions[0])
    text = " ".join(str(error).split())
    if _is_ours(error):
        return text
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or text}"
    return f"unexpected {type(error).__name__}: {text or 'no message'} (--debug shows where)"


def _is_ours(error: BaseException) -> bool:
    """Errors of our own packages carry messages that are written for a person."""
    return type(error).__module__.partition(".")[0] == "fairlead" and bool(str(error))
