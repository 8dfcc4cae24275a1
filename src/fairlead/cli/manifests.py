"""``fairlead manifests``: what a real cluster needs to run a program, as YAML."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import click

from fairlead.api.meta import JSON
from fairlead.binding.admission.names import PROJECTOR, WEBHOOKS
from fairlead.binding.manifests import manifests as binding
from fairlead.cli.crds import to_yaml
from fairlead.konnector.manifests import manifests as konnector
from fairlead.postgres.manifests import manifests as postgres
from fairlead.provider.manifests import manifests as provider


# A "+" of a local version can be in no tag.
DEFAULT_IMAGE = f"fairlead:{version('fairlead').replace('+', '-')}"
_PROGRAMS: dict[str, Callable[..., list[JSON]]] = {
    "binding": binding,
    "konnector": konnector,
    "postgres": postgres,
    "provider": provider,
}


@click.command("manifests")
@click.argument("program", type=click.Choice(sorted(_PROGRAMS)))
@click.option("--namespace", help="Where it runs; each program has its own default.")
@click.option(
    "--image",
    default=DEFAULT_IMAGE,
    show_default=True,
    help="Built with the repository's Dockerfile; nodes use the one that they have, or pull it.",
)
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="PLURAL.GROUP",
    help="provider only: a resource that may be offered; adds the rights on it.",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="PLURAL",
    help="provider only: a core resource that may be claimed beside exports; default: secrets.",
)
@click.option(
    "--invitations",
    is_flag=True,
    help="provider only: let it answer BindableResourcesRequests, an administrator's power.",
)
@click.option(
    "--exported",
    is_flag=True,
    help="postgres only: let kube-bind's provider offer PostgresAccess.",
)
@click.option(
    "--webhooks",
    is_flag=True,
    help="binding only: serve admission webhooks, and have API servers ask them.",
)
@click.option(
    "--fail-open",
    type=click.Choice(WEBHOOKS),
    multiple=True,
    help="binding only: let writes go on when this webhook cannot be asked.",
)
@click.option(
    "--project",
    "projected",
    multiple=True,
    metavar="PLURAL.GROUP",
    help="binding only: bind workloads of this resource as they are created, such as jobs.batch; "
    "needs --webhooks.",
)
@click.option(
    "--fail-closed",
    type=click.Choice([PROJECTOR]),
    help="binding only: create no workload that is to be bound while this webhook cannot be "
    "asked.",
)
def command(
    program: str,
    namespace: str | None,
    image: str,
    exports: tuple[str, ...],
    claims: tuple[str, ...],
    invitations: bool,
    exported: bool,
    webhooks: bool,
    fail_open: tuple[str, ...],
    projected: tuple[str, ...],
    fail_closed: str | None,
) -> None:
    """Print namespace, ServiceAccount, least-privilege RBAC and Deployment as YAML.

    \b
    Examples:
        fairlead manifests konnector | kubectl apply -f -
        fairlead manifests provider --export widgets.example.org
        fairlead manifests postgres --exported
    """  # noqa: D301
    arguments: dict[str, object] = {"image": image}
    if namespace:
        arguments["namespace"] = namespace
    for option, values in (("exports", exports), ("claims", claims)):
        if values:
            if program != "provider":
                raise click.UsageError(f"--{option[:-1]} belongs to the provider alone")
            arguments[option] = values
    if invitations:
        if program != "provider":
            raise click.UsageError("--invitations belongs to the provider alone")
        arguments["invitations"] = True
    if exported:
        if program != "postgres":
            raise click.UsageError("--exported belongs to postgres alone")
        arguments["exported"] = True
    if fail_open and not webhooks:
        raise click.UsageError("--fail-open needs --webhooks")
    if projected and not webhooks:
        raise click.UsageError("--project needs --webhooks")
    if fail_closed and not projected:
        raise click.UsageError("--fail-closed needs --project")
    if webhooks:
        if program != "binding":
            raise click.UsageError("--webhooks belongs to binding alone")
        arguments |= {"webhooks": True, "fail_open": fail_open}
        arguments |= {"projected": projected, "fail_closed": bool(fail_closed)}
    try:
        documents = _PROGRAMS[program](**arguments)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(to_yaml(documents), nl=False)
