"""``fairlead provider``: the provider cluster's side of kube-bind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from fairlead import process
from fairlead.cli.files import write_private
from fairlead.cli.options import cluster_config, cluster_options, run_options
from fairlead.cli.running import RunOptions, run_program
from fairlead.client import Client
from fairlead.provider import app
from fairlead.provider.invite import invite as create_invitation
from fairlead.provider.manifests import NAME
from fairlead.provider.options import (
    DEFAULT_NAMESPACE,
    InviteOptions,
    ProviderOptions,
    check_external_address,
    parse_consumer_scope,
    parse_isolation,
)
from fairlead.runtime import Cluster, Manager


@click.group("provider")
def command() -> None:
    """Offer services to other clusters.

    \b
    Example:
        fairlead provider run --kubeconfig provider.kubeconfig
        fairlead provider invite shop-team --template postgres -o shop-team.json
    """  # noqa: D301


@command.command("run")
@cluster_options
@run_options
@click.option("--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="Of the Lease.")
@click.option(
    "--consumer-scope",
    type=click.Choice(["namespaced", "cluster"], case_sensitive=False),
    default="namespaced",
    show_default=True,
    help="How far a consumer's rights reach: its own namespaces, or reading everywhere.",
)
@click.option(
    "--isolation",
    type=click.Choice(["prefixed", "namespaced", "none"], case_sensitive=False),
    default="prefixed",
    show_default=True,
    help="How cluster-scoped objects of several consumers are kept apart.",
)
def run(namespace: str, consumer_scope: str, isolation: str, **shared: Any) -> None:
    """Run the provider's controllers.

    \b
    Example:
        fairlead provider run --kubeconfig provider.kubeconfig
    """  # noqa: D301
    options = ProviderOptions(
        consumer_scope=parse_consumer_scope(consumer_scope),
        isolation=parse_isolation(isolation),
    )

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options)

    run_program(NAME, namespace, RunOptions(**shared), app.install_crds, build)


@command.command("invite")
@cluster_options
@click.argument("name")
@click.option("--template", required=True, help="The APIServiceExportTemplate to offer.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the invitation; it holds a credential, so mode 0600.",
)
@click.option("--identity", default="", help="Of the consumer's cluster; default: NAME.")
@click.option(
    "--external-address", default="", help="How consumers reach this cluster, https://..."
)
@click.option(
    "--external-ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The CA that consumers shall trust; default: the kubeconfig's.",
)
@click.option("--pretty-name", default="Fairlead", show_default=True, help="How consumers see us.")
def invite(
    name: str,
    template: str,
    output: Path,
    identity: str,
    external_address: str,
    external_ca_file: Path | None,
    pretty_name: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Invite the consumer NAME: write what it needs to bind a template.

    Inviting a consumer again gives the same namespace and credential.

    \b
    Example:
        fairlead provider invite shop-team --template postgres -o shop-team.json
    """  # noqa: D301
    try:
        address = check_external_address(external_address) if external_address else ""
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not output.absolute().parent.is_dir():
        raise click.UsageError(f"there is no folder {output.parent} to write the invitation to")
    options = InviteOptions(
        pretty_name=pretty_name,
        external_address=address,
        external_ca=external_ca_file.read_bytes() if external_ca_file else b"",
    )
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> Any:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:
            invitation = create_invitation(
                client, name=name, template=template, identity=identity, options=options
            )
            return await process.cancel_on(stop, invitation)

    response = process.run(main)
    write_private(output, json.dumps(response, indent=2) + "\n")
    click.echo(f"{output}: an invitation for {name}; keep it secret", err=True)
    click.echo(f"in the consumer's cluster: fairlead bind -f {output}", err=True)
