"""The control planes that contract and e2e tests run on, one interface for both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from tests.support.realplane import RealPlane

from fairlead_sandbox import Sandbox


T = TypeVar("T")


class ControlPlane(Protocol):
    """What a test may know of the control plane that it runs on."""

    @property
    def name(self) -> str: ...

    @property
    def is_real(self) -> bool: ...

    def kubeconfig(self, namespace: str = "default") -> bytes: ...

    async def compact(self) -> None: ...

    async def forget(self) -> None:
        """Forget every version before the present one, also in caches."""
        ...


class LoopThread:
    """An event loop in a thread, for servers that outlive the loop of one test."""

    def __init__(
        self, make: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    ) -> None:
        self._loop = make()
        self._thread = threading.Thread(target=self._loop.run_forever, name="planes", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result, waited for by this thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def call(self, function: Callable[[], T]) -> T:
        """What a plain function returns when it runs on the servers' loop."""

        async def body() -> T:
            return function()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(body(), self._loop))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class RealControlPlane:
    """The real kube-apiserver behind the common interface."""

    name = "real"
    is_real = True

    def __init__(self, plane: RealPlane) -> None:
        self.plane = plane

    def kubeconfig(self, namespace: str = "default") -> bytes:
        return self.plane.admin_kubeconfig(namespace)

    async def compact(self) -> None:
        await self.plane.compact()

    async def forget(self) -> None:
        await self.plane.compact()
        # Its watch cache has versions that etcd does not have any more.
        await self.plane.restart_apiserver()


class SandboxControlPlane:
    """The embedded server behind the common interface; it runs on its own thread."""

    name = "sandbox"
    is_real = False

    def __init__(self, sandbox: Sandbox, thread: LoopThread) -> None:
        self.sandbox = sandbox
        self._thread = thread

    def kubeconfig(self, namespace: str = "default") -> bytes:
        return self.sandbox.kubeconfig(namespace)

    async def compact(self) -> None:
        await self._thread.call(self.sandbox.faults.compact)

    async def forget(self) -> None:
        await self.compact()

    async def lose(self, resource: str, times: int) -> None:
        """Leave out the next events of each watch that runs now."""
        await self._thread.call(lambda: self.sandbox.faults.lose(resource, times))
