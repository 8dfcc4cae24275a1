"""``networking.k8s.io``: Ingresses, IngressClasses and NetworkPolicies, stored without effect."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from fairlead.api.label_names import label_value_errors, qualified_name_errors, subdomain_errors
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead_sandbox.builtin.strategies import WithSpec
from fairlead_sandbox.resources.metadata import service_name
from fairlead_sandbox.resources.types import Strategy
from fairlead_sandbox.schema.errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)


Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

GROUP = "networking.k8s.io"
INGRESSES = Resource(GROUP, "v1", "ingresses", "Ingress")
INGRESSCLASSES = Resource(GROUP, "v1", "ingressclasses", "IngressClass", namespaced=False)
NETWORKPOLICIES = Resource(GROUP, "v1", "networkpolicies", "NetworkPolicy")

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_POLICY_TYPES = ("Ingress", "Egress")
_NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_FORBIDDEN_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_ENDS = ("/..", "/.")
_WILDCARD = re.compile(r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    f"character (e.g. '*.example.com', regex used for validation is '{_WILDCARD.pattern}')"
)
_CONTROLLER = re.compile(r"[^/]+/[A-Za-z0-9/_.~:@!$&'()*+,;=%-]+")


class IngressStrategy(WithSpec):
    """Strategy of Ingresses."""

    def prepare_create(self, body: JSON) -> None:
        """Set the spec's defaults, and a status without a load balancer."""
        super().prepare_create(body)
        body["status"] = {"loadBalancer": {}}

    def complete(self, body: JSON) -> None:
        """Set an empty spec if it is missing, so that validation can name its errors."""
        body.setdefault("spec", {})

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors in backends, hosts and paths."""
        spec = body["spec"]
        errors: list[FieldError] = []
        for index, rule in enumerate(spec.get("rules") or []):
            errors += _check_rule(rule, f"spec.rules[{index}]")
        backend = spec.get("defaultBackend")
        if backend is not None:
            errors += _check_backend(backend, "spec.defaultBackend")
        elif not spec.get("rules"):
            text = "either `defaultBackend` or `rules` must be specified"
            message = f"Invalid value: []networking.IngressRule(nil): {text}"
            errors.append(FieldError("FieldValueInvalid", message, "spec"))
        for index, tls in enumerate(spec.get("tls") or []):
            errors += _check_tls(tls, f"spec.tls[{index}]")
        name = spec.get("ingressClassName")
        if name is not None:
            errors += _wrong("spec.ingressClassName", name, subdomain_errors(name))
        return errors


def _wrong(field: str, value: Any, texts: list[str]) -> Iterator[FieldError]:
    return (invalid(field, value, text) for text in texts)


def _check_rule(rule: JSON, field: str) -> Iterator[FieldError]:
    if rule.get("host"):
        yield from _wrong(f"{field}.host", rule["host"], _host_errors(rule["host"]))
    http = rule.get("http")
    if http is None:
        return
    if not http.get("paths"):
        yield required(f"{field}.http.paths")
    for index, path in enumerate(http.get("paths") or []):
        yield from _check_path(path, f"{field}.http.paths[{index}]")


def _host_errors(host: str) -> list[str]:
    try:
        # An address has the form of a subdomain, so it is looked for first.
        ipaddress.ip_address(host)
    except ValueError:
        if "*" in host:
            return [] if _WILDCARD.fullmatch(host) else [_WILDCARD_TEXT]
        return subdomain_errors(host)
    return ["must be a DNS name, not an IP address"]


def _check_path(path: JSON, field: str) -> Iterator[FieldError]:
    type_, text = path.get("pathType"), path.get("path", "")
    if type_ is None:
        yield required(f"{field}.pathType", "pathType must be specified")
    elif type_ not in _PATH_TYPES:
        yield not_supported(f"{field}.pathType", type_, _PATH_TYPES)
    # Only a path of type ImplementationSpecific may be empty.
    elif type_ != "ImplementationSpecific" or text:
        yield from _wrong(f"{field}.path", text, _path_errors(text, type_))
    yield from _check_backend(path.get("backend") or {}, f"{field}.backend")


def _path_errors(path: str, type_: str) -> list[str]:
    if not path.startswith("/"):
        return ["must be an absolute path"]
    if type_ == "ImplementationSpecific":
        return []
    return [
        *(f"must not contain '{part}'" for part in _FORBIDDEN_PARTS if part in path),
        *(f"cannot end with '{end}'" for end in _FORBIDDEN_ENDS if path.endswith(end)),
    ]


def _check_backend(backend: JSON, field: str) -> Iterator[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(field, "", "cannot set both resource and service backends")
    elif service is not None:
        yield from _check_service(service, field)
    elif resource is None:
        yield invalid(field, "", "resource or service backend is required")
    else:
        for member in ("kind", "name"):
            if not resource.get(member):
                yield required(f"{field}.resource.{member}")


def _check_service(service: JSON, field: str) -> Iterator[FieldError]:
    name, port = service.get("name"), service.get("port") or {}
    if not name:
        yield required(f"{field}.service.name")
    else:
        yield from _wrong(f"{field}.service.name", name, service_name(name))
    if port.get("name") and port.get("number"):
        yield invalid(field, "", "cannot set both port name & port number")
    elif port.get("name"):
        path = f"{field}.service.port.name"
        yield from _wrong(path, port["name"], port_name_errors(port["name"]))
    elif not port.get("number"):
        yield required(field, "port name or number is required")
    elif not 0 < port["number"] < 1 << 16:
        text = "must be between 1 and 65535, inclusive"
        yield invalid(f"{field}.service.port.number", port["number"], text)


def port_name_errors(name: str) -> list[str]:
    """Return the errors of a port's name by IANA's rules; [] for a valid one."""
    errors = []
    if len(name) > 15:
        errors.append("must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z0-9]", name):
        errors.append("must contain at least one letter or number (a-z, 0-9)")
    if "--" in name:
        errors.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def _check_tls(tls: JSON, field: str) -> Iterator[FieldError]:
    for index, host in enumerate(tls.get("hosts") or []):
        yield from _wrong(f"{field}.hosts[{index}]", host, _host_errors(host))
    secret = tls.get("secretName")
    if secret:
        yield from _wrong(f"{field}.secretName", secret, subdomain_errors(secret))


class IngressClassStrategy(Strategy):
    """Strategy of IngressClasses; ``spec.controller`` is immutable."""

    generation = True

    def prepare_create(self, body: JSON) -> None:
        """Set an empty spec if it is missing, so that validation can name its errors."""
        parameters = body.setdefault("spec", {}).get("parameters")
        if isinstance(parameters, dict):
            parameters.setdefault("scope", "Cluster")

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Set an empty spec if it is missing."""
        self.prepare_create(body)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors in the controller's name and in the reference to its parameters."""
        spec = body["spec"]
        controller, parameters = spec.get("controller"), spec.get("parameters")
        errors: list[FieldError] = []
        if old is not None and old["spec"].get("controller") != controller:
            errors.append(invalid("spec.controller", controller, "field is immutable"))
        if not controller:
            errors.append(required("spec.controller"))
        elif not _CONTROLLER.fullmatch(controller) or subdomain_errors(controller.split("/")[0]):
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            errors.append(invalid("spec.controller", controller, text))
        if parameters is not None:
            errors += [
                required(f"spec.parameters.{member}", f"{member} is required")
                for member in ("kind", "name")
                if not parameters.get(member)
            ]
        return errors


