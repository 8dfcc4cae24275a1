"""``kubectl bind``: the commands, arguments and flags of the original's plugin.

It is the program ``kubectl-bind``, which kubectl finds on PATH. Unlike the original it never
deploys a konnector: that is installed by its manifests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click
from click.shell_completion import CompletionItem

from fairlead import garbage
from fairlead.cli import completion
from fairlead.cli.errors import explained
from fairlead.cli.frontdoor.clusteridentity import print_identity
from fairlead.cli.frontdoor.collections import list_collections
from fairlead.cli.frontdoor.deploy import answer_of
from fairlead.cli.frontdoor.login import log_in
from fairlead.cli.frontdoor.options import Where, find_server, offered, server_options
from fairlead.cli.frontdoor.output import output_option
from fairlead.cli.frontdoor.sources import Fetch, Identity
from fairlead.cli.frontdoor.templates import list_templates
from fairlead.cli.kubebind.bind import From, choose
from fairlead.cli.kubebind.binding import How, carry_out, make_how
from fairlead.cli.options import DURATION, NAMESPACE, NAMESPACED_NAME, OBJECT_NAME, cluster_config
from fairlead.cli.printing import note
from fairlead.cli.texts import open_streams
from fairlead.client import ClusterConfig
from fairlead.client.authorities import AuthorityError, read_authority
from fairlead.client.config import Impersonation


F = TypeVar("F", bound=Callable[..., Any])

_DEFAULT = "url"
"""The hidden command that stands for ``kubectl bind [URL]``."""
_OPTIONS = {"help_option_names": ["-h", "--help"]}
_WORTHLESS = {
    "--skip-konnector": "",
    "--no-banner": "",
    "--downgrade-konnector": "this program deploys no konnector",
    "--konnector-image": "this program deploys no konnector",
    "--konnector-host-alias": "this program deploys no konnector",
    "--provider-kubeconfig-secret-name": "the Secret's name follows from server and namespace",
}
"""Flags of the original that are accepted without effect, and the notes; "" needs none."""
_KLOG = ("--v", "--vmodule", "--stderrthreshold", "--log-file", "--log-dir", "--log-file-max-size")
_KLOG_SWITCHES = ("--logtostderr", "--alsologtostderr", "--one-output", "--skip-headers")
# The original's flag takes no value; kubectl's words are taken too.
_DRY = {
    "-d": "client",
    "--dry-run": "client",
    "--dry-run=true": "client",
    "--dry-run=false": "none",
}


class _Plugin(click.Group):
    """Group that accepts flags before the command, as cobra does; reports errors in one line."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        open_streams()
        return super().main(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # These are about the group itself, and not about its hidden command.
        if args in (["-h"], ["--help"], ["--version"]):
            return super().parse_args(ctx, args)
        arranged = self.arranged(args)
        # A shell that completes wants the commands, too, where none is there yet.
        if ctx.resilient_parsing and arranged == [_DEFAULT, *args]:
            arranged = args
        return super().parse_args(ctx, arranged)

    def arranged(self, args: list[str]) -> list[str]:
        """Return the words with the command first; flags may stand before it."""
        words = [f"--dry-run={_DRY[one]}" if one in _DRY else one for one in args]
        place = self._first(words)
        if place is None:
            return [_DEFAULT, *words]
        word = words[place]
        if word in self.commands:
            return [word, *words[:place], *words[place + 1 :]]
        # Any other word is a mistyped command, which click reports.
        if "://" in word:
            return [_DEFAULT, *words]
        return words

    def _first(self, words: list[str]) -> int | None:
        """Return the position of the first word that belongs to no flag."""
        valued = set(self._valued())
        skip = False
        for place, word in enumerate(words):
            if skip:
                skip = False
            elif word == "--":
                return None
            elif word.startswith("-") and word != "-":
                skip = word in valued
            else:
                return place
        return None

    def _valued(self) -> Iterator[str]:
        """Yield the flags whose value is the next word."""
        for command in self.commands.values():
            for parameter in command.params:
                if isinstance(parameter, click.Option) and not parameter.is_flag:
                    yield from parameter.opts

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        completions = super().shell_complete(ctx, incomplete)
        return [item for item in completions if item.value != _DEFAULT]

    def invoke(self, ctx: click.Context) -> Any:
        garbage.relax()
        with explained():
            return super().invoke(ctx)


@click.group(cls=_Plugin, context_settings=_OPTIONS)
@click.version_option(package_name="fairlead")
def main() -> None:
    """Bind services of a provider into this cluster.

    These are the commands and flags of kube-bind's own plugin, implemented by Fairlead; `fairlead
    --help` has more. The exit code is 1 after an error and 2 after wrong usage.

    \b
    Example:
        kubectl bind login https://bind.example.org
        kubectl bind https://bind.example.org
        kubectl bind apiservice --template-name postgres --name shop-database
    """  # noqa: D301


def _kubectl_options(function: F) -> F:
    """Add kubectl's flags about the consumer's cluster, and klog's, which have no effect."""
    options = [
        click.option(
            "--kubeconfig",
            metavar="FILE",
            shell_complete=completion.files,
            help="Kubeconfig file of this cluster; default: as for kubectl.",
        ),
        click.option(
            "--context",
            metavar="NAME",
            shell_complete=completion.contexts,
            help="Context of the kubeconfig to use; default: its current one.",
        ),
        click.option("--token", default="", help="A token for this cluster."),
        click.option(
            "--tls-server-name",
            default="",
            metavar="NAME",
            help="Name in the certificate of this cluster's API server, if it is not the host of"
            " the address.",
        ),
        click.option(
            "--certificate-authority",
            default="",
            metavar="FILE",
            help="File with the CA certificate of this cluster.",
        ),
        click.option(
            "--as",
            "as_user",
            default="",
            metavar="USER",
            help="The user to act as in this cluster.",
        ),
        click.option(
            "--as-group",
            multiple=True,
            metavar="GROUP",
            help="A group to act as; may be repeated.",
        ),
        click.option("--request-timeout", hidden=True, default=""),
        click.option("-v", "verbosity", hidden=True, default=""),
    ]
    options += [click.option(name, hidden=True, default="") for name in _KLOG]
    options += [click.option(name, hidden=True, is_flag=True) for name in _KLOG_SWITCHES]
    for option in reversed(options):
        function = option(function)
    return server_options(function)


def _bind_options(function: F) -> F:
    """Add the original's flags of binding."""
    options = [
        click.option(
            "--dry-run",
            type=click.Choice(["none", "client", "server"]),
            default="none",
            help="Print the requests that would be made, and write nothing; -d is client.",
        ),
        click.option(
            "--cluster-identity",
            default="",
            help="Identity of this cluster; default: the uid of a namespace.",
        ),
        click.option(
            "--cluster-identity-namespace",
            type=NAMESPACE,
            default="kube-system",
            show_default=True,
            help="Namespace that gives the uid.",
        ),
        click.option(
            "--skip-browser",
            is_flag=True,
            help="Print the address of the page instead of opening it.",
        ),
        click.option(
            "--timeout",
            "seconds",
            type=DURATION,
            default="10m",
            show_default=True,
            metavar="DURATION",
            help="How long to wait.",
        ),
        output_option,
        click.option(
            "--skip-konnector",
            is_flag=True,
            help="Accepted without effect: this program never deploys a konnector.",
        ),
        click.option("--konnector-image", hidden=True, default=""),
        click.option("--konnector-host-alias", hidden=True, multiple=True),
    ]
    for option in reversed(options):
        function = option(function)
    return function


# A flag of kubectl, which the original takes everywhere and none of these commands needs.
def _namespace_option(function: F) -> F:
    return click.option("-n", "--namespace", type=NAMESPACE, default="", hidden=True)(function)


def _cluster(given: dict[str, Any]) -> ClusterConfig:
    config = cluster_config(given["kubeconfig"], given["context"])
    if given["token"]:
        # The token replaces the user of the kubeconfig: with a client certificate beside it, an
        # API server would take the certificate's user.
        config = replace(
            config,
            token=given["token"],
            token_file="",
            exec_plugin=None,
            username="",
            password="",
            client_certificate=b"",
            client_key=b"",
        )
    if given["tls_server_name"]:
        config = replace(config, tls_server_name=given["tls_server_name"])
    if given["certificate_authority"]:
        file = Path(given["certificate_authority"])
        try:
            authority = read_authority(file, "--certificate-authority")
        except (OSError, AuthorityError) as error:
            raise click.UsageError(str(error)) from None
        config = replace(config, certificate_authority=authority)
    if given["as_user"]:
        person = Impersonation(given["as_user"], groups=tuple(given["as_group"]))
        config = replace(config, impersonation=person)
    return config


def _where(given: dict[str, Any]) -> Where:
    return Where(**{name: given[name] for name in Where.__struct_fields__})


def _how(given: dict[str, Any], name: str = "") -> How:
    for flag, why in _WORTHLESS.items():
        if why and given.get(flag.lstrip("-").replace("-", "_")):
            note([f"{flag} changes nothing: {why}"])
    how = make_how(
        seconds=given["seconds"],
        namespace="kube-bind",
        dry_run=given["dry_run"],
        # The original's dry run prints YAML.
        output=given["output"] or ("yaml" if given["dry_run"] != "none" else None),
        name=name,
    )
    how.requests = True
    return how


def _identity(given: dict[str, Any]) -> Identity:
    return Identity(given["cluster_identity"], given["cluster_identity_namespace"])


@main.command(_DEFAULT, hidden=True, context_settings=_OPTIONS)
@click.argument("url", required=False, default="")
@_bind_options
@_namespace_option
@_kubectl_options
def by_page(url: str, **given: Any) -> None:
    """Bind what is chosen on the page of a provider: kubectl bind [URL].

    Without URL the server of the last login is used.

    \b
    Example:
        kubectl bind https://bind.example.org
    """  # noqa: D301
    where, how = _where(given), _how(given)
    url = url or find_server(where).address.key
    # The page is of this very server; --server and --cluster have found it already.
    source = From(url=url, skip_browser=given["skip_browser"])
    fetch = choose(source, where, how, _identity(given))
    carry_out(_cluster(given), fetch, how)


@main.command("login", context_settings=_OPTIONS)
@click.argument("url", required=False, default="")
@click.option(
    "--timeout",
    "seconds",
    type=DURATION,
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="How long to wait for the browser.",
)
@click.option("--skip-browser", is_flag=True, help="Print the address instead of opening it.")
@click.option("--show-token", is_flag=True, help="Print the first 20 characters of the token.")
@_namespace_option
@_kubectl_options
def login(url: str, seconds: float, skip_browser: bool, show_token: bool, **given: Any) -> None:
    """Sign in to the front door of a provider.

    \b
    Example:
        kubectl bind login https://bind.example.org
    """  # noqa: D301
    log_in(url, seconds, _where(given), skip_browser=skip_browser, show_token=show_token)


@main.command("templates", context_settings=_OPTIONS)
@click.argument("url", required=False, default="")
@output_option
@_namespace_option
@_kubectl_options
def templates(url: str, output: str | None, **given: Any) -> None:
    """List what the provider offers you.

    \b
    Example:
        kubectl bind templates
    """  # noqa: D301
    list_templates(output, _where(given), url)


@main.command("collections", context_settings=_OPTIONS)
@click.argument("url", required=False, default="")
@output_option
@_namespace_option
@_kubectl_options
def collections(url: str, output: str | None, **given: Any) -> None:
    """List the provider's templates by their collections.

    \b
    Example:
        kubectl bind collections
    """  # noqa: D301
    list_collections(output, _where(given), url)


@main.command("apiservice", context_settings=_OPTIONS)
@click.argument("named", type=OBJECT_NAME, required=False, default="", metavar="[NAME]")
@click.option(
    "--template-name",
    type=OBJECT_NAME,
    default="",
    metavar="NAME",
    shell_complete=offered,
    help="Template to bind; default: NAME.",
)
@click.option("--name", type=OBJECT_NAME, default="", metavar="NAME", help="Name of the binding.")
@click.option(
    "-f", "--file", type=click.File("rb"), help="An APIServiceExportRequest; - is standard input."
)
@click.option(
    "--remote-kubeconfig",
    type=click.File("rb"),
    metavar="FILE",
    help="Kubeconfig from the provider.",
)
@click.option(
    "--remote-kubeconfig-namespace",
    type=NAMESPACE,
    default="",
    metavar="NAMESPACE",
    help="Namespace of a Secret in this cluster that holds the provider's kubeconfig.",
)
@click.option(
    "--remote-kubeconfig-name",
    type=OBJECT_NAME,
    default="",
    metavar="NAME",
    help="Name of that Secret.",
)
@click.option(
    "--remote-namespace",
    type=NAMESPACE,
    default="",
    metavar="NAMESPACE",
    help="The namespace on the provider; default: the kubeconfig's.",
)
@click.option("--downgrade-konnector", is_flag=True, hidden=True)
@click.option("--no-banner", is_flag=True, hidden=True)
@_bind_options
@_namespace_option
@_kubectl_options
def apiservice(
    named: str, template_name: str, name: str, file: BinaryIO | None, **given: Any
) -> None:
    """Bind a template, or a request of your own.

    \b
    Example:
        kubectl bind apiservice --template-name postgres --name shop-database
        kubectl bind apiservice -f request.yaml --remote-kubeconfig provider.kubeconfig
    """  # noqa: D301
    # The argument names the template where no other flag does, and else the binding.
    if file is None and not template_name:
        template_name, named = named, ""
    if not template_name and file is None:
        raise click.UsageError("name what to bind: --template-name NAME, or -f FILE")
    if named and name and named != name:
        raise click.UsageError(f"the binding has two names, {named} and {name}: give one")
    how = _how(given, name or named)
    source = From(
        template=template_name,
        request_file=file,
        remote_kubeconfig=given["remote_kubeconfig"],
        remote_kubeconfig_namespace=given["remote_kubeconfig_namespace"],
        remote_kubeconfig_name=given["remote_kubeconfig_name"],
        remote_namespace=given["remote_namespace"],
    )
    fetch = choose(source, _where(given), how, _identity(given))
    carry_out(_cluster(given), fetch, how)


@main.command("deploy", context_settings=_OPTIONS)
@click.option(
    "--secret",
    type=NAMESPACED_NAME,
    default="",
    metavar="NAMESPACE/NAME",
    help="A Secret of this cluster with the BindingResponse.",
)
@click.option(
    "--secret-key",
    default="",
    metavar="KEY",
    help="Key of that Secret; default: binding-response, or else kubeconfig.",
)
@click.option(
    "-f", "--file", type=click.File("rb"), help="A BindingResponse; - is standard input."
)
@click.option("--provider-kubeconfig-secret-name", default="", hidden=True)
@_bind_options
@_namespace_option
@_kubectl_options
def deploy(secret: str, secret_key: str, file: BinaryIO | None, **given: Any) -> None:
    """Bind by a BindingResponse from a Secret of this cluster or from a file.

    \b
    Example:
        kubectl bind deploy --secret shop/postgres-answer
    """  # noqa: D301
    how = _how(given)
    fetch: Fetch = answer_of(secret, secret_key, file)
    carry_out(_cluster(given), fetch, how)


@main.command("cluster-identity", context_settings=_OPTIONS)
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    default="kube-system",
    show_default=True,
    help="Namespace that gives the uid.",
)
@_kubectl_options
def cluster_identity(namespace: str, **given: Any) -> None:
    """Print the identity of this cluster.

    \b
    Example:
        kubectl bind cluster-identity
    """  # noqa: D301
    print_identity(_cluster(given), namespace or "kube-system")
