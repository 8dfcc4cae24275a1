"""Manifests that run the operator in a real cluster, with the least rights."""

from __future__ import annotations

from typing import Annotated

from fairlead.api.flags import Flag
from fairlead.api.manifests import (
    AGGREGATE_TO_ADMIN,
    AGGREGATE_TO_EDIT,
    AGGREGATE_TO_VIEW,
    ALL_VERBS,
    DEFAULT_PODS,
    READ_VERBS,
    PodProgram,
    Pods,
    rule,
)
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES, crds
from fairlead.api.postgresaccess.connection import GROUP
from fairlead.api.postgresaccess.controller import CONTROLLERS
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.postgres.options import DEFAULT_NAMESPACE


NAME = "fairlead-postgres"
AGGREGATE_TO_PROVIDER_LABEL = "rbac.kube-bind.io/aggregate-to-provider"
AGGREGATE_TO_SERVE_LABEL = "rbac.kube-bind.io/aggregate-to-serve"
_RECORDS = rule("", ["configmaps"], ["get", "list", "create", "delete"])
"""The right to keep ConfigMaps about roles that were given up, in the operator's namespace."""
SERVICE_BINDING_LABEL = "servicebinding.io/controller"


def manifests(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str,
    exported: Annotated[bool, Flag()] = False,
    user_roles: Annotated[bool, Flag("--user-roles/--no-user-roles")] = True,
    pods: Pods = DEFAULT_PODS,
) -> list[JSON]:
    """Return all manifests, in the order to apply them.

    Args:
        namespace: the namespace of the operator and of the PostgresServers' credentials.
        image: the container image of the operator.
        exported: let kube-bind's provider offer PostgresAccess.
        user_roles: let people with edit or admin in a namespace write the PostgresAccesses there,
            and so make database logins, and people with view read them.
        pods: number, size and placement of the Pods; one of them works at a time.
    """
    program = PodProgram(
        name=NAME,
        namespace=namespace,
        image=image,
        command=("postgres", "run"),
        lease=NAME,
        pods=pods,
        flags=("--exported",) if exported else (),
    )
    role = program.cluster_role(NAME, _cluster_rules())
    own = program.role(NAME, [*program.lease_rules(), _RECORDS])
    parts = [role, own, program.bound(role), program.bound(own), _service_binding_role(program)]
    if user_roles:
        parts += _user_roles(program)
    if exported:
        parts += [_export_role(program), _shown_role(program)]
    return [*program.account(), *parts, program.deployment()]


def _export_role(program: PodProgram) -> JSON:
    """Return the role of the rights on PostgresAccess that the provider gets by aggregation."""
    rules = [rule(GROUP, [POSTGRESACCESSES.plural], ALL_VERBS)]
    labels = {AGGREGATE_TO_PROVIDER_LABEL: "true"}
    return program.cluster_role(f"{NAME}-export", rules, labels=labels)


def _shown_role(program: PodProgram) -> JSON:
    """Return the role by which the front door shows accesses to users who may see them."""
    rules = [rule(GROUP, [POSTGRESACCESSES.plural], READ_VERBS)]
    labels = {AGGREGATE_TO_SERVE_LABEL: "true"}
    return program.cluster_role(f"{NAME}-shown", rules, labels=labels)


def _user_roles(program: PodProgram) -> list[JSON]:
    """Return the roles that add rights on PostgresAccess to ``edit``, ``admin`` and ``view``.

    PostgresServers and Controllers are the platform team's: they name credentials and policies.
    """
    verbs = {"edit": ALL_VERBS, "view": READ_VERBS}
    labels = {"edit": (AGGREGATE_TO_EDIT, AGGREGATE_TO_ADMIN), "view": (AGGREGATE_TO_VIEW,)}
    return [
        program.cluster_role(
            f"{NAME}-{who}",
            [rule(GROUP, [POSTGRESACCESSES.plural], verbs[who])],
            labels=dict.fromkeys(labels[who], "true"),
        )
        for who in verbs
    ]


def _service_binding_role(program: PodProgram) -> JSON:
    """Return the role of service-binding controllers, which read a Provisioned Service."""
    rules = [rule(GROUP, [POSTGRESACCESSES.plural], READ_VERBS)]
    labels = {SERVICE_BINDING_LABEL: "true"}
    return program.cluster_role(f"{NAME}-servicebinding", rules, labels=labels)


def _cluster_rules() -> list[JSON]:
    """Return the operator's rules; Secrets of tenants are in all namespaces."""
    own_crds = [crd["metadata"]["name"] for crd in crds()]
    accesses, servers = POSTGRESACCESSES.plural, POSTGRESSERVERS.plural
    controllers = CONTROLLERS.plural
    statuses = [f"{one}/status" for one in (accesses, servers, controllers)]
    definitions = ("apiextensions.k8s.io", ["customresourcedefinitions"])
    return [
        rule(GROUP, [accesses], (*READ_VERBS, "patch")),
        rule(GROUP, [servers, controllers], READ_VERBS),
        rule(GROUP, statuses, ["patch"]),
        rule(GROUP, [f"{accesses}/finalizers"], ["update"]),
        rule("", ["secrets"], (*READ_VERBS, "create", "patch", "delete")),
        rule("", ["namespaces"], READ_VERBS),
        rule("", ["events"], ["create", "patch"]),
        rule(*definitions, (*READ_VERBS, "create")),
        rule(*definitions, ["update"], names=own_crds),
    ]
