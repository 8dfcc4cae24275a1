"""Flags of ``fairlead manifests`` about the number, the size and the nodes of Pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any, TypeVar

import click

from fairlead.api.label_names import (
    label_value_errors,
    qualified_name_errors,
    subdomain_errors,
)
from fairlead.api.manifests import (
    CPU_REQUEST,
    MEMORY_LIMIT,
    MEMORY_REQUEST,
    REPLICAS,
    SPREAD,
    Pods,
)
from fairlead.api.meta import JSON
from fairlead.api.quantities import parse_quantity


F = TypeVar("F", bound=Callable[..., Any])

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NONE = "none"
"""Value of flags for no limit, or no spread."""


def pod_options(function: F) -> F:
    """Add the flags; pass their values to :func:`pods_of`, and ``labels`` to :func:`labels_of`."""
    # Decorators work from the last to the first, and the help has the options in this order.
    for option in reversed([*_size_options(), *_node_options()]):
        function = option(function)
    return function


def _size_options() -> list[Callable[[F], F]]:
    """Return the flags of the number of Pods, their CPU and their memory, in order."""
    return [
        click.option(
            "--replicas",
            type=click.IntRange(0),
            default=REPLICAS,
            show_default=True,
            help="Number of Pods; of a program with a Lease one works and the others stand by.",
        ),
        _amount("--cpu-request", CPU_REQUEST, "CPU that a node keeps free for each Pod."),
        _amount("--cpu-limit", "", "CPU that a Pod may use at most; default: no limit."),
        _amount("--memory-request", MEMORY_REQUEST, "Memory that a node keeps free for each Pod."),
        _amount(
            "--memory-limit",
            MEMORY_LIMIT,
            "Memory beyond which a Pod is killed; docs/reference/sizes.md has amounts by "
            "number of objects.",
        ),
    ]


def _node_options() -> list[Callable[[F], F]]:
    """Return the flags of nodes, image pulls, host names and labels, in order."""
    return [
        click.option(
            "--priority-class", default="", metavar="NAME", help="PriorityClass of the Pods."
        ),
        click.option(
            "--toleration",
            "tolerations",
            multiple=True,
            metavar="KEY[=VALUE][:EFFECT]",
            help="Taint of nodes on which the Pods may run, such as "
            "dedicated=infra:NoSchedule; may be given several times.",
        ),
        click.option(
            "--topology-spread",
            "spread",
            multiple=True,
            default=SPREAD,
            show_default=True,
            metavar="LABEL",
            help="Label of nodes, such as topology.kubernetes.io/zone; replicas are spread "
            f"over its values if there is room. {_NONE} turns spreading off. May be given "
            "several times.",
        ),
        click.option(
            "--image-pull-secret",
            "pull_secrets",
            multiple=True,
            metavar="NAME",
            help="Secret of the namespace for pulling the image; may be given several times.",
        ),
        click.option(
            "--host-alias",
            "host_aliases",
            multiple=True,
            metavar="ADDRESS=NAME[,NAME]",
            help="Address of host names that the cluster's DNS does not know, for example of a "
            "provider; may be given several times.",
        ),
        click.option(
            "--label",
            "labels",
            multiple=True,
            metavar="KEY=VALUE",
            help="Label for every object and Pod, in addition to their own; may be given "
            "several times.",
        ),
    ]


def _amount(flag: str, default: str, text: str) -> Callable[[F], F]:
    return click.option(
        flag, default=default, show_default=bool(default), metavar="AMOUNT", help=text
    )


def pods_of(
    *,
    replicas: int,
    cpu_request: str,
    cpu_limit: str,
    memory_request: str,
    memory_limit: str,
    priority_class: str,
    tolerations: Sequence[str],
    spread: Sequence[str],
    pull_secrets: Sequence[str],
    host_aliases: Sequence[str],
) -> Pods:
    """Check the values of the flags and return them as Pods.

    Raises:
        click.UsageError: a value cannot be used; the message names the flag.
    """
    limits = {"memory": _limit(memory_limit), "cpu": _limit(cpu_limit)}
    _check_amounts("memory", memory_request, limits["memory"])
    _check_amounts("cpu", cpu_request, limits["cpu"])
    named = [("--priority-class", priority_class)] if priority_class else []
    for flag, name in [*named, *(("--image-pull-secret", name) for name in pull_secrets)]:
        if errors := subdomain_errors(name):
            raise click.UsageError(f"{flag} {name!r} is not a name: {errors[0]}")
    spread = [key for key in spread if key != _NONE]
    for key in spread:
        if errors := qualified_name_errors(key):
            raise click.UsageError(f"--topology-spread {key!r} is not a label: {errors[0]}")
    return Pods(
        replicas=replicas,
        cpu_request=cpu_request,
        cpu_limit=limits["cpu"],
        memory_request=memory_request,
        memory_limit=limits["memory"],
        priority_class=priority_class,
        tolerations=tuple(map(_toleration, tolerations)),
        spread=tuple(spread),
        pull_secrets=tuple(pull_secrets),
        host_aliases=tuple(map(_host_alias, host_aliases)),
    )


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """Return labels from ``KEY=VALUE``.

    Raises:
        click.UsageError: one is no label.
    """
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        errors = _label_errors(key, value) if equals else ["use KEY=VALUE"]
        if errors:
            raise click.UsageError(f"--label {text!r} is not a label: {errors[0]}")
        found[key] = value
    return found


def _label_errors(key: str, value: str) -> list[str]:
    return [*qualified_name_errors(key), *label_value_errors(value)]


def _limit(text: str) -> str:
    return "" if text == _NONE else text


def _check_amounts(what: str, request: str, limit: str) -> None:
    amounts = {}
    for kind, text in (("request", request), ("limit", limit)):
        # Without a limit the request has nothing to stay below.
        if not text and kind == "limit":
            return
        flag = f"--{what}-{kind}"
        try:
            amounts[kind] = parse_quantity(text)
        except ValueError as error:
            raise click.UsageError(f"{flag}: {error}") from None
    if amounts["request"] > amounts["limit"]:
        raise click.UsageError(
            f"--{what}-request {request} is above --{what}-limit {limit}: give a limit that is "
            "not below the request"
        )


def _host_alias(text: str) -> JSON:
    """Return an entry of the Pods' hosts file.

    Raises:
        click.UsageError: the text is no address with names.
    """
    address, _, names = text.partition("=")
    hosts = names.split(",")
    try:
        ip_address(address)
    except ValueError:
        raise click.UsageError(
            f"--host-alias {text!r} is not ADDRESS=NAME[,NAME]: {address!r} is not an address"
        ) from None
    for host in hosts:
        if errors := subdomain_errors(host):
            raise click.UsageError(
                f"--host-alias {text!r}: {host!r} is not a host name: {errors[0]}"
            )
    return {"ip": address, "hostnames": hosts}


def _toleration(text: str) -> JSON:
    """Return a toleration, written as ``kubectl taint`` writes a taint.

    Raises:
        click.UsageError: the text is no toleration.
    """
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    if ":" in text and effect not in _EFFECTS:
        raise click.UsageError(
            f"--toleration {text!r}: the effect {effect!r} is none of {', '.join(_EFFECTS)}"
        )
    if errors := _label_errors(key, value):
        raise click.UsageError(f"--toleration {text!r} is not KEY[=VALUE][:EFFECT]: {errors[0]}")
    # Without "=" a taint of any value is tolerated.
    found: JSON = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        found["value"] = value
    if effect:
        found["effect"] = effect
    return found
