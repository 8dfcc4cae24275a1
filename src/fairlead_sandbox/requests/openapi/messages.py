"""The message types of built-in kinds as OpenAPI components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fairlead.api.meta import JSON
from fairlead_sandbox.kinds import Field, FieldType, Message, load


_TEXTS: Mapping[str, str] = {
    "spec": "Desired state of the object.",
    "status": "Observed state of the object; controllers write it.",
    "metadata": "Name, namespace, labels and the rest of an object's metadata.",
    "data": "The content by key.",
    "stringData": "The content by key as plain text; merged into data when written.",
    "binaryData": "Binary content by key, in base64.",
    "immutable": "Whether the content can no longer change.",
    "rules": "Rights that the role grants.",
    "aggregationRule": "Selectors of the ClusterRoles whose rules this one copies.",
    "roleRef": "The role that is granted; it cannot change.",
    "subjects": "Users, groups and ServiceAccounts that get the role.",
    "secrets": "Secrets that belong to the account.",
    "imagePullSecrets": "Secrets to pull images with.",
    "replicas": "Number of Pods.",
    "selector": "Labels of the Pods that belong to this object.",
    "template": "Template of the Pods.",
    "strategy": "How Pods of an old template are replaced.",
    "paused": "Whether changes of the template are held back.",
    "minReadySeconds": "Seconds that a Pod must be ready to count as available.",
    "revisionHistoryLimit": "Number of old templates that are kept for a rollback.",
    "progressDeadlineSeconds": "Seconds after which a rollout that stands still has failed.",
    "conditions": "Conditions of the object, one entry per type.",
    "observedGeneration": "The metadata.generation that the status describes.",
    "containers": "Containers of the Pod.",
    "initContainers": "Containers that run one after another before the others start.",
    "volumes": "Volumes that containers may mount.",
    "volumeMounts": "Volumes that are mounted into the container.",
    "mountPath": "The folder in the container where the volume appears.",
    "env": "Environment variables, one by one.",
    "envFrom": "Secrets and ConfigMaps whose keys become environment variables.",
    "valueFrom": "Source of the value.",
    "secretKeyRef": "A key of a Secret in the Pod's namespace.",
    "configMapKeyRef": "A key of a ConfigMap in the Pod's namespace.",
    "image": "Image of the container.",
    "imagePullPolicy": "When the image is fetched: Always, IfNotPresent or Never.",
    "command": "Program that replaces the image's entry point.",
    "args": "Arguments of the command.",
    "ports": "The ports that are listened on.",
    "resources": "CPU and memory: what is requested, and the limits.",
    "livenessProbe": "A check that restarts the container when it fails.",
    "readinessProbe": "A check that keeps traffic away while it fails.",
    "startupProbe": "A check that must succeed before the other checks begin.",
    "securityContext": "Users, groups and privileges.",
    "serviceAccountName": "ServiceAccount of the Pod.",
    "nodeSelector": "Labels that a node must have to run the Pod.",
    "restartPolicy": "When containers are started again: Always, OnFailure or Never.",
    "terminationGracePeriodSeconds": "Seconds that a Pod has to end by itself.",
    "schedule": "Times at which Jobs are created, in cron's format.",
    "suspend": "Whether nothing new is started.",
    "parallelism": "Maximum number of Pods at the same time.",
    "completions": "Number of Pods that must succeed.",
    "backoffLimit": "Number of retries of failed Pods.",
    "clusterIP": "Address inside the cluster; None for a headless Service.",
    "verbs": "Allowed verbs: get, list, watch, create, update, patch, delete.",
    "apiGroups": "The API groups of the resources; the empty text is the core group.",
    "resourceNames": "Names of the objects that the rule covers; empty for all.",
    "nonResourceURLs": "Paths that are no resources; for ClusterRoles only.",
    "involvedObject": "The object that the event is about.",
    "regarding": "The object that the event is about.",
    "reason": "Reason in one word, for programs.",
    "message": "Description for people.",
    "note": "Description for people.",
    "holderIdentity": "Identity of the lease's holder.",
    "renewTime": "Time of the last renewal.",
    "leaseDurationSeconds": "Seconds without renewal after which the lease is free.",
    "group": "The API group.",
    "scope": "Namespaced or Cluster.",
    "versions": "The API versions, one of which is stored.",
    "served": "Whether requests for the version are answered.",
    "storage": "Whether objects are stored in this version.",
    "openAPIV3Schema": "Schema of the objects; unspecified fields are removed.",
    "additionalPrinterColumns": "Additional columns of kubectl get.",
    "subresources": "The subresources status and scale.",
}
"""Descriptions by field name, for any message without an own description of it."""
_OWN: Mapping[tuple[str, str], str] = {
    ("Secret", "type"): "Type of the content.",
    ("EnvVar", "name"): "The name of the variable.",
    ("EnvVar", "value"): "The value; $(NAME) stands for a variable before it.",
    ("Container", "name"): "The name of the container, unique in its Pod.",
    ("Volume", "name"): "The name that volumeMounts refer to.",
    ("ServiceSpec", "type"): "ClusterIP, NodePort, LoadBalancer or ExternalName.",
    ("ServiceSpec", "selector"): "Labels of the Pods that get the traffic.",
    (
        "PolicyRule",
        "resources",
    ): "The resources by plural, resource/subresource for a part of one.",
}
"""Descriptions by message and field; they take precedence."""


def describe(message: str, field: str) -> str:
    """Return the description of a field, "" if it has none."""
    return _OWN.get((message, field)) or _TEXTS.get(field, "")


OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_GO_META = "ObjectMeta"
_SCHEMAS: Mapping[str, JSON] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    "items": {"type": "array", "items": {"type": "string"}},
}
"""Schemas of the scalar types."""


def reference(name: str) -> JSON:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def message_components(messages: Iterable[Message]) -> JSON:
    """Return the schemas of all types that these messages contain, without the messages' own."""
    names = {name: None for message in messages for name in _inner(message)}
    waiting = list(names)
    while waiting:
        inner = [name for name in _inner(load().messages[waiting.pop()]) if name not in names]
        names |= dict.fromkeys(inner)
        waiting += inner
    return {_component(name): message_schema(load().messages[name]) for name in sorted(names)}


def _inner(message: Message) -> Iterator[str]:
    for field in message.fields.values():
        if field.type.name in load().messages and field.type.name != _GO_META:
            yield field.type.name


def message_schema(message: Message) -> JSON:
    """Return the schema of one message type."""
    schema: JSON = {
        "type": "object",
        "properties": {
            name: _property(message, field) for name, field in sorted(message.fields.items())
        },
    }
    required = sorted(name for name, field in message.fields.items() if field.required)
    return schema | {"required": required} if required else schema


def _property(message: Message, field: Field) -> JSON:
    text = describe(message.name, field.name)
    schema = _schema(field.type)
    return {**schema, "description": text} if text else schema


def _schema(type_: FieldType) -> JSON:
    if type_.shape == "list":
        return {"type": "array", "items": _value(type_.name)}
    if type_.shape == "map":
        return {"type": "object", "additionalProperties": _value(type_.name)}
    return _value(type_.name)


def _value(name: str) -> JSON:
    if name not in load().messages:
        return dict(_SCHEMAS.get(name, {}))
    # OpenAPI 3.0 ignores members beside $ref, and there is a default; hence allOf with one
    # reference, as in Kubernetes' documents.
    component = OBJECT_META if name == _GO_META else _component(name)
    return {"allOf": [reference(component)], "default": {}}


def _component(name: str) -> str:
    return f"io.k8s.api.{name}"
