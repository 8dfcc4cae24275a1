"""Clusters from outside: making them, taking them away, cutting them off."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from hack.nodes import images
from hack.nodes.machine import STATE, make_cgroups, remove_cgroups
from tests.support.pki import Authority, KeyPair, private_pem


ROOT = Path(__file__).parents[2]
BRIDGE = "fairlead0"
NET = "10.210.0"
"""Network of the nodes; the machine is 1 and cluster N is N + 1."""
MOST = 20
"""Clusters on one machine, whose routes each knows from the start."""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
SECONDS = 180.0
"""Time for a cluster to become ready."""
_UNSHARE = (
    *("unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc"),
    *("--net", "--ipc", "--uts"),
)


class ClusterError(Exception):
    """A cluster cannot be made or found; the text says why."""


class Networks(NamedTuple):
    """The addresses of one cluster, by its number."""

    number: int

    @property
    def node(self) -> str:
        """The address of the node."""
        return f"{NET}.{self.number + 1}"

    @property
    def pods(self) -> str:
        """The network of its Pods."""
        return f"10.211.{self.number}.0/24"

    @property
    def services(self) -> str:
        """The network of its Services."""
        return f"10.212.{self.number}.0/24"

    @property
    def api(self) -> str:
        """The address of the Service ``kubernetes``."""
        return f"10.212.{self.number}.1"


class Cluster:
    """One cluster: its folder has all that it consists of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        self.kubeconfig = folder / "kubeconfig"

    @classmethod
    def named(cls, name: str) -> Self:
        """A cluster that is there.

        Raises:
            ClusterError: there is none of this name.
        """
        if not (STATE / name / "cluster.json").exists():
            raise ClusterError(f"there is no cluster {name}: hack/cluster up {name}")
        return cls(STATE / name)

    @property
    def facts(self) -> dict[str, Any]:
        """What the cluster was made with."""
        facts: dict[str, Any] = json.loads((self.folder / "cluster.json").read_text())
        return facts

    @property
    def networks(self) -> Networks:
        """The cluster's addresses."""
        return Networks(self.facts["number"])

    @property
    def device(self) -> str:
        """The machine's end of the link."""
        return f"fairlead-{self.facts['number']}"

    def processes(self) -> Iterator[int]:
        """The first processes of the cluster: that which has made the namespaces, and the next."""
        wanted = [os.fsencode(str(self.folder)), b"hack.nodes.inside"]
        for path in Path("/proc").iterdir():
            if path.name.isdecimal():
                try:
                    words = (path / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                if all(word in words for word in wanted):
                    yield int(path.name)

    def first_process(self) -> int:
        """The process id of the cluster's first process; 0 when it has ended."""
        found = [pid for pid in self.processes() if _is_first(pid)]
        return found[0] if found else 0

    def enter(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command inside of the cluster.

        Raises:
            ClusterError: it failed.
        """
        words = ["nsenter", "--all", f"--target={self.first_process()}", "--", *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise ClusterError(
                f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}"
            )
        return done

    def kubectl(self, *arguments: str, check: bool = True) -> str:
        """What kubectl prints, as the administrator.

        Raises:
            ClusterError: it failed.
        """
        program = str(Path(self.facts["assets"]) / "kubectl")
        words = [program, f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def load(self, archive: Path) -> None:
        """Import an image.

        Raises:
            ClusterError: the archive is none.
        """
        self.enter("ctr", "-n", "k8s.io", "images", "import", str(archive.absolute()))

    def link(self, *, up: bool) -> None:
        """Join the cluster to the others, or cut it off."""
        _run("ip", "link", "set", self.device, "up" if up else "down")

    def log(self, program: str) -> str:
        """The end of a program's log."""
        path = self.folder / "logs" / f"{program}.log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""


def _is_first(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    (line,) = (line for line in status.splitlines() if line.startswith("NSpid:"))
    return line.split()[-1] == "1"


def clusters() -> list[Cluster]:
    """All clusters that there are, whole or not."""
    if not STATE.is_dir():
        return []
    return [Cluster(path) for path in sorted(STATE.iterdir()) if path.is_dir()]


@contextmanager
def _locked() -> Iterator[None]:
    STATE.mkdir(parents=True, exist_ok=True)
    with (STATE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up(names: Sequence[str]) -> list[Cluster]:
    """Make clusters, each from nothing, and wait until their nodes are ready.

    Raises:
        ClusterError: one did not become ready; what there is of it stays for a look, until
            ``down``.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise ClusterError(
                f"{name} cannot be the name of a cluster and its node: take at most 40 lower-case "
                "letters, digits and hyphens, and begin with a letter"
            )
    names = list(dict.fromkeys(names))
    assets, dns = built()
    with _locked():
        for name in names:
            _remove(Cluster(STATE / name))
        used = {cluster.facts["number"] for cluster in clusters() if _is_whole(cluster)}
        numbers = iter(sorted({*range(1, MOST + 1)} - used))
        if len(used) + len(names) > MOST:
            raise ClusterError(f"at most {MOST} clusters fit on a machine: hack/cluster list")
        if not Path(f"/sys/class/net/{BRIDGE}").exists():
            _run("ip", "link", "add", BRIDGE, "type", "bridge")
            _run("ip", "address", "add", f"{NET}.1/24", "dev", BRIDGE)
            _run("ip", "link", "set", BRIDGE, "up")
        made = [_begin(name, next(numbers), assets, dns) for name in names]
    for cluster in made:
        _await_ready(cluster)
    return made


def built() -> tuple[str, str]:
    """The folder of Kubernetes' programs, and CoreDNS, found or built.

    Raises:
        ClusterError: they cannot be built here.
    """
    return _assets("envtest", "--nodes"), _assets("coredns")


def down(names: Sequence[str] = ()) -> None:
    """Take clusters away with all that they had, all of them by default.

    Raises:
        ClusterError: there is none of a name, or one does not end.
    """
    with _locked():
        found = clusters()
        if unknown := {*names} - {cluster.name for cluster in found}:
            raise ClusterError(f"there is no cluster {' '.join(sorted(unknown))}")
        _remove_each(cluster for cluster in found if not names or cluster.name in names)


def down_where(is_left: Callable[[str], bool]) -> None:
    """Take the clusters away whose names hold, also while other processes do the same.

    Raises:
        ClusterError: one does not end.
    """
    with _locked():
        _remove_each(cluster for cluster in clusters() if is_left(cluster.name))


def _remove_each(removed: Iterable[Cluster]) -> None:
    for cluster in removed:
        _remove(cluster)
    if not clusters():
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)


def _is_whole(cluster: Cluster) -> bool:
    return (cluster.folder / "cluster.json").exists()


def _remove(cluster: Cluster) -> None:
    for pid in cluster.processes():
        _kill(pid)
    _until(lambda: not any(cluster.processes()), 30, f"{cluster.name} does not end")
    if _is_whole(cluster):
        # The other end is gone with its namespace, and takes this one along, a moment later.
        subprocess.run(["ip", "link", "del", cluster.device], capture_output=True, check=False)
    remove_cgroups(f"fairlead-{cluster.name}")
    shutil.rmtree(cluster.folder, ignore_errors=True)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _begin(name: str, number: int, assets: str, dns: str) -> Cluster:
    cluster = Cluster(STATE / name)
    for part in ("logs", "pki", "etcd", "kubelet", "containerd", "pod-logs"):
        (cluster.folder / part).mkdir(parents=True)
    cluster.folder.chmod(0o700)
    facts = {"name": name, "number": number, "assets": assets, "dns": dns}
    (cluster.folder / "cluster.json").write_text(json.dumps(facts))
    _write_keys(cluster)
    images.pause(cluster.folder / "pause.tar")
    make_cgroups(f"fairlead-{name}")
    folder = str(cluster.folder)
    with (cluster.folder / "logs" / "cluster.log").open("wb") as log:
        # It outlives whoever asked for it, and is a child of none of us.
        subprocess.run(
            ["setsid", "--fork", *_UNSHARE, sys.executable, "-m", "hack.nodes.inside", folder],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, check=True,
        )  # fmt: skip
    _until(
        lambda: bool(cluster.first_process()), 30, f"{name} does not begin: see its cluster.log"
    )
    first = str(cluster.first_process())
    _run(
        "ip", "link", "add", cluster.device, "type", "veth", "peer", "name", "eth0", "netns", first
    )
    _run("ip", "link", "set", cluster.device, "master", BRIDGE, "up")
    return cluster


def _write_keys(cluster: Cluster) -> None:
    networks = cluster.networks
    authority = Authority.create("kubernetes")
    pki = cluster.folder / "pki"
    hosts = (
        *("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"),
        *("kubernetes.default.svc.cluster.local", "127.0.0.1", networks.node, networks.api),
    )
    pairs = {
        "apiserver": authority.issue("kube-apiserver", hosts=hosts),
        "kubelet-client": authority.issue("kubelet-client", organization="system:masters"),
        "aggregator": authority.issue("aggregator"),
        "kubelet": authority.issue(f"system:node:{cluster.name}", hosts=(networks.node,)),
    }
    for name, pair in pairs.items():
        _write(pki / f"{name}.crt", pair.certificate)
        _write(pki / f"{name}.key", pair.key)
    _write(pki / "ca.crt", authority.pem)
    _write(pki / "sa.key", private_pem(Authority.create("accounts").key))
    users = {
        "kubeconfig": ("admin", "system:masters"),
        "pki/controller-manager": ("system:kube-controller-manager", ""),
        "pki/scheduler": ("system:kube-scheduler", ""),
        "pki/proxy": ("system:kube-proxy", "system:node-proxier"),
        "pki/node": (f"system:node:{cluster.name}", "system:nodes"),
        "pki/dns": ("fairlead-dns", "system:masters"),
    }
    for path, (user, group) in users.items():
        pair = authority.issue(user, organization=group)
        config = _kubeconfig(cluster, authority, pair)
        _write(cluster.folder / path, json.dumps(config).encode())


def _kubeconfig(cluster: Cluster, authority: Authority, pair: KeyPair) -> dict[str, Any]:
    name = cluster.name
    server = f"https://{cluster.networks.node}:6443"
    held = {"server": server, "certificate-authority-data": images.base64(authority.pem)}
    user = {
        "client-certificate-data": images.base64(pair.certificate),
        "client-key-data": images.base64(pair.key),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": held}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "user"}}],
    }


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _await_ready(cluster: Cluster) -> None:
    path = "{.items[*].status.conditions[?(@.type=='Ready')].status}"
    account = "serviceaccount/default"

    def ready() -> bool:
        if not cluster.first_process():
            raise ClusterError(f"{cluster.name} has ended")
        nodes = cluster.kubectl("get", "nodes", "-o", f"jsonpath={path}", check=False)
        return nodes == "True" and bool(
            cluster.kubectl("get", account, "-n", "default", "-o", "name", check=False)
        )

    try:
        _until(ready, SECONDS, f"{cluster.name} was not ready within {SECONDS:g} s")
    except ClusterError as error:
        logs = "\n".join(
            f"--- {program}\n{cluster.log(program)}" for program in ("cluster", "kubelet")
        )
        raise ClusterError(f"{error}\n{logs}") from None


def _until(check: Callable[[], bool], seconds: float, text: str) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise ClusterError(text)
        time.sleep(0.1)


def _assets(script: str, *options: str) -> str:
    environment = {name: text for name, text in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    done = subprocess.run(
        [ROOT / "hack" / script, *options],
        stdout=subprocess.PIPE, text=True, check=False, env=environment,
    )  # fmt: skip
    if done.returncode:
        raise ClusterError(f"hack/{script} failed")
    return done.stdout.strip().rpartition("\n")[2]


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip()}")
