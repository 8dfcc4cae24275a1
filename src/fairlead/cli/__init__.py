"""Commands only: every line of work is in the packages below."""

from __future__ import annotations

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fairlead")
def main() -> None:
    """Fairlead gets a service from the team that runs it to the app that needs it."""
