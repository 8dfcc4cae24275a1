"""The konnector by kbind v2 against itself by v1alpha2, and against the original's konnector.

The same objects cross between planes of one kind in the same run. KONNECTOR_V2 names the
original's konnector, which somebody has built; without it there is nothing about it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.kbindworld import RULES, KbindProvider, connection, secret
from tests.support.process import config_file
from tests.support.realplane import free_ports, missing_assets
from tests.support.waiting import condition

from bench import sync
from bench.loading import Side, loader, side
from bench.planes import Program, control_plane, running, scratch
from bench.rows import MIB, TITLES, Row, pace, report, say
from bench.sizes import KBIND_OBJECTS, PLANES
from bench.sync import SYNCED, Crossing, Way, changes, size
from fairlead.api import kbind
from fairlead.api.kbind import CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.files import binding
from fairlead.api.kbind.names import LABEL_EXPORTED
from fairlead.api.kbind.rights import cluster_binding_roles
from fairlead.api.manifests import RBAC_GROUP, rule
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import SECRETS
from fairlead.client import Client, ClusterConfig
from fairlead.client.lookups import wait_for
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector import manifests as konnector_manifests
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.runtime import install_crds


ORIGINAL = os.environ.get("KONNECTOR_V2", "")
"""Path of the original's konnector, "" without it."""
CONNECTIONS_AT_ONCE = 16
"""Connections of the load."""
PATIENCE_SECONDS = 90.0
"""Longest wait for the original's konnector."""
READY_SECONDS = 60.0
AIM_SHARE = 0.85
"""Least throughput, of that by v1alpha2."""
AIM_MEMORY = 1.1
"""Most memory, of that by v1alpha2."""

_VERBS = ("get", "list", "watch", "create", "patch", "delete")
_RULES = (
    *RULES,
    rule(SYNCED.group, [SYNCED.plural], _VERBS),
    rule("", ["namespaces"], ("get", "create")),
)

Konnector = Callable[[ClusterConfig, Path], AbstractAsyncContextManager["Program | None"]]


class Planes(NamedTuple):
    """Two planes that are bound by kbind v2; ``konnector`` is None for the original's."""

    consumer: Side
    provider: Side
    konnector: Program | None


class Crossed(NamedTuple):
    """Result of a run: how many objects crossed in how many seconds, and one change after it."""

    objects: int
    seconds: float
    change: float
    """Seconds until a change alone is seen at the provider, 0 where it did not come in time."""
    memory: float
    """Bytes by which the konnector has grown."""


@asynccontextmanager
async def ours(account: ClusterConfig, folder: Path) -> AsyncIterator[Program | None]:
    """Run our konnector."""
    async with running("konnector", account, folder) as program:
        yield program


