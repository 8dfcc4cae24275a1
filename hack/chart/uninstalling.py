"""The hook that asks, before a release goes, whether a program is still needed.

It runs ``fairlead uninstall PROGRAM --prepare`` as a ServiceAccount of its own, which may look at
what the program is used for and take away what nothing else needs, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from hack.chart.programs import IMAGE, NAMESPACE, Program, labelled
from hack.chart.templating import Expression, Given, Tree

from fairlead.api import manifests
from fairlead.api.kubebind import GROUP as KUBE_BIND
from fairlead.api.manifests import RBAC_GROUP, rule
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess.connection import GROUP as ACCESS
from fairlead.api.servicebinding.coreos import BINDABLEKINDS
from fairlead.binding.admission import names
from fairlead.binding.rights import BINDING_GROUPS


_LOOK = ("get", "list")
_ADMISSION = "admissionregistration.k8s.io"
_CONFIGURATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_POLICY = "before-hook-creation,hook-succeeded"


def _everywhere(program: str) -> list[JSON]:
    """Rights in the whole cluster: on the program's objects, and on what it is used for."""
    found = [
        rule("", ["namespaces"], _LOOK),
        rule("apps", ["deployments"], ["list"]),
        rule(RBAC_GROUP, ["clusterroles", "clusterrolebindings"], _LOOK),
        rule(_ADMISSION, _CONFIGURATIONS, _LOOK),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], _LOOK),
    ]
    match program:
        case "konnector":
            found += [
                rule(KUBE_BIND, ["apiservicebindings", "apiservicebindingbundles"], _LOOK),
                # Those of bindings, whose names nobody knows before.
                rule(RBAC_GROUP, ["clusterroles"], ["delete"]),
            ]
        case "binding":
            found += [
                *(rule(group, ["servicebindings"], _LOOK) for group in BINDING_GROUPS),
                rule(BINDABLEKINDS.group, [BINDABLEKINDS.plural], (*_LOOK, "delete")),
                rule(_ADMISSION, _CONFIGURATIONS, ["delete"], names=[names.NAME]),
            ]
        case "provider":
            used = (
                *("apiservicenamespaces", "apiserviceexports", "apiserviceexportrequests"),
                *("apiserviceexporttemplates", "clusterbindings"),
            )
            found.append(rule(KUBE_BIND, used, _LOOK))
        case "postgres":
            found.append(rule(ACCESS, ["postgresaccesses"], _LOOK))
    return found


def _here(program: str) -> list[JSON]:
    """Rights in the program's namespace."""
    found = [
        rule("", ["serviceaccounts", "services"], ["get"]),
        rule("apps", ["deployments"], ["get"]),
        rule("coordination.k8s.io", ["leases"], ["get"]),
        rule(RBAC_GROUP, ["roles", "rolebindings"], ["get"]),
    ]
    match program:
        case "konnector" | "serve":
            found.append(rule("", ["secrets"], (*_LOOK, "delete")))
        case "binding":
            secrets = [names.SECRET, names.KEY_SECRET]
            found.append(rule("", ["secrets"], ["get", "delete"], names=secrets))
    if program == "serve":
        found.append(rule(KUBE_BIND, ["bindableresourcesrequests"], (*_LOOK, "delete")))
    return found


def template(programs: Sequence[Program]) -> str:
    """The file of all hooks."""
    lines = ["{{- if .Values.uninstall.hook }}"]
    for one in programs:
        lines.append(f"{{{{- if {one.path}.enabled }}}}")
        writer = one.writer({"ph-timeout": "$.Values.uninstall.timeout"})
        for tree in _trees(one):
            lines += writer.document(tree)
        lines.append("{{- end }}")
    return "\n".join([*lines, "{{- end }}", ""])


def _trees(program: Program) -> list[Tree]:
    own = manifests.Program(
        name=f"{program.name}-uninstall",
        namespace=NAMESPACE,
        image=IMAGE,
        command=("uninstall", program.key),
        pods=manifests.Pods(spread=("ph-spread",)),
    )
    role = own.cluster_role(own.name, _everywhere(program.key))
    here = own.role(own.name, _here(program.key))
    _, account = own.account()
    found = [account, role, own.bound(role), here, own.bound(here)]
    if program.key == "konnector":
        # What is bound it may look at by the roles that bindings bring.
        aggregated = own.bound({**role, "metadata": {"name": "fairlead-konnector"}})
        aggregated["metadata"] = own.meta(f"{own.name}-bound")
        found.append(aggregated)
    return [
        *(_hooked(labelled(one), "-10") for one in found),
        _hooked(labelled(_job(program, own)), "0"),
    ]


def _hooked(tree: Tree, weight: str) -> Tree:
    annotations = {
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-weight": weight,
        "helm.sh/hook-delete-policy": _POLICY,
    }
    return {**tree, "metadata": {**tree["metadata"], "annotations": annotations}}


def _job(program: Program, own: manifests.Program) -> Tree:
    template = own.deployment()["spec"]["template"]
    pod = program.pod(template["spec"])
    # Its own account, and nothing that serves.
    pod["serviceAccountName"] = own.name
    pod.pop("topologySpreadConstraints")
    pod["restartPolicy"] = "Never"
    container = {
        name: value
        for name, value in pod["containers"][0].items()
        if name not in {"ports", "startupProbe", "livenessProbe", "readinessProbe"}
    }
    container["args"] = [
        *own.command,
        f"--namespace={NAMESPACE}",
        # Helm itself deletes the objects of the release.
        "--prepare",
        "--yes",
        "--timeout=ph-timeout",
    ]
    pod["containers"] = [container]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": own.meta(namespaced=True),
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": Expression("$.Values.uninstall.deadlineSeconds"),
            "template": {
                "metadata": {"labels": template["metadata"]["labels"]},
                "spec": {**pod, "tolerations": Given(f"{program.path}.tolerations")},
            },
        },
    }
