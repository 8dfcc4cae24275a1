"""Which files of the repository are made, and their texts."""

from __future__ import annotations

import base64
import json
import re
from importlib.metadata import version
from pathlib import Path

import yaml
from hack.chart import uninstalling, values
from hack.chart.programs import programs


ROOT = Path(__file__).parents[2]
CHART = "charts/fairlead"
PAGE = "docs/reference/chart.md"
ICON = "src/fairlead/portal/console/static/icon.svg"
ALERTS = "config/alerts"
_BEGIN, _END = "<!-- values -->\n", "<!-- end of values -->\n"
_MADE = "{{- /* Made by `python -m hack.chart` of what `fairlead manifests` prints. */}}\n"


def files() -> dict[str, str]:
    """The texts by their paths in the repository."""
    every = programs()
    templates = f"{CHART}/templates"
    found = {f"{templates}/{one.key}.yaml": _MADE + one.template() for one in every}
    found[f"{templates}/uninstall.yaml"] = _MADE + uninstalling.template(every)
    found[f"{CHART}/Chart.yaml"] = _chart()
    found[f"{CHART}/values.yaml"] = values.values_file(every)
    found[f"{CHART}/values.schema.json"] = json.dumps(values.schema(every), indent=2) + "\n"
    found[PAGE] = _page(values.page(every))
    for rules in sorted((ROOT / ALERTS).glob("*.yaml")):
        # Files of a chart have to be below it.
        found[f"{CHART}/files/alerts/{rules.name}"] = rules.read_text()
    return found


def chart_version(package: str) -> str:
    """The chart's version of a version of the package: SemVer has no 0.2.0.dev1, but 0.2.0-dev1.

    Raises:
        ValueError: it has another form.
    """
    found = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\.?(dev|a|b|rc)(\d+))?(?:\+.*)?", package)
    if not found:
        raise ValueError(f"{package} cannot be written as a version of a chart")
    return found[1] + (f"-{found[2]}{found[3]}" if found[2] else "")


def _chart() -> str:
    package = version("fairlead")
    icon = (ROOT / ICON).read_bytes()
    return yaml.safe_dump(
        {
            "apiVersion": "v2",
            "name": "fairlead",
            "description": "Services from the team that runs them to the app that needs them, "
            "across Kubernetes clusters",
            "type": "application",
            # The dash lets in versions such as 1.31.4-eks-0123 and 1.30.5-gke.1.
            "kubeVersion": ">=1.20.0-0",
            "icon": f"data:image/svg+xml;base64,{base64.b64encode(icon).decode()}",
            "version": chart_version(package),
            "appVersion": package.replace("+", "-"),
        },
        sort_keys=False,
        width=10_000,
    )


def _page(table: str) -> str:
    text = (ROOT / PAGE).read_text()
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}{table}{_END}{tail}"
