"""``fairlead binding``: the service-binding controllers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, get_args

import click

from fairlead.api.servicebinding.spec import crds
from fairlead.binding import app
from fairlead.binding.admission.names import KEY_SECRET, PROJECTOR, WEBHOOKS, host
from fairlead.binding.manifests import NAME, resource_of
from fairlead.binding.options import (
    DEFAULT_DENIED,
    DEFAULT_NAMESPACE,
    DEFAULT_WORKERS,
    NONE_DENIED,
    AdmissionOptions,
    BindingOptions,
    CrossNamespace,
    denied_mistake,
)
from fairlead.cli.options import cluster_options, run_options
from fairlead.cli.running import RunOptions, run_program
from fairlead.cli.servicebinding import explain
from fairlead.cli.servicebinding.files import compose, render
from fairlead.runtime import Cluster, Manager
from fairlead.runtime.manager.health import AddressError, split_address


@click.group("binding")
def command() -> None:
    """Project binding data of services into workloads.

    \b
    Example:
        fairlead binding run --kubeconfig consumer.kubeconfig
    """  # noqa: D301


@command.command("run")
@cluster_options
@run_options
@click.option(
    "--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="Namespace of the Lease."
)
@click.option(
    "--cross-namespace",
    type=click.Choice(get_args(CrossNamespace), case_sensitive=False),
    default="false",
    show_default=True,
    help="Whether bindings of binding.operators.coreos.com may name services of other namespaces. "
    "With `requester` a binding may if a webhook has recorded its requester, who must have the "
    "right to read the service; it needs --webhooks-bind-address. With `true` all may.",
)
@click.option(
    "--cross-namespace-denied-requesters",
    "denied_requesters",
    multiple=True,
    default=DEFAULT_DENIED,
    show_default=True,
    metavar="NAME",
    help="User or group, such as a delivery tool's, whose bindings may not name such services "
    "with --cross-namespace requester; * is any text. May be given several times, and replaces "
    f"the default; `{NONE_DENIED}` denies no requester.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=DEFAULT_WORKERS,
    show_default=True,
    help="Number of bindings of one API that are reconciled at the same time; most of them wait "
    "for an answer.",
)
@click.option(
    "--webhooks-bind-address",
    "address",
    default="",
    metavar="HOST:PORT",
    help="Address for admission webhooks, which API servers must reach; without it none are "
    "served.",
)
@click.option(
    "--webhooks-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Name or address by which API servers call the webhooks; default: the Service of "
    "`fairlead manifests`.",
)
@click.option(
    "--fail-open",
    type=click.Choice(WEBHOOKS),
    multiple=True,
    help="Webhook whose failure does not block writes; may be given several times.",
)
@click.option(
    "--project",
    "projected",
    multiple=True,
    metavar="PLURAL.GROUP",
    help="Resource, such as jobs.batch, whose workloads are bound when they are created; may be "
    "given several times.",
)
@click.option(
    "--fail-closed",
    type=click.Choice([PROJECTOR]),
    help="Webhook without which workloads that --project names are not created.",
)
def run(
    namespace: str,
    cross_namespace: CrossNamespace,
    denied_requesters: tuple[str, ...],
    workers: int,
    address: str,
    hosts: tuple[str, ...],
    fail_open: tuple[str, ...],
    projected: tuple[str, ...],
    fail_closed: str | None,
    **shared: Any,
) -> None:
    """Run the controllers of both ServiceBinding APIs.

    \b
    Example:
        fairlead binding run --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    webhooks = _webhooks(
        address,
        namespace,
        {
            "--webhooks-host": hosts,
            "--fail-open": fail_open,
            "--project": projected,
            "--fail-closed": (fail_closed,) if fail_closed else (),
        },
    )
    options = _options(cross_namespace, denied_requesters, workers, webhooks)

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options, webhooks)

    run_program(NAME, namespace, RunOptions(**shared), crds(), build)


def _options(
    cross_namespace: CrossNamespace,
    denied_requesters: tuple[str, ...],
    workers: int,
    webhooks: AdmissionOptions | None,
) -> BindingOptions:
    if wrong := denied_mistake(cross_namespace, denied_requesters):
        raise click.UsageError(wrong)
    by_proof = cross_namespace == "requester"
    if by_proof and webhooks is None:
        raise click.UsageError("--cross-namespace requester needs --webhooks-bind-address")
    return BindingOptions(
        cross_namespace=cross_namespace == "true",
        requester_key=(webhooks.namespace, KEY_SECRET) if webhooks and by_proof else None,
        denied_requesters=tuple(name for name in denied_requesters if name != NONE_DENIED),
        workers=workers,
    )


def _webhooks(
    address: str, namespace: str, given: Mapping[str, tuple[str, ...]]
) -> AdmissionOptions | None:
    """The options of the webhooks by their flags; None without an address."""
    if not address:
        if flag := next((flag for flag, values in given.items() if values), ""):
            raise click.UsageError(f"{flag} needs --webhooks-bind-address")
        return None
    if given["--fail-closed"] and not given["--project"]:
        raise click.UsageError("--fail-closed needs --project")
    try:
        split_address(address)
        projected = tuple(resource_of(name) for name in given["--project"])
    except AddressError as error:
        raise click.UsageError(f"--webhooks-bind-address: {error}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    # Wrong usage, before anything is written: the program would miss the module after the CRDs.
    if find_spec("cryptography") is None:
        raise click.UsageError(
            "--webhooks-bind-address needs certificates: pip install 'fairlead[webhooks]'"
        )
    return AdmissionOptions(
        address=address,
        hosts=given["--webhooks-host"] or (host(namespace),),
        namespace=namespace,
        fail_open=given["--fail-open"],
        projected=projected,
        fail_closed=bool(given["--fail-closed"]),
    )


command.add_command(explain.command)
command.add_command(compose)
command.add_command(render)
