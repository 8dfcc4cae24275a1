"""``fairlead bind``: bind the exports of a provider in the consumer's cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import click
import msgspec

from fairlead.api.kubebind import decode_binding_response, decode_export_requests
from fairlead.cli.frontdoor.options import Where, offered, server_options
from fairlead.cli.frontdoor.sources import (
    Fetch,
    Identity,
    given,
    page_source,
    remote_source,
    template_source,
)
from fairlead.cli.kubebind.binding import (
    How,
    accepted_webhooks,
    carry_out,
    how_options,
    make_how,
    webhook_options,
)
from fairlead.cli.options import (
    DURATION,
    NAMESPACE,
    OBJECT_NAME,
    cluster_config,
    cluster_options,
)
from fairlead.konnector.commands.copies import Copies
from fairlead.konnector.commands.names import with_name


T = TypeVar("T")

_SOURCES = (
    "-f FILE, --template NAME, --request FILE with --remote-kubeconfig, or the URL of a provider"
)


class From(msgspec.Struct, kw_only=True):
    """Flags that name the source of the response to bind; exactly one source is allowed."""

    url: str = ""
    file: BinaryIO | None = None
    request_file: BinaryIO | None = None
    template: str = ""
    remote_kubeconfig: BinaryIO | None = None
    remote_kubeconfig_namespace: str = ""
    remote_kubeconfig_name: str = ""
    remote_namespace: str = ""
    skip_browser: bool = False
    browser_timeout: float = 300.0

    @property
    def remote(self) -> bool:
        """Whether a flag names a kubeconfig of the provider."""
        secret = self.remote_kubeconfig_namespace or self.remote_kubeconfig_name
        return bool(secret) or self.remote_kubeconfig is not None


@click.command("bind")
@click.argument("url", required=False, default="", metavar="[URL]")
@cluster_options
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.File("rb"),
    help="The invitation, a BindingResponse in YAML or JSON; - reads standard input.",
)
@click.option(
    "--template",
    type=OBJECT_NAME,
    metavar="NAME",
    default="",
    shell_complete=offered,
    help="Template of `fairlead templates` to bind; needs `fairlead login`.",
)
@click.option(
    "--request",
    "request_file",
    metavar="FILE",
    type=click.File("rb"),
    help="File of APIServiceExportRequests, in YAML or JSON. They replace those of the "
    "invitation, or are made with --remote-kubeconfig.",
)
@click.option(
    "--remote-kubeconfig",
    metavar="FILE",
    type=click.File("rb"),
    help="Kubeconfig from the provider, for --request.",
)
@click.option(
    "--remote-kubeconfig-namespace",
    type=NAMESPACE,
    metavar="NAMESPACE",
    default="",
    help="Namespace of a Secret in this cluster that holds the provider's kubeconfig.",
)
@click.option(
    "--remote-kubeconfig-name",
    type=OBJECT_NAME,
    metavar="NAME",
    default="",
    help="Name of that Secret.",
)
@click.option(
    "--bundle",
    is_flag=True,
    help="Bind all that the provider exports, now and later, by an APIServiceBindingBundle.",
)
@click.option(
    "--name",
    type=OBJECT_NAME,
    metavar="NAME",
    default="",
    help="Name of the binding and of the request at the provider, or with --bundle of the bundle; "
    "default: the name in the invitation.",
)
@click.option(
    "--keep-copies",
    is_flag=True,
    help="This cluster replaces another one: keep the copies on the provider that have no object "
    "here. Each copy is used again when its object returns.",
)
@click.option(
    "--discard-copies",
    is_flag=True,
    help="This cluster replaces another one: delete the copies on the provider that have no "
    "object here, for ever.",
)
@click.option(
    "--skip-browser",
    is_flag=True,
    help="With URL: print the page's address instead of opening it.",
)
@click.option(
    "--browser-timeout",
    type=DURATION,
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="With URL: how long to wait for the page.",
)
@webhook_options
@how_options
@server_options
def command(
    bundle: bool,
    name: str,
    keep_copies: bool,
    discard_copies: bool,
    user_roles: bool,
    conversion_webhook: tuple[str, ...],
    conversion_allow_cidr: tuple[str, ...],
    seconds: float,
    namespace: str,
    dry_run: str,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
    **options: Any,
) -> None:
    """Bind what a provider offers.

    The offer comes from an invitation (-f), from a template of a front door that you are signed in
    to (--template), from a choice on a provider's page (URL), or from a request of your own
    (--request). The command sends the request to the provider. Then it writes the kubeconfig
    Secret, the konnector's rights on exactly what is bound, those of people who have view, edit or
    admin in a namespace, and the APIServiceBinding, and waits until that is Ready. Running it
    twice changes nothing. If it fails or is stopped, it takes back what it wrote. If a name is
    taken, a number is added to it.

    If this cluster replaces another one that was bound with the same invitation, no copy on the
    provider is deleted. Restore the objects, then run the command again with --keep-copies or
    --discard-copies.

    \b
    Example:
        fairlead bind -f shop-team.json --kubeconfig consumer.kubeconfig
        fairlead bind -f shop-team.json --name shop-database
        fairlead bind -f answer.yaml --request request.yaml
        fairlead bind -f answer.yaml --bundle
        fairlead bind -f shop-team.json --keep-copies
        fairlead bind --template postgres --name shop-database
        fairlead bind https://bind.example.org
        fairlead bind --request request.yaml --remote-kubeconfig provider.kubeconfig
    """  # noqa: D301
    if keep_copies and discard_copies:
        raise click.UsageError(
            "--keep-copies and --discard-copies exclude each other: give one of them"
        )
    fields = Where.__struct_fields__
    where = Where(**{key: value for key, value in options.items() if key in fields})
    source = From(**{key: value for key, value in options.items() if key not in fields})
    how = make_how(
        seconds=seconds,
        namespace=namespace,
        dry_run=dry_run,
        output=output,
        name=name,
        bundle=bundle,
        copies=_copies(keep=keep_copies, discard=discard_copies),
        webhooks=accepted_webhooks(conversion_webhook, conversion_allow_cidr),
        user_roles=user_roles,
    )
    fetch = choose(source, where, how)
    carry_out(cluster_config(kubeconfig, context), fetch, how)


def choose(source: From, where: Where, how: How, identity: Identity | None = None) -> Fetch:
    """Return the source of the response that the flags name.

    Raises:
        click.UsageError: the flags name no source or several, or exclude each other.
        click.ClickException: a file has other content than expected.
    """
    mine = identity or Identity()
    # Beside -f the file only replaces the invitation's requests, and is no source.
    own = source.request_file is not None and source.file is None
    named = [bool(source.url), source.file is not None, bool(source.template), own]
    if sum(named) != 1:
        raise click.UsageError(f"name what to bind by one of these: {_SOURCES}")
    if source.remote and not own:
        raise click.UsageError("--remote-kubeconfig and its namespace and name need --request")
    if source.request_file is not None and source.file is not None:
        return _replaced(source.file, source.request_file)
    if source.file is not None:
        response = read(source.file, decode_binding_response)
        # A wrong --name is reported before any request; answers of other sources are checked when
        # they come.
        if not how.bundle:
            try:
                with_name(response, how.name)
            except ValueError as error:
                raise click.UsageError(str(error)) from None
        return given(response)
    if source.request_file is not None:
        return _remote(source, source.request_file)
    if source.template:
        return template_source(where, source.template, name=how.name, identity=mine, dry=how.dry)
    if how.dry:
        raise click.UsageError(
            "--dry-run does not work with a provider's page, for the page binds: use --template"
        )
    return page_source(
        where,
        source.url,
        identity=mine,
        seconds=source.browser_timeout,
        skip_browser=source.skip_browser,
    )


def _replaced(file: BinaryIO, request_file: BinaryIO) -> Fetch:
    """Return the source for an invitation with other requests than its own."""
    if _is_stdin(file) and _is_stdin(request_file):
        raise click.UsageError("-f and --request cannot both be read from standard input")
    response = read(file, decode_binding_response)
    requests = read(request_file, decode_export_requests)
    # The binding's name was the one for the invitation's own request.
    return given(msgspec.structs.replace(response, requests=requests, binding_name=""))


def _remote(source: From, request_file: BinaryIO) -> Fetch:
    secret = (source.remote_kubeconfig_namespace, source.remote_kubeconfig_name)
    if (source.remote_kubeconfig is not None) == any(secret) or any(secret) != all(secret):
        raise click.UsageError(
            "--request needs -f, or --remote-kubeconfig, or --remote-kubeconfig-namespace "
            "together with --remote-kubeconfig-name"
        )
    kubeconfig = b""
    if source.remote_kubeconfig is not None:
        if _is_stdin(source.remote_kubeconfig) and _is_stdin(request_file):
            raise click.UsageError(
                "--remote-kubeconfig and --request cannot both be read from standard input"
            )
        kubeconfig = source.remote_kubeconfig.read()
        if not kubeconfig.strip():
            raise click.ClickException("--remote-kubeconfig: it is empty")
    return remote_source(
        read(request_file, decode_export_requests),
        kubeconfig,
        secret=secret,
        namespace=source.remote_namespace,
    )


def _copies(*, keep: bool, discard: bool) -> Copies:
    return "keep" if keep else "discard" if discard else ""


def _is_stdin(file: BinaryIO) -> bool:
    return getattr(file, "name", "-") in {"-", "<stdin>"}


def read(file: BinaryIO, decode: Callable[[bytes], T]) -> T:
    """Decode the content of a file.

    Raises:
        click.ClickException: it holds something else; names the file.
    """
    source = "standard input" if _is_stdin(file) else file.name
    try:
        return decode(file.read())
    except ValueError as error:
        raise click.ClickException(f"{source}: {error}") from None
