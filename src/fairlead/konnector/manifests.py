"""Objects that a cluster needs to run the konnector, with minimal rights.

Rights on bound kinds come with each binding: a ClusterRole labelled
``rbac.kube-bind.io/aggregate-to-konnector: "true"`` that ``fairlead bind`` writes. The konnector
itself can write no RBAC object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fairlead.api import kbind
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


def manifests(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str,
    protocols: Annotated[Sequence[str], ProtocolsFlag] = DEFAULT_PROTOCOLS,
    pods: Pods = DEFAULT_PODS,
) -> list[JSON]:
    """Return all objects to apply, in order.

    Args:
        namespace: the namespace of the konnector and its kubeconfig Secrets.
        image: the image that runs it.
        protocols: protocols that it serves, with commas: v1alpha2, v2; each has rights of its own.
        pods: how many, how large and where; one of them works at a time.

    Raises:
        ValueError: a protocol is not one of these.
    """
    has_v2 = "v2" in protocols
    program = PodProgram(
        name=NAME,
        namespace=namespace,
        image=image,
        command=("konnector", "run"),
        lease=LEASE,
        pods=pods,
        flags=(f"--protocols={','.join(protocols)}",) if has_v2 else (),
    )
    roles = [
        program.cluster_role(f"{ROLE}-controllers", _own_rights(has_v2=has_v2)),
        program.aggregated_role(ROLE, LABEL_AGGREGATE_TO_KONNECTOR),
        program.role(
            "konnector-secrets",
            [
                rule("", ["secrets"], (*READ_VERBS, "create", "update")),
                # kbind v2 has a finalizer on the Secrets of Connections.
                *([rule("", ["secrets"], ("patch",))] if has_v2 else ()),
            ],
        ),
        program.role("konnector-leader-election", program.lease_rules()),
    ]
    bound = [part for role in roles for part in (role, program.bound(role))]
    return [*program.account(), *bound, program.deployment()]


def _own_rights(*, has_v2: bool) -> list[JSON]:
    """Return the rights that do not depend on bindings."""
    bindings, bundles = APISERVICEBINDINGS.plural, APISERVICEBINDINGBUNDLES.plural
    crds = CUSTOMRESOURCEDEFINITIONS
    own = sorted(crd["metadata"]["name"] for crd in consumer_crds())
    return [
        # Bundles create and delete bindings.
        rule(GROUP, [bindings], (*READ_VERBS, "create", "patch", "delete")),
        rule(GROUP, [bundles], READ_VERBS),
        rule(GROUP, [f"{bindings}/status", f"{bundles}/status"], ("patch",)),
        rule(GROUP, [f"{bindings}/finalizers", f"{bundles}/finalizers"], ("update",)),
        # The rights to change and delete a binding's CRDs come with the binding.
        rule(crds.group, [crds.plural], (*READ_VERBS, "create")),
        rule(crds.group, [crds.plural], ("update",), names=own),
        rule("", ["namespaces"], (*READ_VERBS, "create")),
        rule("", ["events"], ("create", "patch")),
        *(_v2_rights() if has_v2 else ()),
    ]


def _v2_rights() -> list[JSON]:
    """Return the rights on the kinds of kbind v2, and on what tells this cluster's identity."""
    kinds = [resource.plural for resource in (CONNECTIONS, CLUSTERBINDINGS, BINDINGS)]
    workspaces, crds = LOGICALCLUSTERS, CUSTOMRESOURCEDEFINITIONS
    own = sorted(crd["metadata"]["name"] for crd in kbind.crds())
    return [
        rule(crds.group, [crds.plural], ("update",), names=own),
        rule(kbind.GROUP, kinds, (*READ_VERBS, "patch")),
        rule(kbind.GROUP, [f"{kind}/status" for kind in kinds], ("patch",)),
        rule(workspaces.group, [workspaces.plural], ("get",), names=[LOGICALCLUSTER_NAME]),
    ]
