"""Opens a person's browser at an address."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping

import click

from fairlead.cli.texts import printable


def show(url: str, *, skip: bool, by: str = "") -> None:
    """Open an address in a browser, and print it on standard error in case there is no browser.

    Args:
        url: the address.
        skip: whether the address is only printed.
        by: the argument of the browser in place of the address, if the address is a secret: all
            users of a machine see the arguments of its processes.
    """
    command = [] if skip else opener(os.environ, sys.platform)
    given = by or url
    opened = bool(command) and _start([*(part.replace("%s", given) for part in command)], given)
    intro = "a browser opens; where it does not, open" if opened else "open this in a browser:"
    click.echo(f"{intro}\n\n    {printable(url)}\n", err=True)


def opener(environ: Mapping[str, str], platform: str) -> list[str]:
    """Return the command that opens an address, [] where no browser is expected."""
    # BROWSER may list several commands, as Python's webbrowser reads it.
    if named := environ.get("BROWSER", "").split(os.pathsep)[0]:
        try:
            return shlex.split(named)
        except ValueError:
            return []
    if platform == "darwin":
        return ["open"]
    # Without a display xdg-open would start a text browser in this terminal.
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return []
    return ["xdg-open"]


def _start(command: list[str], url: str) -> bool:
    if not command or shutil.which(command[0]) is None:
        return False
    # A command of BROWSER without %s takes the address as its last word.
    if url not in " ".join(command):
        command.append(url)
    try:
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C at the terminal is for this command, and not for the browser.
            start_new_session=True,
        )
    except OSError:
        return False
    return True
