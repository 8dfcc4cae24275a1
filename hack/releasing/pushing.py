"""A release in a registry: the image and the chart."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from hack.image.python import run
from hack.releasing.checking import RefusedError
from hack.releasing.making import Made, helm, tool


_ABSENT = re.compile(r"MANIFEST_UNKNOWN|NAME_UNKNOWN|404 Not Found|NOT_FOUND")
_CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
"""Media type of the layer with the chart; another layer has its signature."""


class Pushed(NamedTuple):
    """Where image and chart are."""

    image: str
    chart: str


def push(made: Made, registry: str) -> Pushed:
    """Put image and chart into a registry; what is there already stays.

    Both tools take the credentials of a ``docker login`` or ``helm registry login``.

    Args:
        made: the release.
        registry: such as ``registry.example.com/platform``.

    Raises:
        RefusedError: it has other content for this version.
        BuildError: it cannot be reached, or takes nothing.
    """
    image = f"{registry}/fairlead:{made.record['version']}"
    # helm calls it by the chart's name and version.
    number = made.chart.name.removeprefix("fairlead-").removesuffix(".tgz")
    chart = f"{registry}/charts/fairlead:{number}"
    content = hashlib.sha256(made.chart.read_bytes()).hexdigest()
    # Nothing is written unless all of it may be.
    there = (
        _there(image, image, "digest", made.record["image"]),
        _there(chart, chart, "manifest", f"sha256:{content}"),
    )
    if not there[0]:
        with tempfile.TemporaryDirectory(prefix="fairlead-push-") as folder:
            with tarfile.open(made.image) as archive:
                archive.extractall(folder, filter="data")
            # Docker's own file makes crane take a layout for something else.
            Path(folder, "manifest.json").unlink()
            run([_crane(), "push", folder, image])
        _there(image, image, "digest", made.record["image"])
    if not there[1]:
        plain = ["--plain-http"] if _loopback(registry) else []
        run([helm(), "push", str(made.chart), f"oci://{registry}/charts", *plain])
    return Pushed(image, f"oci://{chart.rpartition(':')[0]}")


def _there(name: str, reference: str, question: str, wanted: str) -> bool:
    """Whether a registry has this already.

    Raises:
        RefusedError: it has something else, or does not answer.
    """
    done = subprocess.run(
        [_crane(), question, reference], capture_output=True, text=True, check=False
    )
    if done.returncode:
        if _ABSENT.search(done.stderr):
            return False
        raise RefusedError(f"{reference}: {done.stderr.strip().splitlines()[-1]}")
    found = done.stdout.strip()
    if question == "manifest":
        found = chart_digest(found)
    if found != wanted:
        raise RefusedError(
            f"version exists: {name} is {found}, and this is {wanted};"
            " raise project.version in pyproject.toml"
        )
    return True


def chart_digest(manifest: str) -> str:
    """Return the digest of the chart in a manifest, "no chart" if it has none."""
    # helm sorts the layers by their digests: the signature may come first.
    layers = json.loads(manifest).get("layers") or []
    charts = (layer["digest"] for layer in layers if layer.get("mediaType") == _CHART)
    return next(charts, "no chart")


def _crane() -> str:
    return tool("crane", "FAIRLEAD_CRANE")


def _loopback(registry: str) -> bool:
    host = re.sub(r":\d+$", "", registry.partition("/")[0]).strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
