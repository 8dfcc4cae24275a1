"""What the scenario ``binding`` consists of: kinds, services, workloads and bindings."""

from __future__ import annotations

import base64
from random import Random

from tests.support.binding import DATABASES, GROUP, RIGS, crd, role

from fairlead.api.manifests import READ_VERBS, rule
from fairlead.api.meta import JSON
from fairlead.api.resource import CRONJOBS, DEPLOYMENTS, STATEFULSETS, Resource
from fairlead.api.servicebinding.common import PROVISIONED_SERVICE
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.api.servicebinding.wishes import (
    DEFAULT_MODE_ANNOTATION,
    ENVIRONMENT_ANNOTATION,
    ROLL_ANNOTATION,
)


PASSWORD = "hunter2"
"""What stands in the password of every Secret, and nowhere else."""
SHOPS = ("shop", "store")
"""The namespaces of app teams."""
VAULT = "vault"
"""The namespace of what is nobody's to write."""
CACHES = Resource(GROUP, "v1", "caches", "Cache")
"""Services whose CRD says with annotations what of them is bound."""
BINDINGS = (SERVICEBINDINGS, COREOS_SERVICEBINDINGS)
NAMES = {
    SERVICEBINDINGS.group: ("b1", "b2", "b3"),
    COREOS_SERVICEBINDINGS.group: ("c1", "c2", "c3"),
}
"""Of bindings, in each API: of two of one name and content one cannot have its Secret."""
WEBS = ("web1", "web2", "web3")
WORKLOADS: dict[tuple[str, str], Resource] = {
    **{(DEPLOYMENTS.plural, name): DEPLOYMENTS for name in WEBS},
    (STATEFULSETS.plural, "data"): STATEFULSETS,
    (CRONJOBS.plural, "nightly"): CRONJOBS,
    (RIGS.plural, "rig"): RIGS,
}
"""The workloads of a namespace, by plural and name."""
KINDS = (DEPLOYMENTS, STATEFULSETS, CRONJOBS, RIGS)
GUARDED, QUIET = "guarded", "quiet"
"""A Deployment that only somebody without rights has bound, and one that nobody has."""
ENTITLED, STRANGER = "ann", "mallory"
"""Who may write workloads, and who may write nothing but bindings."""
SECRETS_OF_TEAMS = ("login", "token")
TEMPLATE = "{{ .service.name }}_{{ .name }}"
"""A naming strategy."""
MAPPING = "{{ .svc.metadata.name }}/{{ .type }}"
"""The value of a mapping."""

_RBAC = "rbac.authorization.k8s.io"


# --- kinds and rights


def kinds() -> list[JSON]:
    """The CRDs of services and of custom workloads."""
    databases, caches = crd(DATABASES), crd(CACHES)
    databases["metadata"]["labels"] = {PROVISIONED_SERVICE: "true"}
    secret = "objectType=Secret,sourceKey=password"
    caches["metadata"]["annotations"] = {
        "service.binding/type": "redis",
        "service.binding/host": "path={.spec.host}",
        "service.binding/password": f"path={{.status.secret}},{secret}",
    }
    return [databases, caches, crd(RIGS)]


def roles() -> list[JSON]:
    """What whoever offers these kinds lets the controllers do."""
    return [
        role(DATABASES),
        role(CACHES),
        role(RIGS, (*READ_VERBS, "update", "patch")),
    ]


def mappings() -> list[JSON]:
    """Where kinds have their containers that are no Deployments."""
    jobs = ".spec.jobTemplate.spec.template"
    return [
        _mapping(
            CRONJOBS, f"{jobs}.spec.containers[*]", f"{jobs}.spec.volumes", f"{jobs}.metadata"
        ),
        _mapping(RIGS, ".spec.machine.parts[*]", ".spec.machine.disks", ".spec.machine"),
    ]


