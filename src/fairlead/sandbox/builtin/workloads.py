"""Pods, Services and what makes Pods: stored with the defaults that clients rely on."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.sandbox import metadata
from fairlead.sandbox.builtin.strategies import WithSpec
from fairlead.sandbox.schema.errors import FieldError, invalid, required
from fairlead.sandbox.types import Strategy


class DeploymentStrategy(WithSpec):
    """Kinds with replicas, a selector and a pod template."""

    def prepare_create(self, body: JSON) -> None:
        """Write defaults into a new object."""
        body.setdefault("spec", {})
        body["spec"].setdefault("replicas", 1)
        body["status"] = {}

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """The selector is required, matches the template's labels, and cannot change."""
        spec = body.get("spec") or {}
        selector = spec.get("selector")
        if not selector:
            return [required("spec.selector")]
        template = spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        wanted = selector.get("matchLabels") or {}
        found = []
        if any(labels.get(key) != value for key, value in wanted.items()):
            text = "`selector` does not match template `labels`"
            found.append(invalid("spec.template.metadata.labels", labels, text))
        found += _containers(template.get("spec") or {}, "spec.template.spec")
        if old is not None and old["spec"].get("selector") != selector:
            found.append(invalid("spec.selector", selector, "field is immutable"))
        return found


def _containers(spec: JSON, path: str) -> list[FieldError]:
    containers = spec.get("containers")
    if not containers:
        return [required(f"{path}.containers")]
    return [
        required(f"{path}.containers[{index}].{member}")
        for index, container in enumerate(containers)
        for member in ("name", "image")
        if not container.get(member)
    ]


class PodStrategy(Strategy):
    """Pods; nothing runs them, so they stay Pending."""

    status = True
    members = frozenset({"spec", "status"})
    selectable_fields = ("spec.nodeName", "spec.serviceAccountName", "status.phase")

    def prepare_create(self, body: JSON) -> None:
        """Write defaults into a new object."""
        spec = body.setdefault("spec", {})
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("serviceAccountName", "default")
        body["status"] = {"phase": "Pending", "qosClass": "BestEffort"}

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Check what the kind cannot do without."""
        return _containers(body.get("spec") or {}, "spec")


class ServiceStrategy(Strategy):
    """Services; no addresses are allocated, so each is headless unless it says otherwise."""

    status = True
    members = frozenset({"spec", "status"})
    name_rule = staticmethod(metadata.service_name)

    def prepare_create(self, body: JSON) -> None:
        """Write defaults into a new object."""
        spec = body.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
        body["status"] = {"loadBalancer": {}}


class JobStrategy(WithSpec):
    """Jobs."""

    selectable_fields = ("status.successful",)

    def prepare_create(self, body: JSON) -> None:
        """Write defaults into a new object."""
        spec = body.setdefault("spec", {})
        spec.setdefault("parallelism", 1)
        spec.setdefault("completions", 1)
        spec.setdefault("backoffLimit", 6)
        body["status"] = {}

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Check what the kind cannot do without."""
        template = body["spec"].get("template") or {}
        return _containers(template.get("spec") or {}, "spec.template.spec")


class CronJobStrategy(WithSpec):
    """CronJobs."""

    def prepare_create(self, body: JSON) -> None:
        """Write defaults into a new object."""
        spec = body.setdefault("spec", {})
        spec.setdefault("suspend", False)
        spec.setdefault("concurrencyPolicy", "Allow")
        body["status"] = {}

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Check what the kind cannot do without."""
        return [] if body["spec"].get("schedule") else [required("spec.schedule")]
