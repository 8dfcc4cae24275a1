"""Sources of a pod's environment and files: Secrets, ConfigMaps, the pod itself."""

from __future__ import annotations

import base64
import re

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, SECRETS, Resource
from fairlead.client import Client, Forbidden, NotFound


_LABEL = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class PodRunError(Exception):
    """The pod cannot be run here; the text names the missing part in one line."""


class PodSource:
    """Reader of the Secrets and ConfigMaps of one pod template; it reads each object once."""

    def __init__(self, client: Client, workload: Object, template: JSON) -> None:
        self._client = client
        self._workload = workload
        self._template = template
        self._cache: dict[tuple[str, str], dict[str, bytes] | None] = {}

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self._workload.meta.namespace

    async def secret(self, name: str, *, optional: bool = False) -> dict[str, bytes] | None:
        """Read the entries of a Secret; None if it is optional and missing.

        Raises:
            PodRunError: the Secret is missing, or may not be read.
        """
        return await self._read(SECRETS, name, optional=optional)

    async def config_map(self, name: str, *, optional: bool = False) -> dict[str, bytes] | None:
        """Read the entries of a ConfigMap; like :meth:`secret`."""
        return await self._read(CONFIGMAPS, name, optional=optional)

    async def entry(self, kind: str, reference: JSON) -> bytes | None:
        """Read one entry by a ``secretKeyRef`` or ``configMapKeyRef``; None if it may be missing.

        Raises:
            PodRunError: the object or its entry is missing.
        """
        optional = bool(reference.get("optional"))
        read = self.secret if kind == "Secret" else self.config_map
        name, key = reference.get("name", ""), reference["key"]
        entries = await read(name, optional=optional)
        if entries is not None and key in entries:
            return entries[key]
        if optional:
            return None
        raise PodRunError(f"{kind} {self.namespace}/{name} has no entry {key}")

    def field(self, path: str) -> str:
        """Return the value of a downward API path.

        Raises:
            PodRunError: the field has a value on nodes only.
        """
        meta: JSON = self._template.get("metadata") or {}
        spec: JSON = self._template.get("spec") or {}
        plain = {
            # No Pod object exists: the suffix keeps the name apart from those of real Pods.
            "metadata.name": f"{self._workload.meta.name}-local",
            "metadata.namespace": self.namespace,
            "metadata.uid": self._workload.meta.uid,
            "metadata.labels": _lines(meta.get("labels")),
            "metadata.annotations": _lines(meta.get("annotations")),
            "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
            "status.podIP": "127.0.0.1",
            "status.hostIP": "127.0.0.1",
        }
        if path in plain:
            return str(plain[path])
        match = _LABEL.fullmatch(path)
        if match:
            return str((meta.get(match[1]) or {}).get(match[2], ""))
        raise PodRunError(f"fieldPath {path} is known on a node alone")

    async def _read(
        self, resource: Resource, name: str, *, optional: bool
    ) -> dict[str, bytes] | None:
        key = (resource.plural, name)
        if key not in self._cache:
            self._cache[key] = await self._fetch(resource, name)
        entries = self._cache[key]
        if entries is None and not optional:
            raise PodRunError(f"{resource.kind} {self.namespace}/{name} does not exist")
        return entries

    async def _fetch(self, resource: Resource, name: str) -> dict[str, bytes] | None:
        try:
            obj = await self._client.get(resource, name, self.namespace)
        except NotFound:
            return None
        except Forbidden as error:
            raise PodRunError(str(error)) from None
        body = obj.to_dict()
        text, encoded = body.get("data") or {}, body.get("binaryData") or {}
        # The field data is base64 in a Secret and text in a ConfigMap.
        if resource is SECRETS:
            text, encoded = {}, text
        return {
            **{key: str(value).encode() for key, value in text.items()},
            **{key: base64.b64decode(value) for key, value in encoded.items()},
        }


def _lines(values: dict[str, str] | None) -> str:
    return "\n".join(f'{name}="{value}"' for name, value in sorted((values or {}).items()))