def _mapping(resource: Resource, containers: str, volumes: str, metadata: str) -> JSON:
    version = {
        "version": "*",
        "containers": [{"path": containers, "name": ".name"}],
        "volumes": volumes,
        "annotations": f"{metadata}.annotations",
    }
    return {
        "apiVersion": CLUSTERWORKLOADRESOURCEMAPPINGS.api_version,
        "kind": CLUSTERWORKLOADRESOURCEMAPPINGS.kind,
        "metadata": {"name": resource.group_resource},
        "spec": {"versions": [version]},
    }


def rights() -> list[JSON]:
    """What the entitled requester may do; the other one may do nothing."""
    verbs = ("get", "list", "update")
    rules = [
        rule("", ["secrets", "configmaps"], verbs),
        rule("apps", ["deployments", "statefulsets"], verbs),
        rule("batch", ["cronjobs"], verbs),
        rule(GROUP, ["*"], verbs),
        rule("servicebinding.io", ["clusterworkloadresourcemappings"], ("get",)),
    ]
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": ENTITLED},
            "rules": rules,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ENTITLED},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": ENTITLED},
            "subjects": [{"kind": "User", "name": ENTITLED, "apiGroup": _RBAC}],
        },
    ]


# --- workloads


def workload(resource: Resource, name: str, namespace: str, number: int = 0) -> JSON:
    """A workload as its team makes it."""
    labels = {"app": name, "tier": "front" if name in {"web1", "web2"} else "back"}
    container: JSON = {
        "name": "app",
        "image": f"app:{number}",
        "env": [{"name": "OWN_MODE", "value": "plain"}],
    }
    pod: JSON = {"containers": [container, {"name": "side", "image": "side"}]}
    template: JSON = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec: JSON
    if resource is CRONJOBS:
        pod["restartPolicy"] = "OnFailure"
        spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}
    elif resource is RIGS:
        spec = {"size": number, "machine": {"parts": pod["containers"]}}
    else:
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        if resource is STATEFULSETS:
            spec["serviceName"] = name
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": spec,
    }


def pod_of(body: JSON) -> tuple[JSON, str, str]:
    """Where a workload has its lists: the object that has them, and both their names."""
    spec: JSON = body["spec"]
    if body["kind"] == RIGS.kind:
        return spec["machine"], "parts", "disks"
    if body["kind"] == CRONJOBS.kind:
        spec = spec["jobTemplate"]["spec"]
    pod: JSON = spec["template"]["spec"]
    return pod, "containers", "volumes"


def pod_metadata(body: JSON) -> JSON:
    """Where a workload has the annotations of its pods."""
    spec: JSON = body["spec"]
    if body["kind"] == RIGS.kind:
        machine: JSON = spec["machine"]
        return machine
    if body["kind"] == CRONJOBS.kind:
        spec = spec["jobTemplate"]["spec"]
    found: JSON = spec["template"].setdefault("metadata", {})
    return found


# --- services


def encoded(data: dict[str, str]) -> dict[str, str]:
    """The data of a Secret."""
    return {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}


def secret(name: str, namespace: str, number: int) -> JSON:
    """A Secret as the owner of a service makes it."""
    data = {"type": "postgresql", "host": f"host{number}", "password": f"{PASSWORD}-{number}"}
    if name == "token":
        data = {"type": "kafka", "password": f"{PASSWORD}-{number}", "extra": "x"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "data": encoded(data),
    }


