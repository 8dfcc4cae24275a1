"""``fairlead ready``: wait for a program to be ready, as ``helm test`` does."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request

import click

from fairlead.cli.options import timeout_option
from fairlead.cli.texts import printable


_PAUSE = 0.5
"""Seconds between two questions."""
_QUOTED = 500
"""Bytes of an answer that the error quotes."""


@click.command("ready")
@click.argument("url")
@timeout_option("1m", "until the program is ready")
def command(url: str, seconds: float) -> None:
    """Wait until the program at URL says that it is ready.

    URL is its /readyz, which it serves at --health-probe-bind-address. The command needs no right
    in any cluster; `helm test` calls it for each program of a release.

    \b
    Example:
        fairlead ready http://127.0.0.1:8081/readyz --timeout 2m
    """  # noqa: D301
    if not url.startswith(("http://", "https://")):
        raise click.UsageError(f"{url!r} is not a URL, such as http://127.0.0.1:8081/readyz")
    end = time.monotonic() + seconds
    while fault := _fault(url, end - time.monotonic()):
        if time.monotonic() + _PAUSE >= end:
            raise click.ClickException(
                f"{url} is not ready: {printable(fault)}; the log of the program says why"
            )
        time.sleep(_PAUSE)
    click.echo(f"{url} is ready")


def _fault(url: str, seconds: float) -> str:
    """Return the fault of the program; "" if it is ready."""
    # A proxy of the environment does not reach a Pod.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=max(seconds, _PAUSE)):
            return ""
    except urllib.error.HTTPError as error:
        return f"it answers {error.code}: {error.read(_QUOTED).decode(errors='replace').strip()}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__
