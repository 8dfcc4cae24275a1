"""Objects that a cluster needs to run the provider's controllers, with minimal rights.

A server refuses to hand out rights that the writer does not hold. Beside a fixed ClusterRole the
provider therefore has an aggregated one: the provider of a kind also creates a ClusterRole
labelled ``rbac.kube-bind.io/aggregate-to-provider: "true"`` that holds all verbs on it. Another
one, labelled ``rbac.kube-bind.io/aggregate-to-serve: "true"``, lets the front door read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fairlead.api.flags import Flag
from fairlead.api.kubebind import (
    BINDER_NAME,
    CLAIMABLE,
    GROUP,
    LABEL_AGGREGATE_TO_PARENT,
    LABEL_AGGREGATE_TO_PROVIDER,
    LABEL_AGGREGATE_TO_SERVE,
    provider_crds,
)
from fairlead.api.manifests import (
    ALL_VERBS,
    DEFAULT_PODS,
    RBAC_GROUP,
    READ_VERBS,
    PodProgram,
    Pods,
    rule,
)
from fairlead.api.meta import JSON
from fairlead.provider.credentials import binder_cluster_role
from fairlead.provider.options import DEFAULT_NAMESPACE, check_external_address


NAME = "fairlead-provider"
SERVE = "fairlead-serve"
"""Name of the front door's program and ServiceAccount."""
DEFAULT_CLAIMS = ("secrets",)
"""Core resources that consumers may claim, if no flag names others."""


def manifests(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str,
    exports: Annotated[Sequence[str], Flag("--export", "PLURAL.GROUP")] = (),
    claims: Annotated[Sequence[str], Flag("--claim", "PLURAL", ())] = DEFAULT_CLAIMS,
    invitations: Annotated[bool, Flag()] = False,
    external_address: Annotated[str, Flag(metavar="URL")] = "",
    pods: Pods = DEFAULT_PODS,
) -> list[JSON]:
    """Return all objects to apply, in order.

    Args:
        namespace: the controllers' namespace.
        image: the image that runs them.
        exports: resource that the provider may offer; adds the rights on it. May be given several
            times.
        claims: core resource that exports may claim; may be given several times.
            Default: secrets.
        invitations: let it answer BindableResourcesRequests, which serve needs; its rights are
            then those of an administrator.
        external_address: address of this cluster's API server for consumers that bind through the
            front door, https://...
        pods: how many, how large and where; one of them works at a time.

    Raises:
        ValueError: an export has no group, a claim is for what cannot be claimed, or the address
            is no https URL.
    """
    program = _program(namespace, image, pods, external_address)
    controllers = program.cluster_role(f"{NAME}-controllers", _controller_rules())
    handed_out = program.aggregated_role(NAME, LABEL_AGGREGATE_TO_PROVIDER)
    election = program.role(f"{NAME}-leader-election", program.lease_rules())
    return [
        *program.account(),
        *(controllers, program.bound(controllers)),
        *(handed_out, program.bound(handed_out)),
        *export_roles(exports, claims=claims),
        *shown_roles(exports),
        *(_bound(program, invitation_role()) if invitations else ()),
        binder_cluster_role(),
        program.aggregated_role(f"{BINDER_NAME}-exports", LABEL_AGGREGATE_TO_PARENT),
        *(election, program.bound(election)),
        program.deployment(),
    ]


def _program(
    namespace: str = DEFAULT_NAMESPACE,
    image: str = "",
    pods: Pods = DEFAULT_PODS,
    external_address: str = "",
) -> PodProgram:
    address = check_external_address(external_address)
    return PodProgram(
        name=NAME,
        namespace=namespace,
        image=image,
        command=("provider", "run"),
        lease=NAME,
        pods=pods,
        flags=(f"--external-address={address}",) if address else (),
    )


def export_roles(exports: Sequence[str], *, claims: Sequence[str] = DEFAULT_CLAIMS) -> list[JSON]:
    """Return the labelled ClusterRoles that let the provider hand out rights on exported kinds.

    One for each export and claim, so that applying those of another export takes nothing away.

    Raises:
        ValueError: an export has no group, or a claim is for what cannot be claimed.
    """
    roles: list[JSON] = []
    part = partial(_program().cluster_role, labels={LABEL_AGGREGATE_TO_PROVIDER: "true"})
    for export in exports:
        plural, group = _named(export)
        roles.append(part(f"{NAME}-export-{export}", [rule(group, [plural], ALL_VERBS)]))
    if exports:
        for claim in claims:
            if claim not in CLAIMABLE:
                allowed = ", ".join(sorted(CLAIMABLE))
                raise ValueError(f"cannot claim {claim!r}: only {allowed} can be claimed")
            roles.append(part(f"{NAME}-claim-{claim}", [rule("", [claim], ALL_VERBS)]))
    return roles