def service(resource: Resource, name: str, namespace: str, number: int) -> JSON:
    """A service whose owner is yet to say in its status what it is bound with."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"host": f"{name}-{number}"},
    }


# --- bindings


_SPEC_WORKLOADS: tuple[tuple[Resource, JSON], ...] = (
    *((DEPLOYMENTS, {"name": name}) for name in WEBS),
    (DEPLOYMENTS, {"selector": {"matchLabels": {"tier": "front"}}}),
    (
        DEPLOYMENTS,
        {
            "selector": {
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["front", "back"]}
                ]
            }
        },
    ),
    (STATEFULSETS, {"name": "data"}),
    (CRONJOBS, {"name": "nightly"}),
    (RIGS, {"name": "rig"}),
)
_SERVICES: tuple[tuple[Resource, str], ...] = (
    (Resource("", "v1", "secrets", "Secret"), "login"),
    (Resource("", "v1", "secrets", "Secret"), "token"),
    (DATABASES, "db1"),
    (DATABASES, "db2"),
    (CACHES, "cache"),
)


def binding(resource: Resource, name: str, namespace: str, dice: Random) -> JSON:
    """A binding that its spec allows to become Ready, in one of the two APIs."""
    annotations = _wishes(dice)
    if dice.random() < 0.2:
        annotations["servicebinding.io/requester"] = f'{{"username":"{ENTITLED}"}}'
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": spec(resource, name, dice),
    }


def strangers(resource: Resource, annotations: dict[str, str]) -> JSON:
    """A binding of what only an entitled requester may have written."""
    secret = {"version": "v1", "kind": "Secret", "name": "login"}
    workload = {"version": "v1", "kind": "Deployment", "name": GUARDED}
    spec: JSON = {
        "services": [{**secret, "group": ""}],
        "application": {**workload, "group": "apps"},
    }
    if resource is SERVICEBINDINGS:
        del secret["version"], workload["version"]
        spec = {
            "service": {**secret, "apiVersion": "v1"},
            "workload": {**workload, "apiVersion": "apps/v1"},
        }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "strangers", "namespace": VAULT, "annotations": annotations},
        "spec": spec,
    }


def spec(resource: Resource, name: str, dice: Random) -> JSON:
    """Its spec."""
    made = _coreos(dice) if resource is COREOS_SERVICEBINDINGS else _specification(name, dice)
    if dice.random() < 0.2:
        made["name"] = dice.choice(("shared", "b1"))
    return made


def _wishes(dice: Random) -> dict[str, str]:
    offered = {
        ROLL_ANNOTATION: "true",
        ENVIRONMENT_ANNOTATION: "true",
        DEFAULT_MODE_ANNOTATION: "0400",
    }
    return {name: value for name, value in offered.items() if dice.random() < 0.15}


def wish(dice: Random) -> dict[str, str | None]:
    """Annotations that a team sets or takes away."""
    wanted = _wishes(dice)
    names = (ROLL_ANNOTATION, ENVIRONMENT_ANNOTATION, DEFAULT_MODE_ANNOTATION)
    return {name: wanted.get(name) for name in names}


def _specification(name: str, dice: Random) -> JSON:
    kind, reference = dice.choice(_SPEC_WORKLOADS)
    of, service_name = dice.choice(_SERVICES)
    made: JSON = {
        "workload": {"apiVersion": kind.api_version, "kind": kind.kind, **reference},
        "service": {"apiVersion": of.api_version, "kind": of.kind, "name": service_name},
    }
    if dice.random() < 0.2:
        made["workload"]["containers"] = ["app"]
    if dice.random() < 0.4:
        variable = dice.choice((f"B_{name.upper()}", "B_PASSWORD"))
        made["env"] = [{"name": variable, "key": "password"}]
    if dice.random() < 0.25:
        made["type"] = "mysql"
    return made


def _coreos(dice: Random) -> JSON:
    services: list[JSON] = [
        {"group": of.group, "version": of.version, "kind": of.kind, "name": name, "id": "svc"}
        for of, name in dice.sample(_SERVICES, k=dice.choice((1, 1, 2)))
    ]
    for one in services[1:]:
        del one["id"]
    kind, reference = dice.choice(_SPEC_WORKLOADS)
    application: JSON = {"group": kind.group, "version": kind.version}
    if dice.random() < 0.5:
        application["resource"] = kind.plural
    else:
        application["kind"] = kind.kind
    for given, taken in (("name", "name"), ("selector", "labelSelector")):
        if given in reference:
            application[taken] = reference[given]
    made: JSON = {"services": services, "application": application}
    if dice.random() < 0.5:
        made["namingStrategy"] = dice.choice(("none", "lowercase", "uppercase", TEMPLATE))
    if dice.random() < 0.3:
        made["mappings"] = [{"name": "uri", "value": MAPPING}]
    if dice.random() < 0.3:
        made["detectBindingResources"] = True
    if dice.random() < 0.25:
        made["bindAsFiles"] = False
    return made
