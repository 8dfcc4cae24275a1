"""How to tell, on a workload, what an earlier pass of a binding put there.

Nothing is noted on workloads. A generated Secret belongs to its binding alone, so whatever refers
to it is ours. A Secret that is projected as it is may be used by others too: of it, only a volume
in the exact shape and with the name we give is ours.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from fairlead.binding.workload import Workload


class Traces(msgspec.Struct, frozen=True):
    """The binding's name, its volume's name, and the Secrets it projects or projected."""

    binding: str
    volume_name: str
    secrets: frozenset[str]

    def on(self, workload: Workload) -> bool:
        """Whether anything of the binding is on a workload."""
        volumes = workload.volumes(create=False)
        return any(self.is_volume(volume) for volume in volumes) or any(
            self.is_env(entry) or self.is_env_from(entry)
            for container in workload.any_containers()
            for entry in (*container.env(create=False), *container.env_from(create=False))
        )

    def is_volume(self, volume: Any) -> bool:
        """Whether the binding made this volume."""
        secret = _object(volume).get("secret")
        if not isinstance(secret, dict) or set(volume) != {"name", "secret"}:
            return False
        name = secret.get("secretName")
        if self._generated(name):
            return True
        return name in self.secrets and volume.get("name") == self.volume_name

    def is_env(self, variable: Any) -> bool:
        """Whether an environment variable reads a generated Secret of the binding."""
        source = _object(_object(variable).get("valueFrom"))
        return self._generated(_object(source.get("secretKeyRef")).get("name"))

    def is_env_from(self, entry: Any) -> bool:
        """Whether an environment source is a generated Secret of the binding."""
        return self._generated(_object(_object(entry).get("secretRef")).get("name"))

    def _generated(self, name: Any) -> bool:
        return bool(re.fullmatch(re.escape(self.binding) + "-[0-9a-f]{8}", str(name)))


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