@asynccontextmanager
async def original(account: ClusterConfig, folder: Path) -> AsyncIterator[Program | None]:
    """Run the original's konnector."""
    file, log = folder / "original.kubeconfig", folder / "original.log"
    file.touch(mode=0o600)
    file.write_text(config_file(account))
    metrics, health = free_ports(2)
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(ORIGINAL, "--kubeconfig", str(file)),
            *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
            *("--health-probe-bind-address", f"127.0.0.1:{health}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield None
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def bound(kind: str, konnector: Konnector) -> AsyncIterator[Planes]:
    """Run planes of a kind with a konnector between them, until the context is left."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(scratch())
        consumer = await stack.enter_async_context(control_plane(kind, own))
        provider = await stack.enter_async_context(control_plane(kind, own))
        there = await stack.enter_async_context(Client(provider.admin))
        here = await stack.enter_async_context(Client(consumer.admin))
        crd = sync.crd(SYNCED)
        crd["metadata"]["labels"] = {LABEL_EXPORTED: "true"}
        await install_crds(there, [crd])
        await install_crds(here, kbind.crds())
        await create_all(here, konnector_manifests.manifests(image="bench"))
        await create_all(here, cluster_binding_roles("bench", [SYNCED.group_resource]))
        account = await as_service_account(here, DEFAULT_NAMESPACE, konnector_manifests.NAME)
        if konnector is original:
            # It has all rights on all kinds, as its chart gives them.
            await create_all(here, _all_rights())
        kubeconfig = await KbindProvider(there).kubeconfig("bench", rules=_RULES)
        await here.create(SECRETS, secret("bench", kubeconfig))
        await here.create(CONNECTIONS, connection("bench"))
        await here.create(
            CLUSTERBINDINGS, binding("bench", [SYNCED.group_resource], connection="bench")
        )
        configs = [await loader(admin, SYNCED.group) for admin in (here, there)]
        program = await stack.enter_async_context(konnector(account, own))
        await wait_for(
            here,
            CLUSTERBINDINGS,
            "bench",
            until=_readiness,
            timeout=READY_SECONDS,
        )
        loaded, copied = [await stack.enter_async_context(side(config)) for config in configs]
        yield Planes(loaded, copied, program)


def _readiness(obj: Object | None) -> str:
    """Return why a binding is not Ready, "" if it is."""
    ready = condition(obj.to_dict() if obj is not None else {}, "Ready")
    return "" if ready.get("status") == "True" else f"it is not Ready: {ready.get('message')}"


def _all_rights() -> list[JSON]:
    named = {"apiVersion": f"{RBAC_GROUP}/v1", "metadata": {"name": "original"}}
    subject = {
        "kind": "ServiceAccount",
        "name": konnector_manifests.NAME,
        "namespace": DEFAULT_NAMESPACE,
    }
    ref = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "original"}
    return [
        {**named, "kind": "ClusterRole", "rules": [rule("*", ["*"], ["*"])]},
        {**named, "kind": "ClusterRoleBinding", "roleRef": ref, "subjects": [subject]},
    ]


async def cross(planes: Planes, objects: int) -> Crossed:
    """Have objects and their statuses cross, then a change alone; give up after a while."""
    crossing = Crossing(planes.consumer, planes.provider, CONNECTIONS_AT_ONCE)
    konnector = planes.konnector
    before = await konnector.resident_at_rest() if konnector is not None else 0
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            seconds = await crossing.run("kbind", objects)
    except TimeoutError:
        return Crossed(len(crossing.copies), loop.time() - begun, 0.0, 0.0)
    memory = await konnector.resident_at_rest() - before if konnector is not None else 0
    way = Way(planes.consumer, planes.provider, SYNCED, size, lambda seen: seen.spec.size)
    key = (next(iter(crossing.sources.values())), next(iter(crossing.sources)))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            samples = 1 if konnector is None else 20
            found = await changes(way, [key], connections=1, samples=samples)
    except TimeoutError:
        return Crossed(objects, seconds, 0.0, memory)
    return Crossed(objects, seconds, sorted(found)[len(found) // 2], memory)


def rows(kind: str, former: Crossed, mirrored: Crossed, theirs: Crossed | None) -> list[Row]:
    """Return the rows of one number of objects."""
    count, title = mirrored.objects, f"kbind v2, {TITLES[kind]}"
    key, what = f"kbind_{kind}_{count}", f"{title}, {count:,} objects"
    result = [
        pace(
            f"{key}_of_v1alpha2",
            f"{what}: throughput of that by v1alpha2",
            mirrored.seconds,
            former.seconds,
            AIM_SHARE,
        ),
        Row(f"{key}_change", f"{what}: a change alone", 1000 * mirrored.change, "ms"),
        Row(
            f"{key}_memory_of_v1alpha2",
            f"{what}: memory for them, of that by v1alpha2",
            mirrored.memory / former.memory,
            aim=AIM_MEMORY,
            note=f"{mirrored.memory / MIB:.1f} MiB against {former.memory / MIB:.1f}",
        ),
    ]
    if theirs is not None:
        rate, other = count / mirrored.seconds, theirs.objects / theirs.seconds
        crossed = f"{theirs.objects:,} of {count:,} in {theirs.seconds:.0f} s"
        result.append(
            Row(
                f"{key}_of_original",
                f"{what}: throughput of the original's",
                rate / max(other, 1e-9),
                smaller_is_better=False,
                note=f"{rate:,.0f} objects/s against {other:,.1f}; the original's: {crossed}",
            )
        )
        if theirs.change:
            note = f"{1000 * mirrored.change:,.0f} ms against {1000 * theirs.change:,.0f} ms"
            share = mirrored.change / theirs.change
            title = f"{what}: a change alone, of the original's"
            result.append(Row(f"{key}_change_of_original", title, share, note=note))
    return result


async def compare() -> list[Row]:
    """Measure all numbers of objects on both kinds of planes, or on the chosen one."""
    printed: list[Row] = []
    for kind in PLANES:
        if kind == "real" and (missing := missing_assets()):
            say(f"real planes left out: {missing}")
            continue
        for objects in KBIND_OBJECTS:
            async with sync.pair(kind) as pair:
                former = await cross(Planes(*pair), objects)
            async with bound(kind, ours) as planes:
                mirrored = await cross(planes, objects)
            theirs = None
            if ORIGINAL:
                async with bound(kind, original) as planes:
                    theirs = await cross(planes, objects)
            say(f"{kind} {former} {mirrored} {theirs}")
            printed += rows(kind, former, mirrored, theirs)
    return printed


if __name__ == "__main__":
    report(compare)
