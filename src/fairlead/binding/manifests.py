"""Manifests of the binding controllers with the least rights.

Rights on services and workloads reach the controllers by aggregation: the owner of a kind also
creates a ClusterRole labelled ``servicebinding.io/controller: "true"`` (specification 1.1, RBAC).
The rights on the workloads of ``apps`` are in such a role, which can be left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Annotated

from fairlead.api.flags import Flag
from fairlead.api.manifests import (
    AGGREGATE_TO_EDIT,
    AGGREGATE_TO_VIEW,
    ALL_VERBS,
    DEFAULT_PODS,
    RBAC_GROUP,
    READ_VERBS,
    PodProgram,
    Pods,
    rule,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import WEBHOOKCONFIGURATIONS
from fairlead.api.servicebinding.common import CONTROLLER_LABEL
from fairlead.api.servicebinding.coreos import BINDABLEKINDS
from fairlead.binding.admission import names
from fairlead.binding.options import DEFAULT_NAMESPACE, PROJECTOR, WEBHOOKS, CrossNamespace
from fairlead.binding.rights import BINDING_GROUPS, controller_rules


NAME = names.NAME
_PLURAL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_GROUP = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_CORE = frozenset({"pods", "podtemplates", "replicationcontrollers"})
"""Plurals of workloads in the core group."""
_GROUPS = {
    **dict.fromkeys(("daemonsets", "deployments", "replicasets", "statefulsets"), "apps"),
    **dict.fromkeys(("cronjobs", "jobs"), "batch"),
}
"""API groups of workloads, for a hint if the group is omitted."""
_ADMISSION = "admissionregistration.k8s.io"
_AGGREGATED = "service-binding-controller-role"
"""Name of the aggregated ClusterRole, as in other implementations, for grants and audits."""


def manifests(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str,
    pods: Pods = DEFAULT_PODS,
    cross_namespace: Annotated[CrossNamespace, Flag()] = "false",
    denied_requesters: Annotated[
        Sequence[str], Flag("--cross-namespace-denied-requesters", "NAME")
    ] = (),
    webhooks: Annotated[bool, Flag()] = False,
    fail_open: Annotated[Collection[str], Flag(choices=WEBHOOKS)] = (),
    projected: Annotated[Collection[str], Flag("--project", "PLURAL.GROUP")] = (),
    fail_closed: Annotated[bool, Flag(default=None, parse=bool, choices=(PROJECTOR,))] = False,
) -> list[JSON]:
    """Return all manifests in order.

    Args:
        namespace: the controllers' namespace.
        image: the container image.
        pods: number, resources and placement of Pods; one is the leader, and all serve
            webhooks.
        cross_namespace: whether bindings may name services of other namespaces: never, if the
            requester may read the service (which needs --webhooks), or always.
        denied_requesters: requester, a user or group, that --cross-namespace requester does not
            allow; default: service accounts of other namespaces. May be given several times.
        webhooks: serve admission webhooks, and let API servers call them.
        fail_open: let writes go on while this webhook cannot be reached.
        projected: bind workloads of this resource, such as jobs.batch, when they are created;
            needs --webhooks.
        fail_closed: refuse workloads to be bound while this webhook cannot be reached.

    Raises:
        ValueError: one of ``projected`` is not a resource.
    """
    kinds = [resource_of(name) for name in projected]
    named = (
        *((f"--cross-namespace={cross_namespace}",) if cross_namespace != "false" else ()),
        *(f"--cross-namespace-denied-requesters={name}" for name in denied_requesters),
    )
    flags = (
        (
            f"--webhooks-bind-address=0.0.0.0:{names.PORT}",
            f"--webhooks-host={names.host(namespace)}",
            *(f"--fail-open={name}" for name in fail_open),
            *(f"--project={name}" for name in projected),
            *((f"--fail-closed={PROJECTOR}",) if fail_closed else ()),
        )
        if webhooks
        else ()
    )
    program = _program(namespace, image, pods, (*flags, *named))
    rules = [*controller_rules(), *([_bundle_rule()] if webhooks else [])]
    own = program.cluster_role(f"{NAME}-controllers", rules)
    bound = program.aggregated_role(_AGGREGATED, CONTROLLER_LABEL)
    binding = program.bound(bound)
    binding["metadata"] = program.meta(f"{_AGGREGATED.removesuffix('role')}rolebinding")
    election = program.role(f"{NAME}-leader-election", program.lease_rules())
    return [
        *program.account(),
        *(own, program.bound(own)),
        *(bound, binding),
        *_user_roles(program),
        controller_role(f"{NAME}-workloads", _workload_rules()),
        *_projected_role(kinds),
        *(election, program.bound(election)),
        _deployment(program, webhooks=webhooks),
        *(_webhooks(program) if webhooks else ()),
    ]


def resource_of(text: str) -> tuple[str, str]:
    """Parse a ``plural.group``; the core group is ""."""
    plural, _, group = text.partition(".")
    if not _PLURAL.fullmatch(plural) or (group and not _GROUP.fullmatch(group)):
        raise ValueError(f"--project {text}: name a resource as plural.group, or plural for core")
    if not group and plural not in _CORE:
        raise ValueError(
            f"--project {text}: did you mean {plural}.{_GROUPS[plural]}?"
            if plural in _GROUPS
            else f"--project {text}: the core group has no such workloads: name the resource as "
            "plural.group, such as jobs.batch"
        )
    return plural, group


def _projected_role(kinds: Collection[tuple[str, str]]) -> list[JSON]:
    """Return the ClusterRole to watch workloads of these kinds and to remove their projections.

    The projector binds them on creation. Without kinds no role is returned.
    """
    verbs = (*READ_VERBS, "update", "patch")
    rules = [rule(group, [plural], verbs) for plural, group in kinds]
    return [controller_role(f"{NAME}-projected", rules)] if rules else []


def _bundle_rule() -> JSON:
    """Return the rule to register the webhooks in their configurations."""
    resources = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    return rule(_ADMISSION, resources, (*READ_VERBS, "patch"), names=[NAME])


def _deployment(program: PodProgram, *, webhooks: bool) -> JSON:
    deployment = program.deployment()
    if webhooks:
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["ports"].append({"name": "webhooks", "containerPort": names.PORT})
    return deployment


def _webhooks(program: PodProgram) -> list[JSON]:
    """Return the Service, and the configurations in which the program registers its webhooks."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": program.meta(names.SERVICE, namespaced=True),
        "spec": {
            "selector": program.meta()["labels"],
            "ports": [{"name": "webhooks", "port": 443, "targetPort": "webhooks"}],
        },
    }
    configurations = [
        {
            "apiVersion": f"{_ADMISSION}/v1",
            "kind": resource.kind,
            "metadata": program.meta(NAME),
        }
        for resource in WEBHOOKCONFIGURATIONS
    ]
    return [service, *configurations]


