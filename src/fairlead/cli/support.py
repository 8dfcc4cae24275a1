"""``fairlead support``: one file that shows how Fairlead goes, without secrets."""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
from pathlib import Path

import click

from fairlead import process
from fairlead.api.timestamps import moment
from fairlead.cli import completion
from fairlead.cli.errors import INCOMPLETE
from fairlead.cli.options import cluster_config, cluster_options
from fairlead.cli.texts import say
from fairlead.client import Client
from fairlead.support.collecting import UNREAD, Bundle, collect


@click.command("support")
@cluster_options
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    shell_complete=completion.files,
    help="File to write, which must not exist; default: fairlead-support-TIME.tar.gz here.",
)
def command(output: Path | None, kubeconfig: str | None, context: str | None) -> None:
    """Write a support bundle: one file with the state of Fairlead in a cluster, without secrets.

    The file contains versions, the conditions of all Fairlead kinds, Events, and the Pods of
    Fairlead's programs with their logs and metrics. It contains no specs, no Secrets and no
    environment variables. The command removes the values of Secrets from all texts, but only of
    Secrets that you may read: run it as someone who may read them. Host names, user names and
    names of objects stay: look at the file before you send it. If you may not read everything,
    unread.txt in the file names what is missing, and the exit code is 3.

    \b
    Examples:
        fairlead support
        fairlead support --context provider -o provider.tar.gz
    """  # noqa: D301
    now = moment()
    path = output or Path(f"fairlead-support-{now:%Y%m%d-%H%M%S}.tar.gz")
    config = cluster_config(kubeconfig, context)

    async def work(stop: asyncio.Event) -> Bundle:
        async with Client(config, user_agent="fairlead-support") as client:
            return await process.cancel_on(stop, collect(client, say))

    bundle = process.run(work)
    _write(path, bundle, int(now.timestamp()))
    click.echo(path)
    if bundle.unread:
        say(f"{len(bundle.unread)} parts could not be read: {UNREAD} in the file names them")
        raise click.exceptions.Exit(INCOMPLETE)


def _write(path: Path, bundle: Bundle, seconds: int) -> None:
    """Write the archive, which only its owner can read.

    Raises:
        click.ClickException: the file exists, or cannot be written.
    """
    archive = io.BytesIO()
    folder = path.name.partition(".")[0]
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, text in sorted(bundle.files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, seconds
            tar.addfile(entry, io.BytesIO(content))
    try:
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(archive.getvalue())
    except FileExistsError:
        raise click.ClickException(f"{path} exists: give another name to -o") from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None
