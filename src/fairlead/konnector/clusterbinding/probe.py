"""Whether new credentials work, asked of the provider itself before the old ones are given up."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import NamedTuple

from fairlead.api.kubebind import CLUSTER_BINDING_NAME, CLUSTERBINDINGS
from fairlead.client import Client, ClientError, Unauthorized
from fairlead.konnector.kubeconfigs import provider_config
from fairlead.runtime import Backoff, BackoffPolicy


_SECONDS = 10.0
"""How long the provider may take to answer; heartbeats wait for it."""
_BACKOFF = BackoffPolicy(initial=1.0, maximum=60.0, jitter=0.1)


class _Failure(NamedTuple):
    digest: bytes
    fault: str
    again: float


class Probe:
    """Tries kubeconfigs for one connection; one that failed is tried again after a back-off."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._failure: _Failure | None = None
        self._backoff = Backoff(_BACKOFF)

    @property
    def retry_in(self) -> float | None:
        """Seconds until what failed last is tried again, None when nothing did."""
        if self._failure is None:
            return None
        return max(self._failure.again - asyncio.get_running_loop().time(), 0.0)

    async def fault(self, kubeconfig: bytes, *, uid: str) -> str:
        """Why a kubeconfig must not replace the one in use, "" when it may.

        Args:
            kubeconfig: that the provider wants to be used.
            uid: of the ClusterBinding that the one in use leads to; so must the new one.
        """
        digest = sha256(kubeconfig + uid.encode()).digest()
        if self._failure is not None and self._failure.digest != digest:
            self.forget()
        if self._failure is not None and self.retry_in:
            return self._failure.fault
        fault = await self._try(kubeconfig, uid)
        if not fault:
            self.forget()
            return ""
        now = asyncio.get_running_loop().time()
        self._failure = _Failure(digest, fault, now + self._backoff.failed(now))
        return fault

    def forget(self) -> None:
        """What failed is wanted no more."""
        self._failure = None
        self._backoff = Backoff(_BACKOFF)

    async def _try(self, kubeconfig: bytes, uid: str) -> str:
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._look(kubeconfig, uid)
        except TimeoutError:
            return f"the server that it names does not answer within {_SECONDS:g} s"
        except Unauthorized:
            return "the server refuses its credentials (Unauthorized)"
        except ClientError as error:
            return str(error)

    async def _look(self, kubeconfig: bytes, uid: str) -> str:
        config = provider_config(kubeconfig)
        if config.namespace != self._namespace:
            return (
                f"its context names namespace {config.namespace!r}, but the cluster namespace of "
                f"this connection is {self._namespace!r}"
            )
        async with Client(config, user_agent="fairlead-konnector") as client:
            found = await client.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._namespace)
        if found.meta.uid != uid:
            return (
                f"it leads to another cluster: ClusterBinding {self._namespace}/"
                f"{CLUSTER_BINDING_NAME} has uid {found.meta.uid} there and {uid} here"
            )
        return ""
