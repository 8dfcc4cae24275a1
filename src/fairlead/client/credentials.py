"""Credentials: the identity of a client, and its renewal while the client lives.

A source gives the current credential before each request, and is asked for a better one after a
401. Asking is single-flight: a hundred requests refused at once cause one refresh.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.timestamps import moment
from fairlead.client import limits
from fairlead.client.config import ClusterConfig, ExecPlugin
from fairlead.client.errors import ConfigError


Clock = Callable[[], float]


class Credential(NamedTuple):
    """Credential of a request: a header, or PEM; empty members mean the config's own."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        return "Credential(...)"


class CredentialSource(Protocol):
    """Source of a client's credentials: a kubeconfig, a file or an exec plugin."""

    async def current(self) -> Credential:
        """Return the credential to use now."""
        ...

    async def refresh(self, refused: Credential) -> Credential | None:
        """Return another credential than the refused one, None if there is none."""
        ...


class StaticCredential:
    """A token or password written into the kubeconfig, or no credential."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """Return the only credential."""
        return self._credential

    async def refresh(self, refused: Credential) -> Credential | None:
        """Return None: there is no other credential."""
        return None


class FileToken:
    """Token in a file that the kubelet or another program replaces.

    While the file cannot be read, the last token, or the kubeconfig's own, is used.
    """

    def __init__(self, path: str, token: str = "", *, clock: Clock = time.monotonic) -> None:
        self._path = Path(path)
        self._credential = _bearer(token)
        self._clock = clock
        self._read_at = -limits.TOKEN_SECONDS

    async def current(self) -> Credential:
        """Return the token, read again after ``TOKEN_SECONDS``.

        Raises:
            ConfigError: the file has never held a token.
        """
        if self._clock() - self._read_at >= limits.TOKEN_SECONDS:
            self._read()
        return self._credential

    async def refresh(self, refused: Credential) -> Credential | None:
        """Return the token in the file if it differs from the refused one."""
        self._read()
        return self._credential if self._credential != refused else None

    def _read(self) -> None:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            # The time of the last reading stays, so that the next request looks at the file again.
            if not self._credential.authorization:
                raise ConfigError(
                    f"the token file {self._path} cannot be read: {type(error).__name__}"
                ) from None
            return
        # A line break in a header would end it, and start another one.
        if not token.isprintable():
            raise ConfigError(f"the token file {self._path} holds more than one line")
        if token:
            self._credential = _bearer(token)
            self._read_at = self._clock()


class PluginCredential:
    """Output of an exec plugin, kept until it expires."""

    def __init__(
        self, config: ClusterConfig, *, clock: Clock = lambda: moment().timestamp()
    ) -> None:
        self._config = config
        self._clock = clock
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._expires: float | None = None

    async def current(self) -> Credential:
        """Return the cached credential, or a new one.

        Raises:
            ConfigError: the plugin is missing, failed or printed something else.
        """
        async with self._lock:
            if self._credential is None or self._expired():
                return await self._run()
            return self._credential

    async def refresh(self, refused: Credential) -> Credential | None:
        """Return a credential other than the refused one; None if the plugin has no other."""
        async with self._lock:
            # Another request was refused too, and has run the plugin while this one waited.
            if self._credential is not None and self._credential != refused:
                return self._credential
            credential = await self._run()
            return credential if credential != refused else None

    def _expired(self) -> bool:
        return self._expires is not None and self._clock() >= self._expires - limits.EXPIRY_SECONDS

    async def _run(self) -> Credential:
        output = await run_exec_plugin(self._config)
        self._credential = Credential(
            authorization=f"Bearer {output.token}" if output.token else "",
            certificate=output.client_certificate_data.encode(),
            key=output.client_key_data.encode(),
        )
        expiration = output.expiration_timestamp
        self._expires = expiration.timestamp() if expiration is not None else None
        return self._credential


def credential_source(config: ClusterConfig) -> CredentialSource:
    """Return the source that a config asks for; a token precedes a plugin, as in client-go."""
    if config.token_file:
        return FileToken(config.token_file, config.token)
    if config.token:
        return StaticCredential(_bearer(config.token))
    if config.exec_plugin is not None:
        return PluginCredential(config)
    if config.username:
        pair = f"{config.username}:{config.password}".encode()
        return StaticCredential(Credential(f"Basic {base64.b64encode(pair).decode()}"))
    return StaticCredential(Credential())


def _bearer(token: str) -> Credential:
    return Credential(f"Bearer {token}" if token else "")


class PluginOutput(msgspec.Struct, rename="camel"):
    """``ExecCredential.status``; certificate and key are PEM."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    def __repr__(self) -> str:
        return "PluginOutput(...)"


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: PluginOutput | None = None


