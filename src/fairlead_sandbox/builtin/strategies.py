"""Strategies of the built-in kinds that differ from the general rules."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox import errors
from fairlead_sandbox.resources import metadata
from fairlead_sandbox.resources.types import Strategy
from fairlead_sandbox.schema.errors import FieldError, forbidden, invalid, required, too_long


_MAX_DATA = 1024 * 1024
"""Maximum size of all values in a ConfigMap or Secret, in bytes."""


class LeaseStrategy(Strategy):
    """Strategy of Leases: an update needs a resourceVersion, so none is overwritten unseen."""

    creates_on_update = True
    unconditional_update = False


class EndpointsStrategy(Strategy):
    """Strategy of Endpoints."""

    creates_on_update = True


class AccountStrategy(Strategy):
    """Strategy of ServiceAccounts."""

    returns_deleted = True


class Completed(Strategy):
    """Strategy of kinds with spec and status, whose defaults are the same at every write."""

    status = True

    def complete(self, body: JSON) -> None:
        """Set the spec's defaults."""

    def default(self, body: JSON) -> None:
        """Set the spec's defaults."""
        self.complete(body)

    def prepare_create(self, body: JSON) -> None:
        """Set the spec's defaults and an empty status."""
        self.complete(body)
        body["status"] = {}

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Set the spec's defaults."""
        self.complete(body)


class WithSpec(Completed):
    """Strategy of kinds whose metadata.generation counts changes of the spec."""

    generation = True


