"""Defaults of Pods and their templates, as core/v1 has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.api.meta import JSON


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_FILE_MODE = 420
"""Mode 0644 of files in volumes; JSON has no octal numbers."""


def complete_template(spec: JSON, restart_policy: str = "Always") -> None:
    """Set the defaults of the Pod template in a workload's spec."""
    template = spec.get("template")
    if not template:
        return
    template.setdefault("metadata", {})
    complete_pod(template.setdefault("spec", {}), restart_policy)


def complete_pod(spec: JSON, restart_policy: str = "Always") -> None:
    """Set the defaults of a Pod's spec."""
    spec.setdefault("restartPolicy", restart_policy)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    # serviceAccount is the deprecated name of the field; kube-apiserver keeps both equal.
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for container in _containers(spec):
        _complete_container(container)
    for volume in spec.get("volumes") or []:
        _complete_volume(volume)


def _containers(spec: JSON) -> Iterator[JSON]:
    yield from spec.get("containers") or []
    yield from spec.get("initContainers") or []


def _complete_container(container: JSON) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or []:
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if container.get(name):
            _complete_probe(container[name])


def _complete_probe(probe: JSON) -> None:
    for name, value in _PROBE.items():
        probe.setdefault(name, value)
    get = probe.get("httpGet")
    if get is not None:
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _complete_volume(volume: JSON) -> None:
    sources = [name for name in volume if name != "name"]
    # A volume without a source is an emptyDir.
    if not sources:
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "downwardAPI", "projected"):
        source: Any = volume.get(name)
        if isinstance(source, dict):
            source.setdefault("defaultMode", _FILE_MODE)
    for source in (volume.get("projected") or {}).get("sources") or []:
        token = source.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", 3600)


# Without a tag the image is ``latest``, which is always pulled; a digest never changes.
def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.rpartition(":")[2] if ":" in name else "latest"
    return "Always" if tag == "latest" else "IfNotPresent"