class NetworkPolicyStrategy(WithSpec):
    """Strategy of NetworkPolicies."""

    status = False

    def prepare_create(self, body: JSON) -> None:
        """Set the spec's defaults; the kind has no status."""
        self.complete(body)

    def complete(self, body: JSON) -> None:
        """Default the policy types by the present rules, and the protocol of each port."""
        spec = body.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        if not spec.get("policyTypes"):
            # By the API every policy affects ingress, and egress only with a rule for it.
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rule in [*(spec.get("ingress") or []), *(spec.get("egress") or [])]:
            for port in rule.get("ports") or []:
                port.setdefault("protocol", "TCP")

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors in selectors, ports and peers."""
        spec = body["spec"]
        errors = list(_check_selector(spec["podSelector"], "spec.podSelector"))
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(direction) or []):
                errors += _check_policy_rule(rule, peers, f"spec.{direction}[{index}]")
        types = spec["policyTypes"]
        if len(types) > len(_POLICY_TYPES):
            shown = ", ".join(f'"{one}"' for one in types)
            text = f"[]networking.PolicyType{{{shown}}}: may not specify more than two policyTypes"
            errors.append(FieldError("FieldValueInvalid", f"Invalid value: {text}", _TYPES))
            return errors
        return errors + [
            not_supported(f"{_TYPES}[{index}]", type_, _POLICY_TYPES)
            for index, type_ in enumerate(types)
            if type_ not in _POLICY_TYPES
        ]


_TYPES = "spec.policyTypes"


def _check_policy_rule(rule: JSON, peers: str, field: str) -> Iterator[FieldError]:
    for index, port in enumerate(rule.get("ports") or []):
        yield from _check_policy_port(port, f"{field}.ports[{index}]")
    for index, peer in enumerate(rule.get(peers) or []):
        yield from _check_peer(peer, f"{field}.{peers}[{index}]")


def _check_policy_port(port: JSON, field: str) -> Iterator[FieldError]:
    if port["protocol"] not in _PROTOCOLS:
        yield not_supported(f"{field}.protocol", port["protocol"], _PROTOCOLS)
    number = port.get("port")
    if isinstance(number, str):
        yield from _wrong(f"{field}.port", number, port_name_errors(number))
    elif number is not None and not 0 < number < 1 << 16:
        text = "must be between 1 and 65535, inclusive"
        yield invalid(f"{field}.port", number, text)


def _check_peer(peer: JSON, field: str) -> Iterator[FieldError]:
    selectors = [
        name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None
    ]
    for name in selectors:
        yield from _check_selector(peer[name], f"{field}.{name}")
    block = peer.get("ipBlock")
    if block is not None:
        yield from _check_block(block, f"{field}.ipBlock")
    if not selectors and block is None:
        yield required(field, "must specify a peer")
    elif selectors and block is not None:
        yield forbidden(field, "may not specify both ipBlock and another peer")


def _check_block(block: JSON, field: str) -> Iterator[FieldError]:
    whole = _network(block.get("cidr") or "")
    if not block.get("cidr"):
        yield required(f"{field}.cidr")
    elif whole is None:
        yield invalid(f"{field}.cidr", block["cidr"], _NO_CIDR)
    for index, text in enumerate(block.get("except") or []):
        part = _network(text)
        if part is None:
            yield invalid(f"{field}.except[{index}]", text, _NO_CIDR)
        elif whole is not None and not _is_within(part, whole):
            detail = "must be a strict subset of `cidr`"
            yield invalid(f"{field}.except[{index}]", text, detail)


def _network(text: str) -> Network | None:
    try:
        # Host bits may be set, as in Go's ParseCIDR. A bare address, which Python takes, is no
        # CIDR.
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _is_within(part: Network, whole: Network) -> bool:
    return (
        part.version == whole.version
        and part.prefixlen > whole.prefixlen
        and part.network_address in whole
    )


def _check_selector(selector: JSON, field: str) -> Iterator[FieldError]:
    """Yield the errors of a ``metav1.LabelSelector``."""
    for key, value in (selector.get("matchLabels") or {}).items():
        yield from _wrong(f"{field}.matchLabels", key, qualified_name_errors(key))
        yield from _wrong(f"{field}.matchLabels", value, label_value_errors(value))
    for index, rule in enumerate(selector.get("matchExpressions") or []):
        place = f"{field}.matchExpressions[{index}]"
        operator, values = rule.get("operator", ""), rule.get("values") or []
        if operator in {"In", "NotIn"}:
            if not values:
                text = "must be specified when `operator` is 'In' or 'NotIn'"
                yield required(f"{place}.values", text)
        elif operator not in {"Exists", "DoesNotExist"}:
            yield invalid(f"{place}.operator", operator, "not a valid selector operator")
        elif values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield forbidden(f"{place}.values", text)
        yield from _wrong(
            f"{place}.key", rule.get("key", ""), qualified_name_errors(rule.get("key", ""))
        )
