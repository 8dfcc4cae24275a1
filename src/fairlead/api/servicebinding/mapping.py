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


class MappingContainer(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A kind of container in the workload; all other paths start at a container."""

    path: Annotated[
        str,
        msgspec.Meta(
            description="JSONPath to the containers, or to fields with the form of a container."
        ),
    ]
    name: Annotated[
        str,
        msgspec.Meta(
            description=(
                "Path of fields to a container's name, such as .name; without it containers have"
                " no names."
            )
        ),
    ] = ""
    env: Annotated[
        str,
        msgspec.Meta(
            description=("Path of fields to a container's environment variables; default .env.")
        ),
    ] = ""
    volume_mounts: Annotated[
        str,
        msgspec.Meta(
            description="Path of fields to a container's volume mounts; default .volumeMounts."
        ),
    ] = ""


class MappingTemplate(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The mapping of one version of the workload's resource."""

    version: Annotated[
        str,
        msgspec.Meta(
            description=(
                "Version of the workload's resource; * stands for every version that is not"
                " listed."
            )
        ),
    ]
    annotations: Annotated[
        str,
        msgspec.Meta(
            description=(
                "Path of fields to the annotations of the Pods; default"
                " .spec.template.metadata.annotations."
            )
        ),
    ] = ""
    containers: Annotated[
        list[MappingContainer], msgspec.Meta(description="The containers of the workload.")
    ] = []
    volumes: Annotated[
        str,
        msgspec.Meta(
            description=(
                "Path of fields to the volumes of the Pods; default .spec.template.spec.volumes."
            )
        ),
    ] = ""


class MappingSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """The mapping for each version."""

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
    """Locates containers of workloads that are not PodSpecable; named ``<plural>.<group>``."""

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
