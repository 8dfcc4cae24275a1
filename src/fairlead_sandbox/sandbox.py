"""One embedded control plane: its store, its controllers and its listener."""

from __future__ import annotations

import base64
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.auth import Secrets, install
from fairlead_sandbox.auth.guard import Guard
from fairlead_sandbox.auth.reviews import review_types
from fairlead_sandbox.auth.tokens import Signer
from fairlead_sandbox.builtin import builtin_types, give_addresses
from fairlead_sandbox.controllers.crds import CRD_TYPE, CrdController
from fairlead_sandbox.controllers.garbage import GarbageCollector
from fairlead_sandbox.controllers.namespaces import NamespaceContentController, check_namespace
from fairlead_sandbox.controllers.reactor import Reactor
from fairlead_sandbox.http.faults import Faults
from fairlead_sandbox.http.listening import Listener
from fairlead_sandbox.http.server import HttpServer
from fairlead_sandbox.http.webhooks import WebhookCaller
from fairlead_sandbox.objects import writes
from fairlead_sandbox.objects.core import Core
from fairlead_sandbox.requests.discovery import DiscoveryDocuments
from fairlead_sandbox.requests.heavy import Completion
from fairlead_sandbox.requests.openapi import OpenApiDocuments
from fairlead_sandbox.requests.router import Router
from fairlead_sandbox.requests.workers import JobRunner, Workers
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.storage.compaction import Compactor
from fairlead_sandbox.storage.log import FolderLock, Log
from fairlead_sandbox.storage.store import ObjectStore


_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
"""Namespaces that a new control plane has; kube-apiserver creates the same four at its start."""


