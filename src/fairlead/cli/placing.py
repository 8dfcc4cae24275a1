"""Flags of ``fairlead manifests`` about the number, the size and the nodes of Pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

import click

from fairlead.api.flags import read
from fairlead.api.label_names import (
    label_value_errors,
    qualified_name_errors,
    subdomain_errors,
)
from fairlead.api.manifests import Pods
from fairlead.api.meta import JSON
from fairlead.api.quantities import parse_quantity
from fairlead.cli.options import flag_options


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NONE = "none"
"""Value of flags for no limit, or no spread."""


pod_options = flag_options(Pods)
"""The flags of :class:`Pods`, whose values go to :func:`pods_of`."""


def pods_of(values: Mapping[str, Any]) -> Pods:
    """Check the values of the flags and return them as Pods.

    Raises:
        click.UsageError: a value cannot be used; the message names the flag.
    """
    limits = {name: _limit(values[name]) for name in ("memory_limit", "cpu_limit")}
    _check_amounts("memory", values["memory_request"], limits["memory_limit"])
    _check_amounts("cpu", values["cpu_request"], limits["cpu_limit"])
    spread = tuple(key for key in values["topology_spread"] if key != _NONE)
    for key in spread:
        if errors := qualified_name_errors(key):
            raise click.UsageError(f"--topology-spread {key!r} is not a label: {errors[0]}")
    parsed = {
        "toleration": tuple(map(_toleration, values["toleration"])),
        "topology_spread": spread,
        "host_alias": tuple(map(_host_alias, values["host_alias"])),
    }
    return read(Pods, {**values, **limits, **parsed})


def labels_of(given: Sequence[str]) -> dict[str, str]:
    """Return labels from ``KEY=VALUE``.

    Raises:
        click.UsageError: one is no label.
    """
    labels: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        errors = _label_errors(key, value) if equals else ["use KEY=VALUE"]
        if errors:
            raise click.UsageError(f"--label {text!r} is not a label: {errors[0]}")
        labels[key] = value
    return labels


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
    toleration: JSON = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        toleration["value"] = value
    if effect:
        toleration["effect"] = effect
    return toleration