class NamespaceStrategy(Strategy):
    """Strategy of Namespaces: phase, and the finalizer that waits for their content."""

    status = True
    graceful = False
    selectable_fields = ("status.phase",)
    name_rule = staticmethod(metadata.label_name)
    allocated = ("metadata/labels", "spec/finalizers")

    def prepare_create(self, body: JSON) -> None:
        """Set the finalizer ``kubernetes``, the phase Active and the label of the name."""
        spec = body["spec"] = dict(body.get("spec") or {})
        finalizers = list(spec.get("finalizers") or [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        spec["finalizers"] = finalizers
        body["status"] = {"phase": "Active"}
        labels = body["metadata"].setdefault("labels", {})
        # kube-apiserver sets this label so that selectors can name a namespace (KEP-2161).
        labels["kubernetes.io/metadata.name"] = body["metadata"].get("name", "")

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Keep the stored spec, as only the finalize subresource changes its finalizers."""
        body["spec"] = old["spec"]
        labels = body["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = body["metadata"]["name"]

    def prepare_delete(self, body: JSON) -> None:
        """Set the phase Terminating."""
        body["status"] = {**body.get("status", {}), "phase": "Terminating"}

    def stays(self, body: JSON) -> bool:
        """Whether finalizers in metadata or spec keep a deleted namespace."""
        return super().stays(body) or bool(body["spec"].get("finalizers"))


class ConfigMapStrategy(Strategy):
    """Strategy of ConfigMaps: text in data, base64 in binaryData, optional immutability."""

    def prepare_create(self, body: JSON) -> None:
        """Check the types of the values, and drop null members."""
        self._check_types(body)

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Check the types of the values, and drop null members."""
        self._check_types(body)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors in keys, total size and changes of immutable data."""
        errors = [
            error
            for member in ("data", "binaryData")
            for error in _check_keys(member, body.get(member) or {})
        ]
        twice = (body.get("data") or {}).keys() & (body.get("binaryData") or {}).keys()
        errors += [
            invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            for key in sorted(twice)
        ]
        size = sum(len(value.encode()) for value in (body.get("data") or {}).values())
        # base64 has four characters for three bytes.
        size += sum(len(value) * 3 // 4 for value in (body.get("binaryData") or {}).values())
        if size > _MAX_DATA:
            errors.append(too_long("[]", _MAX_DATA))
        return errors + _check_immutable(body, old, ("data", "binaryData"))

    @staticmethod
    def _check_types(body: JSON) -> None:
        _texts(body, "ConfigMap", "data")
        _decoded(body, "ConfigMap", "binaryData")


_REQUIRED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
"""Keys that a Secret of each type must have."""
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


class SecretStrategy(Strategy):
    """Strategy of Secrets: stringData is merged into data, the type requires keys."""

    selectable_fields = ("type",)

    def prepare_create(self, body: JSON) -> None:
        """Merge stringData into data and default the type to Opaque."""
        self._merge(body)
        body["type"] = body.get("type") or "Opaque"

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Merge stringData into data and default the type to the stored one."""
        self._merge(body)
        body["type"] = body.get("type") or old.get("type", "Opaque")

    @staticmethod
    def _merge(body: JSON) -> None:
        data = _decoded(body, "Secret", "data")
        texts = _texts(body, "Secret", "stringData")
        body.pop("stringData", None)
        merged = {
            **(body.get("data") or {}),
            **{key: base64.b64encode(text.encode()).decode() for key, text in texts.items()},
        }
        if merged or data:
            body["data"] = merged
        else:
            body.pop("data", None)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors in keys, total size, required keys and immutable fields."""
        data = body.get("data") or {}
        type_ = body["type"]
        errors = _check_keys("data", data)
        if sum(len(value) for value in data.values()) * 3 // 4 > _MAX_DATA:
            errors.append(too_long("data", _MAX_DATA))
        for key in _REQUIRED_KEYS.get(type_, ()):
            if key not in data:
                errors.append(required(f"data[{key}]"))
        # One of the two is enough; without either both are reported.
        if type_ == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            errors += [required("data[username]"), required("data[password]")]
        annotations = body["metadata"].get("annotations") or {}
        if type_ == "kubernetes.io/service-account-token" and not annotations.get(_ACCOUNT_NAME):
            errors.append(required(f"metadata.annotations[{_ACCOUNT_NAME}]"))
        if old is not None and old.get("type") != type_:
            errors.append(invalid("type", type_, "field is immutable"))
        return errors + _check_immutable(body, old, ("data",))


def _unreadable(kind: str, member: str, key: str, text: str) -> errors.StatusError:
    return errors.bad_request(
        f'{kind} in version "v1" cannot be handled as a {kind}: {member}[{key}]: {text}'
    )


def _texts(body: JSON, kind: str, member: str) -> dict[str, str]:
    values = body.get(member)
    if values is None:
        body.pop(member, None)
        return {}
    if not isinstance(values, dict):
        raise errors.bad_request(
            f'{kind} in version "v1" cannot be handled as a {kind}: {member} must be an object'
        )
    for key, value in list(values.items()):
        if value is None:
            # Go's decoder takes null for the empty text.
            values[key] = ""
        elif not isinstance(value, str):
            raise _unreadable(kind, member, key, "must be a string")
    return values


def _decoded(body: JSON, kind: str, member: str) -> dict[str, str]:
    values = _texts(body, kind, member)
    for key, value in values.items():
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            raise _unreadable(kind, member, key, "illegal base64 data") from None
    return values


_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
# With the two spaces of Kubernetes' message.
_NO_CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)
_MAX_KEY = 253
"""Maximum length of a key in a ConfigMap or Secret, in characters."""


def _check_keys(member: str, data: JSON) -> list[FieldError]:
    return [invalid(f"{member}[{key}]", key, text) for key in data for text in _key_errors(key)]


def _key_errors(key: str) -> Iterator[str]:
    if len(key) > _MAX_KEY:
        yield f"must be no more than {_MAX_KEY} characters"
    if not _CONFIG_KEY.fullmatch(key):
        yield _NO_CONFIG_KEY
    # A key is the name of a file in a volume, and the kubelet's own files there begin with "..".
    if key in {".", ".."}:
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def _check_immutable(body: JSON, old: JSON | None, members: tuple[str, ...]) -> list[FieldError]:
    if old is None or not old.get("immutable"):
        return []
    text = "field is immutable when `immutable` is set"
    changed: list[Any] = [
        member for member in members if (body.get(member) or {}) != (old.get(member) or {})
    ]
    if not body.get("immutable"):
        # immutable can be set but never unset.
        changed.insert(0, "immutable")
    return [forbidden(member, text) for member in changed]
