"""``fairlead provider hash-password``: the hash of a password for --oidc-people-file."""

from __future__ import annotations

import sys

import click


@click.command("hash-password")
def hash_password() -> None:
    """Print the hash of a password, for the file of --oidc-people-file.

    On a terminal the command asks for the password; else it reads the first line of standard
    input.

    \b
    Example:
        fairlead provider hash-password
    """  # noqa: D301
    from fairlead.portal.identity.embedded.passwords import PasswordError, PasswordHash

    # Never an argument: all users of a machine see those of its processes.
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    try:
        click.echo(PasswordHash.of(password).line)
    except PasswordError as error:
        raise click.ClickException(str(error)) from None