async def run_exec_plugin(
    config: ClusterConfig,
    *,
    timeout: float = limits.PLUGIN_SECONDS,  # noqa: ASYNC109  the plugin's, named in the message
) -> PluginOutput:
    """Run the config's exec plugin once; return the credential that it printed.

    Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/.

    Raises:
        ConfigError: the plugin is missing, failed, took too long or printed something else; what
            it printed is quoted nowhere, for it may be a credential.
    """
    plugin = config.exec_plugin
    if plugin is None:
        raise ConfigError("the kubeconfig has no exec plugin")
    output = await _output(plugin, _environment(plugin, config), timeout)
    try:
        return _status(msgspec.json.decode(output, type=_ExecCredential), plugin)
    except (msgspec.MsgspecError, ValueError):
        raise ConfigError(f"exec plugin {plugin.command} printed no ExecCredential") from None


def _status(credential: _ExecCredential, plugin: ExecPlugin) -> PluginOutput:
    name, status = f"exec plugin {plugin.command}", credential.status
    # A plugin answers in the version that it was asked in; client-go refuses any other, too.
    if credential.kind != "ExecCredential" or credential.api_version != plugin.api_version:
        raise ConfigError(
            f"{name} printed {credential.api_version} {credential.kind},"
            f" not {plugin.api_version} ExecCredential"
        )
    if status is None or not (status.token or status.client_certificate_data):
        raise ConfigError(f"{name} gave no token and no certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ConfigError(f"{name} gave only one of certificate and key")
    if not status.token.isprintable():
        raise ConfigError(f"{name} gave a token of several lines")
    return status


async def _output(plugin: ExecPlugin, environment: dict[str, str], timeout: float) -> bytes:  # noqa: ASYNC109  as above
    hint = f" ({plugin.install_hint.strip()})" if plugin.install_hint else ""
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # Not passed on as kubectl does: a program's log may not hold a credential.
            stderr=asyncio.subprocess.DEVNULL,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its command line is malformed"
        raise ConfigError(f"exec plugin {plugin.command} cannot be run: {reason}{hint}") from None
    try:
        async with asyncio.timeout(timeout):
            output, _ = await process.communicate()
    except TimeoutError:
        raise ConfigError(
            f"exec plugin {plugin.command} did not end within {timeout:g} s"
        ) from None
    finally:
        # The plugin is killed on cancellation too.
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ConfigError(
            f"exec plugin {plugin.command} failed with exit code {process.returncode}:"
            f" run it by hand to see why{hint}"
        )
    return output


def _environment(plugin: ExecPlugin, config: ClusterConfig) -> dict[str, str]:
    # Plugins read the version and the cluster from this variable, as an ExecCredential in JSON.
    info: JSON = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    if plugin.provide_cluster_info:
        info["spec"]["cluster"] = _cluster_info(plugin, config)
    encoded = msgspec.json.encode(info).decode()
    return dict(os.environ) | dict(plugin.env) | {"KUBERNETES_EXEC_INFO": encoded}


def _cluster_info(plugin: ExecPlugin, config: ClusterConfig) -> JSON:
    cluster: dict[str, Any] = {
        "server": config.server,
        "tls-server-name": config.tls_server_name,
        "insecure-skip-tls-verify": config.insecure_skip_tls_verify,
        "certificate-authority-data": config.certificate_authority,
        "proxy-url": config.proxy_url,
        "disable-compression": config.disable_compression,
        "config": plugin.cluster_extension,
    }
    return {name: value for name, value in cluster.items() if value}
