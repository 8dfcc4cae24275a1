"""Objects that a cluster needs to run the konnector, with minimal rights.

Rights on bound kinds come with each binding: a ClusterRole labelled
``rbac.kube-bind.io/aggregate-to-konnector: "true"`` that ``fairlead bind`` writes. The konnector
itself can write no RBAC object.
"""

from __future__ import annotations

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
from fairlead.konnector.options import DEFAULT_NAMESPACE


NAME = "konnector"
"""Name of the ServiceAccount and of the Deployment."""
ROLE = "fairlead-konnector"
LEASE = "kube-bind"
"""Name of the Lease, kube-bind's own, so that both konnectors never work at once."""


def manifests(
    *, namespace: str = DEFAULT_NAMESPACE, image: str, pods: Pods = DEFAULT_PODS
) -> list[JSON]:
    """Return all objects to apply, in order.

    Args:
        namespace: the namespace of the konnector and its kubeconfig Secrets.
        image: the image that runs it.
        pods: how many, how large and where; one of them works at a time.
    """
    program = PodProgram(
        name=NAME,
        namespace=namespace,
        image=image,
        command=("konnector", "run"),
        lease=LEASE,
        pods=pods,
    )
    roles = [
        program.cluster_role(f"{ROLE}-controllers", _own_rights()),
        program.aggregated_role(ROLE, LABEL_AGGREGATE_TO_KONNECTOR),
        program.role(
            "konnector-secrets", [rule("", ["secrets"], (*READ_VERBS, "create", "update"))]
        ),
        program.role("konnector-leader-election", program.lease_rules()),
    ]
    bound = [part for role in roles for part in (role, program.bound(role))]
    return [*program.account(), *bound, program.deployment()]


def _own_rights() -> list[JSON]:
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
    ]
