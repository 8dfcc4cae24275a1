"""The table of built-in resources."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.api import resource as names
from fairlead.api.resource import Resource
from fairlead_sandbox.builtin import columns, events
from fairlead_sandbox.builtin.networking import (
    INGRESSCLASSES,
    INGRESSES,
    NETWORKPOLICIES,
    IngressClassStrategy,
    IngressStrategy,
    NetworkPolicyStrategy,
)
from fairlead_sandbox.builtin.rbac import RoleBindingStrategy, RoleStrategy
from fairlead_sandbox.builtin.services import ServiceStrategy
from fairlead_sandbox.builtin.strategies import (
    AccountStrategy,
    ConfigMapStrategy,
    EndpointsStrategy,
    LeaseStrategy,
    NamespaceStrategy,
    SecretStrategy,
    WithSpec,
)
from fairlead_sandbox.builtin.webhooks import (
    MUTATINGWEBHOOKCONFIGURATIONS,
    VALIDATINGWEBHOOKCONFIGURATIONS,
    WebhookStrategy,
)
from fairlead_sandbox.builtin.workloads import (
    CronJobStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    JobStrategy,
    PodStrategy,
    ReplicaStrategy,
    StatefulSetStrategy,
)
from fairlead_sandbox.resources.columns import Column
from fairlead_sandbox.resources.types import ALL_VERBS, ResourceType, Scale, Strategy


_EVENTS_V1 = Resource("events.k8s.io", "v1", "events", "Event")
_REPLICAS = Scale(("spec", "replicas"), ("status", "replicas"), ("spec", "selector"))
"""Paths behind the scale subresource of workloads."""


def _type(
    resource: Resource,
    strategy: Strategy,
    *,
    short: Sequence[str] = (),
    columns: Sequence[Column] = (),
    categories: Sequence[str] = (),
    subresources: Sequence[str] | None = None,
    scale: Scale | None = None,
    verbs: Sequence[str] = ALL_VERBS,
) -> ResourceType:
    if subresources is None:
        subresources = ("status",) if strategy.status else ()
    if scale is not None:
        subresources = (*subresources, "scale")
    return ResourceType(
        resource=resource,
        singular=resource.kind.lower(),
        collection=resource.group_resource,
        strategy=strategy,
        list_kind=f"{resource.kind}List",
        short_names=short,
        categories=categories,
        subresources=subresources,
        columns=columns,
        scale=scale,
        verbs=verbs,
    )


def _core() -> list[ResourceType]:
    every = ("all",)
    return [
        _type(
            names.NAMESPACES,
            NamespaceStrategy(),
            short=["ns"],
            columns=columns.NAMESPACE,
            subresources=("status", "finalize"),
            # kube-apiserver has no deletecollection of namespaces.
            verbs=[verb for verb in ALL_VERBS if verb != "deletecollection"],
        ),
        _type(names.NODES, WithSpec(), short=["no"]),
        _type(names.SECRETS, SecretStrategy(), columns=columns.SECRET),
        _type(names.CONFIGMAPS, ConfigMapStrategy(), short=["cm"], columns=columns.CONFIGMAP),
        _type(
            names.SERVICEACCOUNTS,
            AccountStrategy(),
            short=["sa"],
            columns=columns.SERVICEACCOUNT,
            subresources=("token",),
        ),
        _type(
            names.SERVICES,
            ServiceStrategy(),
            short=["svc"],
            columns=columns.SERVICE,
            categories=every,
        ),
        _type(names.ENDPOINTS, EndpointsStrategy(), short=["ep"]),
        _type(names.PODS, PodStrategy(), short=["po"], columns=columns.POD, categories=every),
        _type(names.EVENTS, events.EventStrategy(), short=["ev"], columns=columns.EVENT),
    ]


def _workloads() -> list[ResourceType]:
    every = ("all",)
    return [
        _type(
            names.DEPLOYMENTS,
            DeploymentStrategy(),
            short=["deploy"],
            columns=columns.DEPLOYMENT,
            categories=every,
            scale=_REPLICAS,
        ),
        _type(
            names.STATEFULSETS,
            StatefulSetStrategy(),
            short=["sts"],
            columns=columns.STATEFULSET,
            categories=every,
            scale=_REPLICAS,
        ),
        _type(
            names.DAEMONSETS,
            DaemonSetStrategy(),
            short=["ds"],
            columns=columns.DAEMONSET,
            categories=every,
        ),
        _type(
            names.REPLICASETS,
            ReplicaStrategy(),
            short=["rs"],
            columns=columns.REPLICASET,
            categories=every,
            scale=_REPLICAS,
        ),
        _type(names.JOBS, JobStrategy(), columns=columns.JOB, categories=every),
        _type(
            names.CRONJOBS,
            CronJobStrategy(),
            short=["cj"],
            columns=columns.CRONJOB,
            categories=every,
        ),
    ]


def builtin_types() -> list[ResourceType]:
    """Return every built-in resource but CustomResourceDefinitions (``controllers.crds``)."""
    events_v1 = _type(_EVENTS_V1, events.EventStrategy(), short=["ev"], columns=columns.EVENT)
    return [
        *_core(),
        events.mirror(events_v1),
        *_workloads(),
        _type(INGRESSES, IngressStrategy(), short=["ing"], columns=columns.INGRESS),
        _type(
            NETWORKPOLICIES,
            NetworkPolicyStrategy(),
            short=["netpol"],
            columns=columns.NETWORKPOLICY,
        ),
        _type(INGRESSCLASSES, IngressClassStrategy(), columns=columns.INGRESSCLASS),
        _type(
            MUTATINGWEBHOOKCONFIGURATIONS,
            WebhookStrategy(mutating=True),
            categories=("api-extensions",),
            columns=columns.WEBHOOKCONFIGURATION,
        ),
        _type(
            VALIDATINGWEBHOOKCONFIGURATIONS,
            WebhookStrategy(mutating=False),
            categories=("api-extensions",),
            columns=columns.WEBHOOKCONFIGURATION,
        ),
        _type(names.LEASES, LeaseStrategy(), columns=columns.LEASE),
        _type(names.ROLES, RoleStrategy(namespaced=True), columns=columns.ROLE),
        _type(
            names.ROLEBINDINGS, RoleBindingStrategy(namespaced=True), columns=columns.ROLEBINDING
        ),
        _type(names.CLUSTERROLES, RoleStrategy(namespaced=False), columns=columns.ROLE),
        _type(
            names.CLUSTERROLEBINDINGS,
            RoleBindingStrategy(namespaced=False),
            columns=columns.ROLEBINDING,
        ),
    ]
