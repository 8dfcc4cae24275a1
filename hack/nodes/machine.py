"""What clusters need of the machine, and its cgroups."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path


PROGRAMS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "busybox": "busybox-static",
}
"""Programs that clusters need, with the Debian package of each."""
CNI = Path("/usr/lib/cni")
CGROUPS = Path("/sys/fs/cgroup")
DISK = 10 << 30
"""Free bytes that are needed."""
STATE = Path("/var/lib/fairlead-clusters")


def missing() -> str:
    """Why no cluster can be made here; "" when one can."""
    if os.geteuid():
        return "only root can make clusters: namespaces, mounts and cgroups need it"
    packages = {package for name, package in PROGRAMS.items() if not shutil.which(name)}
    if not (CNI / "ptp").exists():
        packages.add("containernetworking-plugins")
    if packages:
        return f"these Debian packages are missing: {' '.join(sorted(packages))}"
    if not any(_hierarchies()):
        return f"there are no cgroups below {CGROUPS}"
    STATE.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(STATE).free
    if free < DISK:
        return f"{STATE} has {free >> 30} GiB free, and clusters need {DISK >> 30}"
    return ""


def _hierarchies() -> list[Path]:
    """The cgroup hierarchies: one for each controller (v1), or one for all (v2)."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists()]


def make_cgroups(name: str) -> None:
    """Make a cgroup for a cluster in each hierarchy.

    A kubelet ends the Pods in its cgroups that it does not know, so each has a root of its own.
    """
    for hierarchy in _hierarchies():
        path = hierarchy / name
        path.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            # A new group of the first version has no processors until it is given some.
            if (path / file).exists() and not (path / file).read_text().strip():
                (path / file).write_text((hierarchy / file).read_text())


def remove_cgroups(name: str) -> None:
    """Remove a cluster's cgroups, whose processes have ended or are about to."""
    deadline = time.monotonic() + 10
    for hierarchy in _hierarchies():
        root = hierarchy / name
        while root.exists():
            for path in sorted(root.rglob("*"), reverse=True):
                if path.is_dir():
                    with suppress(OSError):
                        path.rmdir()
            with suppress(OSError):
                root.rmdir()
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
