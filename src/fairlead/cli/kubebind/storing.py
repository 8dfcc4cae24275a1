"""Flags about the front door's storage of sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click


F = TypeVar("F", bound=Callable[..., Any])


def redis_options(function: F) -> F:
    """``--redis-addr`` and its companions, with the password of the environment."""
    for option in reversed(
        [
            click.option(
                "--redis-addr",
                default="",
                metavar="HOST:PORT",
                help="Redis server that keeps the sessions, instead of Secrets; $REDIS_PASSWORD "
                "is its password.",
            ),
            click.option(
                "--redis-username", default="", help="User at Redis; default: Redis' default user."
            ),
            click.option(
                "--redis-database",
                type=click.IntRange(0, 1_000_000),
                default=0,
                show_default=True,
                help="Number of the database in Redis.",
            ),
            click.option("--redis-tls", is_flag=True, help="Use TLS to Redis."),
            click.option(
                "--redis-ca-file",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="File of the CA for Redis' certificate.",
            ),
            # Hidden in favor of the variable: all users of a machine see the arguments of its
            # processes.
            click.option("--redis-password", default="", envvar="REDIS_PASSWORD", hidden=True),
        ]
    ):
        function = option(function)
    return function
