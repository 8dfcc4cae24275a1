"""``fairlead sandbox``: embedded control planes, and pods as local processes.

Each command imports its modules when it is called: a person who starts a server waits for them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import click

from fairlead import process
from fairlead.api import resource
from fairlead.api.resource import Resource
from fairlead.cli.options import (
    NAMESPACE,
    cluster_config,
    cluster_options,
    log_to_stderr,
    write_private,
)


_KINDS = {
    "deployment": (resource.DEPLOYMENTS, "deploy"),
    "statefulset": (resource.STATEFULSETS, "sts"),
    "daemonset": (resource.DAEMONSETS, "ds"),
    "replicaset": (resource.REPLICASETS, "rs"),
    "job": (resource.JOBS, ""),
    "cronjob": (resource.CRONJOBS, "cj"),
    "pod": (resource.PODS, "po"),
}
WORKLOADS: dict[str, Resource] = {
    name: kind
    for singular, (kind, short) in _KINDS.items()
    for name in (singular, kind.plural, short)
    if name
}
"""Kinds with a pod template, by the names that kubectl takes for them."""


@click.group("sandbox")
def command() -> None:
    """Run Kubernetes API servers on this machine, without containers.

    \b
    Example:
        fairlead sandbox up --dir /tmp/planes
        kubectl --kubeconfig /tmp/planes/sandbox.kubeconfig get namespaces
    """  # noqa: D301


@command.command("up")
@click.option(
    "--dir",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for NAME.kubeconfig, and with --data for NAME.data.",
)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    help="Name of a cluster; may be given several times. Default: sandbox.",
)
@click.option(
    "--data",
    is_flag=True,
    help="Keep the objects in DIR; each write is on disk before it is answered.",
)
@click.option(
    "--postgres",
    is_flag=True,
    help="Also run a PostgreSQL with a database shop, which the first cluster knows as "
    "PostgresServer main. It ends with this command, and its data is removed.",
)
def up(folder: Path, clusters: tuple[str, ...], data: bool, postgres: bool) -> None:
    """Run API servers until stopped; prints "ready" when they answer.

    \b
    Example:
        fairlead sandbox up --dir /tmp/planes --cluster provider --cluster consumer
        kubectl --kubeconfig /tmp/planes/consumer.kubeconfig get namespaces

    \b
    With a database server, for `fairlead postgres run`:
        fairlead sandbox up --dir /tmp/planes --postgres
        kubectl --kubeconfig /tmp/planes/sandbox.kubeconfig get postgresservers
    """  # noqa: D301
    names = clusters or ("sandbox",)
    for name in names:
        if not name or Path(name).name != name or name in {".", ".."}:
            raise click.UsageError(f"cluster name {name!r} cannot be a file name")
    if len(set(names)) != len(names):
        raise click.UsageError("two clusters have the same name")
    folder.mkdir(parents=True, exist_ok=True)

    with without_authorities(), without_collections():
        from fairlead_sandbox import Sandbox

    async def main(stop: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            introduce = await _postgres(stack) if postgres else None
            for name in names:
                data_path = folder / f"{name}.data" if data else None
                sandbox = await stack.enter_async_context(Sandbox(name=name, data=data_path))
                path = folder / f"{name}.kubeconfig"
                write_private(path, sandbox.kubeconfig().decode())
                click.echo(f"{name}: {sandbox.url}, {path}", err=True)
            if introduce is not None:
                click.echo(await introduce(names[0], folder / f"{names[0]}.kubeconfig"), err=True)
            click.echo("ready")
            # Scripts wait for this word at a pipe, which Python buffers.
            sys.stdout.flush()
            await stop.wait()

    process.run(main)


async def _postgres(stack: AsyncExitStack) -> Callable[[str, Path], Awaitable[str]]:
    """Run a PostgreSQL until the stack ends; return a function that adds it to a cluster."""
    from fairlead.client import Client, load_config
    from fairlead.demo import objects
    from fairlead.demo.postgres import database
    from fairlead.demo.postgres.server import EmbeddedPostgres

    # By default structlog writes to standard output, where scripts wait for "ready".
    log_to_stderr()
    server = await stack.enter_async_context(EmbeddedPostgres())
    await database.prepare(server, objects.DATABASE)

    async def introduce(cluster: str, kubeconfig: Path) -> str:
        async with Client(load_config(str(kubeconfig)), user_agent="fairlead-sandbox") as admin:
            await database.introduce(server, admin)
        where = f"{server.host}:{server.port}"
        return f"PostgreSQL: {where}, PostgresServer {objects.SERVER} of {cluster}"

    return introduce


@contextmanager
def without_authorities() -> Iterator[None]:
    """Hide the system's certificate authorities from modules that are imported inside.

    aiohttp reads all of them twice at its import, which is a tenth of the start of a server; and a
    server makes no requests.
    """
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause garbage collection while modules are imported, and exempt their objects from it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@command.command("run")
@cluster_options
@click.argument("workload", metavar="KIND/NAME")
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    default="",
    help="Namespace of the workload; default: the context's, then default.",
)
@click.option("-c", "--container", default="", help="Container to run; default: the first one.")
@click.argument("argv", nargs=-1, metavar="[-- COMMAND...]", type=click.UNPROCESSED)
def run(
    workload: str,
    namespace: str,
    container: str,
    argv: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Run a workload's container as a local process, as a kubelet would.

    Environment and volumes come from the pod template; files are below a private temporary
    folder, and paths at or below a mountPath in environment values are rewritten to it. COMMAND
    replaces the container's own. The exit code is the process's.

    \b
    Example:
        fairlead sandbox run deployment/shop -n shop -- env
    """  # noqa: D301
    kind, _, name = workload.partition("/")
    if not kind or not name:
        raise click.UsageError(f"{workload!r} is not KIND/NAME, such as deployment/shop")
    if kind.lower() not in WORKLOADS:
        raise click.UsageError(f"{kind} has no pod template; use one of {', '.join(_KINDS)}")
    config = cluster_config(kubeconfig, context)

    from fairlead.client import Client
    from fairlead.demo.pods.runner import run_workload

    async def main(stop: asyncio.Event) -> int:
        async with Client(config, user_agent="fairlead-sandbox") as client:
            result = await process.cancel_on(
                stop,
                run_workload(
                    client,
                    WORKLOADS[kind.lower()],
                    namespace or config.namespace or "default",
                    name,
                    container=container,
                    command=list(argv) or None,
                ),
            )
            return result.exit_code

    sys.exit(process.run(main))
