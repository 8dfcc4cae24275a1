"""Environment variables of a container, resolved as a kubelet does."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fairlead.api.meta import JSON
from fairlead.demo.pods.source import PodRunError, PodSource


# Names as a kubelet takes them without KEP-4369, which allows nearly every printable character.
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


async def environment(container: JSON, source: PodSource) -> dict[str, str]:
    """Resolve the variables of ``envFrom`` and ``env``, the later winning; expand ``$(NAME)``.

    Raises:
        PodRunError: a referenced object is missing, or a value exists on nodes only.
    """
    result: dict[str, str] = {}
    for item in container.get("envFrom") or []:
        entries = await _whole(item, source)
        prefix = item.get("prefix") or ""
        for key, content in entries.items():
            # A kubelet leaves out keys that cannot be names of variables, and starts the container
            # all the same.
            if _NAME.fullmatch(prefix + key):
                result[prefix + key] = _text(prefix + key, content)
    for item in container.get("env") or []:
        # As with a kubelet, $(NAME) means a variable that was defined before this one.
        value = await _variable(item, source, result)
        if value is not None:
            result[item["name"]] = value
    return result


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the value of a known variable, and ``$$`` by one dollar sign.

    An unknown name stays as it is: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
    """

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


async def _whole(item: JSON, source: PodSource) -> Mapping[str, bytes]:
    if reference := item.get("secretRef"):
        secret = await source.secret(reference["name"], optional=bool(reference.get("optional")))
    elif reference := item.get("configMapRef"):
        secret = await source.config_map(
            reference["name"], optional=bool(reference.get("optional"))
        )
    else:
        secret = None
    return secret or {}


async def _variable(item: JSON, source: PodSource, variables: Mapping[str, str]) -> str | None:
    """Resolve one variable; return None if its optional source is missing."""
    origin: JSON | None = item.get("valueFrom")
    name = item["name"]
    if not origin:
        return expand(item.get("value") or "", variables)
    if "fieldRef" in origin:
        return source.field(origin["fieldRef"]["fieldPath"])
    for kind, field in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
        if field in origin:
            value = await source.entry(kind, origin[field])
            return None if value is None else _text(name, value)
    raise PodRunError(f"variable {name} has a source that is known on a node alone")


def _text(name: str, value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise PodRunError(f"variable {name} would not be text: mount it as a file") from None
    # A process gets its environment as C strings, which end at a null.
    if "\0" in text:
        raise PodRunError(f"variable {name} would contain a null: mount it as a file")
    return text
