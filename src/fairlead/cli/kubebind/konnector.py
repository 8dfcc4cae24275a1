"""``fairlead konnector``: the consumer cluster's agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from fairlead.cli.options import (
    NAMESPACE,
    cluster_options,
    flag_options,
    options_of,
    parse_size,
)
from fairlead.cli.running import RunOptions, run_options, run_program
from fairlead.client import Bounds
from fairlead.konnector import app
from fairlead.konnector.manifests import LEASE, NAME
from fairlead.konnector.options import DEFAULT_NAMESPACE, Options
from fairlead.konnector.policies.localkeys import LocalMetadataKeys
from fairlead.process import memory_limit, raise_file_limit
from fairlead.runtime import Cluster, Manager


_Command = TypeVar("_Command", bound=Callable[..., Any])


def _limit(name: str, of: str) -> Callable[[_Command], _Command]:
    """Return the option that raises a bound on what a provider answers."""
    usual = f"{getattr(Bounds(), name) >> 20}Mi"
    computed = name == "objects"
    return click.option(
        f"--provider-{name}-limit",
        default="" if computed else usual,
        show_default=f"{usual}, and at most 0.3 of the container's memory" if computed else True,
        metavar="SIZE",
        help=f"Largest number of bytes that the konnector takes from each provider for {of}; at"
        " least 1Mi.",
    )


@click.group("konnector")
def command() -> None:
    """Keep bound APIs of a consumer cluster in step with their providers.

    \b
    Example:
        fairlead konnector run --kubeconfig consumer.kubeconfig
    """  # noqa: D301


@command.command("run")
@cluster_options
@run_options
@click.option(
    "--namespace",
    type=NAMESPACE,
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Namespace of the kubeconfig Secrets.",
)
@click.option(
    "--lease-namespace",
    type=NAMESPACE,
    default="",
    envvar="POD_NAMESPACE",
    metavar="NAME",
    help="Namespace of the Lease; default: $POD_NAMESPACE if it is set, else that of --namespace.",
)
@click.option(
    "--server-address",
    default=None,
    metavar="HOST:PORT",
    help="kube-bind's name for --health-probe-bind-address. Without a host it listens on loopback"
    " only: give 0.0.0.0:PORT for probes from elsewhere.",
)
@flag_options(Options)
@_limit("answer", "one answer; it reads lists in pages that fit, so this limits one object")
@_limit("event", "one event of a watch")
@_limit("objects", "the objects that it keeps, or lists at the same time")
@click.pass_context
def run(
    given: click.Context,
    /,
    namespace: str,
    lease_namespace: str,
    server_address: str | None,
    provider_answer_limit: str,
    provider_event_limit: str,
    provider_objects_limit: str,
    **flags: Any,
) -> None:
    """Run the konnector.

    \b
    Example:
        fairlead konnector run --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    _check_local_keys(flags["local_key"], flags["crossing_key"])
    lease_namespace = lease_namespace or namespace
    if server_address is not None:
        flags["health_probe_bind_address"] = _health_address(given, server_address)
    # run_program installs CRDs, unless --install-crds says not to. Each watch has a connection,
    # and the limit of files bounds how many a konnector opens.
    more = {"namespace": namespace, "install_crds": False, "files": raise_file_limit()}
    options = options_of(Options, {**flags, **more})
    bounds = Bounds(
        answer=parse_size(provider_answer_limit, option="--provider-answer-limit"),
        event=parse_size(provider_event_limit, option="--provider-event-limit"),
    ).within(memory_limit())
    if provider_objects_limit:
        objects = parse_size(provider_objects_limit, option="--provider-objects-limit")
        bounds = replace(bounds, objects=objects)

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options, bounds)

    run_program(
        NAME,
        lease_namespace,
        options_of(RunOptions, flags),
        app.crds(options.protocols),
        build,
        lease=LEASE,
    )


def _health_address(given: click.Context, address: str) -> str:
    if given.get_parameter_source("health_probe_bind_address") is not ParameterSource.DEFAULT:
        raise click.UsageError(
            "--server-address is another name of --health-probe-bind-address: give one of them"
        )
    # With kube-bind itself :PORT listens on every interface; here that has to be said.
    return f"127.0.0.1{address}" if address.startswith(":") else address


def _check_local_keys(local: Sequence[str], crossing: Sequence[str]) -> None:
    for flag, more, fewer in (("--local-key", local, ()), ("--crossing-key", (), crossing)):
        try:
            LocalMetadataKeys.of(more, fewer)
        except ValueError as error:
            raise click.UsageError(f"{flag} {error}") from None
