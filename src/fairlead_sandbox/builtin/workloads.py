"""Pods and workloads, stored with their defaults; no controller acts on them."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead_sandbox.builtin.podtemplates import complete_pod, complete_template
from fairlead_sandbox.builtin.strategies import Completed, WithSpec
from fairlead_sandbox.schema.errors import FieldError, go_value, invalid, required


class ReplicaStrategy(WithSpec):
    """Strategy of kinds with replicas, a selector and a Pod template."""

    def complete(self, body: JSON) -> None:
        """Default the replicas to 1 and complete the Pod template."""
        spec = body.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        complete_template(spec)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors of selector and containers; the selector is immutable."""
        spec = body.get("spec") or {}
        selector = spec.get("selector")
        errors = [] if selector else [required("spec.selector")]
        template = spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        match_labels = (selector or {}).get("matchLabels") or {}
        if not selector or any(labels.get(key) != value for key, value in match_labels.items()):
            text = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", labels or None, text))
        errors += _containers(template.get("spec") or {}, "spec.template.spec")
        if old is not None and old["spec"].get("selector") != selector:
            text = f"Invalid value: {_shown(selector or {})}: field is immutable"
            errors.append(FieldError("FieldValueInvalid", text, "spec.selector"))
        return errors


class DeploymentStrategy(ReplicaStrategy):
    """Strategy of Deployments."""

    def complete(self, body: JSON) -> None:
        """Default the history limit, the progress deadline and a rolling update by 25 %."""
        super().complete(body)
        spec = body["spec"]
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        _complete_update(spec.setdefault("strategy", {}), "25%", "25%")


class StatefulSetStrategy(ReplicaStrategy):
    """Strategy of StatefulSets."""

    def complete(self, body: JSON) -> None:
        """Default the history limit, ordered Pods and a rolling update from partition 0."""
        super().complete(body)
        spec = body["spec"]
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        update = spec.setdefault("updateStrategy", {})
        if update.setdefault("type", "RollingUpdate") == "RollingUpdate":
            update.setdefault("rollingUpdate", {}).setdefault("partition", 0)


class DaemonSetStrategy(WithSpec):
    """Strategy of DaemonSets."""

    def complete(self, body: JSON) -> None:
        """Default the history limit and a rolling update by one Pod at a time."""
        spec = body.setdefault("spec", {})
        complete_template(spec)
        spec.setdefault("revisionHistoryLimit", 10)
        _complete_update(spec.setdefault("updateStrategy", {}), 0, 1)

    # DaemonSets have no replicas, but the same rules for selector and template.
    validate = ReplicaStrategy.validate


def _complete_update(strategy: JSON, surge: str | int, unavailable: str | int) -> None:
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", surge)
        rolling.setdefault("maxUnavailable", unavailable)


def _shown(selector: JSON) -> str:
    """The selector in the order of Go's fields, without empty ones."""
    names = ("matchLabels", "matchExpressions")
    parts = [f'"{name}":{go_value(selector[name])}' for name in names if selector.get(name)]
    return f"{{{','.join(parts)}}}"


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
    """Strategy of Pods; no node runs them, so they stay Pending."""

    returns_deleted = True
    selectable_fields = ("spec.nodeName", "spec.serviceAccountName", "status.phase")

    def prepare_create(self, body: JSON) -> None:
        """Set the spec's defaults and the phase Pending."""
        super().prepare_create(body)
        body["status"] = {"phase": "Pending", "qosClass": "BestEffort"}

    def complete(self, body: JSON) -> None:
        """Default the ServiceAccount, the containers and the priority."""
        spec = body.setdefault("spec", {})
        # Not a default of the type: in kube-apiserver the admission plugins ServiceAccount and
        # Priority set the account and the priority.
        spec.setdefault("serviceAccountName", spec.get("serviceAccount") or "default")
        complete_pod(spec)
        spec.setdefault("enableServiceLinks", True)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        spec.setdefault("priority", 0)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors of missing containers, names and images."""
        return _containers(body.get("spec") or {}, "spec")


# Kubernetes sets the prefixed labels since 1.27 and keeps those without a prefix beside them.
_JOB_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")


class JobStrategy(WithSpec):
    """Strategy of Jobs; the server generates their selector from the uid."""

    allocated = ("metadata/labels", "spec/selector", "spec/template/metadata")

    def prepare_create(self, body: JSON) -> None:
        """Label the Job and its Pods, and select by the uid, unless ``manualSelector`` is set."""
        super().prepare_create(body)
        spec, meta = body["spec"], body["metadata"]
        template = spec.get("template")
        if spec.get("manualSelector") or spec.get("selector") or not template:
            return
        own = dict.fromkeys(_JOB_LABELS, meta["uid"])
        own |= dict.fromkeys(_JOB_NAMES, meta.get("name", ""))
        labels = template["metadata"].setdefault("labels", {})
        labels |= own
        # A Job without labels gets those of its Pods (SetDefaults_Job).
        meta.setdefault("labels", dict(labels))
        spec["selector"] = {"matchLabels": {_JOB_LABELS[0]: meta["uid"]}}

    selectable_fields = ("status.successful",)

    def complete(self, body: JSON) -> None:
        """Default one Pod at a time, six retries, and one completion unless Pods share work."""
        spec = body.setdefault("spec", {})
        # With parallelism alone the Job is a work queue: its Pods tell when the work is done
        # (SetDefaults_Job).
        if "parallelism" not in spec:
            spec.setdefault("completions", 1)
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        complete_template(spec)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors of missing containers, names and images."""
        template = body["spec"].get("template") or {}
        return _containers(template.get("spec") or {}, "spec.template.spec")


class CronJobStrategy(WithSpec):
    """Strategy of CronJobs."""

    def complete(self, body: JSON) -> None:
        """Default the concurrency policy Allow, the history limits and the Job's template."""
        spec = body.setdefault("spec", {})
        spec.setdefault("suspend", False)
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        job = (spec.get("jobTemplate") or {}).get("spec")
        if job:
            complete_template(job)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the error of a missing schedule."""
        return [] if body["spec"].get("schedule") else [required("spec.schedule")]