def shown_roles(exports: Sequence[str]) -> list[JSON]:
    """Return the labelled ClusterRoles that let the front door show objects of exported kinds.

    It reads them, and the Events about them, and can write none. Without them its pages say that
    they are missing.

    Raises:
        ValueError: an export has no group.
    """
    part = partial(_program().cluster_role, labels={LABEL_AGGREGATE_TO_SERVE: "true"})
    roles: list[JSON] = []
    for export in exports:
        plural, group = _named(export)
        roles.append(part(f"{SERVE}-export-{export}", [rule(group, [plural], READ_VERBS)]))
    if roles:
        roles.append(part(f"{SERVE}-events", [rule("", ["events"], READ_VERBS)]))
    return roles


def _named(export: str) -> tuple[str, str]:
    """Split an export into plural and group.

    Raises:
        ValueError: the export has no group.
    """
    plural, dot, group = export.partition(".")
    if not (plural and dot and group):
        raise ValueError(f"export {export!r} has to be PLURAL.GROUP, such as widgets.x.org")
    return plural, group


def invitation_role() -> JSON:
    """Return the ClusterRole for answering BindableResourcesRequests.

    It can read and write Secrets in all namespaces, tokens of any ServiceAccount among them, and
    has the rights of invited consumers. That is an administrator's power; a provider that invites
    by ``fairlead provider invite`` alone does without.
    """
    role = _program().cluster_role(
        f"{NAME}-invitations",
        [
            *binder_cluster_role()["rules"],
            rule("", ["secrets"], ("create", "patch")),
            rule("", ["serviceaccounts"], ("get", "create")),
            rule("", ["namespaces"], ("patch",)),
            rule(GROUP, ["clusterbindings"], ("create", "patch")),
        ],
    )
    role["metadata"]["annotations"] = {
        "kubernetes.io/description": (
            "Lets the provider answer BindableResourcesRequests: create cluster namespaces, "
            "ServiceAccounts and their tokens. A program that may create Secrets in all "
            "namespaces can act as any ServiceAccount, so these are an administrator's rights. "
            "Not needed if people invite with `fairlead provider invite`."
        )
    }
    return role


def _bound(program: PodProgram, role: JSON) -> tuple[JSON, JSON]:
    return role, program.bound(role)


def _controller_rules() -> list[JSON]:
    status = [
        f"{plural}/status"
        for plural in (
            *("apiserviceexportrequests", "apiserviceexports"),
            *("apiservicenamespaces", "clusterbindings", "bindableresourcesrequests"),
        )
    ]
    own_crds = sorted(crd["metadata"]["name"] for crd in provider_crds())
    return [
        rule(GROUP, ["apiserviceexportrequests", "clusterbindings"], READ_VERBS),
        rule(GROUP, ["apiserviceexports", "boundschemas"], (*READ_VERBS, "create", "patch")),
        rule(GROUP, ["apiservicenamespaces"], (*READ_VERBS, "create", "patch")),
        rule(GROUP, ["apiserviceexporttemplates"], READ_VERBS),
        rule(GROUP, ["bindableresourcesrequests"], (*READ_VERBS, "delete")),
        rule(GROUP, status, ("patch",)),
        # Exports own their BoundSchemas with blockOwnerDeletion, for which the admission plugin
        # OwnerReferencesPermissionEnforcement asks for this right.
        rule(GROUP, ["apiserviceexports/finalizers"], ("update",)),
        rule("", ["namespaces"], (*READ_VERBS, "create", "delete")),
        rule("", ["events"], ("create", "patch")),
        # Without the verbs escalate and bind, a server lets a writer grant only rights that it has
        # itself: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping.
        rule(
            RBAC_GROUP,
            ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
            (*READ_VERBS, "create", "patch", "delete"),
        ),
        # RBAC cannot allow creating by name, since the server does not know the name when it
        # authorises. Changing CRDs is held to our own.
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], (*READ_VERBS, "create")),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], ("update",), names=own_crds),
    ]
