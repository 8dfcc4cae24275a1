"""Logs: one JSON object a line in a cluster, coloured lines in a terminal."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog


def configure(
    *, json: bool | None = None, level: str = "info", file: TextIO | None = None
) -> None:
    """Set up structlog for this process; a program calls this once.

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
        cache_logger_on_first_use=False,
    )


def _name_logger(
    logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    # structlog takes no initial value called "logger", which is the key that dashboards know.
    name = event.pop("logger_name", None)
    if name:
        event["logger"] = name
    return event
