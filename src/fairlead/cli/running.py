"""What the four ``run`` commands have in common, and how a program logs."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from typing import TextIO

import click
import msgspec
import structlog

from fairlead import process
from fairlead.cli.options import cluster_config
from fairlead.client import Client
from fairlead.runtime import (
    Cluster,
    LeaderElection,
    Manager,
    Metrics,
    strip_managed_fields,
)
from fairlead.runtime.health import AddressError, split_address


class RunOptions(msgspec.Struct, kw_only=True):
    """The shared flags, as click hands them over."""

    kubeconfig: str | None
    context: str | None
    install_crds: bool
    health_address: str
    metrics_address: str
    leader_elect: bool
    lease_name: str
    log_format: str


def run_program(
    name: str,
    namespace: str,
    options: RunOptions,
    install: Callable[[Client], Awaitable[None]],
    build: Callable[[Manager, Cluster], Awaitable[object]],
    *,
    lease: str = "",
) -> None:
    """Run a program's controllers until a signal comes; its Lease is called like it by default.

    Raises:
        ClientError: the cluster cannot be reached, or refuses what the program needs at start.
        ManagerError: an address cannot be listened on, or leadership was lost.
    """
    for address in (options.health_address, options.metrics_address):
        if address:
            _check(address)
    config = cluster_config(options.kubeconfig, options.context)
    configure_logs(json={"auto": None, "json": True, "console": False}[options.log_format])
    log = structlog.get_logger(logger_name="fairlead.cli")
    log.info("starting", program=name, server=config.server)
    metrics = Metrics()

    async def main(stop: asyncio.Event) -> None:
        async with Client(
            config, user_agent=name, field_manager=name, metrics=metrics.requests
        ) as client:
            if options.install_crds:
                await install(client)
            election = None
            if options.leader_elect:
                election = LeaderElection(client, namespace, options.lease_name or lease or name)
            manager = Manager(
                health_address=options.health_address,
                metrics_address=options.metrics_address,
                leader_election=election,
                metrics=metrics,
            )
            # Nobody asks who owns which field, and it is a third of what would be kept.
            await build(manager, Cluster(name, client, transform=strip_managed_fields))
            await manager.run(stop)

    process.run(main)


def _check(address: str) -> None:
    try:
        split_address(address)
    except AddressError as error:
        raise click.UsageError(str(error)) from None


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
