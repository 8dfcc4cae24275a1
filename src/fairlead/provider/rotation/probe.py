"""Trying credentials before a konnector gets them."""

from __future__ import annotations

import asyncio

import aiohttp

from fairlead.api.kubebind import CLUSTER_BINDING_NAME, CLUSTERBINDINGS
from fairlead.client import (
    ApiError,
    Client,
    ConfigError,
    ConnectionFailed,
    Unauthorized,
    parse_kubeconfig,
)


_SECONDS = 10.0
_PAUSE = 0.3


class ProbeError(Exception):
    """The credentials do not work; says why."""


class NotReachedError(Exception):
    """The address cannot be tried from here; says why."""


async def probe(kubeconfig: bytes) -> None:
    """Use a consumer's kubeconfig as its konnector will.

    Raises:
        ProbeError: it does not work.
        NotReachedError: nothing can be said from here.
    """
    try:
        config = parse_kubeconfig(kubeconfig)
    except ConfigError as error:
        raise ProbeError(str(error)) from None
    try:
        async with asyncio.timeout(_SECONDS), Client(config, user_agent="fairlead") as client:
            await _look(client, config.namespace)
    except TimeoutError:
        raise NotReachedError(f"{config.server} does not answer within {_SECONDS:g} s") from None
    except ConnectionFailed as error:
        if isinstance(error.__cause__, aiohttp.ClientSSLError):
            raise ProbeError(str(error)) from None
        raise NotReachedError(str(error)) from None
    except ApiError as error:
        raise ProbeError(f"{config.server} says: {error}") from None


async def _look(client: Client, namespace: str) -> None:
    """Read what every konnector reads; a new token may take a moment to be known everywhere."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _SECONDS / 2
    while True:
        try:
            await client.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, namespace)
        except Unauthorized:
            if loop.time() > until:
                raise
        else:
            return
        await asyncio.sleep(_PAUSE)
