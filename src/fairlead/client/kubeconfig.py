"""Conversion of a kubeconfig's context into a :class:`ClusterConfig`.

Kubeconfigs have two levels of trust. A user's own file may name other files and commands. A
Secret's kubeconfig may come from another person: following its file references would hand that
person our files, and an exec plugin would run their commands, so :func:`parse_kubeconfig` refuses
both.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from fairlead.client import limits
from fairlead.client.config import ClusterConfig, ExecPlugin, Impersonation
from fairlead.client.errors import ConfigError
from fairlead.client.kubeconfig_types import (
    ClusterFields,
    ContextFields,
    ExecFields,
    Kubeconfig,
    Named,
    UserFields,
    decode_kubeconfig,
)


N = TypeVar("N", bound=Named)

_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class ReferenceRefused(ConfigError):  # noqa: N818  named after what happened
    """An untrusted kubeconfig names a file to read or a program to run."""


def parse_kubeconfig(data: bytes, *, context: str | None = None) -> ClusterConfig:
    """Return the cluster of an untrusted kubeconfig, such as one from a Secret.

    Everything must be embedded: file references, exec plugins and auth providers are refused. The
    namespace is "" if the context names none.

    Raises:
        ReferenceRefused: it names files or programs.
        ConfigError: the kubeconfig is unusable; quotes none of its values.
    """
    where = "the kubeconfig"
    if len(data) > limits.KUBECONFIG_BYTES:
        raise ConfigError(f"{where} is larger than {limits.KUBECONFIG_BYTES} bytes")
    config = decode_kubeconfig(data, where=where, aliases=False)
    name, chosen = choose_context(config, context, where=where, hint="set current-context")
    cluster = _entry(config.clusters, chosen.cluster, "cluster", where).cluster
    user = _entry(config.users, chosen.user, "user", where).user if chosen.user else UserFields()
    _refuse_references(cluster, user, where)
    return build_config(name, chosen, cluster, user, where=where)


def select_context(config: Kubeconfig, context: str | None, *, where: str) -> ClusterConfig:
    """Return the cluster of a context in the user's own kubeconfig, with its files read.

    Raises:
        ConfigError: the context, its cluster, user or one of their files is missing or unusable.
    """
    name, chosen = choose_context(config, context, where=where, hint="name one with --context")
    cluster = _entry(config.clusters, chosen.cluster, "cluster", where).cluster
    user = _entry(config.users, chosen.user, "user", where).user if chosen.user else UserFields()
    return build_config(name, chosen, cluster, user, where=where)


def choose_context(
    config: Kubeconfig, chosen: str | None, *, where: str, hint: str
) -> tuple[str, ContextFields]:
    """Return name and content of the wanted context, else of the current one."""
    contexts = config.contexts or []
    name = chosen or config.current_context
    have = ", ".join(sorted(context.name for context in contexts)) or "none"
    if not name and not contexts:
        raise ConfigError(f"{where} has no contexts: it is empty, or not a kubeconfig")
    if not name:
        raise ConfigError(f"{where} has no current-context: {hint} (it has {have})")
    for context in contexts:
        if context.name == name:
            return name, context.context
    raise ConfigError(f"{where} has no context {name!r} (it has {have})")


def _entry(entries: Iterable[N] | None, name: str, kind: str, where: str) -> N:
    if not name:
        raise ConfigError(f"the context in {where} names no {kind}")
    for entry in entries or ():
        if entry.name == name:
            return entry
    raise ConfigError(f"{where} has no {kind} {name!r}, which its context names")


def _refuse_references(cluster: ClusterFields, user: UserFields, where: str) -> None:
    references = {
        "certificate-authority": cluster.certificate_authority,
        "client-certificate": user.client_certificate,
        "client-key": user.client_key,
        "tokenFile": user.token_file,
    }
    for field, value in references.items():
        if value:
            raise ReferenceRefused(
                f"{where} refers to a file in {field}: it must be embedded"
                f" (kubectl config view --raw --flatten does that)"
            )
    if user.exec_ is not None:
        raise ReferenceRefused(f"{where} runs a command (exec), which is not allowed: use a token")


def build_config(
    name: str,
    context: ContextFields,
    cluster: ClusterFields,
    user: UserFields,
    *,
    where: str,
) -> ClusterConfig:
    """Check and decode all fields, and read file references.

    Raises:
        ConfigError: names the field that is missing or wrong.
    """
    if user.auth_provider is not None:
        raise ConfigError(
            f"{where} uses auth-provider, which Kubernetes has removed:"
            " use a token or a client certificate"
        )
    insecure = bool(cluster.insecure_skip_tls_verify)
    authority = _pem(
        cluster.certificate_authority_data,
        cluster.certificate_authority,
        "certificate-authority",
        where,
    )
    if insecure and authority:
        raise ConfigError(
            f"{where} has both insecure-skip-tls-verify and certificate-authority: remove one"
        )
    certificate = _pem(
        user.client_certificate_data, user.client_certificate, "client-certificate", where
    )
    key = _pem(user.client_key_data, user.client_key, "client-key", where)
    if bool(certificate) != bool(key):
        raise ConfigError(f"{where} has one of client-certificate and client-key, not both")
    return ClusterConfig(
        server=_server(cluster.server, where),
        namespace=_plain(context.namespace, "namespace", where),
        certificate_authority=authority,
        tls_server_name=_plain(cluster.tls_server_name, "tls-server-name", where),
        insecure_skip_tls_verify=insecure,
        proxy_url=_proxy(cluster.proxy_url, where),
        disable_compression=bool(cluster.disable_compression),
        token=_plain(user.token, "token", where),
        token_file=user.token_file or "",
        username=_plain(user.username, "username", where),
        password=_plain(user.password, "password", where),
        client_certificate=certificate,
        client_key=key,
        exec_plugin=_exec(user.exec_, cluster, where) if user.exec_ is not None else None,
        impersonation=_impersonation(user, where),
        context=name,
    )


def _server(server: str, where: str) -> str:
    if not server:
        raise ConfigError(f"the cluster in {where} has no server")
    # It is named in messages and paths are put behind it.
    if not {"@", "?", "#"}.isdisjoint(server):
        raise ConfigError(f"server in {where} has a user, query or fragment: remove it")
    return _url(server, "server", ("https", "http"), where).rstrip("/")


def _proxy(url: str | None, where: str) -> str:
    if url and url.startswith("socks5"):
        raise ConfigError(
            f"proxy-url in {where} names a SOCKS proxy, which is not supported: use an HTTP proxy"
            " that answers CONNECT, or a tunnel such as `ssh -L` and tls-server-name"
        )
    return _url(url, "proxy-url", ("http", "https"), where) if url else ""


def _url(url: str, field: str, schemes: tuple[str, ...], where: str) -> str:
    _plain(url, field, where)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or " " in url:
        form = " or ".join(f"{scheme}://host:port" for scheme in schemes)
        raise ConfigError(f"{field} in {where} is not a URL of the form {form}")
    return url


def _plain(value: str | None, field: str, where: str) -> str:
    """Return the text if it fits a header line; no message quotes it, since it may be a secret."""
    text = value or ""
    if not text.isprintable():
        raise ConfigError(f"{field} in {where} contains a line break or control character")
    return text


def _pem(data: str | None, path: str | None, field: str, where: str) -> bytes:
    """Return embedded data, else the content of the file, in the order of client-go."""
    if data:
        try:
            # YAML lets long values be folded into lines.
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError):
            kind = "PEM" if "-----BEGIN" in data else "not base64"
            raise ConfigError(
                f"{field}-data in {where} is {kind}: it has to be base64 of PEM, as `base64 -w0`"
                " makes it"
            ) from None
    if not path:
        return b""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{field} in {where} cannot be read: {path}: {error.strerror}") from None
    if not content:
        raise ConfigError(f"{field} in {where} is an empty file: {path}")
    return content


def _impersonation(user: UserFields, where: str) -> Impersonation | None:
    if not user.as_:
        if user.as_uid or user.as_groups or user.as_user_extra:
            raise ConfigError(f"{where} has as-groups, as-uid or as-user-extra without as")
        return None
    extra = {
        _plain(name, "as-user-extra", where): tuple(
            _plain(value, "as-user-extra", where) for value in values
        )
        for name, values in (user.as_user_extra or {}).items()
    }
    return Impersonation(
        user=_plain(user.as_, "as", where),
        groups=tuple(_plain(group, "as-groups", where) for group in user.as_groups or ()),
        uid=_plain(user.as_uid, "as-uid", where),
        extra=extra,
    )


def _exec(fields: ExecFields, cluster: ClusterFields, where: str) -> ExecPlugin:
    if fields.api_version not in _EXEC_VERSIONS:
        raise ConfigError(
            f"exec in {where} has apiVersion {fields.api_version!r}:"
            f" supported are {' and '.join(_EXEC_VERSIONS)}"
        )
    if fields.interactive_mode == "Always":
        raise ConfigError(f"exec in {where} needs a terminal (interactiveMode Always)")
    if not fields.command:
        raise ConfigError(f"exec in {where} has no command")
    extensions = cluster.extensions or []
    return ExecPlugin(
        command=fields.command,
        args=tuple(fields.args or ()),
        env=tuple((variable.name, variable.value) for variable in fields.env or ()),
        api_version=fields.api_version,
        provide_cluster_info=fields.provide_cluster_info,
        install_hint=fields.install_hint,
        cluster_extension=next(
            (item.extension for item in extensions if item.name == _EXEC_EXTENSION), None
        ),
    )
