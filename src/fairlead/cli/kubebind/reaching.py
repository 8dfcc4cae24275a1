"""Options about a provider's address, for all commands that write kubeconfigs of consumers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from fairlead.api.flags import read
from fairlead.cli.options import flag_options
from fairlead.client.authorities import read_authority
from fairlead.provider.options import InviteOptions


invite_flags = flag_options(InviteOptions)
"""The flags of :class:`InviteOptions`, whose values go to :func:`invite_options`."""
reaching_flags = flag_options(InviteOptions, without=("namespace_prefix", "pretty_name"))
"""The flags of them about the provider's address."""


def invite_options(values: Mapping[str, Any]) -> InviteOptions:
    """Check the values of the flags, and return them for the provider.

    Raises:
        click.UsageError: a value is invalid.
    """
    path = values["external_ca_file"]
    try:
        authority = b"" if path is None else read_authority(path, "--external-ca-file")
        return read(InviteOptions, {**values, "external_ca_file": authority})
    except ValueError as error:
        raise click.UsageError(str(error)) from None
