"""``fairlead binding render`` and ``compose``: bindings from files, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from fairlead.api import yamltext
from fairlead.binding.options import BindingOptions
from fairlead.binding.outside.compose.files import COMPOSE_FILE, write
from fairlead.binding.outside.compose.override import hidden, override
from fairlead.binding.outside.compose.project import is_compose, project
from fairlead.binding.outside.documents import Document, DocumentError, collection, documents
from fairlead.binding.outside.rendering import redacted
from fairlead.binding.outside.rendering import render as rendered
from fairlead.cli.crds import to_yaml
from fairlead.cli.options import NAMESPACE


_SUFFIXES = {".yaml", ".yml", ".json"}
_KUSTOMIZATIONS = {"kustomization.yaml", "kustomization.yml"}
"""Names of kustomize's files, which stand beside manifests and are none."""


_cross_namespace = click.option(
    "--cross-namespace",
    type=bool,
    default=False,
    show_default=True,
    help="Whether bindings may name services of other namespaces, like --cross-namespace true of"
    " `fairlead binding run`.",
)


@click.command("render")
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    metavar="PATH",
    help="A file of manifests, a folder whose *.yaml, *.yml and *.json are read, or - for "
    "standard input; may be given several times.",
)
@click.option("-R", "--recursive", is_flag=True, help="Read subfolders, too.")
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    default="default",
    show_default=True,
    help="Namespace of objects that name none; they are printed without one.",
)
@_cross_namespace
@click.option("--show-secrets", is_flag=True, help="Print the values of Secrets.")
@click.pass_context
def render(
    context: click.Context,
    paths: Sequence[str],
    recursive: bool,
    namespace: str,
    cross_namespace: bool,
    show_secrets: bool,
) -> None:
    """Print what the controller would write for the bindings in these manifests.

    These are the Secrets that it would create and the workloads that it would change, always in
    the same order. If a binding cannot be projected, only the error is printed.

    \b
    Examples:
        fairlead binding render -f manifests
        fairlead binding render -f manifests --show-secrets | kubectl apply -f -
    """  # noqa: D301
    documents = [one for path in paths for one in _documents(path, recursive=recursive)]
    rendering = rendered(
        collection(documents, namespace), BindingOptions(cross_namespace=cross_namespace)
    )
    _tell(context, rendering.problems)
    shown = rendering.objects if show_secrets else [redacted(one) for one in rendering.objects]
    if shown:
        click.echo(to_yaml(shown), nl=False)


@click.command("compose")
@click.option(
    "-f",
    "--file",
    "paths",
    multiple=True,
    required=True,
    metavar="PATH",
    help="A Compose file, a file of bindings and services, or - for standard input; the content "
    "decides which one it is. May be given several times.",
)
@click.option(
    "-o",
    "--output-dir",
    type=click.Path(path_type=Path),
    help="Folder for the files of secrets and the Compose file that mounts them; default: "
    ".service-bindings beside the first Compose file.",
)
@click.option("--dry-run", is_flag=True, help="Print only the Compose file, and write nothing.")
@_cross_namespace
@click.option("--show-secrets", is_flag=True, help="Print the values of variables.")
@click.pass_context
def compose(
    context: click.Context,
    paths: Sequence[str],
    output_dir: Path | None,
    dry_run: bool,
    cross_namespace: bool,
    show_secrets: bool,
) -> None:
    """Bind services of Docker Compose as the controller binds workloads.

    The workload of a binding is the Compose service that it names, or all services that have the
    labels of its selector. Each entry of the Secret becomes a Compose secret below
    SERVICE_BINDING_ROOT. The command prints a Compose file; give it to docker compose after your
    own files. If there are secret files, the command writes them and the Compose file into the
    output directory.

    \b
    Examples:
        fairlead binding compose -f compose.yaml -f bindings.yaml
        docker compose -f compose.yaml -f .service-bindings/compose.yaml up
    """  # noqa: D301
    origins = {path: list(_documents(path)) for path in paths}
    files = [path for path in paths if any(map(is_compose, origins[path]))]
    if not files:
        raise click.UsageError("none of the files is a Compose file, which has services")
    documents = [one for path in paths for one in origins[path]]
    # docker compose takes paths from the folder of its first file.
    base = Path.cwd() if files[0] == "-" else Path(files[0]).absolute().parent
    folder = (output_dir or base / ".service-bindings").absolute()
    shown = f"./{folder.relative_to(base)}" if folder.is_relative_to(base) else str(folder)
    bound = override(
        project([one for one in documents if is_compose(one)]),
        collection([one for one in documents if not is_compose(one)], "default"),
        BindingOptions(cross_namespace=cross_namespace),
        shown,
    )
    _tell(context, bound.problems)
    if not dry_run:
        write(folder, to_yaml([bound.body]), bound.files)
        click.echo(f"written to {shown}: give {shown}/{COMPOSE_FILE} with another -f", err=True)
    click.echo(to_yaml([bound.body if show_secrets else hidden(bound.body)]), nl=False)


def _tell(context: click.Context, problems: Sequence[str]) -> None:
    """Print the problem of each binding on standard error; exit with code 1 if there is one."""
    for problem in problems:
        click.echo(f"Error: {' '.join(problem.split())}", err=True)
    if problems:
        context.exit(1)


def _documents(path: str, *, recursive: bool = False) -> Iterator[Document]:
    for origin, text in _texts(path, recursive=recursive):
        yield from documents(origin, text)


def _texts(path: str, *, recursive: bool) -> Iterator[tuple[str, str]]:
    """Yield names and contents of the files of a path.

    Raises:
        DocumentError: a folder has no manifests, or a file is empty or no text.
        OSError: the path cannot be read.
    """
    if path == "-":
        yield _filled("standard input", sys.stdin.buffer.read())
        return
    folder = Path(path)
    if not folder.is_dir():
        yield _filled(path, folder.read_bytes())
        return
    paths = folder.rglob("*") if recursive else folder.iterdir()
    files = sorted(
        path
        for path in paths
        if path.suffix in _SUFFIXES and path.name not in _KUSTOMIZATIONS and path.is_file()
    )
    if not files:
        raise DocumentError(f"{path}: there is no *.yaml, *.yml or *.json in this folder")
    for file in files:
        yield str(file), _text(file, file.read_bytes())


def _filled(origin: str, content: bytes) -> tuple[str, str]:
    """Return the name and the text of a file that someone named."""
    if not content.strip():
        raise DocumentError(f"{origin}: it is empty")
    return origin, _text(origin, content)


def _text(origin: str | Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"{origin}: it {yamltext.refusal(error)}") from None
