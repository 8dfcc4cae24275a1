"""Whether a konnector runs, by the traces that can be seen from outside.

A konnector leaves three traces: the Lease that it leads by, the Deployment of ``fairlead
manifests konnector``, and its heartbeat in each provider's ClusterBinding. None of them has to be
there, so that all are looked at, and what a person may not read says nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from fairlead.api.durations import rough_duration
from fairlead.api.kubebind import CLUSTER_BINDING_NAME, CLUSTERBINDINGS, ClusterBinding
from fairlead.api.meta import Object
from fairlead.api.resource import DEPLOYMENTS, LEASES, Resource
from fairlead.api.timestamps import format_time, moment, parse_time
from fairlead.api.traces import LEASE_SECONDS, ready_pods, renewal
from fairlead.client import Client, ClientError, ClusterConfig
from fairlead.client.lookups import find
from fairlead.konnector.manifests import LEASE, NAME
from fairlead.konnector.options import HEARTBEAT_INTERVAL


START = "start `fairlead konnector run`, or apply `fairlead manifests konnector`"
_LOG = "its log says why it has not touched this"
STALE = HEARTBEAT_INTERVAL
"""Age from which the last heartbeat no longer counts (kube-bind's ClusterBinding)."""
_SECONDS = 5.0
"""Timeout for reading the last heartbeat from a provider, in seconds."""


class Traces(msgspec.Struct, frozen=True):
    """Lease, Deployment and ClusterBinding of a konnector, each None if missing or unreadable."""

    lease: Object | None = None
    deployment: Object | None = None
    heartbeat: ClusterBinding | None = None


async def absence(client: Client, namespace: str, provider: ClusterConfig | None = None) -> str:
    """Return one sentence about a konnector that has not acted: its state and the remedy.

    Args:
        client: a client of the consumer's cluster.
        namespace: the namespace of the konnector's Lease and Deployment.
        provider: connection to the provider with the consumer's credentials, to read the last
            heartbeat; None leaves the heartbeat out.
    """
    return describe(await read_traces(client, namespace, provider), moment())


async def read_traces(
    client: Client, namespace: str, provider: ClusterConfig | None = None
) -> Traces:
    """Read Lease, Deployment and heartbeat of a konnector; see :func:`absence`."""
    return Traces(
        lease=await _read(client, LEASES, LEASE, namespace),
        deployment=await _read(client, DEPLOYMENTS, NAME, namespace),
        heartbeat=await _heartbeat(provider) if provider is not None else None,
    )


async def _read(client: Client, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await find(client, resource, name, namespace)
    except ClientError:
        return None


async def _heartbeat(config: ClusterConfig) -> ClusterBinding | None:
    with suppress(ClientError, TimeoutError, msgspec.ValidationError):
        async with Client(config, user_agent="fairlead") as provider, asyncio.timeout(_SECONDS):
            binding = await provider.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, config.namespace)
            return binding.decode(ClusterBinding)
    return None


def describe(traces: Traces, now: datetime) -> str:
    """Return one sentence about a konnector: its state, the trace that shows it, and the remedy.

    A heartbeat proves that one ran, not that it runs: the next one comes half of
    :data:`HEARTBEAT_INTERVAL` later.
    """
    lease, deployment = traces.lease, traces.deployment
    holder, renewed, lasts = renewal(lease)
    if not holder:
        renewed = None
    since = "" if renewed is None else rough_duration(now - renewed)
    if lease is not None and renewed is not None and now - renewed <= 2 * lasts:
        return f"a konnector runs (Lease {lease.key} was renewed {since} ago): {_LOG}"
    if deployment is not None and not ready_pods(deployment):
        where = f"-n {deployment.meta.namespace} describe deployment {deployment.meta.name}"
        return f"Deployment {deployment.key} has no Pod that is ready: see `kubectl {where}`"
    if deployment is not None:
        return f"a konnector runs (Deployment {deployment.key} has a ready Pod): {_LOG}"
    beat = _beaten(traces.heartbeat)
    if beat is not None and now - beat <= STALE:
        return (
            f"a konnector ran {rough_duration(now - beat)} ago, by its last heartbeat: if it "
            f"still does, {_LOG}; if not, {START}"
        )
    if lease is not None and renewed is not None:
        return f"no konnector runs any more (Lease {lease.key} was renewed {since} ago): {START}"
    if beat is not None:
        return f"no konnector has sent a heartbeat for {rough_duration(now - beat)}: {START}"
    return f"there is no sign of a konnector in this cluster: {START}"


class KonnectorStop(msgspec.Struct, frozen=True):
    """A konnector that has stopped: the trace that shows it, and since when, "" if unknown."""

    message: str
    since: str = ""


def stop_of(traces: Traces, now: datetime, beat: datetime | None = None) -> KonnectorStop | None:
    """Return the stop of a konnector that has left traces; None if one may run.

    Its own cluster shows it long before the provider misses a heartbeat. A konnector without a
    Lease may run elsewhere, which a heartbeat after the Lease's end shows. ``beat`` is the time of
    the last one, where that is not in the traces.
    """
    lease, deployment = traces.lease, traces.deployment
    _, renewed, lasts = renewal(lease)
    # One that is given back lasts a second; the next leader takes it in the usual time.
    lasts = max(lasts, timedelta(seconds=LEASE_SECONDS))
    if renewed is not None and now - renewed <= 2 * lasts:
        return None
    if deployment is not None and ready_pods(deployment):
        return None
    beat = beat or _beaten(traces.heartbeat)
    if renewed is None:
        # By its Deployment alone: the konnector may be another process, which gives heartbeats.
        silent = beat is None or now - beat > STALE
        if deployment is None or not silent:
            return None
        return KonnectorStop(f"Deployment {deployment.key} of the konnector has no ready Pod")
    if beat is not None and beat > renewed + 2 * lasts:
        return None
    key = lease.key if lease is not None else ""
    text = f"no konnector has renewed Lease {key} for {rough_duration(now - renewed)}"
    if deployment is not None:
        text += f", and Deployment {deployment.key} has no ready Pod"
    return KonnectorStop(text, format_time(renewed))


def _beaten(binding: ClusterBinding | None) -> datetime | None:
    try:
        return parse_time(binding.status.last_heartbeat_time) if binding is not None else None
    except ValueError:
        return None
