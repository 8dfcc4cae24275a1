"""``fairlead manifests``: objects that a cluster needs to run a program, as YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any

import click
from click.core import ParameterSource

from fairlead.api.flags import declarations, read
from fairlead.api.label_names import (
    label_value_errors,
    qualified_name_errors,
    subdomain_errors,
)
from fairlead.api.manifests import Pods, labelled
from fairlead.api.meta import JSON
from fairlead.api.quantities import parse_quantity
from fairlead.binding.manifests import manifests as binding
from fairlead.binding.options import DEFAULT_DENIED, denied_mistake
from fairlead.cli.crds import to_yaml
from fairlead.cli.options import IMAGE, NAMESPACE, flag_options
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
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NONE = "none"
"""Value of flags for no limit, or no spread."""

pod_options = flag_options(Pods)
"""The flags of :class:`Pods`, whose values go to :func:`pods_of`."""


def pods_of(values: Mapping[str, Any]) -> Pods:
    """Check the values of the flags and return them as Pods.

    Raises:
        click.UsageError: a value cannot be used; the message names the flag.
    """
    limits = {name: _limit(values[name]) for name in ("memory_limit", "cpu_limit")}
    _check_amounts("memory", values["memory_request"], limits["memory_limit"])
    _check_amounts("cpu", values["cpu_request"], limits["cpu_limit"])
    spread = tuple(key for key in values["topology_spread"] if key != _NONE)
    for key in spread:
        if errors := qualified_name_errors(key):
            raise click.UsageError(f"--topology-spread {key!r} is not a label: {errors[0]}")
    parsed = {
        "toleration": tuple(map(_toleration, values["toleration"])),
        "topology_spread": spread,
        "host_alias": tuple(map(_host_alias, values["host_alias"])),
    }
    return read(Pods, {**values, **limits, **parsed})


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """Return labels from ``KEY=VALUE``.

    Raises:
        click.UsageError: one is no label.
    """
    labels: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        errors = _label_errors(key, value) if equals else ["use KEY=VALUE"]
        if errors:
            raise click.UsageError(f"--label {text!r} is not a label: {errors[0]}")
        labels[key] = value
    return labels


def _label_errors(key: str, value: str) -> list[str]:
    return [*qualified_name_errors(key), *label_value_errors(value)]


def _limit(text: str) -> str:
    return "" if text == _NONE else text


def _check_amounts(what: str, request: str, limit: str) -> None:
    amounts = {}
    for kind, text in (("request", request), ("limit", limit)):
        # Without a limit the request has nothing to stay below.
        if not text and kind == "limit":
            return
        flag = f"--{what}-{kind}"
        try:
            amounts[kind] = parse_quantity(text)
        except ValueError as error:
            raise click.UsageError(f"{flag}: {error}") from None
    if amounts["request"] > amounts["limit"]:
        raise click.UsageError(
            f"--{what}-request {request} is above --{what}-limit {limit}: give a limit that is "
            "not below the request"
        )


def _host_alias(text: str) -> JSON:
    """Return an entry of the Pods' hosts file.

    Raises:
        click.UsageError: the text is no address with names.
    """
    address, _, names = text.partition("=")
    hosts = names.split(",")
    try:
        ip_address(address)
    except ValueError:
        raise click.UsageError(
            f"--host-alias {text!r} is not ADDRESS=NAME[,NAME]: {address!r} is not an address"
        ) from None
    for host in hosts:
        if errors := subdomain_errors(host):
            raise click.UsageError(
                f"--host-alias {text!r}: {host!r} is not a host name: {errors[0]}"
            )
    return {"ip": address, "hostnames": hosts}


def _toleration(text: str) -> JSON:
    """Return a toleration, written as ``kubectl taint`` writes a taint.

    Raises:
        click.UsageError: the text is no toleration.
    """
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    if ":" in text and effect not in _EFFECTS:
        raise click.UsageError(
            f"--toleration {text!r}: the effect {effect!r} is not one of {', '.join(_EFFECTS)}"
        )
    if errors := _label_errors(key, value):
        raise click.UsageError(f"--toleration {text!r} is not KEY[=VALUE][:EFFECT]: {errors[0]}")
    # Without "=" a taint of any value is tolerated.
    toleration: JSON = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        toleration["value"] = value
    if effect:
        toleration["effect"] = effect
    return toleration


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
