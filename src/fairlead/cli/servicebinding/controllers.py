"""``fairlead binding``: the service-binding controllers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import click

from fairlead.api.servicebinding.spec import crds
from fairlead.binding import app
from fairlead.binding.admission.names import KEY_SECRET, host
from fairlead.binding.manifests import NAME, resource_of
from fairlead.binding.options import (
    DEFAULT_NAMESPACE,
    AdmissionOptions,
    BindingOptions,
    denied_mistake,
)
from fairlead.cli.options import NAMESPACE, cluster_options, flag_options, options_of
from fairlead.cli.running import RunOptions, run_options, run_program
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
    "--namespace",
    type=NAMESPACE,
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Namespace of the Lease.",
)
@flag_options(BindingOptions)
@flag_options(AdmissionOptions)
def run(namespace: str, **flags: Any) -> None:
    """Run the controllers of both ServiceBinding APIs.

    \b
    Example:
        fairlead binding run --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    webhooks = _webhooks(namespace, flags)
    cross_namespace = flags["cross_namespace"]
    if wrong := denied_mistake(cross_namespace, flags["cross_namespace_denied_requesters"]):
        raise click.UsageError(wrong)
    by_proof = cross_namespace == "requester"
    if by_proof and webhooks is None:
        raise click.UsageError("--cross-namespace requester needs --webhooks-bind-address")
    key = (namespace, KEY_SECRET) if by_proof else None
    options = options_of(BindingOptions, {**flags, "requester_key": key})

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options, webhooks)

    run_program(NAME, namespace, options_of(RunOptions, flags), crds(), build)


def _webhooks(namespace: str, flags: Mapping[str, Any]) -> AdmissionOptions | None:
    """Return the options of the webhooks by their flags; None without an address.

    Raises:
        click.UsageError: a flag needs another, or its value is refused.
    """
    address = flags["webhooks_bind_address"]
    if not address:
        for name in ("webhooks_host", "fail_open", "project", "fail_closed"):
            if flags[name]:
                flag = f"--{name.replace('_', '-')}"
                raise click.UsageError(f"{flag} needs --webhooks-bind-address")
        return None
    if flags["fail_closed"] and not flags["project"]:
        raise click.UsageError("--fail-closed needs --project")
    try:
        split_address(address)
        projected = tuple(resource_of(name) for name in flags["project"])
    except AddressError as error:
        raise click.UsageError(f"--webhooks-bind-address: {error}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    # Wrong usage, before anything is written: the program would miss the module after the CRDs.
    if find_spec("cryptography") is None:
        raise click.UsageError(
            "--webhooks-bind-address needs certificates: pip install 'fairlead[webhooks]'"
        )
    hosts = flags["webhooks_host"] or (host(namespace),)
    more = {"namespace": namespace, "project": projected, "webhooks_host": hosts}
    return options_of(AdmissionOptions, {**flags, **more})


command.add_command(explain.command)
command.add_command(compose)
command.add_command(render)
