"""Holds rendered objects against Kubernetes' schemas: ``python -m hack.chart.schemas 1.33 FILE``.

Members that the schema does not have are errors. Kinds of the Prometheus operator are left out,
for Kubernetes has no schema of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import kubernetes_validate
import yaml


ELSEWHERE = "monitoring.coreos.com/"


def main(version: str, file: str) -> int:
    """Print what is wrong; 1 if anything is."""
    wrong = held = 0
    for body in yaml.safe_load_all(Path(file).read_text()):
        if not body or body["apiVersion"].startswith(ELSEWHERE):
            continue
        held += 1
        try:
            kubernetes_validate.validate(body, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as e:
            wrong += 1
            name = body["metadata"]["name"]
            print(f"Kubernetes {version}: {body['kind']} {name}: {e}", file=sys.stderr)
    print(f"Kubernetes {version}: {held - wrong} of {held} objects are as its schemas say")
    return 1 if wrong or not held else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
