"""``fairlead user-roles``: ClusterRoles by which people use bound kinds, as YAML."""

from __future__ import annotations

import asyncio

import click

from fairlead import process
from fairlead.api.kubebind import GroupResource
from fairlead.api.kubebind.names import bindable
from fairlead.api.meta import JSON
from fairlead.cli import completion
from fairlead.cli.crds import to_yaml
from fairlead.cli.options import OBJECT_NAME, cluster_config, cluster_options
from fairlead.cli.texts import say
from fairlead.client import Client
from fairlead.konnector.commands.userroles import roles_for_users
from fairlead.konnector.rights import user_roles


@click.command("user-roles")
@cluster_options
@click.argument(
    "bindings", type=OBJECT_NAME, nargs=-1, shell_complete=completion.names(completion.bindings)
)
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="PLURAL.GROUP",
    help="Resource that BINDING will bind. BINDING need not exist yet, because the command asks"
    " no cluster. May be given several times.",
)
def command(
    bindings: tuple[str, ...],
    resources: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print ClusterRoles that let people use the kinds that BINDINGS, or all bindings, bind.

    People with view in a namespace may then read objects of the bound kinds there, and people with
    edit or admin may write them. `fairlead bind` and `fairlead accept` write these roles, and
    `fairlead unbind` deletes them. Print them to keep them in Git, or for bindings that an older
    version created.

    \b
    Example:
        fairlead user-roles | kubectl apply -f -
        fairlead user-roles shop-database > roles.yaml
        fairlead user-roles shop-database --resource postgresaccesses.access.k8s.delta10.nl
    """  # noqa: D301
    if resources:
        if len(bindings) != 1:
            raise click.UsageError("--resource needs one BINDING: the roles are named after it")
        click.echo(to_yaml(user_roles(bindings[0], list(map(_resource, resources)))), nl=False)
        return
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> list[JSON]:
        async with Client(config, user_agent="fairlead-user-roles") as client:
            return await process.cancel_on(stop, roles_for_users(client, bindings, say))

    if roles := process.run(main):
        click.echo(to_yaml(roles), nl=False)


def _resource(text: str) -> GroupResource:
    """Return a resource from ``PLURAL.GROUP``.

    Raises:
        click.UsageError: it has no group.
    """
    plural, _, group = text.partition(".")
    if not plural or not bindable(group):
        raise click.UsageError(
            f"--resource {text!r} is not the PLURAL.GROUP of a kind that a provider may offer"
        )
    return GroupResource(group=group, resource=plural)
