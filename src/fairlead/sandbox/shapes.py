"""The types of what the control plane itself reads in built-in kinds; the rest may be anything.

A typed server refuses a body whose members have wrong types before it looks at their values.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON


class Shape(msgspec.Struct, rename="camel"):
    """Members that may be missing; null counts as missing."""


class WithSpec(Shape):
    """A spec and a status that are objects."""

    spec: JSON | None = None
    status: JSON | None = None


class ConfigMap(Shape):
    """ConfigMaps; their strategy names the key of a value that is no text."""

    immutable: bool | None = None


class Secret(Shape):
    """Secrets; their strategy names the key of a value that is no text."""

    type: str | None = None
    immutable: bool | None = None


class _Labels(Shape):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Container(Shape):
    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[JSON] | None = None
    volume_mounts: list[JSON] | None = None


class _PodSpec(Shape):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    volumes: list[JSON] | None = None
    service_account_name: str | None = None
    node_name: str | None = None


class _Template(Shape):
    metadata: _Labels | None = None
    spec: _PodSpec | None = None


class _Selector(Shape):
    match_labels: dict[str, str] | None = None
    match_expressions: list[JSON] | None = None


class _WorkloadSpec(Shape):
    replicas: int | None = None
    selector: _Selector | None = None
    template: _Template | None = None


class Workload(Shape):
    """Kinds that make Pods."""

    spec: _WorkloadSpec | None = None
    status: JSON | None = None


class Pod(Shape):
    """Pods."""

    spec: _PodSpec | None = None
    status: JSON | None = None


class _Port(Shape):
    name: str | None = None
    port: int | None = None
    protocol: str | None = None
    target_port: int | str | None = None


class _ServiceSpec(Shape):
    type: str | None = None
    selector: dict[str, str] | None = None
    ports: list[_Port] | None = None


class Service(Shape):
    """Services."""

    spec: _ServiceSpec | None = None
    status: JSON | None = None


class _NamespaceSpec(Shape):
    finalizers: list[str] | None = None


class Namespace(Shape):
    """Namespaces."""

    spec: _NamespaceSpec | None = None
    status: JSON | None = None


class _Rule(Shape):
    verbs: list[str] | None = None
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    non_resource_urls: list[str] | None = msgspec.field(name="nonResourceURLs", default=None)


class _Aggregation(Shape):
    cluster_role_selectors: list[_Selector] | None = None


class Role(Shape):
    """Roles and ClusterRoles."""

    rules: list[_Rule] | None = None
    aggregation_rule: _Aggregation | None = None


class _Reference(Shape):
    kind: str = ""
    name: str = ""
    api_group: str | None = None
    namespace: str | None = None


class Binding(Shape):
    """RoleBindings and ClusterRoleBindings."""

    subjects: list[_Reference] | None = None
    role_ref: _Reference | None = None


class Account(Shape):
    """ServiceAccounts."""

    secrets: list[JSON] | None = None
    image_pull_secrets: list[JSON] | None = None
    automount_service_account_token: bool | None = None


class _EventObject(Shape):
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None


class Event(Shape):
    """Events, in the form of either group."""

    involved_object: _EventObject | None = None
    regarding: _EventObject | None = None
    source: JSON | None = None
    series: JSON | None = None
    reason: str | None = None
    message: str | None = None
    note: str | None = None
    type: str | None = None


class _Schema(Shape):
    type: str | None = None
    format: str | None = None
    pattern: str | None = None
    description: str | None = None
    title: str | None = None
    nullable: bool | None = None
    unique_items: bool | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    properties: dict[str, _Schema] | None = None
    items: _Schema | None = None
    additional_properties: bool | _Schema | None = None
    all_of: list[_Schema] | None = None
    any_of: list[_Schema] | None = None
    one_of: list[_Schema] | None = None
    not_: _Schema | None = msgspec.field(name="not", default=None)
    list_type: str | None = msgspec.field(name="x-kubernetes-list-type", default=None)
    map_type: str | None = msgspec.field(name="x-kubernetes-map-type", default=None)
    list_keys: list[str] | None = msgspec.field(name="x-kubernetes-list-map-keys", default=None)
    int_or_string: bool | None = msgspec.field(name="x-kubernetes-int-or-string", default=None)
    embedded: bool | None = msgspec.field(name="x-kubernetes-embedded-resource", default=None)
    preserve: bool | None = msgspec.field(
        name="x-kubernetes-preserve-unknown-fields", default=None
    )
    rules: list[JSON] | None = msgspec.field(name="x-kubernetes-validations", default=None)


class _Validation(Shape):
    schema: _Schema | None = msgspec.field(name="openAPIV3Schema", default=None)


class _Scale(Shape):
    spec_replicas_path: str | None = None
    status_replicas_path: str | None = None
    label_selector_path: str | None = None


class _Subresources(Shape):
    status: JSON | None = None
    scale: _Scale | None = None


class _Column(Shape):
    name: str | None = None
    type: str | None = None
    json_path: str | None = None
    description: str | None = None
    format: str | None = None
    priority: int | None = None


class _CrdVersion(Shape):
    name: str = ""
    served: bool = False
    storage: bool = False
    schema: _Validation | None = None
    subresources: _Subresources | None = None
    additional_printer_columns: list[_Column] | None = None
    deprecated: bool | None = None
    deprecation_warning: str | None = None


class _CrdNames(Shape):
    plural: str = ""
    singular: str | None = None
    kind: str = ""
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _CrdSpec(Shape):
    group: str = ""
    scope: str = ""
    names: _CrdNames | None = None
    versions: list[_CrdVersion] | None = None
    conversion: JSON | None = None
    preserve_unknown_fields: bool | None = None


class Crd(Shape):
    """CustomResourceDefinitions."""

    spec: _CrdSpec | None = None
    status: JSON | None = None


def misfit(shape: type[Shape], body: JSON) -> str:
    """Where and how a body does not fit, "" when it does."""
    value: Any = {name: member for name, member in body.items() if name != "metadata"}
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        return str(error).replace("$.", "")
    return ""
