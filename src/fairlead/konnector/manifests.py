"""Objects that a cluster needs to run the konnector, with minimal rights.

Rights on bound kinds come with each binding: a ClusterRole labelled
``rbac.kube-bind.io/aggregate-to-konnector: "true"`` that ``fairlead bind`` writes. The konnector
itself can write no RBAC object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fairlead.api import kbind
from fairlead.api.flags import Flag
from fairlead.api.kbind.names import (
    BINDINGS,
    CLUSTERBINDINGS,
    CONNECTIONS,
    LOGICALCLUSTER_NAME,
    LOGICALCLUSTERS,
)
from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    GROUP,
    LABEL_AGGREGATE_TO_KONNECTOR,
    consumer_crds,
)
from fairlead.api.manifests import DEFAULT_PODS, READ_VERBS, PodProgram, Pods, rule
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.konnector.options import DEFAULT_NAMESPACE, DEFAULT_PROTOCOLS, ProtocolsFlag


NAME = "konnector"
"""Name of the ServiceAccount and of the Deployment."""
ROLE = "fairlead-konnector"
LEASE = "kube-bind"
"""Name of the Lease, kube-bind's own, so that both konnectors never work at once."""
_SECRET_VERBS = {"v1alpha2": ("create", "update"), "v2": ("patch",)}
"""Verbs on Secrets beside reading: v1alpha2 fetches kubeconfigs, v2 has finalizers on its own."""


def manifests(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str,
    protocols: Annotated[Sequence[str], ProtocolsFlag] = DEFAULT_PROTOCOLS,
    bound_groups: Annotated[Sequence[str], Flag("--bound-group", "GROUP")] = (),
    pods: Pods = DEFAULT_PODS,
) -> list[JSON]:
    """Return all objects to apply, in order.

    Args:
        namespace: the namespace of the konnector and its kubeconfig Secrets.
        image: the image that runs it.
        protocols: protocols that it serves, separated by commas: v1alpha2, v2; each needs rights
            of its own.
        bound_groups: API group for which the konnector gets rights on all kinds beforehand, or *
            for all groups; may be given several times. Without it `fairlead bind` or `fairlead
            accept` grants the rights for each binding.
        pods: how many, how large and where; one of them works at a time.

    Raises:
        ValueError: a protocol is not one of these.
    """
    program = PodProgram(
        name=NAME,
        namespace=namespace,
        image=image,
        command=("konnector", "run"),
        lease=LEASE,
        pods=pods,
        flags=() if set(protocols) == set(DEFAULT_PROTOCOLS) else (protocols_flag(protocols),),
    )
    roles = [
        program.cluster_role(f"{ROLE}-controllers", _own_rights(protocols)),
        program.aggregated_role(ROLE, LABEL_AGGREGATE_TO_KONNECTOR),
        program.role(
            "konnector-secrets",
            [
                rule("", ["secrets"], READ_VERBS),
                *(rule("", ["secrets"], _SECRET_VERBS[protocol]) for protocol in protocols),
            ],
        ),
        program.role("konnector-leader-election", program.lease_rules()),
    ]
    bound = [part for role in roles for part in (role, program.bound(role))]
    granted = program.cluster_role(
        f"{ROLE}-groups",
        _group_rights(bound_groups),
        labels={LABEL_AGGREGATE_TO_KONNECTOR: "true"},
    )
    return [*program.account(), *bound, *([granted] if bound_groups else ()), program.deployment()]


def protocols_flag(protocols: Sequence[str]) -> str:
    """Return the flag of a konnector that serves these protocols."""
    return f"--protocols={','.join(protocols)}"


def _group_rights(groups: Sequence[str]) -> list[JSON]:
    """Return the rights on all kinds of API groups that a binding may bind."""
    crds = CUSTOMRESOURCEDEFINITIONS
    return [
        *(rule(group, ["*"], (*READ_VERBS, "patch")) for group in groups),
        *(rule(group, ["*/status"], ("update",)) for group in groups),
        rule(crds.group, [crds.plural], ("update", "delete")),
    ]


def _own_rights(protocols: Sequence[str]) -> list[JSON]:
    """Return the rights that do not depend on bindings."""
    crds = CUSTOMRESOURCEDEFINITIONS
    return [
        *(_v1alpha2_rights() if "v1alpha2" in protocols else ()),
        # The rights to change and delete a binding's CRDs come with the binding.
        rule(crds.group, [crds.plural], (*READ_VERBS, "create")),
        rule("", ["namespaces"], (*READ_VERBS, "create")),
        rule("", ["events"], ("create", "patch")),
        *(_v2_rights() if "v2" in protocols else ()),
    ]


def _v1alpha2_rights() -> list[JSON]:
    """Return the rights on the kinds of kube-bind in a consumer's cluster."""
    bindings, bundles = APISERVICEBINDINGS.plural, APISERVICEBINDINGBUNDLES.plural
    return [
        # Bundles create and delete bindings.
        rule(GROUP, [bindings], (*READ_VERBS, "create", "patch", "delete")),
        rule(GROUP, [bundles], READ_VERBS),
        rule(GROUP, [f"{bindings}/status", f"{bundles}/status"], ("patch",)),
        rule(GROUP, [f"{bindings}/finalizers", f"{bundles}/finalizers"], ("update",)),
        _own_crds(consumer_crds()),
    ]


def _v2_rights() -> list[JSON]:
    """Return the rights on the kinds of kbind v2, and on what tells this cluster's identity."""
    kinds = [resource.plural for resource in (CONNECTIONS, CLUSTERBINDINGS, BINDINGS)]
    workspaces = LOGICALCLUSTERS
    return [
        rule(kbind.GROUP, kinds, (*READ_VERBS, "patch")),
        # autoBind creates and deletes one for each Connection.
        rule(kbind.GROUP, [CLUSTERBINDINGS.plural], ("create", "delete")),
        rule(kbind.GROUP, [f"{kind}/status" for kind in kinds], ("patch",)),
        rule(workspaces.group, [workspaces.plural], ("get",), names=[LOGICALCLUSTER_NAME]),
        _own_crds(kbind.crds()),
    ]


def _own_crds(crds: Sequence[JSON]) -> JSON:
    """Return the right to update the CRDs of the konnector's own kinds."""
    resource, names = CUSTOMRESOURCEDEFINITIONS, sorted(crd["metadata"]["name"] for crd in crds)
    return rule(resource.group, [resource.plural], ("update",), names=names)
