"""``fairlead bind``: accept an invitation in the consumer's cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import click
import msgspec

from fairlead import process
from fairlead.api.kubebind import decode_binding_response, decode_export_requests
from fairlead.cli.options import (
    check_name,
    cluster_config,
    cluster_options,
    konnector_namespace_option,
    parse_duration,
    timeout_option,
)
from fairlead.cli.texts import printable, say
from fairlead.client import Client
from fairlead.konnector.commands.bind import bind, bind_bundle
from fairlead.konnector.commands.copies import Copies
from fairlead.konnector.commands.names import with_name


T = TypeVar("T")


@click.command("bind")
@cluster_options
@click.option(
    "-f",
    "--filename",
    "file",
    required=True,
    type=click.File("rb"),
    help="The invitation, a BindingResponse in YAML or JSON; - reads standard input.",
)
@click.option(
    "--request",
    "request_file",
    metavar="FILE",
    type=click.File("rb"),
    help="APIServiceExportRequests to make in place of the invitation's, in YAML or JSON.",
)
@click.option(
    "--bundle",
    is_flag=True,
    help="Bind whatever the provider exports, now and later, by an APIServiceBindingBundle.",
)
@click.option(
    "--name",
    metavar="NAME",
    default="",
    help="Of the binding and of the request at the provider; default: as the invitation says. "
    "With --bundle: of the bundle.",
)
@click.option(
    "--keep-copies",
    is_flag=True,
    help="The copies on the provider were made for another cluster, which this one replaces: "
    "keep those whose objects are not here, so that each is taken up when its object returns.",
)
@click.option(
    "--discard-copies",
    is_flag=True,
    help="As --keep-copies, but delete for ever those whose objects are not here.",
)
@timeout_option("2m", "until it is Ready")
@konnector_namespace_option
def command(
    file: BinaryIO,
    request_file: BinaryIO | None,
    bundle: bool,
    name: str,
    keep_copies: bool,
    discard_copies: bool,
    timeout: str,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Bind what a provider offers.

    Asks the provider for what the invitation says, then writes the kubeconfig Secret, the
    konnector's rights on exactly what is bound and the APIServiceBinding, and waits until it is
    Ready. Doing it twice changes nothing. What fails, or is stopped, is taken back. A name that
    stands for something else already gets a number.

    In a cluster that replaces another one, which was bound with the same invitation, no copy on
    the provider is deleted: restore the objects, and end that with --keep-copies or
    --discard-copies.

    \b
    Example:
        fairlead bind -f shop-team.json --kubeconfig consumer.kubeconfig
        fairlead bind -f shop-team.json --name shop-database
        fairlead bind -f answer.yaml --request request.yaml
        fairlead bind -f answer.yaml --bundle
        fairlead bind -f shop-team.json --keep-copies
    """  # noqa: D301
    seconds = parse_duration(timeout, option="--timeout")
    check_name("--name", name)
    check_name("--namespace", namespace)
    if keep_copies and discard_copies:
        raise click.UsageError("--keep-copies and --discard-copies cannot both be said")
    if request_file is not None and _is_stdin(file) and _is_stdin(request_file):
        raise click.UsageError("-f and --request cannot both be read from standard input")
    response = _read(file, decode_binding_response)
    if request_file is not None:
        requests = _read(request_file, decode_export_requests)
        response = msgspec.structs.replace(response, requests=requests, binding_name="")
    if not bundle:
        try:
            response = with_name(response, name)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    config = cluster_config(kubeconfig, context)

    options: dict[str, Any] = {
        "timeout": seconds,
        "progress": say,
        "namespace": namespace,
        "copies": _copies(keep=keep_copies, discard=discard_copies),
    }

    async def main(stop: asyncio.Event) -> list[str]:
        async with Client(config, user_agent="fairlead-bind") as client:
            if not bundle:
                names = await process.cancel_on(stop, bind(client, response, **options))
                return [f"apiservicebinding.kube-bind.io/{one} is Ready" for one in names]
            work = bind_bundle(client, response, name=name, **options)
            made, names = await process.cancel_on(stop, work)
            what = ", ".join(names) or "nothing yet: the provider exports nothing"
            return [f"apiservicebindingbundle.kube-bind.io/{made} binds {what}"]

    for line in process.run(main):
        click.echo(printable(line))


def _copies(*, keep: bool, discard: bool) -> Copies:
    return "keep" if keep else "discard" if discard else ""


def _is_stdin(file: BinaryIO) -> bool:
    return getattr(file, "name", "-") in {"-", "<stdin>"}


def _read(file: BinaryIO, decode: Callable[[bytes], T]) -> T:
    source = "standard input" if _is_stdin(file) else file.name
    try:
        return decode(file.read())
    except ValueError as error:
        raise click.ClickException(f"{source}: {error}") from None
