"""Logs of a program: one JSON object per line, or lines for people.

In JSON every line is an object, whatever its source: libraries through Python's ``logging`` and
``warnings``, uncaught exceptions, and the error that a command ends with.
"""

from __future__ import annotations

import logging
import sys
import threading
from types import ModuleType, TracebackType
from typing import TextIO, cast


# structlog prints tracebacks with rich where it can, and ours are plain: without rich a program
# takes 5 MiB and 90 ms of CPU less. An import of what is None fails as of a missing package.
_rich = sys.modules.get("rich")
sys.modules["rich"] = cast("ModuleType", None)
try:
    import structlog
finally:
    del sys.modules["rich"]
    if _rich is not None:
        sys.modules["rich"] = _rich


def logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return a logger, for a module that is imported before structlog."""
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger(logger_name=name)
    return log


def configure_logs(
    *, json: bool | None = None, level: str = "info", file: TextIO | None = None
) -> None:
    """Have this process log one JSON object a line, or coloured lines in a terminal.

    ``json=None`` decides by whether ``file`` (default: standard error) is a terminal.

    Raises:
        ValueError: the level is not debug, info, warning or error.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r} is unknown; use debug, info, warning or error")
    out = file or sys.stderr
    plain = not out.isatty() if json is None else json
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _name_logger,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    ]
    if plain:
        processors += [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            structlog.processors.JSONRenderer(),
        ]
    else:
        renderer = structlog.dev.ConsoleRenderer(
            colors=out.isatty(),
            timestamp_key="ts",
            exception_formatter=structlog.dev.plain_traceback,
        )
        processors.append(renderer)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=out),
        # The configuration may come again, such as for the error that a command ends with.
        cache_logger_on_first_use=False,
    )
    _take_over_libraries()


def _name_logger(
    logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    # structlog takes no initial value called "logger", which is the key that dashboards know.
    name = event.pop("logger_name", None)
    if name:
        event["logger"] = name
    return event


def _take_over_libraries() -> None:
    """Send the records of libraries through structlog too, whatever its later configuration."""
    root = logging.getLogger()
    if not any(isinstance(handler, _Libraries) for handler in root.handlers):
        root.addHandler(_Libraries())
    logging.captureWarnings(capture=True)
    # Hooks of another library stay.
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _uncaught
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _unraisable
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _uncaught_in_thread


class _Libraries(logging.Handler):
    """Hands the records of ``logging`` to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        # structlog knows the five levels of old, and no others in between.
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            # The caller gave it the wrong arguments.
            text = str(record.msg)
        log = structlog.get_logger(logger_name=record.name)
        log.log(level, text, exc_info=record.exc_info)


def _uncaught(
    kind: type[BaseException], error: BaseException, _trace: TracebackType | None
) -> None:
    structlog.get_logger(logger_name="fairlead.cli").critical(
        "unexpected error", error=kind.__name__, exc_info=error
    )


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    structlog.get_logger(logger_name="fairlead.cli").error(
        unraisable.err_msg or "exception ignored", exc_info=unraisable.exc_value
    )


def _uncaught_in_thread(uncaught: threading.ExceptHookArgs) -> None:
    structlog.get_logger(logger_name="fairlead.cli").error(
        "a thread has failed", exc_info=uncaught.exc_value
    )
