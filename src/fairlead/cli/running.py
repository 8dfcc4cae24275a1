"""Shared code of the ``run`` commands."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import click
import msgspec

from fairlead import process
from fairlead.api.flags import Flag
from fairlead.api.manifests import HEALTH_PORT, METRICS_PORT
from fairlead.api.meta import JSON
from fairlead.cli.logs import configure_logs, logger
from fairlead.cli.options import flag_options
from fairlead.client import Client, ClientError, load_config, outages_of
from fairlead.runtime import (
    Cluster,
    LeaderElection,
    ListenError,
    Manager,
    Metrics,
    delays,
    install_crds,
    refuse_bound_crds,
    strip_managed_fields,
)
from fairlead.runtime.backoff import BackoffPolicy
from fairlead.runtime.manager.health import AddressError, split_address


LogLevel = Literal["debug", "info", "warning", "error"]


class RunOptions(msgspec.Struct, kw_only=True):
    """The flags that all programs share, in the names that kubebuilder gave them.

    Attributes:
        install_crds: Create or update the CRDs that this program owns.
        health_address: Address of /healthz and /readyz; empty turns them off. Default: a free
            port on loopback, which is logged; in a Pod 127.0.0.1:8081. `fairlead manifests` and
            the chart set 0.0.0.0:8081, so that the kubelet can reach it.
        metrics_address: Address of /metrics; empty serves it beside /healthz. Default: beside
            /healthz; in a Pod 127.0.0.1:8080. `fairlead manifests` and the chart set 0.0.0.0:8080,
            for `provider serve` 0.0.0.0:8082, so that Prometheus can reach it.
        leader_elect: Work only while holding the Lease; for several replicas.
        lease_name: Name of the Lease; each program has its own default.
        log_format: auto is console on a terminal and JSON elsewhere.
        log_level: Lowest level to log; audit lines are logged at every level.
    """

    kubeconfig: str | None
    context: str | None
    install_crds: Annotated[bool, Flag(metavar="BOOLEAN")] = True
    health_address: Annotated[str | None, Flag("--health-probe-bind-address", "HOST:PORT")] = None
    metrics_address: Annotated[str | None, Flag("--metrics-bind-address", "HOST:PORT")] = None
    leader_elect: Annotated[bool, Flag(metavar="BOOLEAN")] = False
    lease_name: Annotated[str, Flag(names="object")] = ""
    log_format: Annotated[Literal["auto", "json", "console"], Flag()] = "auto"
    log_level: Annotated[LogLevel, Flag()] = "info"


run_options = flag_options(RunOptions)
"""The flags of :class:`RunOptions`, with which each long-running command begins."""
serving_options = flag_options(RunOptions, without=("install_crds", "leader_elect", "lease_name"))
"""The flags of a program without leader election and CRDs of its own."""


def run_program(
    name: str,
    namespace: str,
    options: RunOptions,
    crds: Sequence[JSON],
    build: Callable[[Manager, Cluster], Awaitable[object]],
    *,
    lease: str = "",
) -> None:
    """Run a program's controllers until a signal; its name is the default for its Lease.

    It does not run where kube-bind brings one of the ``crds``, which are the program's own.

    Raises:
        ClientError: the cluster cannot be reached, refuses what the program needs at start, or is
            a consumer's of these CRDs.
        ManagerError: leadership was lost.
        click.ClickException: an address cannot be listened on; the message names the flag.
    """
    configure_logs(
        json={"auto": None, "json": True, "console": False}[options.log_format],
        level=options.log_level,
    )
    addresses = Addresses.of(options.health_address, options.metrics_address, os.environ)
    config = load_config(options.kubeconfig, options.context)
    log = logger("fairlead.cli")
    log.info("starting", program=name, server=config.server)
    metrics = Metrics()

    # A Pod that ended because its API server is away would come back up to five minutes after it.
    patience = delays.PROGRAM_START if in_pod(os.environ) else None

    async def start(client: Client, manager: Manager) -> None:
        prepare = install_crds if options.install_crds else refuse_bound_crds
        await outlasting(patience, lambda: prepare(client, crds))
        # No controller reads managedFields, and they are a third of the cache.
        await build(manager, Cluster(name, client, transform=strip_managed_fields))

    async def main(stop: asyncio.Event) -> None:
        async with Client(
            config, user_agent=name, field_manager=name, metrics=metrics.requests
        ) as client:
            election = None
            if options.leader_elect:
                election = LeaderElection(client, namespace, options.lease_name or lease or name)
            manager = Manager(
                health_address=addresses.health,
                metrics_address=addresses.metrics,
                leader_election=election,
                metrics=metrics,
            )
            # Before any write: a program that cannot run leaves no trace.
            async with manager.listening():
                # A signal cancels the start; from then on the manager ends its parts in order.
                await process.cancel_on(stop, start(client, manager))
                await manager.run(stop)

    try:
        process.run(main)
    except ListenError as error:
        flag = f"--{_FLAGS[error.serves]}-bind-address"
        raise click.ClickException(
            f'{error}; give another address to {flag}, or "" to serve nothing'
        ) from None


def in_pod(environ: Mapping[str, str]) -> bool:
    """Whether this process runs in a container of a cluster; client-go asks the same."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


async def outlasting(patience: BackoffPolicy | None, work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work``, and repeat it while the API server is away, with the delays of ``patience``.

    Raises:
        ClientError: the server refused, or it is away and ``patience`` is None.
    """
    log = logger("fairlead.cli")
    for failures in itertools.count():
        try:
            await work()
        except ClientError as error:
            if patience is None or outages_of(error) is None:
                raise
            log.warning("waiting for the API server", reason=str(error))
        else:
            return
        await asyncio.sleep(patience.delay(failures))


_FLAGS = {"health": "health-probe", "metrics": "metrics"}


class Addresses(NamedTuple):
    """Addresses of a program; "" serves nothing, or in ``metrics`` serves them beside health."""

    health: str
    metrics: str

    @classmethod
    def of(cls, health: str | None, metrics: str | None, environ: Mapping[str, str]) -> Addresses:
        """Return the addresses in the flags, or their defaults.

        A Pod has its ports for itself. Elsewhere several programs may run side by side, so each
        takes a port that is free. "0" is kubebuilder's word for nowhere.

        Raises:
            click.UsageError: a text is no address; the message names the flag.
        """
        pod = in_pod(environ)
        given = {"health": health, "metrics": metrics}
        unsaid = {
            "health": f"127.0.0.1:{HEALTH_PORT if pod else 0}",
            "metrics": f"127.0.0.1:{METRICS_PORT}" if pod else "",
        }
        addresses = {}
        for serves, address in given.items():
            addresses[serves] = unsaid[serves] if address is None else address.strip()
            if addresses[serves] == "0":
                addresses[serves] = ""
            if addresses[serves]:
                _check(addresses[serves], f"--{_FLAGS[serves]}-bind-address")
        return cls(**addresses)


def _check(address: str, flag: str) -> None:
    try:
        split_address(address)
    except AddressError as error:
        raise click.UsageError(f"{flag}: {error}") from None
