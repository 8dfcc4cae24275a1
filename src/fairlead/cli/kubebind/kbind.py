"""``fairlead bind`` by kbind v2: its flags, its files, and what it prints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO, Final, TypeVar, get_args

import click
import msgspec

from fairlead import process
from fairlead.api.kbind import RelatedResource, SchemaPolicy
from fairlead.api.kbind.bindfile import BindFile, key_of
from fairlead.api.kbind.types import (
    ConflictPolicy,
    Direction,
    PullPolicy,
    RelatedResourceName,
    SchemaSource,
    UpdatePolicy,
)
from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON
from fairlead.api.selectors import LabelSelector
from fairlead.cli import completion
from fairlead.cli.frontdoor.output import show
from fairlead.cli.kubebind.binding import AGENT, How
from fairlead.cli.options import API_NAME, NAMESPACE, OBJECT_NAME
from fairlead.cli.texts import printable, say
from fairlead.client import Client, ClusterConfig, ConfigError, parse_kubeconfig
from fairlead.konnector.commands.v2.bind import KbindOptions, bind_kbind, planned, rehearse
from fairlead.konnector.commands.v2.plan import BindWish, bind_file, without_content
from fairlead.konnector.commands.v2.targets import KbindTarget, parse_target


F = TypeVar("F", bound=Callable[..., Any])


class _Related(click.ParamType[RelatedResource]):
    """Rule about Secrets or ConfigMaps that are copied beside the bound objects."""

    name = "text"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> RelatedResource:
        try:
            return parse_related(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


RELATED = _Related()


class _Target(click.ParamType[KbindTarget]):
    """An APIServiceBinding by its name, or an object of kbind v2 by kind and name."""

    name = "text"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> KbindTarget:
        try:
            return parse_target(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


TARGET = _Target()
target_argument = click.argument(
    "binding", type=TARGET, shell_complete=completion.names(completion.shown_bindings)
)
"""The argument BINDING of commands for both protocols."""


def parse_related(text: str) -> RelatedResource:
    """Parse ``secrets/FromProvider:a,b`` or ``configmaps/FromConsumer:app=web``.

    Raises:
        ValueError: the text has another form.
    """
    kind, _, terms = text.partition(":")
    resource, _, direction = kind.partition("/")
    if resource not in get_args(RelatedResourceName) or direction not in get_args(Direction):
        raise ValueError(
            f"{text!r} is not RESOURCE/DIRECTION[:NAME or KEY=VALUE,...], such as "
            "secrets/FromProvider:login; RESOURCE is secrets or configmaps, DIRECTION is "
            "FromProvider or FromConsumer"
        )
    names: list[str] = []
    labels: dict[str, str] = {}
    for term in filter(None, terms.split(",")):
        key, equals, value = term.partition("=")
        if not equals and subdomain_errors(term):
            raise ValueError(f"{text!r}: {term!r} is neither the name of an object nor KEY=VALUE")
        if equals:
            labels[key] = value
        else:
            names.append(term)
    selector: JSON = {"names": names} if names else {}
    if labels:
        LabelSelector.from_dict({"matchLabels": labels})
        selector["labelSelector"] = {"matchLabels": labels}
    rule: JSON = {"resource": resource, "direction": direction}
    if selector:
        rule["selector"] = selector
    return msgspec.convert(rule, RelatedResource)


class KbindFlags(msgspec.Struct, kw_only=True):
    """Flags of a bind by kbind v2."""

    provider_kubeconfig: BinaryIO | None = None
    connection: str = ""
    apis: tuple[str, ...] = ()
    everything: bool = False
    binding_namespace: str = ""
    conflict_policy: ConflictPolicy | None = None
    related: tuple[RelatedResource, ...] = ()
    schema_source: SchemaSource | None = None
    pull_policy: PullPolicy | None = None
    update_policy: UpdatePolicy | None = None
    with_kubeconfig: bool = False

    def given(self) -> list[str]:
        """Return the flags that a person has given, as they are written."""
        return [
            FLAGS[name]
            for name in self.__struct_fields__
            if getattr(self, name) not in (None, "", (), False)
        ]


FLAGS: Final[Mapping[str, str]] = {
    "provider_kubeconfig": "--provider-kubeconfig",
    "connection": "--connection",
    "apis": "--api",
    "everything": "--all",
    "binding_namespace": "-n",
    "conflict_policy": "--conflict-policy",
    "related": "--related",
    "schema_source": "--schema-source",
    "pull_policy": "--pull-policy",
    "update_policy": "--update-policy",
    "with_kubeconfig": "--with-kubeconfig",
}
"""Flags by the fields of :class:`KbindFlags`."""
_OF_CONNECTION = ("everything", "schema_source", "pull_policy", "update_policy", "with_kubeconfig")
_OF_BINDING = ("binding_namespace", "conflict_policy", "related")


def exported_apis(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[Any]:
    """Complete --api with what the Connection of --connection, or any, says is exported."""
    connection = str(context.params.get("connection") or "")

    async def list_names(client: Client) -> Iterable[str]:
        return await completion.exported_apis(client, connection)

    return completion.names(list_names)(context, parameter, incomplete)


def kbind_options(function: F) -> F:
    """Add the flags of kbind v2, for :class:`KbindFlags`."""
    for option in (
        click.option(
            "--with-kubeconfig",
            is_flag=True,
            help="kbind v2, with --dry-run=client and -o: print the Secret with the kubeconfig"
            " too, so that you can apply the output as one file. Protect that file like a Secret.",
        ),
        _choice(
            "--update-policy",
            UpdatePolicy,
            "whether the CRDs follow later changes of the provider's schemas",
        ),
        _choice("--pull-policy", PullPolicy, "which CRDs the konnector creates here"),
        _choice("--schema-source", SchemaSource, "where to read the provider's schemas"),
        click.option(
            "--related",
            type=RELATED,
            metavar="RESOURCE/DIRECTION[:NAME,...]",
            multiple=True,
            help="kbind v2: Secrets or ConfigMaps to copy too, such as"
            " secrets/FromProvider:login; KEY=VALUE instead of a name selects by label. May be"
            " given several times.",
        ),
        _choice(
            "--conflict-policy",
            ConflictPolicy,
            "what to do if the provider has an object where a copy belongs: fail leaves it, adopt"
            " merges into it",
        ),
        click.option(
            "-n",
            "--binding-namespace",
            type=NAMESPACE,
            metavar="NAMESPACE",
            default="",
            shell_complete=completion.names(completion.namespaces),
            help="kbind v2: bind for this namespace alone, by a Binding; default: for the whole "
            "cluster, by a ClusterBinding.",
        ),
        click.option(
            "--all",
            "everything",
            is_flag=True,
            help="kbind v2: bind all that the provider exports, now and later (autoBind).",
        ),
        click.option(
            "--api",
            "apis",
            type=API_NAME,
            metavar="PLURAL.GROUP",
            multiple=True,
            shell_complete=exported_apis,
            help="kbind v2: API of the provider to bind, such as widgets.example.org. May be "
            "given several times.",
        ),
        click.option(
            "--connection",
            type=OBJECT_NAME,
            metavar="NAME",
            default="",
            shell_complete=completion.names(completion.connections),
            help="kbind v2: Connection to create (with --provider-kubeconfig) or to use; default:"
            " the group of the first --api.",
        ),
        click.option(
            "--provider-kubeconfig",
            metavar="FILE",
            type=click.File("rb"),
            help="kbind v2: kubeconfig of the provider, which contains its credentials and"
            " certificates. Nothing has to be installed there.",
        ),
    ):
        function = option(function)
    return function


def _choice(flag: str, values: Any, text: str) -> Callable[[F], F]:
    choices = get_args(values)
    return click.option(
        flag,
        type=click.Choice(choices, case_sensitive=False),
        default=None,
        help=f"kbind v2: {text}; default: {choices[0]}.",
    )


def wish_of(flags: KbindFlags, how: How) -> BindFile:
    """Return the objects that the flags ask for.

    Raises:
        click.UsageError: flags are missing, or exclude each other.
        click.ClickException: the kubeconfig cannot be used.
    """
    kubeconfig = b""
    if flags.provider_kubeconfig is not None:
        kubeconfig = flags.provider_kubeconfig.read()
        _check_kubeconfig(kubeconfig)
    else:
        _refuse(flags, _OF_CONNECTION, "is about a Connection that --provider-kubeconfig makes")
    connection = flags.connection
    if not connection and kubeconfig and flags.apis:
        connection = flags.apis[0].partition(".")[2]
    if not connection:
        raise click.UsageError(
            "name the Connection by --connection"
            if kubeconfig
            else "name a Connection that is there by --connection, or give --provider-kubeconfig"
        )
    if flags.everything and flags.apis:
        raise click.UsageError("--all and --api exclude each other: give one of them")
    if not flags.apis and not flags.everything:
        raise click.UsageError(
            "name APIs of the provider by --api PLURAL.GROUP, or bind all by --all"
        )
    if flags.everything:
        _refuse(flags, _OF_BINDING, "is about a binding, which --all has the konnector make")
        if how.name and how.name != connection:
            raise click.UsageError("--name: the binding of --all has the Connection's name")
    schema = SchemaPolicy(
        source=flags.schema_source or "Auto",
        pull_policy=flags.pull_policy or "Bound",
        update_policy=flags.update_policy or "Always",
    )
    return bind_file(
        BindWish(
            connection=connection,
            apis=flags.apis,
            name=how.name,
            kubeconfig=kubeconfig,
            everything=flags.everything,
            namespace=flags.binding_namespace,
            conflict_policy=flags.conflict_policy or "Fail",
            related=flags.related,
            schema=schema,
            place=how.namespace,
        )
    )


def _check_kubeconfig(kubeconfig: bytes) -> None:
    if not kubeconfig.strip():
        raise click.ClickException("--provider-kubeconfig: it is empty")
    try:
        parse_kubeconfig(kubeconfig)
    except ConfigError as error:
        raise click.ClickException(f"--provider-kubeconfig: {error}") from None


def _refuse(flags: KbindFlags, names: Iterable[str], why: str) -> None:
    given = flags.given()
    for name in names:
        if FLAGS[name] in given:
            raise click.UsageError(f"{FLAGS[name]} {why}")


def carry_out_kbind(config: ClusterConfig, file: BindFile, how: How, *, whole: bool) -> None:
    """Bind what a file has, or rehearse that, and print the result.

    Args:
        config: the consumer's cluster.
        file: Secrets, Connections and bindings.
        how: options of the bind.
        whole: whether a dry run prints Secrets with their content.
    """
    options = KbindOptions(
        timeout=how.seconds, namespace=how.namespace, user_roles=how.user_roles, progress=say
    )
    if how.dry_run == "client":
        objects = planned(file, options)
        _print(_dry_lines(objects, how), objects, how, whole=whole)
        return

    async def main(stop: asyncio.Event) -> tuple[list[str], list[JSON]]:
        async with Client(config, user_agent=AGENT) as client:
            return await process.cancel_on(stop, _work(client, file, how, options))

    _print(*process.run(main), how, whole=False)


async def _work(
    client: Client, file: BindFile, how: How, options: KbindOptions
) -> tuple[list[str], list[JSON]]:
    if how.dry:
        objects = await rehearse(client, file, options)
        return _dry_lines(objects, how), objects
    bound = await bind_kbind(client, file, options)
    lines = [
        f"{target.resource.kind.lower()}.{target.resource.group}/{target.key} is Ready"
        for target in bound.targets
    ]
    return lines, bound.objects


def _dry_lines(objects: Iterable[JSON], how: How) -> list[str]:
    return [f"{body['kind'].lower()}/{key_of(body)} (dry run, {how.dry_run})" for body in objects]


def _print(lines: Iterable[str], objects: Iterable[JSON], how: How, *, whole: bool) -> None:
    if how.output:
        bodies = list(objects)
        show(bodies if whole else list(map(without_content, bodies)), how.output, listed=False)
        return
    for line in lines:
        click.echo(printable(line))
