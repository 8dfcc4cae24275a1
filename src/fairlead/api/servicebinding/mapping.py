"""``ClusterWorkloadResourceMapping``: where a kind of workload keeps its containers and volumes.

Service Binding specification 1.1, "Workload Resource Mapping". Defaults are per field: a mapping
without containers has those of a PodSpecable workload.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairlead.api.crd import AGE, build_crd
from fairlead.api.meta import JSON, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.common import spec_versions, validations


CLUSTERWORKLOADRESOURCEMAPPINGS = Resource(
    "servicebinding.io",
    "v1",
    "clusterworkloadresourcemappings",
    "ClusterWorkloadResourceMapping",
    namespaced=False,
)

FixedPath = Annotated[str, msgspec.Meta(description="A JSONPath of field steps alone.")]


class MappingContainer(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """One kind of container-like fragment; the fixed paths are relative to each fragment."""

    path: Annotated[str, msgspec.Meta(description="JSONPath of the container-like fragments.")]
    name: FixedPath = ""
    env: FixedPath = ""
    volume_mounts: FixedPath = ""


class MappingTemplate(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The mapping of one version of the workload's resource; ``*`` is any version not listed."""

    version: Annotated[
        str,
        msgspec.Meta(
            description="Version of the workload's resource; * is any that is not listed."
        ),
    ]
    annotations: FixedPath = ""
    containers: Annotated[
        list[MappingContainer], msgspec.Meta(description="Where containers are.")
    ] = []
    volumes: FixedPath = ""


class MappingSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """One template per version."""

    versions: Annotated[
        list[MappingTemplate], msgspec.Meta(description="One mapping for each version.")
    ] = []


_RULES = validations(
    (
        # More, such as versions that are there twice, costs more than servers allow.
        "self == oldSelf || !has(self.versions) || self.versions.all(v, v.version != '')",
        "a version is blank: name a version, or * for all others",
    )
)


class ClusterWorkloadResourceMapping(msgspec.Struct, rename="camel", omit_defaults=True):
    """Maps a workload that is not PodSpecable; named ``<plural>.<group>`` of the workload."""

    api_version: str = CLUSTERWORKLOADRESOURCEMAPPINGS.api_version
    kind: str = CLUSTERWORKLOADRESOURCEMAPPINGS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: Annotated[MappingSpec, msgspec.Meta(extra_json_schema=_RULES)] = msgspec.field(
        default_factory=MappingSpec
    )


def mapping_name(resource: Resource) -> str:
    """Return the name of the mapping for a workload's resource; core kinds have no group in it."""
    return resource.group_resource


def mapping_crd() -> JSON:
    """Return the CRD of ClusterWorkloadResourceMapping."""
    return build_crd(
        CLUSTERWORKLOADRESOURCEMAPPINGS,
        spec_versions(ClusterWorkloadResourceMapping, columns=(AGE,), status=False),
    )
