"""The parts of an image as CycloneDX 1.6, and their licences as one text.

https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from typing import Any

from hack.image.parts import Part


_SPDX = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")
_RULE = "=" * 80


def cyclonedx(found: list[Part], *, name: str, version: str, digest: str, created: int) -> str:
    """The bill of materials, in JSON.

    Args:
        found: the parts.
        name: the image's.
        version: of the image.
        digest: of the image, without ``sha256:``.
        created: seconds since the epoch.
    """
    image = f"pkg:oci/{name.rpartition('/')[2]}@sha256%3A{digest}"
    return _lines(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            # The same for the same image.
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, image)}",
            "version": 1,
            "metadata": {
                "timestamp": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "component": {
                    "type": "container",
                    "bom-ref": image,
                    "name": name,
                    "version": version,
                    "purl": image,
                    "hashes": [{"alg": "SHA-256", "content": digest}],
                },
            },
            "components": [_component(part) for part in found],
            "dependencies": [{"ref": image, "dependsOn": sorted(part.url for part in found)}],
        }
    )


def _component(part: Part) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": part.url,
        "name": part.name,
        "version": part.version,
        "purl": part.url,
        "licenses": _licenses(part),
    }
    if part.files:
        component["components"] = [
            {
                "type": "file",
                "bom-ref": f"{part.url}#{name}",
                "name": name,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
            for name, digest in part.files
        ]
    return component


def _licenses(part: Part) -> list[dict[str, Any]]:
    """One expression of SPDX, or licences by the names that the package gives them."""
    (first, *more) = part.licences
    if part.kind != "deb" and not more and _SPDX.fullmatch(first):
        return [{"expression": first}]
    return [{"license": {"name": name}} for name in part.licences]


def licences(found: list[Part]) -> str:
    """All licences in full, each text once."""
    said: dict[str, str] = {}
    blocks = []
    for part in found:
        blocks.append(f"{_RULE}\n{part.name} {part.version}: {', '.join(part.licences)}\n{_RULE}")
        for text in part.texts:
            before = said.setdefault(text, part.name)
            blocks.append(
                text.strip("\n") if before == part.name else f"The text is that of {before}."
            )
    return "\n\n".join(blocks) + "\n"


def _lines(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"
