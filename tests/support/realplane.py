"""A real Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager.

The programs come from the folder in KUBEBUILDER_ASSETS (``hack/envtest`` prints one). Everything
listens on 127.0.0.1 and lives in one temporary folder; leaving the context kills the processes
and removes the folder. RBAC is on; ``kubeconfig()`` is the administrator's.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Self

import aiohttp
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.pki import Authority, KeyPair, private_pem
from tests.support.waiting import SECONDS


PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
CONTROLLERS = (
    "namespace",
    "garbagecollector",
    "serviceaccount",
    "serviceaccount-token",
    "clusterrole-aggregation",
    "root-ca-cert-publisher",
)
START_TIMEOUT = SECONDS
INSECURE_PORTS_END = 24
"""The first minor version whose programs have no ports without TLS."""


class PlaneError(Exception):
    """The control plane did not start; the message has the end of the guilty program's log."""


def missing_assets(programs: Sequence[str] = PROGRAMS) -> str:
    """Why no real control plane can be started; "" when one can."""
    folder = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not folder:
        return "KUBEBUILDER_ASSETS is not set (hack/envtest prints a folder for it)"
    absent = [name for name in programs if not os.access(Path(folder, name), os.X_OK)]
    return f"KUBEBUILDER_ASSETS={folder} lacks {', '.join(absent)}" if absent else ""


