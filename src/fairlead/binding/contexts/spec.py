"""The context of bindings of servicebinding.io."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from fairlead.api.conditions import Condition, ConditionStatus
from fairlead.api.meta import JSON, Object
from fairlead.api.servicebinding.common import (
    COLLECTION_READY,
    ERROR_READING_BINDING,
    ERROR_READING_SECRET,
    ERROR_READING_SERVICES,
    EXCLUSIVE,
    PROCESSING_ERROR,
    READY,
    RESOLVED_BINDING_SECRET,
    SERVICE_AVAILABLE,
    SERVICE_FORBIDDEN,
    SERVICE_MISSING_BINDING,
    SERVICE_NOT_FOUND,
)
from fairlead.api.servicebinding.spec import ServiceBinding
from fairlead.binding import bounds
from fairlead.binding.contexts.base import (
    BaseContext,
    FindWorkloads,
    InvalidBinding,
    decoded,
    part,
)
from fairlead.binding.reads import FailureCode, Lookup, Snapshot
from fairlead.binding.services.items import Item
from fairlead.binding.services.service import (
    ServiceReference,
    WorkloadReference,
    lookup_of,
    selector_dict,
)


_NOTHING: JSON = {
    "workload": {"apiVersion": "", "kind": ""},
    "service": {"apiVersion": "", "kind": "", "name": ""},
}
_NAME = re.compile(r"[a-z0-9.-]{1,253}")
_TYPE = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_UNAVAILABLE: dict[FailureCode | None, str] = {
    "NotFound": SERVICE_NOT_FOUND,
    "NoMatch": SERVICE_NOT_FOUND,
    "Forbidden": SERVICE_FORBIDDEN,
    "Denied": SERVICE_FORBIDDEN,
}
_FALSE = {ERROR_READING_SECRET, ERROR_READING_SERVICES, *_UNAVAILABLE.values()}


class SpecContext(BaseContext):
    """One servicebinding.io ServiceBinding in one pass.

    Raises:
        InvalidBinding: the spec is contradictory.
        msgspec.ValidationError: the object does not fit its type.
    """

    def __init__(
        self, binding: Object, snapshot: Snapshot, *, workloads: FindWorkloads | None = None
    ) -> None:
        super().__init__(binding, snapshot, workloads=workloads)
        self._parsed = decoded(binding, ServiceBinding, _NOTHING)
        spec = self._parsed.spec
        if not self.meta.deleting:
            _validate(self._parsed)
        self.env_bindings = list({item.name: item.key for item in spec.env}.items())
        overrides = (("type", spec.type), ("provider", spec.provider))
        self.entries.overrides = [Item(name, value) for name, value in overrides if value]

    def spec_name(self) -> str:
        """``spec.name``."""
        return self._parsed.spec.name

    def secret_type(self, content: Mapping[str, bytes]) -> str:
        """Return ``servicebinding.io/{type}``, "" if the entry cannot be part of a type."""
        type_ = content.get("type", b"").decode(errors="replace")
        return f"servicebinding.io/{type_}" if _TYPE.fullmatch(type_) else ""

    def service_references(self) -> list[ServiceReference]:
        """Return the only service, in the binding's own namespace."""
        service = self._parsed.spec.service
        lookup = lookup_of(service.api_version, service.kind)
        return [ServiceReference(lookup, self.meta.namespace, service.name)]

    def workload_reference(self) -> WorkloadReference:
        """``spec.workload``."""
        workload = self._parsed.spec.workload
        return WorkloadReference(
            lookup=lookup_of(workload.api_version, workload.kind),
            name=workload.name,
            selector=selector_dict(workload.selector),
            containers=tuple(workload.containers),
        )

    @cached_property
    def former_secret(self) -> str:
        """``status.binding.name``."""
        return status_secret(self.binding)

    def close(self) -> None:
        """Set ServiceAvailable too, which specification 1.1 demands."""
        collected = self._said.get(COLLECTION_READY)
        missing = self._missing(collected)
        if missing and self.flow.error:
            self.flow.error += f": {missing}"
        super().close()
        if self.flow.error and self.reader.snapshot.unclear:
            # Unknown: whether the binding can be completed could not be read (specification 1.1).
            self.set_condition(READY, "Unknown", PROCESSING_ERROR, self.flow.error)
        if not self.unbind_requested:
            self._report_service(collected, missing)

    def _missing(self, collected: Condition | None) -> str:
        """Return what the service lacks, "" unless it was read without a result."""
        if collected is None or collected.status == "False" or self.entries:
            return ""
        (service,) = self.services_read
        lack = "data" if service.is_secret else "Secret in .status.binding.name"
        return f"{service} has no {lack} yet"

    def _report_service(self, collected: Condition | None, missing: str) -> None:
        if missing:
            self._available("Unknown", SERVICE_MISSING_BINDING, missing)
        elif collected and collected.status == "True":
            self._available("True", RESOLVED_BINDING_SECRET)
        elif collected:
            reason = _UNAVAILABLE.get(self.service_failure, collected.reason)
            if reason in _FALSE:
                self._available("False", reason, collected.message)
            elif self.entries:
                self._available("True", RESOLVED_BINDING_SECRET)
            else:
                # The service exists, but its entries are unknown.
                unclear = SERVICE_MISSING_BINDING if reason == ERROR_READING_BINDING else reason
                self._available("Unknown", unclear, collected.message)

    def _available(self, status: ConditionStatus, reason: str, message: str = "") -> None:
        self.set_condition(SERVICE_AVAILABLE, status, reason, message)

    def status(self, now: str) -> JSON:
        """Return conditions, the projected Secret, and the observed generation."""
        result = dict(self.status_before)
        if self.meta.generation:
            result["observedGeneration"] = self.meta.generation
        result["conditions"] = self.conditions(now)
        if self.secret:
            result["binding"] = {"name": self.secret}
        return result


def workload_kind(binding: Object) -> Lookup | None:
    """Return the kind of a binding's workloads; None without one."""
    reference = part(binding, "spec", "workload")
    api_version, kind = reference.get("apiVersion"), reference.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    return lookup_of(api_version, kind)


def status_secret(binding: Object) -> str:
    """Return ``status.binding.name``, even if the rest of the status is malformed."""
    name = part(binding, "status", "binding").get("name")
    return name if isinstance(name, str) else ""


def _validate(binding: ServiceBinding) -> None:
    spec, workload = binding.spec, binding.spec.workload
    if workload.name and workload.selector is not None:
        raise InvalidBinding(f"{EXCLUSIVE}: remove spec.workload.name or spec.workload.selector")
    if not workload.name and workload.selector is None:
        raise InvalidBinding(
            "spec.workload selects nothing: set spec.workload.name or spec.workload.selector"
        )
    if len(spec.env) > bounds.VARIABLES:
        raise InvalidBinding(
            f"spec.env has more than {bounds.VARIABLES} variables; make several bindings, or "
            "have an app read files"
        )
    if spec.name and (not _NAME.fullmatch(spec.name) or spec.name in {".", ".."}):
        raise InvalidBinding(
            "spec.name becomes a directory: use lower case letters, digits, '-' and '.'"
        )
