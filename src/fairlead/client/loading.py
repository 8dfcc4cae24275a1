"""Finds a command's cluster: a named file, KUBECONFIG, the home folder, or the Pod itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from fairlead.client.config import IN_CLUSTER, ClusterConfig
from fairlead.client.errors import ConfigError
from fairlead.client.kubeconfig import select_context
from fairlead.client.kubeconfig_types import Kubeconfig, Named, decode_kubeconfig


N = TypeVar("N", bound=Named)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def load_config(kubeconfig: str | None = None, context: str | None = None) -> ClusterConfig:
    """Return the cluster that a command uses, found in kubectl's order.

    ``kubeconfig`` if given; else the files that KUBECONFIG lists, merged; else ~/.kube/config;
    else the Pod's ServiceAccount. The namespace is "default" where the context names none.

    Raises:
        ConfigError: no configuration was found, or it cannot be used.
    """
    return find_config(kubeconfig, context, environ=os.environ)


def find_config(
    kubeconfig: str | None,
    context: str | None,
    *,
    environ: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Return the cluster of :func:`load_config` from the given variables and ServiceAccount."""
    paths = _files(kubeconfig, environ)
    if paths:
        return replace(_from_files(paths, context), trusted=True)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        if context:
            raise ConfigError(f"there is no context {context!r}: this is a Pod's own identity")
        return in_cluster_config(environ, service_account)
    raise ConfigError(
        f"no cluster is configured: {_default(environ)} does not exist;"
        " set --kubeconfig or KUBECONFIG, or run in a Pod"
    )


def context_names(kubeconfig: str | None = None) -> list[str]:
    """Return the contexts of the kubeconfig of :func:`load_config`; [] without one.

    Raises:
        ConfigError: the kubeconfig cannot be read.
    """
    paths = _files(kubeconfig, os.environ)
    contexts = merge(_read(path) for path in paths).contexts
    return [context.name for context in contexts or ()]


def _files(kubeconfig: str | None, environ: Mapping[str, str]) -> list[Path]:
    if kubeconfig:
        return [Path(kubeconfig)]
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if listed:
        # Like kubectl, files of the list that do not exist are left out.
        present = [path for path in dict.fromkeys(listed) if _is_there(path)]
        if not present:
            raise ConfigError(f"KUBECONFIG names no file that exists: {_names(listed)}")
        return present
    default = _default(environ)
    return [default] if _is_there(default) else []


def _default(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "/", ".kube", "config")


def in_cluster_config(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> ClusterConfig:
    """Return a Pod's own cluster and ServiceAccount; its token is read again as it rotates.

    Raises:
        ConfigError: the ServiceAccount is not mounted.
    """
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        authority = (folder / "ca.crt").read_bytes()
        token = (folder / "token").read_text().strip()
        namespace = (folder / "namespace").read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"this Pod's ServiceAccount cannot be read: {error.filename}: {error.strerror};"
            " is automountServiceAccountToken off?"
        ) from None
    address = f"[{host}]" if ":" in host else host
    return ClusterConfig(
        server=f"https://{address}:{port}",
        namespace=namespace,
        certificate_authority=authority,
        token=token,
        token_file=str(folder / "token"),
        context=IN_CLUSTER,
        trusted=True,
    )


def _from_files(paths: Sequence[Path], context: str | None) -> ClusterConfig:
    merged = merge(_read(path) for path in paths)
    config = select_context(merged, context, where=f"kubeconfig {_names(paths)}")
    return replace(config, namespace=config.namespace or "default")


def _is_there(path: Path) -> bool:
    """Whether the file exists; an inaccessible one counts, and fails when it is read."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _read(path: Path) -> Kubeconfig:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from None
    config = decode_kubeconfig(data, where=f"kubeconfig {path}", aliases=True)
    _anchor(config, path.absolute().parent)
    return config


def _anchor(config: Kubeconfig, folder: Path) -> None:
    """Make relative paths absolute: they are relative to the folder of the file they stand in."""
    for cluster in config.clusters or ():
        fields = cluster.cluster
        fields.certificate_authority = _absolute(fields.certificate_authority, folder)
    for entry in config.users or ():
        user = entry.user
        user.client_certificate = _absolute(user.client_certificate, folder)
        user.client_key = _absolute(user.client_key, folder)
        user.token_file = _absolute(user.token_file, folder)
        # A command without a slash is looked for in PATH.
        if user.exec_ is not None and "/" in user.exec_.command:
            user.exec_.command = _absolute(user.exec_.command, folder) or ""


def _absolute(path: str | None, folder: Path) -> str | None:
    return str(folder / path) if path else path


def merge(configs: Iterable[Kubeconfig]) -> Kubeconfig:
    """Merge several kubeconfigs: the first entry of each name wins, as with kubectl.

    Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/.
    """
    result = Kubeconfig(clusters=[], users=[], contexts=[])
    for config in configs:
        result.current_context = result.current_context or config.current_context
        result.clusters = _union(result.clusters, config.clusters)
        result.users = _union(result.users, config.users)
        result.contexts = _union(result.contexts, config.contexts)
    return result


def _union(first: list[N] | None, second: list[N] | None) -> list[N]:
    entries: dict[str, N] = {}
    for entry in [*(first or ()), *(second or ())]:
        entries.setdefault(entry.name, entry)
    return list(entries.values())


def _names(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths)
