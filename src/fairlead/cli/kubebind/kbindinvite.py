"""The part of ``fairlead provider`` that is about kbind v2: its flags, and its file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from fairlead import process
from fairlead.api.meta import JSON
from fairlead.cli import completion
from fairlead.cli.crds import to_yaml
from fairlead.cli.options import API_NAME, NAMESPACE, write_private
from fairlead.cli.texts import say
from fairlead.client import Client, ClusterConfig
from fairlead.provider.manifests import NAME
from fairlead.provider.options import InviteOptions
from fairlead.provider.v2.invitation import KONNECTOR_NAMESPACE, invite
from fairlead.provider.v2.record import RELATED, KbindInvitation


F = TypeVar("F", bound=Callable[..., Any])

_OF_V1ALPHA2 = ("template", "identity", "namespace_prefix", "pretty_name")
_OF_V2 = (
    *("apis", "namespaces", "whole_cluster", "related", "existing_namespaces"),
    "konnector_namespace",
)


def kbind_flags(function: F) -> F:
    """Add the flags of an invitation by kbind v2."""
    for option in reversed(
        (
            click.option(
                "--api",
                "apis",
                multiple=True,
                type=API_NAME,
                metavar="PLURAL.GROUP",
                help="An API that the consumer may use; may be repeated. v2 only, required at "
                "first.",
            ),
            click.option(
                "--namespace",
                "namespaces",
                multiple=True,
                type=NAMESPACE,
                metavar="NAMESPACE",
                shell_complete=completion.names(completion.namespaces),
                help="A namespace of the consumer's objects, of the same name on both sides; may "
                "be repeated. Here it is created. v2 only; default: NAME.",
            ),
            click.option(
                "--existing-namespaces",
                is_flag=True,
                help="Also use namespaces that exist here: the consumer reads and writes all "
                "objects of its APIs in them. v2 only.",
            ),
            click.option(
                "--whole-cluster",
                is_flag=True,
                help="Let the consumer use all objects of its APIs in all namespaces, also those "
                "of others. v2 only.",
            ),
            click.option(
                "--related",
                multiple=True,
                type=click.Choice(list(RELATED)),
                help="Secrets or ConfigMaps of its namespaces that are copied too; may be "
                "repeated. v2 only.",
            ),
            click.option(
                "--konnector-namespace",
                default="",
                type=NAMESPACE,
                metavar="NAMESPACE",
                help="Namespace of the konnector in the consumer's cluster; default: "
                f"{KONNECTOR_NAMESPACE}. v2 only.",
            ),
        )
    ):
        function = option(function)
    return function


def check_protocol(protocol: str) -> None:
    """Check that all flags that are given belong to a protocol.

    Raises:
        click.UsageError: one does not, or a flag is missing.
    """
    context = click.get_current_context()
    flags = {one.name: one.opts[-1] for one in context.command.params}
    for name in _OF_V1ALPHA2 if protocol == "v2" else _OF_V2:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            other = "v1alpha2" if protocol == "v2" else "v2"
            raise click.UsageError(
                f"{flags[name]} belongs to --protocol {other}: this invitation is by {protocol}"
            )
    missing = {"template": "'--template'", "output": "'-o' / '--output'"}
    for name, flag in missing.items() if protocol == "v1alpha2" else ():
        if not context.params[name]:
            raise click.UsageError(f"Missing option {flag}.")


def request_of(connection: str, flags: Mapping[str, Any]) -> KbindInvitation:
    """Return the invitation that the flags ask for."""
    return KbindInvitation(
        apis=tuple(flags["apis"]),
        namespaces=tuple(flags["namespaces"]),
        whole_cluster=flags["whole_cluster"],
        related=tuple(flags["related"]),
        connection=connection,
        konnector_namespace=flags["konnector_namespace"],
    )


def invite_by_kbind(
    config: ClusterConfig,
    name: str,
    request: KbindInvitation,
    output: Path | None,
    options: InviteOptions,
    flags: Mapping[str, Any],
) -> None:
    """Invite a consumer by kbind v2, and hand its file out."""

    async def main(stop: asyncio.Event) -> list[JSON]:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:
            invitation = invite(
                client,
                name=name,
                request=request,
                existing_namespaces=flags["existing_namespaces"],
                options=options,
                progress=say,
            )
            return await process.cancel_on(stop, invitation)

    documents = process.run(main)
    hand_out(documents, output, name)


def check_folder(output: Path) -> None:
    """Check that a file can be written, before the cluster is changed for what it would hold.

    Raises:
        click.UsageError: its folder does not exist.
    """
    if not output.absolute().parent.is_dir():
        raise click.UsageError(f"--output: folder {output.parent} does not exist")


def hand_out(documents: Sequence[JSON], output: Path | None, name: str) -> None:
    """Write the file of a consumer, or print it, and say what it is for."""
    text = to_yaml(list(documents))
    if output is None:
        click.echo(text, nl=False)
        return
    write_private(output, text)
    spaces = [one["metadata"].get("namespace") for one in documents if one["kind"] == "Binding"]
    there = f" (with namespace {', '.join(spaces)})" if spaces else ""
    click.echo(f"{output}: everything that {name} needs to bind; keep it secret", err=True)
    click.echo(
        f"in the consumer's cluster{there}: fairlead bind -f {output}, or kubectl apply",
        err=True,
    )
