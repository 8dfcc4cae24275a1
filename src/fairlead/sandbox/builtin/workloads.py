"""Pods, Services and what makes Pods: stored with the defaults that clients rely on."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.sandbox import metadata
from fairlead.sandbox.builtin.strategies import Completed, WithSpec
from fairlead.sandbox.schema.errors import FieldError, invalid, required


class DeploymentStrategy(WithSpec):
    """Kinds with replicas, a selector and a pod template."""

    def complete(self, body: JSON) -> None:
        """One replica, if nothing else is said."""
        body.setdefault("spec", {}).setdefault("replicas", 1)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """The selector is required, matches the template's labels, and cannot change."""
        spec = body.get("spec") or {}
        selector = spec.get("selector")
        found = [] if selector else [required("spec.selector")]
        template = spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        wanted = (selector or {}).get("matchLabels") or {}
        if not selector or any(labels.get(key) != value for key, value in wanted.items()):
            shown = ", ".join(f'"{key}":"{value}"' for key, value in sorted(labels.items()))
            text = f"map[string]string{{{shown}}}: `selector` does not match template `labels`"
            field = "spec.template.metadata.labels"
            found.append(FieldError("FieldValueInvalid", f"Invalid value: {text}", field))
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


class PodStrategy(Completed):
    """Pods; nothing runs them, so they stay Pending."""

    returns_deleted = True
    selectable_fields = ("spec.nodeName", "spec.serviceAccountName", "status.phase")

    def prepare_create(self, body: JSON) -> None:
        """Nothing has started it yet."""
        super().prepare_create(body)
        body["status"] = {"phase": "Pending", "qosClass": "BestEffort"}

    def complete(self, body: JSON) -> None:
        """What runs it and as whom."""
        spec = body.setdefault("spec", {})
        spec.setdefault("restartPolicy", "Always")
        spec.setdefault("serviceAccountName", "default")

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Check what the kind cannot do without."""
        return _containers(body.get("spec") or {}, "spec")


class ServiceStrategy(Completed):
    """Services; no addresses are allocated, so each is headless unless it says otherwise."""

    name_rule = staticmethod(metadata.service_name)

    def prepare_create(self, body: JSON) -> None:
        """Nothing balances its load yet."""
        super().prepare_create(body)
        body["status"] = {"loadBalancer": {}}

    def complete(self, body: JSON) -> None:
        """Its type and its ports."""
        spec = body.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))


class JobStrategy(WithSpec):
    """Jobs."""

    selectable_fields = ("status.successful",)

    def complete(self, body: JSON) -> None:
        """One Pod, tried seven times."""
        spec = body.setdefault("spec", {})
        spec.setdefault("parallelism", 1)
        spec.setdefault("completions", 1)
        spec.setdefault("backoffLimit", 6)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Check what the kind cannot do without."""
        template = body["spec"].get("template") or {}
        return _containers(template.get("spec") or {}, "spec.template.spec")


class CronJobStrategy(WithSpec):
    """CronJobs."""

    def complete(self, body: JSON) -> None:
        """Active, and overlapping with itself."""
        spec = body.setdefault("spec", {})
        spec.setdefault("suspend", False)
        spec.setdefault("concurrencyPolicy", "Allow")

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Check what the kind cannot do without."""
        return [] if body["spec"].get("schedule") else [required("spec.schedule")]
