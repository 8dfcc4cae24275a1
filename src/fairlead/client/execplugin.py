"""Exec plugins: commands that print an ``ExecCredential`` (client.authentication.k8s.io)."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.client.config import ClusterConfig, ExecPlugin
from fairlead.client.errors import ConfigError


TIMEOUT = 60.0
"""Seconds that a plugin may take; it cannot ask anybody anything."""


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


async def run_exec_plugin(config: ClusterConfig, *, timeout: float = TIMEOUT) -> PluginOutput:  # noqa: ASYNC109  the plugin's, named in the message
    """Runs the config's plugin once.

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
    if credential.kind != "ExecCredential" or credential.api_version != plugin.api_version:
        raise ConfigError(
            f"{name} printed {credential.api_version} {credential.kind},"
            f" not {plugin.api_version} ExecCredential"
        )
    if status is None or not (status.token or status.client_certificate_data):
        raise ConfigError(f"{name} gave no token and no certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ConfigError(f"{name} gave one of certificate and key, not both")
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
