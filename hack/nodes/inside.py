"""The first process of a cluster: it starts the programs of the node and starts them again."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from hack.nodes.clusters import MOST, Cluster, Networks
from hack.nodes.images import PAUSE, TAG
from hack.nodes.machine import CNI


AGAIN_SECONDS = 1.0
"""Seconds between the end of a program and its next start."""
DNS_PORT = 53
PRIVATE = (
    *("/run", "/etc/cni", "/var/lib/cni", "/var/lib/kubelet"),
    *("/var/log/pods", "/var/log/containers"),
)
"""Folders of which each cluster has its own, empty at first."""


def main() -> None:
    """Run a cluster until this process is killed, and with it all others of its namespace."""
    cluster = Cluster(Path(sys.argv[1]))
    _make_folders(cluster)
    _join_network(cluster.networks)
    _write_files(cluster)
    programs = _commands(cluster)
    running: dict[int, str] = {}
    for name in programs:
        running[_start(cluster, name, programs[name])] = name
    _load_pause(cluster)
    while True:
        # The first process of a namespace inherits all whose parents have ended.
        pid, _ = os.wait()
        if name := running.pop(pid, ""):
            print(f"{name} has ended and starts again", flush=True)
            time.sleep(AGAIN_SECONDS)
            running[_start(cluster, name, programs[name])] = name


def _make_folders(cluster: Cluster) -> None:
    for path in PRIVATE:
        Path(path).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "tmpfs", path)
    Path("/run/lock").mkdir()
    # Unpacked images are tens of thousands of files, which nobody has to delete this way.
    _run("mount", "-t", "tmpfs", "tmpfs", str(cluster.folder / "containerd"))
    _run("mount", "--bind", str(cluster.folder / "kubelet"), "/var/lib/kubelet")
    # Mounts of Pods go on into containers that ask for them.
    _run("mount", "--make-rshared", "/var/lib/kubelet")
    _run("hostname", cluster.name)


def _join_network(own: Networks) -> None:
    """Give the node its address, and the ways to other clusters, whether they are there or not."""
    while not _has_device():
        time.sleep(0.02)
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", f"{own.node}/24", "dev", "eth0")
    _run("ip", "link", "set", "eth0", "up")
    # kube-proxy changes the destination of what has found a way.
    _run("ip", "route", "add", own.services, "dev", "eth0", "src", own.node)
    for number in range(1, MOST + 1):
        if number != own.number:
            other = Networks(number)
            _run("ip", "route", "add", other.pods, "via", other.node)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _has_device() -> bool:
    # Not by /sys, which shows the devices of the namespace in which it was mounted.
    done = subprocess.run(["ip", "link", "show", "eth0"], capture_output=True, check=False)
    return done.returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _start(cluster: Cluster, name: str, command: list[str]) -> int:
    with (cluster.folder / "logs" / f"{name}.log").open("ab") as log:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cluster.folder
        )
    return started.pid


def _load_pause(cluster: Cluster) -> None:
    command = ["ctr", "-n", "k8s.io", "images", "import", str(cluster.folder / "pause.tar")]
    while subprocess.run(command, capture_output=True, check=False).returncode:
        time.sleep(0.2)


def _write_files(cluster: Cluster) -> None:
    own, folder = cluster.networks, cluster.folder
    address = f"nameserver {own.node}\n"
    (folder / "resolv.conf").write_text(address)
    # There is nobody to ask for other names.
    (folder / "Corefile").write_text(
        f"""cluster.local:{DNS_PORT} in-addr.arpa:{DNS_PORT} {{
    bind {own.node}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {folder}/pki/dns
    }}
}}
.:{DNS_PORT} {{
    bind {own.node}
    template ANY ANY . {{
        rcode NXDOMAIN
    }}
}}
"""
    )
    network = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                # Not a bridge, on which answers of a neighbour would not pass kube-proxy's rules
                # where the kernel has no br_netfilter.
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": own.pods}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
    Path("/etc/cni/net.d").mkdir()
    Path("/etc/cni/net.d/10-pods.conflist").write_text(json.dumps(network))
    Path("/run/containerd").mkdir()
    (folder / "containerd.toml").write_text(
        f"""version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/{PAUSE}:{TAG}"
  # Root need not have the right to protect processes from a lack of memory.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI}"
    conf_dir = "/etc/cni/net.d"
"""
    )
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": own.node,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{folder}/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{folder}/pki/kubelet.crt",
        "tlsPrivateKeyFile": f"{folder}/pki/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/fairlead-{cluster.name}",
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "podLogsDir": f"{folder}/pod-logs",
        "clusterDNS": [own.node],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{folder}/resolv.conf",
        "failSwapOn": False,
        # The machine is also that of tests: its disk is not the cluster's business.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "imageMaximumGCAge": "0s",
        "syncFrequency": "10s",
        "configMapAndSecretChangeDetectionStrategy": "Watch",
    }
    (folder / "kubelet.json").write_text(json.dumps(kubelet))
    proxy = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{folder}/pki/proxy"},
        "hostnameOverride": cluster.name,
        "mode": "iptables",
        "clusterCIDR": own.pods,
        # The tables of connections are the machine's, and not for a cluster to size.
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
    (folder / "proxy.json").write_text(json.dumps(proxy))


def _commands(cluster: Cluster) -> dict[str, list[str]]:
    """The programs of the node, by name, in the order of their starts."""
    facts, own, folder = cluster.facts, cluster.networks, cluster.folder
    programs = Path(facts["assets"])
    pki = folder / "pki"
    services = ipaddress.ip_network(own.services)
    return {
        "etcd": [
            str(programs / "etcd"),
            f"--data-dir={folder}/etcd",
            "--unsafe-no-fsync",
            "--log-level=error",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=default=http://127.0.0.1:2380",
        ],
        "kube-apiserver": [
            str(programs / "kube-apiserver"),
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={own.node}",
            f"--bind-address={own.node}",
            f"--tls-cert-file={pki}/apiserver.crt",
            f"--tls-private-key-file={pki}/apiserver.key",
            f"--client-ca-file={pki}/ca.crt",
            f"--kubelet-certificate-authority={pki}/ca.crt",
            f"--kubelet-client-certificate={pki}/kubelet-client.crt",
            f"--kubelet-client-key={pki}/kubelet-client.key",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={pki}/sa.key",
            f"--service-account-signing-key-file={pki}/sa.key",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={services}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--requestheader-client-ca-file={pki}/ca.crt",
            "--requestheader-allowed-names=aggregator",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={pki}/aggregator.crt",
            f"--proxy-client-key-file={pki}/aggregator.key",
        ],
        "kube-controller-manager": [
            str(programs / "kube-controller-manager"),
            f"--kubeconfig={pki}/controller-manager",
            f"--service-account-private-key-file={pki}/sa.key",
            f"--root-ca-file={pki}/ca.crt",
            "--use-service-account-credentials=true",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ],
        "kube-scheduler": [
            str(programs / "kube-scheduler"),
            f"--kubeconfig={pki}/scheduler",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ],
        "containerd": [shutil.which("containerd") or "", "-c", f"{folder}/containerd.toml"],
        "kubelet": [
            str(programs / "kubelet"),
            f"--config={folder}/kubelet.json",
            f"--kubeconfig={pki}/node",
            f"--hostname-override={cluster.name}",
            f"--node-ip={own.node}",
        ],
        "kube-proxy": [str(programs / "kube-proxy"), f"--config={folder}/proxy.json"],
        "coredns": [facts["dns"], f"-conf={folder}/Corefile"],
    }


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
