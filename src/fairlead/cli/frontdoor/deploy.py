"""``fairlead deploy``: bind by a BindingResponse from a Secret of the cluster or from a file."""

from __future__ import annotations

from typing import Any, BinaryIO

import click

from fairlead.api.kubebind import decode_binding_response
from fairlead.cli.frontdoor.sources import Fetch, given, secret_source
from fairlead.cli.kubebind.bind import read
from fairlead.cli.kubebind.binding import carry_out, how_options, make_how
from fairlead.cli.options import NAMESPACED_NAME, cluster_config, cluster_options


@click.command("deploy")
@click.option(
    "--secret",
    type=NAMESPACED_NAME,
    metavar="NAMESPACE/NAME",
    default="",
    help="A Secret of this cluster that holds a BindingResponse.",
)
@click.option(
    "--secret-key",
    metavar="KEY",
    default="",
    help="Key of that Secret; default: binding-response, or else kubeconfig.",
)
@click.option(
    "-f",
    "--file",
    type=click.File("rb"),
    help="A BindingResponse in YAML or JSON; - reads standard input.",
)
@cluster_options
@how_options
def command(
    secret: str,
    secret_key: str,
    file: BinaryIO | None,
    kubeconfig: str | None,
    context: str | None,
    **how: Any,
) -> None:
    """Bind by a BindingResponse from a Secret of this cluster or from a file.

    It does what `fairlead bind -f` does, for a response that a controller or a person has put into
    this cluster.

    \b
    Example:
        fairlead deploy --secret shop/postgres-answer
        fairlead deploy -f answer.yaml
    """  # noqa: D301
    options = make_how(**how)
    fetch = answer_of(secret, secret_key, file)
    carry_out(cluster_config(kubeconfig, context), fetch, options)


def answer_of(secret: str, key: str, file: BinaryIO | None) -> Fetch:
    """Return the source of the BindingResponse: a Secret or a file.

    Raises:
        click.UsageError: neither is named, or both are.
    """
    if bool(secret) == (file is not None):
        raise click.UsageError(
            "the BindingResponse is missing: give --secret NAMESPACE/NAME, or -f FILE"
        )
    if file is not None:
        return given(read(file, decode_binding_response))
    namespace, slash, name = secret.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.UsageError(f"--secret: {secret!r} is not NAMESPACE/NAME")
    return secret_source(namespace, name, key)
