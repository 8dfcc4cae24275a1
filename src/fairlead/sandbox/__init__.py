"""An embedded Kubernetes API server for demos, tests and laptops."""

from __future__ import annotations

from fairlead.sandbox.http.faults import Faults
from fairlead.sandbox.sandbox import Sandbox


__all__ = ["Faults", "Sandbox"]
