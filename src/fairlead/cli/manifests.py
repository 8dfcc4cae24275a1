"""``fairlead manifests``: objects that a cluster needs to run a program, as YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import click
from click.core import ParameterSource

from fairlead.api.flags import declarations, read
from fairlead.api.manifests import labelled
from fairlead.api.meta import JSON
from fairlead.binding.manifests import manifests as binding
from fairlead.binding.options import DEFAULT_DENIED, denied_mistake
from fairlead.cli.crds import to_yaml
from fairlead.cli.options import IMAGE, NAMESPACE, flag_options
from fairlead.cli.placing import labels_of, pod_options, pods_of
from fairlead.konnector.manifests import manifests as konnector
from fairlead.portal.manifests import manifests as serve
from fairlead.postgres.manifests import manifests as postgres
from fairlead.provider.manifests import manifests as provider


# A "+" of a local version can be in no tag.
DEFAULT_IMAGE = f"fairlead:{version('fairlead').replace('+', '-')}"
_PROGRAMS: dict[str, Callable[..., list[JSON]]] = {
    "binding": binding,
    "konnector": konnector,
    "postgres": postgres,
    "provider": provider,
    "serve": serve,
}


@click.command("manifests")
@click.argument("program", type=click.Choice(sorted(_PROGRAMS)))
@click.option(
    "--namespace",
    type=NAMESPACE,
    help="Namespace that the program runs in; each program has its own default.",
)
@click.option(
    "--image",
    type=IMAGE,
    default=DEFAULT_IMAGE,
    show_default=True,
    help="Image of the program, as `make image` or the Dockerfile builds it; nodes pull it if "
    "they do not have it.",
)
@pod_options
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    help="Label for every object and Pod, in addition to their own; may be given several times.",
)
@flag_options(konnector, only="konnector")
@flag_options(provider, only="provider")
@flag_options(postgres, only="postgres")
@flag_options(binding, only="binding")
@flag_options(serve, only="serve")
@click.pass_context
def command(
    invocation: click.Context,
    /,
    program: str,
    namespace: str | None,
    image: str,
    labels: tuple[str, ...],
    **flags: Any,
) -> None:
    """Print namespace, ServiceAccount, least-privilege RBAC and Deployment as YAML.

    \b
    Examples:
        fairlead manifests konnector | kubectl apply -f -
        fairlead manifests provider --export widgets.example.org
        fairlead manifests postgres --exported --memory-limit 1Gi
        fairlead manifests serve --external-url https://bind.example.org \\
            --oidc-issuer-url https://login.example.org --oidc-issuer-client-id fairlead
    """  # noqa: D301
    values: dict[str, Any] = {"image": image, "pods": pods_of(flags)}
    if namespace:
        values["namespace"] = namespace
    for owner, function in _PROGRAMS.items():
        for flag in declarations(function):
            name = f"--{flag.name.replace('_', '-')}"
            if invocation.get_parameter_source(flag.name) is not ParameterSource.DEFAULT:
                if owner != program:
                    raise click.UsageError(f"{name} is for {owner} only")
                values[flag.name] = flags[flag.name]
            if owner == program and flag.required and not flags[flag.name]:
                raise click.UsageError(f"{owner} needs {name}")
    if program == "binding":
        _check_binding(flags)
    try:
        documents = labelled(read(_PROGRAMS[program], values), labels_of(labels))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(to_yaml(documents), nl=False)


def _check_binding(flags: Mapping[str, Any]) -> None:
    """Refuse flags of binding of which one needs another.

    Raises:
        click.UsageError: the message names both.
    """
    cross, denied = flags["cross_namespace"], flags["cross_namespace_denied_requesters"]
    for flag, value, needed in (
        ("--fail-open", flags["fail_open"], "webhooks"),
        ("--project", flags["project"], "webhooks"),
        ("--fail-closed", flags["fail_closed"], "project"),
        ("--cross-namespace requester", cross == "requester", "webhooks"),
    ):
        if value and not flags[needed]:
            raise click.UsageError(f"{flag} needs --{needed}")
    if wrong := denied_mistake(cross, denied or DEFAULT_DENIED):
        raise click.UsageError(wrong)
