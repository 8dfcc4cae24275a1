"""The hook that asks, before a release goes, whether a program is still needed.

It runs ``fairlead uninstall PROGRAM --prepare`` as a ServiceAccount of its own, which may look at
what the program is used for and take away what nothing else needs, and no more. Where another tool
than Helm makes the Job, it does nothing: so it also looks at the Secrets of the release.
"""

from __future__ import annotations

from collections.abc import Sequence

from hack.chart.programs import IMAGE, NAMESPACE, Program, labelled
from hack.chart.templating import REST, Expression, Given, Items, Tree

from fairlead.api import manifests
from fairlead.api.meta import JSON
from fairlead.uninstall import release
from fairlead.uninstall.rights import hook_rights


_RELEASE_NAMESPACE = "ph-home"
_UNINJECTED = '(include "fairlead.uninjected" $ | fromYaml)'
_LABELS = f"merge (dict) $.Values.uninstall.podLabels $.Values.labels {_UNINJECTED}.labels"
_ANNOTATIONS = f"merge (dict) $.Values.uninstall.podAnnotations {_UNINJECTED}.annotations"
"""Members of the Pod's metadata. A policy may refuse Pods without the release's labels."""
_KEPT_SECONDS = 24 * 3600
"""Time for which the Job of a refusal, and its log, stays."""
_POLICY = "before-hook-creation,hook-succeeded"


def template(programs: Sequence[Program]) -> str:
    """The file of all hooks."""
    lines = ["{{- if .Values.uninstall.hook }}"]
    for one in programs:
        lines.append(f"{{{{- if {one.path}.enabled }}}}")
        writer = one.writer(
            {
                "ph-timeout": "$.Values.uninstall.timeout",
                _RELEASE_NAMESPACE: "$.Release.Namespace",
                "ph-release": "$.Release.Name",
            }
        )
        for tree in _trees(one):
            lines += writer.document(tree)
        lines.append("{{- end }}")
    return "\n".join([*lines, "{{- end }}", ""])


def _trees(program: Program) -> list[Tree]:
    own = manifests.PodProgram(
        name=f"{program.name}-uninstall",
        namespace=NAMESPACE,
        image=IMAGE,
        command=("uninstall", program.key),
        pods=manifests.Pods(spread=("ph-spread",)),
    )
    rights = hook_rights(program.key)
    role, here = own.cluster_role(own.name, rights.cluster), own.role(own.name, rights.namespace)
    _, account = own.account()
    found = [account, role, own.bound(role), here, own.bound(here), *_release_role(own)]
    return [
        *(_hooked(labelled(one), "-10") for one in found),
        _hooked(labelled(_job(program, own)), "0"),
    ]


def _release_role(own: manifests.PodProgram) -> list[JSON]:
    """The right to see in the release's namespace whether Helm uninstalls the release."""
    role = own.role(f"{own.name}-release", release.RULES)
    found = [role, own.bound(role)]
    for tree in found:
        tree["metadata"]["namespace"] = _RELEASE_NAMESPACE
    return found


def _hooked(tree: Tree, weight: str) -> Tree:
    annotations = {
        "helm.sh/hook": "pre-delete",
        "helm.sh/hook-weight": weight,
        "helm.sh/hook-delete-policy": _POLICY,
    }
    return {**tree, "metadata": {**tree["metadata"], "annotations": annotations}}


def _job(program: Program, own: manifests.PodProgram) -> Tree:
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
        f"--helm-release={_RELEASE_NAMESPACE}/ph-release",
        "--timeout=ph-timeout",
    ]
    pod["containers"] = [container]
    labels = template["metadata"]["labels"]
    names = " ".join(f'"{name}"' for name in labels)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": own.meta(namespaced=True),
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "activeDeadlineSeconds": Expression("$.Values.uninstall.deadlineSeconds"),
            "template": {
                "metadata": {
                    "labels": {REST: Items(f"omit ({_LABELS}) {names}"), **labels},
                    "annotations": Given(_ANNOTATIONS),
                },
                "spec": {**pod, "tolerations": Given(f"{program.path}.tolerations")},
            },
        },
    }
