"""``fairlead bind``: bind the exports of a provider in the consumer's cluster."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, BinaryIO, TypeVar

import click
import msgspec

from fairlead.api.kbind.bindfile import BindFile, is_kbind_file, read_bind_file
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
from fairlead.cli.kubebind.kbind import KbindFlags, carry_out_kbind, kbind_options, wish_of
from fairlead.cli.options import (
    DURATION,
    NAMESPACE,
    OBJECT_NAME,
    cluster_config,
    cluster_options,
)
from fairlead.konnector.commands.copies import Copies
from fairlead.konnector.commands.names import with_name
from fairlead.konnector.conversions import ACCEPT_FLAG


T = TypeVar("T")

_SOURCES = (
    "-f FILE, --template NAME, --request FILE with --remote-kubeconfig, --connection with --api, "
    "or the URL of a provider"
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
    help="The invitation in YAML or JSON: a BindingResponse, or Secret, Connection and bindings "
    "of kbind v2; - reads standard input.",
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
    help="File of APIServiceExportRequests, in YAML or JSON. They replace those of the"
    " invitation; with --remote-kubeconfig the command creates them at the provider.",
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
    help="Bind all that the provider exports, now and later, with an APIServiceBindingBundle.",
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
    help="This cluster replaces another one: delete the copies on the provider that have no"
    " object here, permanently.",
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
@kbind_options
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
    to (--template), from what you choose on a provider's page (URL), or from a request of your own
    (--request). The command sends the request to the provider. Then it writes the kubeconfig
    Secret, RBAC that gives the konnector rights on exactly what is bound, ClusterRoles for people
    who have view, edit or admin in a namespace, and the APIServiceBinding. It waits until the
    binding is Ready. Running it twice changes nothing. If it fails or you stop it, it removes what
    it wrote. If a name is taken, it appends a number.

    With kbind v2 you install nothing at the provider: --provider-kubeconfig and --api create a
    Secret, a Connection and a ClusterBinding, or with -n a Binding. Without a kubeconfig the
    command binds the APIs through an existing Connection.

    If this cluster replaces another one that was bound with the same invitation, the konnector
    deletes no copy on the provider. Restore the objects, then run the command again with
    --keep-copies or --discard-copies.

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
        fairlead bind --provider-kubeconfig acme.kubeconfig --api widgets.example.org
        fairlead bind --connection example.org --api widgets.example.org -n shop
    """  # noqa: D301
    if keep_copies and discard_copies:
        raise click.UsageError(
            "--keep-copies and --discard-copies exclude each other: give one of them"
        )
    flags = KbindFlags(**{name: options.pop(name) for name in KbindFlags.__struct_fields__})
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
    if (file := kbind_file(source, flags, how)) is not None:
        whole = flags.with_kubeconfig
        carry_out_kbind(cluster_config(kubeconfig, context), file, how, whole=whole)
        return
    fetch = choose(source, where, how)
    carry_out(cluster_config(kubeconfig, context), fetch, how)


def kbind_file(source: From, flags: KbindFlags, how: How) -> BindFile | None:
    """Return the objects of kbind v2 that are to be bound; None for a bind by v1alpha2.

    Raises:
        click.UsageError: flags of both protocols are given.
        click.ClickException: a file cannot be used.
    """
    given = flags.given()
    if given and set(given) - {"--with-kubeconfig"}:
        if named := _v1alpha2(source, how, file=True):
            raise click.UsageError(f"{given[0]} and {named} exclude each other: give one of them")
        file = wish_of(flags, how)
    elif source.file is None:
        if given:
            raise click.UsageError("--with-kubeconfig needs --provider-kubeconfig or -f")
        return None
    else:
        content = source.file.read()
        buffer = BytesIO(content)
        buffer.name = getattr(source.file, "name", "-")
        source.file = buffer
        if not is_kbind_file(content):
            return None
        if named := _v1alpha2(source, how, file=False) or ("--name" if how.name else ""):
            raise click.UsageError(f"{named} has no meaning for a file of kbind v2: leave it out")
        file = read(buffer, read_bind_file)
    if flags.with_kubeconfig and not (how.dry_run == "client" and how.output):
        raise click.UsageError("--with-kubeconfig needs --dry-run=client and -o yaml or -o json")
    return file


def _v1alpha2(source: From, how: How, *, file: bool) -> str:
    """Return the first flag of v1alpha2 that is given, "" for none."""
    flags = {
        "URL": source.url,
        "-f": file and source.file is not None,
        "--template": source.template,
        "--request": source.request_file is not None,
        "--remote-kubeconfig": source.remote,
        "--bundle": how.bundle,
        "--keep-copies": how.copies == "keep",
        "--discard-copies": how.copies == "discard",
        ACCEPT_FLAG: how.webhooks.urls,
    }
    return next((flag for flag, value in flags.items() if value), "")


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