class Sandbox:
    """A Kubernetes API server in this process; an async context manager.

    Args:
        name: the name of the cluster and context in kubeconfigs.
        data: the folder that keeps the objects. None keeps them in memory until :meth:`close`.
            :meth:`stop` and :meth:`start` lose no object in either case.
        host: the address to listen on.
        port: the port, 0 for a free one.
        rbac: whether RBAC decides on requests; False allows every request.
        tls: whether the listener speaks TLS with the sandbox's own CA.
        workers: the runner of heavy requests, by default worker processes. :meth:`stop` closes it.
        signer: signs ServiceAccount tokens, by default with a key of the sandbox's own.
    """

    def __init__(
        self,
        *,
        name: str = "sandbox",
        data: Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        rbac: bool = True,
        tls: bool = True,
        workers: JobRunner | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.name = name
        self.faults = Faults(self._compact)
        self._data = data
        self._address = (host, port)
        self._rbac = rbac
        self._tls = tls
        self._guard: Guard | None = None
        self._workers = workers or Workers()
        self._signer = signer
        self._completion: Completion | None = None
        self._secrets: Secrets | None = None
        self._lock: FolderLock | None = None
        self._log: Log | None = None
        self._core: Core | None = None
        self._compactor: Compactor | None = None
        self._listener: Listener | None = None
        self._webhooks: WebhookCaller | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def core(self) -> Core:
        """The control plane behind the listener.

        Raises:
            RuntimeError: the sandbox is not running.
        """
        if self._core is None:
            raise RuntimeError(f"sandbox {self.name} is not running")
        return self._core

    @property
    def url(self) -> str:
        """Base URL of the listener; the port stays the same after a stop and a start."""
        host, port = self._address
        return f"{'https' if self._tls else 'http'}://{host}:{port}"

    @property
    def ca_pem(self) -> bytes:
        """Certificate of the CA that signs the listener's certificate; PEM, empty without TLS."""
        return self._guard.ca_pem if self._guard else b""

    async def start(self) -> None:
        """Load the stored objects, start the controllers and listen.

        Raises:
            OSError: the address cannot be listened on, or the folder cannot be used.
        """
        try:
            await self._start()
        except BaseException:
            # Release the folder's lock, the log and the workers, if they were taken already.
            await self.stop()
            raise

    async def _start(self) -> None:
        reactor = Reactor()
        core = self._load(reactor)
        router = Router(core)
        folder = self._data / "pki" if self._data is not None else None
        # Kept over a stop: kubeconfigs and tokens stay valid after the next start.
        self._secrets = self._secrets or Secrets(
            self.name, folder, tls=self._tls, signer=self._signer
        )
        guard = self._guard = install(
            core, router, reactor, self._secrets, rbac=self._rbac, host=self._address[0]
        )
        self._webhooks = WebhookCaller(core.store)
        server = HttpServer(
            router,
            self._workers,
            DiscoveryDocuments(core.registry),
            guard,
            self.faults,
            self._webhooks,
        )
        openapi = OpenApiDocuments(core.registry)
        server.routes.append(
            lambda request: openapi.answer(request.path, request.headers.get("Accept", ""))
        )
        # Before the first request: RBAC learns of the bootstrap roles when they are published.
        await core.store.settle()
        self._compactor = Compactor(core.store)
        await self._listen(server, guard)

    def _load(self, reactor: Reactor) -> Core:
        if self._data is not None:
            self._log = Log(self._lock_folder(self._data))
        elif self._log is None:
            # Without a folder this log holds the only copy of the objects, so a stop keeps it.
            self._log = Log()
        store = ObjectStore(self._log)
        self._core = core = Core(
            store, ResourceRegistry([*builtin_types(), *review_types(), CRD_TYPE])
        )
        core.admission += [check_namespace(core), give_addresses(core)]
        reactor.watch(store)
        self._completion = Completion(core, self._workers)
        reactor.add(CrdController(core, reactor, self._completion))
        reactor.add(NamespaceContentController(core, reactor))
        reactor.add(GarbageCollector(core, reactor))
        # After the reactor has begun to watch: its controllers then create the ServiceAccount and
        # the ConfigMap of these namespaces, as in any other namespace.
        _bootstrap(core)
        return core

    def _lock_folder(self, folder: Path) -> Path:
        """Lock the data folder before any file in it is opened; return the path of the log."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = FolderLock(folder)
        return folder / "objects.sqlite"

    async def _listen(self, server: HttpServer, guard: Guard) -> None:
        self._listener = Listener(server, self.faults.disconnected)
        host, port = self._address
        port = await self._listener.open(host, port, guard.server_context())
        self._address = (host, port)

    async def close(self) -> None:
        """Stop for good, and delete the objects that only the memory holds."""
        await self.stop()
        if self._log is not None:
            self._log.close()
            self._log = None

    async def stop(self) -> None:
        """Stop listening, end running requests and store all changes; it can start again."""
        # First: a watch that is ended sends the last chunk of its stream. The listener would cut
        # the connection, and clients would take that for a fault of the network.
        self.faults.end_watches()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        if self._webhooks is not None:
            await self._webhooks.close()
            self._webhooks = None
        if self._completion is not None:
            await self._completion.close()
        await self._workers.close()
        if self._compactor is not None:
            self._compactor.stop()
        if self._core is not None:
            await self._core.store.close()
            self._core = None
        elif self._data is not None and self._log is not None:
            # The start failed before a store existed, which would have closed the file.
            self._log.close()
        # Last: once the lock is free another sandbox may open the folder.
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def kubeconfig(self, namespace: str = "default") -> bytes:
        """Return the administrator's kubeconfig as YAML."""
        cluster: JSON = {"server": self.url}
        if self.ca_pem:
            cluster["certificate-authority-data"] = base64.b64encode(self.ca_pem).decode()
        context = {"cluster": self.name, "user": f"{self.name}-admin", "namespace": namespace}
        config: JSON = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": self.name, "cluster": cluster}],
            "users": [{"name": f"{self.name}-admin", "user": self._credentials()}],
            "contexts": [{"name": self.name, "context": context}],
            "current-context": self.name,
        }
        return yaml.safe_dump(config, sort_keys=False).encode()

    def _credentials(self) -> JSON:
        return dict(self._guard.credentials()) if self._guard else {}

    def _compact(self) -> None:
        self.core.store.compact()


def _bootstrap(core: Core) -> None:
    """Create the namespaces that every cluster has, unless they are stored already."""
    type_ = core.registry.get("", "v1", "namespaces")
    if type_ is None:
        return
    for name in _NAMESPACES:
        if core.get(type_, Key("", name)) is None:
            writes.create(core, type_, "", {"metadata": {"name": name}})
