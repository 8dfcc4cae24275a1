"""Who is asking: credentials that stay valid while a client lives.

A source gives the current credential before each request, and is asked for a better one after a
401. Asking is single-flight: a hundred requests refused at once cause one refresh.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from fairlead.client.config import ClusterConfig
from fairlead.client.errors import ConfigError
from fairlead.client.execplugin import run_exec_plugin


TOKEN_PERIOD = 60.0
"""Seconds for which a token read from a file is used before the file is looked at again."""

EXPIRY_MARGIN = 10.0
"""Seconds before its expiration at which a plugin's credential counts as expired."""

Clock = Callable[[], float]


class Credential(NamedTuple):
    """What goes with a request; a certificate is PEM, and empty means the config's own."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""

    def __repr__(self) -> str:
        return "Credential(...)"


class CredentialSource(Protocol):
    """Where credentials come from."""

    async def current(self) -> Credential:
        """The credential to use now."""
        ...

    async def refresh(self, refused: Credential) -> Credential | None:
        """Another one than the refused, None if there is none."""
        ...


class StaticCredential:
    """A token or password written into the kubeconfig, or nothing at all."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        """The only one there is."""
        return self._credential

    async def refresh(self, refused: Credential) -> Credential | None:
        """Nothing: it stays refused."""
        return None


class FileToken:
    """A token in a file that somebody rotates, as the kubelet does.

    While the file cannot be read, the last token, or the kubeconfig's own, is used.
    """

    def __init__(self, path: str, token: str = "", *, clock: Clock = time.monotonic) -> None:
        self._path = Path(path)
        self._credential = _bearer(token)
        self._clock = clock
        self._read_at = -TOKEN_PERIOD

    async def current(self) -> Credential:
        """The token, read anew when it has been in use for :data:`TOKEN_PERIOD`.

        Raises:
            ConfigError: no token was ever read.
        """
        if self._clock() - self._read_at >= TOKEN_PERIOD:
            self._read()
        return self._credential

    async def refresh(self, refused: Credential) -> Credential | None:
        """The token in the file, if it is another one by now."""
        self._read()
        return self._credential if self._credential != refused else None

    def _read(self) -> None:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            if not self._credential.authorization:
                raise ConfigError(
                    f"the token file {self._path} cannot be read: {type(error).__name__}"
                ) from None
            return
        if not token.isprintable():
            raise ConfigError(f"the token file {self._path} holds more than one line")
        if token:
            self._credential = _bearer(token)
            self._read_at = self._clock()


class PluginCredential:
    """What an exec plugin prints, kept until it expires."""

    def __init__(self, config: ClusterConfig, *, clock: Clock = time.time) -> None:
        self._config = config
        self._clock = clock
        self._lock = asyncio.Lock()
        self._credential: Credential | None = None
        self._expires: float | None = None

    async def current(self) -> Credential:
        """The cached credential, or a new one.

        Raises:
            ConfigError: the plugin is missing, failed or printed something else.
        """
        async with self._lock:
            if self._credential is None or self._expired():
                return await self._run()
            return self._credential

    async def refresh(self, refused: Credential) -> Credential | None:
        """A new one, unless somebody else has already got one since."""
        async with self._lock:
            if self._credential is not None and self._credential != refused:
                return self._credential
            credential = await self._run()
            return credential if credential != refused else None

    def _expired(self) -> bool:
        return self._expires is not None and self._clock() >= self._expires - EXPIRY_MARGIN

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
    """The source that a config asks for; a token goes before a plugin, as in client-go."""
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