def _user_roles(program: PodProgram) -> list[JSON]:
    """Return the roles that add rights on bindings to ``edit`` and ``view``."""
    verbs = {"editor": ALL_VERBS, "viewer": READ_VERBS}
    labels = {"editor": AGGREGATE_TO_EDIT, "viewer": AGGREGATE_TO_VIEW}
    return [
        program.cluster_role(
            f"service-binding-{who}-role",
            [rule(group, ["servicebindings"], verbs[who]) for group in BINDING_GROUPS],
            labels={labels[who]: "true"},
        )
        for who in verbs
    ] + _bindable_kinds_roles(program)


def _bindable_kinds_roles(program: PodProgram) -> list[JSON]:
    """Return the roles that let all authenticated users read the bindable kinds."""
    role = program.cluster_role(
        "service-binding-bindablekinds-viewer-role",
        [rule(BINDABLEKINDS.group, [BINDABLEKINDS.plural], READ_VERBS)],
        labels={AGGREGATE_TO_VIEW: "true"},
    )
    binding = program.bound(role)
    binding["metadata"] = program.meta("service-binding-bindablekinds-viewer-rolebinding")
    group = {"kind": "Group", "apiGroup": RBAC_GROUP, "name": "system:authenticated"}
    return [role, {**binding, "subjects": [group]}]


def controller_role(name: str, rules: list[JSON]) -> JSON:
    """Return a ClusterRole that is aggregated to every Service Binding controller."""
    return _program().cluster_role(name, rules, labels={CONTROLLER_LABEL: "true"})


def _program(
    namespace: str = DEFAULT_NAMESPACE,
    image: str = "",
    pods: Pods = DEFAULT_PODS,
    flags: tuple[str, ...] = (),
) -> PodProgram:
    return PodProgram(
        name=NAME,
        namespace=namespace,
        image=image,
        command=("binding", "run"),
        lease=NAME,
        pods=pods,
        flags=flags,
    )


def _workload_rules() -> list[JSON]:
    verbs = (*READ_VERBS, "update", "patch")
    apps = ["deployments", "statefulsets", "daemonsets", "replicasets"]
    return [
        rule("apps", apps, verbs),
        # They show which former Secrets are still read.
        rule("apps", ["controllerrevisions"], READ_VERBS),
        rule("batch", ["jobs"], READ_VERBS),
        rule("batch", ["cronjobs"], verbs),
    ]
