"""Kubeconfigs for tests."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from fairlead.api.meta import JSON


def kubeconfig(
    *,
    cluster: JSON | None = None,
    user: JSON | None = None,
    context: JSON | None = None,
    current_context: str = "here",
    **top: Any,
) -> bytes:
    """A kubeconfig with one of each; what is given replaces or extends its parts."""
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current_context,
        "clusters": [
            {"name": "c", "cluster": {"server": "https://example.org:6443"} | (cluster or {})}
        ],
        "users": [{"name": "u", "user": {"token": "s3cret"} if user is None else user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"} | (context or {})}],
    }
    return yaml.safe_dump(body | top).encode()


def as_json(data: bytes) -> bytes:
    """The same kubeconfig as JSON, which is YAML too."""
    return msgspec.json.encode(yaml.safe_load(data))
