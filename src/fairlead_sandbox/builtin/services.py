"""Services: defaults, and allocation of cluster IPs and node ports."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from fairlead.api.meta import JSON
from fairlead.api.resource import SERVICES
from fairlead_sandbox.builtin.strategies import Completed
from fairlead_sandbox.objects.core import Admission, Core, Operation
from fairlead_sandbox.resources import metadata
from fairlead_sandbox.schema.errors import FieldError, invalid, required


# The beginning of kubeadm's default network of Services, 10.96.0.0/12.
_NETWORK = "10.96"
"""First two numbers of every cluster IP."""
_FIRST_ADDRESS = 10
"""Lowest number of an allocated address in the service network."""
_FIRST_PORT = 30000
"""Lowest node port; the default range of kube-apiserver is 30000-32767."""
_COLLECTION = SERVICES.group_resource
_CARRIED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
"""Allocated fields that an update keeps if it omits them."""
_WITH_PORTS = ("NodePort", "LoadBalancer")
"""Types of Services that have node ports."""


class ServiceStrategy(Completed):
    """Strategy of Services; they get addresses, but no traffic is routed to them."""

    name_rule = staticmethod(metadata.service_name)
    allocated = ("spec/clusterIP", "spec/clusterIPs", "spec/ipFamilies", "spec/ipFamilyPolicy")

    def prepare_create(self, body: JSON) -> None:
        """Set the spec's defaults, and a status without a load balancer."""
        super().prepare_create(body)
        body["status"] = {"loadBalancer": {}}

    def complete(self, body: JSON) -> None:
        """Default the type, the affinity, the traffic policies and the ports."""
        spec = body.setdefault("spec", {})
        type_ = spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if type_ != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if type_ in _WITH_PORTS:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            if not port.get("targetPort"):
                port["targetPort"] = port.get("port")

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors of missing ports or external name, and of a changed cluster IP."""
        spec = body["spec"]
        errors = []
        # A headless Service needs no ports: DNS answers with the addresses of the Pods themselves.
        headless = spec["type"] == "ExternalName" or spec.get("clusterIP") == "None"
        if not spec.get("ports") and not headless:
            errors.append(required("spec.ports"))
        if spec["type"] == "ExternalName" and not spec.get("externalName"):
            errors.append(required("spec.externalName"))
        before = (old or {}).get("spec") or {}
        if before.get("type") == spec["type"] and before.get("clusterIP"):
            address = spec.get("clusterIP", "")
            if address != before["clusterIP"]:
                shown = invalid("", [address], "may not change once set").message
                # The field is a []string in Go, and the message prints its type.
                shown = shown.replace("[]interface {}", "[]string")
                errors.append(FieldError("FieldValueInvalid", shown, "spec.clusterIPs[0]"))
        return errors


def give_addresses(core: Core) -> Admission:
    """Return the admission step that allocates cluster IPs and node ports of a Service."""

    # In admission and not in the strategy, which does not see the other Services.
    def allocate(operation: Operation) -> None:
        if operation.type.collection != _COLLECTION or operation.subresource:
            return
        spec = (operation.body or {}).get("spec")
        if operation.body is not None and isinstance(spec, dict):
            before = operation.type.to_dict(operation.old)["spec"] if operation.old else {}
            _complete(core, operation.body["spec"], before)

    return allocate


def _complete(core: Core, spec: JSON, before: JSON) -> None:
    type_ = spec.get("type") or "ClusterIP"
    if type_ == "ExternalName":
        return
    for name in _CARRIED:
        if before.get(name):
            spec.setdefault(name, before[name])
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_address(core)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if type_ in _WITH_PORTS:
        _give_ports(core, spec, before)


def _specs(core: Core) -> Iterator[JSON]:
    for record in core.store.collection(_COLLECTION).list():
        yield record.to_dict().get("spec") or {}


def _free_address(core: Core) -> str:
    used = {spec.get("clusterIP") for spec in _specs(core)}
    addresses = (f"{_NETWORK}.{number // 256}.{number % 256}" for number in count(_FIRST_ADDRESS))
    return next(address for address in addresses if address not in used)


def _give_ports(core: Core, spec: JSON, before: JSON) -> None:
    # An update that omits a node port keeps the allocated one.
    had = {_identity(port): port.get("nodePort") for port in before.get("ports") or []}
    used = {port.get("nodePort") for other in _specs(core) for port in other.get("ports") or []}
    for port in spec.get("ports") or []:
        if not port.get("nodePort"):
            port["nodePort"] = had.get(_identity(port)) or next(
                number for number in count(_FIRST_PORT) if number not in used
            )
        used.add(port["nodePort"])


def _identity(port: JSON) -> tuple[Any, Any]:
    return port.get("port"), port.get("protocol") or "TCP"