@cache
def minor_version(assets: str | None = None) -> int:
    """The minor version of the programs, by default of those of KUBEBUILDER_ASSETS; 0 for none."""
    program = Path(assets or os.environ.get("KUBEBUILDER_ASSETS", ""), "kube-apiserver")
    if not os.access(program, os.X_OK):
        return 0
    command = [str(program), "--version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(printed.split(".")[1])


class RealPlane:
    """One control plane; an async context manager.

    The garbage collector looks for new kinds every 30 seconds, as everywhere: owner references
    of a CRD's objects are honoured that much later than those of built-in kinds.

    Args:
        assets: the folder with the programs; default: KUBEBUILDER_ASSETS.
        controllers: what kube-controller-manager runs; without any, it is not started.
        fsync: whether etcd waits for the disk, as it does outside tests.
        parent: where the temporary folder is made.
        ready_path: what kube-apiserver has to answer before the start is over.
    """

    def __init__(
        self,
        assets: Path | str | None = None,
        *,
        controllers: tuple[str, ...] = CONTROLLERS,
        fsync: bool = False,
        parent: Path | None = None,
        ready_path: str = "/readyz",
    ) -> None:
        self._assets = Path(assets or os.environ["KUBEBUILDER_ASSETS"])
        self._insecure = minor_version(str(self._assets)) < INSECURE_PORTS_END
        self._controllers = controllers
        self._fsync = fsync
        self._parent = parent
        self._ready_path = ready_path
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = Path()
        self._authority = Authority.create("kubernetes")
        self._admin = self._authority.issue("admin", organization="system:masters")
        self._etcd = ""
        self.url = ""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    @property
    def ca_pem(self) -> bytes:
        return self._authority.pem

    def user(self, name: str, group: str = "") -> KeyPair:
        """A client certificate for anybody."""
        return self._authority.issue(name, organization=group)

    async def kubeconfig(self, namespace: str = "default") -> bytes:
        """The administrator's kubeconfig, with everything embedded."""
        return self.admin_kubeconfig(namespace)

    def admin_kubeconfig(self, namespace: str = "default") -> bytes:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "admin",
            "clusters": [
                {
                    "name": "real",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority-data": _base64(self.ca_pem),
                    },
                }
            ],
            "users": [
                {
                    "name": "admin",
                    "user": {
                        "client-certificate-data": _base64(self._admin.certificate),
                        "client-key-data": _base64(self._admin.key),
                    },
                }
            ],
            "contexts": [
                {
                    "name": "admin",
                    "context": {"cluster": "real", "user": "admin", "namespace": namespace},
                }
            ],
        }
        return yaml.safe_dump(config).encode()

    async def start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="realplane-", dir=self._parent))
        try:
            self._write_keys()
            async with asyncio.timeout(START_TIMEOUT):
                await self._start_etcd()
                await self._start_apiserver()
                if self._controllers:
                    await self._start_controller_manager()
        except TimeoutError as error:
            logs = "\n".join(self._log(name) for name in self._processes)
            await self.stop()
            raise PlaneError(f"not ready within {START_TIMEOUT:g} s\n{logs}") from error
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        for name in reversed(self._processes):
            process = self._processes[name]
            if process.poll() is None:
                process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)

    async def compact(self) -> None:
        """Forget every revision before the present one, as the server does every 5 minutes."""
        async with aiohttp.ClientSession(self._etcd) as session:
            async with session.post("/v3/kv/range", json={"key": "AA=="}) as answer:
                revision = (await answer.json())["header"]["revision"]
            async with session.post(
                "/v3/kv/compaction", json={"revision": revision, "physical": True}
            ) as answer:
                answer.raise_for_status()

    async def restart_apiserver(self) -> None:
        """Stop kube-apiserver as a node's shutdown does, and start it again on its port."""
        self.stop_apiserver()
        await self._start_apiserver()

    def stop_apiserver(self) -> None:
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def pause(self) -> None:
        """Freeze kube-apiserver: connections stay open and nothing answers."""
        self._processes["kube-apiserver"].send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._processes["kube-apiserver"].send_signal(signal.SIGCONT)

    @property
    def pids(self) -> dict[str, int]:
        """The processes by program, for who measures them."""
        return {name: process.pid for name, process in self._processes.items()}

    def _write_keys(self) -> None:
        server = self._authority.issue(
            "kube-apiserver", hosts=("127.0.0.1", "localhost", "10.0.0.1", "kubernetes.default")
        )
        proxy = self._authority.issue("aggregator")
        files = {
            "ca.crt": self.ca_pem,
            "server.crt": server.certificate,
            "server.key": server.key,
            "proxy.crt": proxy.certificate,
            "proxy.key": proxy.key,
            "sa.key": private_pem(ec.generate_private_key(ec.SECP256R1())),
        }
        for name, content in files.items():
            (self._folder / name).write_bytes(content)

    async def _start_etcd(self) -> None:
        client, peer = free_ports(2)
        self._etcd = f"http://127.0.0.1:{client}"
        self._spawn(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--log-level=error",
            *(() if self._fsync else ("--unsafe-no-fsync",)),
        )
        await self._wait("etcd", f"{self._etcd}/health", None)

    async def _start_apiserver(self) -> None:
        if not self.url:
            self.url = f"https://127.0.0.1:{free_ports(1)[0]}"
        folder = self._folder
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={self._etcd}",
            f"--cert-dir={folder}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--service-account-key-file={folder / 'sa.key'}",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            f"--requestheader-client-ca-file={folder / 'ca.crt'}",
            "--requestheader-allowed-names=aggregator",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={folder / 'proxy.crt'}",
            f"--proxy-client-key-file={folder / 'proxy.key'}",
        )
        await self._wait("kube-apiserver", self.url + self._ready_path, self._ssl())

    async def _start_controller_manager(self) -> None:
        kubeconfig = self._folder / "controller-manager.kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_bytes(self.admin_kubeconfig())
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={kubeconfig}",
            f"--cert-dir={self._folder}",
            f"--service-account-private-key-file={self._folder / 'sa.key'}",
            f"--root-ca-file={self._folder / 'ca.crt'}",
            f"--controllers={','.join(self._controllers)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}",
            # The port without TLS went with Kubernetes 1.24.
            *(("--port=0",) if self._insecure else ()),
        )
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        await self._wait("kube-controller-manager", self.url + account, self._ssl())

    def _spawn(self, name: str, *arguments: str) -> None:
        command = [str(self._assets / name), *arguments]
        if setpriv := shutil.which("setpriv"):
            # A test run that is killed outright must not leave servers behind.
            command = [setpriv, "--pdeathsig", "KILL", "--", *command]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder
            )

    async def _wait(self, name: str, url: str, context: ssl.SSLContext | None) -> None:
        process = self._processes[name]
        async with aiohttp.ClientSession() as session:
            while True:
                if process.poll() is not None:
                    raise PlaneError(f"{name} ended with {process.returncode}\n{self._log(name)}")
                try:
                    async with session.get(url, ssl=context or True) as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientConnectionError:
                    pass
                await asyncio.sleep(0.02)

    def _log(self, name: str) -> str:
        text = (self._folder / f"{name}.log").read_text(errors="replace")
        return f"--- {name}\n{text[-2000:]}"

    def _ssl(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.ca_pem.decode())
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        paths = self._folder / "admin.crt", self._folder / "admin.key"
        for path, content in zip(paths, (self._admin.certificate, self._admin.key), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        context.load_cert_chain(*paths)
        return context


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on just now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
