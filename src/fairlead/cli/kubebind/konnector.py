"""``fairlead konnector``: the consumer cluster's agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from fairlead.api.kubebind import consumer_crds
from fairlead.cli.kubebind.localkeys import check_local_keys, local_keys_options
from fairlead.cli.options import (
    check_name,
    cluster_options,
    parse_duration,
    parse_size,
    run_options,
)
from fairlead.cli.running import RunOptions, run_program
from fairlead.client import Bounds
from fairlead.konnector import app
from fairlead.konnector.manifests import LEASE, NAME
from fairlead.konnector.options import DEFAULT_NAMESPACE, DEFAULT_WORKERS, Options
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
        help=f"Bytes that are taken from each provider for {of}; at least 1Mi.",
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
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Namespace of the kubeconfig Secrets.",
)
@click.option(
    "--lease-namespace",
    default="",
    envvar="POD_NAMESPACE",
    metavar="NAME",
    help="Namespace of the Lease; default: $POD_NAMESPACE if it is set, else that of --namespace.",
)
@click.option(
    "--server-address",
    default=None,
    metavar="HOST:PORT",
    help="kube-bind's name for --health-probe-bind-address. Without a host it listens on loopback "
    "alone: say 0.0.0.0:PORT for probes from elsewhere.",
)
@click.option(
    "--provider-polling-interval",
    default="15s",
    show_default=True,
    metavar="DURATION",
    help="Time between two checks of the provider's exports by an APIServiceBindingBundle, in "
    "addition to the watch; at least 1s.",
)
@click.option(
    "--unbind-timeout",
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="How long a binding that is deleted waits for a provider that cannot be reached; then "
    "its copies there are left behind.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=DEFAULT_WORKERS,
    show_default=True,
    help="Number of objects of one resource that are synchronized at the same time; raise it for "
    "distant providers.",
)
@local_keys_options
@_limit("answer", "one answer; a list is read in pages that fit, so it is for one object")
@_limit("event", "one event of a watch")
@_limit("objects", "the objects that are kept, or listed at the same time")
@click.pass_context
def run(
    given: click.Context,
    /,
    namespace: str,
    lease_namespace: str,
    server_address: str | None,
    provider_polling_interval: str,
    unbind_timeout: str,
    workers: int,
    local_keys: tuple[str, ...],
    crossing_keys: tuple[str, ...],
    provider_answer_limit: str,
    provider_event_limit: str,
    provider_objects_limit: str,
    **shared: Any,
) -> None:
    """Run the konnector.

    \b
    Example:
        fairlead konnector run --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    check_local_keys(local_keys, crossing_keys)
    lease_namespace = lease_namespace or namespace
    for option, value in (
        ("--namespace", namespace),
        ("--lease-namespace", lease_namespace),
        ("--lease-name", shared["lease_name"] or LEASE),
    ):
        check_name(option, value)
    if server_address is not None:
        shared["health_address"] = _health_address(given, server_address)
    options = Options(
        namespace=namespace,
        # run_program installs them, unless --install-crds says not to.
        install_crds=False,
        provider_polling_interval=parse_duration(
            provider_polling_interval, option="--provider-polling-interval", least="1s"
        ),
        unbind_timeout=parse_duration(unbind_timeout, option="--unbind-timeout"),
        workers=workers,
        local_keys=local_keys,
        crossing_keys=crossing_keys,
        # Each watch has a connection, and the limit bounds how many a konnector opens.
        files=raise_file_limit(),
    )
    bounds = Bounds(
        answer=parse_size(provider_answer_limit, option="--provider-answer-limit"),
        event=parse_size(provider_event_limit, option="--provider-event-limit"),
    ).within(memory_limit())
    if provider_objects_limit:
        objects = parse_size(provider_objects_limit, option="--provider-objects-limit")
        bounds = replace(bounds, objects=objects)

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options, bounds)

    run_program(NAME, lease_namespace, RunOptions(**shared), consumer_crds(), build, lease=LEASE)


def _health_address(given: click.Context, address: str) -> str:
    if given.get_parameter_source("health_address") is not ParameterSource.DEFAULT:
        raise click.UsageError(
            "--server-address is another name of --health-probe-bind-address: give one of them"
        )
    # With kube-bind itself :PORT listens on every interface; here that has to be said.
    return f"127.0.0.1{address}" if address.startswith(":") else address
