"""``fairlead provider``: the provider cluster's side of kube-bind."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any

import click

from fairlead import process
from fairlead.api.kubebind import provider_crds
from fairlead.api.label_names import subdomain_errors
from fairlead.cli import completion
from fairlead.cli.kubebind.consumers import consumers
from fairlead.cli.kubebind.handover import hand_over
from fairlead.cli.kubebind.hashing import hash_password
from fairlead.cli.kubebind.kbindinvite import (
    check_folder,
    check_protocol,
    invite_by_kbind,
    kbind_flags,
    request_of,
)
from fairlead.cli.kubebind.reaching import invite_flags, invite_options
from fairlead.cli.kubebind.revoke import revoke
from fairlead.cli.kubebind.rotate import rotate
from fairlead.cli.kubebind.serve import serve
from fairlead.cli.kubebind.signout import sign_out
from fairlead.cli.options import (
    OBJECT_NAME,
    cluster_config,
    cluster_options,
    flag_options,
    options_of,
    write_private,
)
from fairlead.cli.running import RunOptions, run_options, run_program
from fairlead.cli.texts import printable, say
from fairlead.client import Client
from fairlead.provider import app
from fairlead.provider.invitation import invite as create_invitation
from fairlead.provider.manifests import NAME
from fairlead.provider.options import ProviderOptions
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
@flag_options(ProviderOptions)
@invite_flags
def run(**flags: Any) -> None:
    """Run the provider's controllers.

    The --external flags are for consumers that are invited by BindableResourcesRequests.

    \b
    Example:
        fairlead provider run --kubeconfig provider.kubeconfig
    """  # noqa: D301
    options = options_of(ProviderOptions, flags)
    if not flags["isolation"]:
        click.echo(
            "warning: --isolation is empty, which means none: objects keep the names that their "
            "consumers gave them; give --isolation none, or prefixed",
            err=True,
        )
    invitations = invite_options(flags)

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options, invitations)

    shared = options_of(RunOptions, flags)
    run_program(NAME, options.namespace, shared, provider_crds(), build)


@command.command("invite")
@cluster_options
@click.argument("name")
@click.option(
    "--protocol",
    type=click.Choice(["v1alpha2", "v2"]),
    default="v1alpha2",
    show_default=True,
    help="v1alpha2 offers a template; v2 offers APIs, and needs no program in this cluster.",
)
@click.option(
    "--template",
    type=OBJECT_NAME,
    default="",
    shell_complete=completion.names(completion.templates),
    help="The APIServiceExportTemplate to offer; v1alpha2 only, required.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the invitation; it holds a credential, so its mode is 0600. Without it v2 "
    "prints the file.",
)
@click.option(
    "--name",
    "binding",
    type=OBJECT_NAME,
    default="",
    metavar="BINDING",
    help="Name of the binding, and of the Connection of v2; default: TEMPLATE, or the group of "
    "the first API.",
)
@click.option(
    "--identity",
    default="",
    help="Identity of the consumer's cluster; default: NAME. v1alpha2 only.",
)
@kbind_flags
@invite_flags
def invite(
    name: str,
    protocol: str,
    template: str,
    output: Path | None,
    binding: str,
    identity: str,
    kubeconfig: str | None,
    context: str | None,
    **flags: Any,
) -> None:
    """Invite the consumer NAME: write a file with which it binds a template, or APIs of kbind v2.

    Inviting a consumer again gives the same namespace and credential. With another template the
    consumer may also request what that template offers. With v2, apply the file in the consumer's
    cluster by `kubectl apply` or `fairlead bind -f`; inviting again with another --api or
    --namespace adds it.

    \b
    Example:
        fairlead provider invite shop-team --template postgres -o shop-team.json
        fairlead provider invite shop-team --protocol v2 --api widgets.example.org -o shop.yaml
    """  # noqa: D301
    check_protocol(protocol)
    if not name.strip():
        raise click.UsageError("NAME is empty: give the consumer a name, such as shop-team")
    if subdomain_errors(name):
        raise click.UsageError(_misnamed(name))
    if identity != identity.strip() or not identity.isprintable():
        raise click.UsageError(
            f"--identity {identity!r} begins or ends with a space, or has characters that cannot "
            "be seen: it could not be typed again"
        )
    # Looked at first, for inviting makes a namespace and a token, and the invitation would be
    # lost.
    if output is not None:
        check_folder(output)
    options = invite_options(flags)
    config = cluster_config(kubeconfig, context)
    if protocol == "v2" or output is None:
        invite_by_kbind(config, name, request_of(binding, flags), output, options, flags)
        return

    async def main(stop: asyncio.Event) -> Any:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:
            invitation = create_invitation(
                client,
                name=name,
                template=template,
                identity=identity,
                binding_name=binding,
                options=options,
                progress=say,
            )
            return await process.cancel_on(stop, invitation)

    response = process.run(main)
    # If this fails, nothing is lost: the same command gives the same token again.
    write_private(output, json.dumps(response, indent=2) + "\n")
    known_as = f"{identity or name}, cluster namespace {response['providerNamespace']}"
    click.echo(f"{output}: an invitation for {known_as}; keep it secret", err=True)
    click.echo(f"in the consumer's cluster: fairlead bind -f {output}", err=True)


def _misnamed(name: str) -> str:
    """Return why a consumer's name is invalid, and suggest another."""
    suggested = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST].strip("-") or "shop-team"
    text = (
        f"NAME {printable(name)!r} has to be lower-case letters, digits, '-' and '.', with a "
        f"letter or digit at both ends, at most 253: use {suggested}"
    )
    if name == name.strip() and name.isprintable():
        # Consumers that were invited before the rule are known by such an identity.
        quoted = shlex.quote(name)
        text += f"; for a consumer that is known as {quoted}, give {suggested} --identity {quoted}"
    return text


_LONGEST = 63
"""Maximum length of a suggested name, in characters."""


for _command in (consumers, hand_over, hash_password, revoke, rotate, serve, sign_out):
    command.add_command(_command)
