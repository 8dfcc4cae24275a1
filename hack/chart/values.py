"""The table of the chart's values: values.yaml, its schema, and the page of the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

import msgspec
import yaml
from hack.chart.programs import Program

from fairlead.api.flags import declarations
from fairlead.api.kubebind import CLAIMABLE
from fairlead.api.manifests import DEFAULT_PODS, USER, Pods
from fairlead.api.meta import JSON
from fairlead.api.quantities import PATTERN
from fairlead.binding.options import WEBHOOKS
from fairlead.cli.running import LogLevel
from fairlead.konnector.options import DEFAULT_PROTOCOLS, PROTOCOLS
from fairlead.portal.manifests import CREDENTIALS
from fairlead.portal.options import DEFAULT_PERSON_CLAIMS, LARGEST_MOST_GROUPS
from fairlead.provider.manifests import DEFAULT_CLAIMS


class Value(msgspec.Struct, frozen=True):
    """One value: where it is, what it is unless said, which JSON schema it has, what it does."""

    path: str
    default: Any
    schema: JSON
    text: str


_TEXT: JSON = {"type": "string"}
_FLAG: JSON = {"type": "boolean"}
_COUNT: JSON = {"type": "integer", "minimum": 0}
_OBJECT: JSON = {"type": "object"}
_TEXTS: JSON = {"type": "array", "items": {"type": "string", "minLength": 1}}
_OBJECTS: JSON = {"type": "array", "items": _OBJECT}
_LABELS: JSON = {"type": "object", "additionalProperties": {"type": "string"}}
_NAME: JSON = {
    "type": "string",
    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$",
    "maxLength": 253,
}
_NAMESPACE: JSON = {
    "type": "string",
    "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "maxLength": 63,
}
_PORTS: JSON = {
    "type": "array",
    "items": {"type": "integer", "minimum": 1, "maximum": 65535},
}
_CIDRS: JSON = {
    "type": "array",
    "items": {"type": "string", "pattern": "^[0-9a-fA-F:.]+/[0-9]{1,3}$"},
}
_AMOUNTS: JSON = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number"], "pattern": PATTERN},
}
_RESOURCES: JSON = {
    "type": ["object", "null"],
    "properties": {"requests": _AMOUNTS, "limits": _AMOUNTS, "claims": _OBJECTS},
    "additionalProperties": False,
}
_RESOURCE: JSON = {
    "type": "array",
    "items": {
        "type": "string",
        "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?\\.[a-z0-9]([-.a-z0-9]*[a-z0-9])?$",
    },
}
_KIND: JSON = {
    "type": "array",
    "items": {
        "type": "string",
        "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$",
    },
}
_URL: JSON = {"type": "string", "pattern": "^(https://[^/?#\\s]+(/[^?#\\s]*[^/?#\\s])?)?$"}
_ISSUER: JSON = {"type": "string", "pattern": "^(https?://[^?#\\s]+)?$"}


def _one_of(names: Sequence[str]) -> JSON:
    return {"type": "array", "items": {"enum": list(names)}, "uniqueItems": True}


_COMMON = [
    Value("image.repository", "fairlead", _TEXT, "Repository of the image, without a tag."),
    Value("image.tag", "", _TEXT, "Tag of the image; default: the chart's appVersion."),
    Value(
        "image.digest",
        "",
        {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        "Digest of the image, such as sha256:...; it is used instead of the tag.",
    ),
    Value(
        "image.pullPolicy",
        "IfNotPresent",
        {"enum": ["Always", "IfNotPresent", "Never"]},
        "Pull policy of the image.",
    ),
    Value(
        "imagePullSecrets",
        [],
        {"type": "array", "items": {"type": "object", "required": ["name"]}},
        "Secrets in each program's namespace for pulling the image, as `- name: NAME`.",
    ),
    Value("labels", {}, _LABELS, "Labels for every object and Pod, in addition to their own."),
    Value(
        "ca.configMap",
        "",
        _NAME,
        "ConfigMap in each program's namespace with the CAs that replace those of the image. It "
        "needs all CAs: a private one, for the issuer or for providers, and those of all other "
        "servers.",
    ),
    Value("ca.secret", "", _NAME, "Secret with these CAs, instead of a ConfigMap."),
    Value(
        "ca.key",
        "ca.crt",
        {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"},
        "Key of the ConfigMap or Secret that holds the CAs, in PEM.",
    ),
    Value(
        "namespaces.create",
        True,
        _FLAG,
        "Create the programs' namespaces; an uninstallation keeps them.",
    ),
    Value(
        "namespaces.podSecurity",
        "",
        {"enum": ["", "privileged", "baseline", "restricted"]},
        "Pod Security Standard that the namespaces enforce; all programs satisfy restricted.",
    ),
    Value(
        "runAsUser",
        USER,
        {"type": ["integer", "string", "null"], "pattern": "^$", "minimum": 1},
        "Uid and gid of all Pods. Empty leaves them to the cluster: OpenShift refuses others than "
        "those of a namespace.",
    ),
    Value("rbac.create", True, _FLAG, "Create the roles and bindings of `fairlead manifests`."),
    Value(
        "crds.install",
        True,
        _FLAG,
        "Let programs create and upgrade the CRDs that they own. The chart has no CRDs, so that "
        "no uninstallation removes them. If false, apply `fairlead crds` before each upgrade.",
    ),
    Value(
        "uninstall.hook",
        True,
        _FLAG,
        "Run `fairlead uninstall PROGRAM --prepare` before `helm uninstall`; it refuses while a "
        "program is needed, and does nothing where another tool applies the chart.",
    ),
    Value(
        "uninstall.timeout",
        "2m",
        {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(s|m|h)?$"},
        "Time that this command may take for each program.",
    ),
    Value(
        "uninstall.deadlineSeconds",
        240,
        _COUNT,
        "Time in seconds after which the Job of this command is ended.",
    ),
    Value(
        "uninstall.podLabels",
        {},
        _LABELS,
        "Labels of this Job's Pod, such as one that keeps a cluster from adding containers to it.",
    ),
    Value("uninstall.podAnnotations", {}, _LABELS, "Annotations of this Job's Pod, likewise."),
    Value("networkPolicy.enabled", False, _FLAG, "Create a NetworkPolicy for each program."),
    Value(
        "networkPolicy.apiServers.ports",
        [443, 6443],
        _PORTS,
        "Ports of API servers: of the cluster's own one and, for the konnector, of providers.",
    ),
    Value(
        "networkPolicy.apiServers.cidrs",
        [],
        _CIDRS,
        "Networks of these servers; default: any address.",
    ),
    Value("networkPolicy.dns.ports", [53], _PORTS, "Ports of DNS, for UDP and TCP."),
    Value(
        "networkPolicy.dns.to",
        [],
        _OBJECTS,
        "NetworkPolicy peers of the cluster's DNS; default: any address.",
    ),
    Value(
        "networkPolicy.metricsFrom",
        [],
        _OBJECTS,
        "NetworkPolicy peers that may scrape metrics; default: all.",
    ),
    Value(
        "monitoring.podMonitor.enabled",
        False,
        _FLAG,
        "Create a PodMonitor for each program; it needs the CRDs of the Prometheus operator.",
    ),
    Value("monitoring.podMonitor.interval", "30s", _TEXT, "Time between two scrapes."),
    Value(
        "monitoring.podMonitor.labels",
        {},
        _LABELS,
        "Labels by which a Prometheus selects the object.",
    ),
    Value(
        "monitoring.serviceMonitor.enabled",
        False,
        _FLAG,
        "Create a ServiceMonitor with a Service for each program, instead of a PodMonitor.",
    ),
    Value("monitoring.serviceMonitor.interval", "30s", _TEXT, "Time between two scrapes."),
    Value(
        "monitoring.serviceMonitor.labels",
        {},
        _LABELS,
        "Labels by which a Prometheus selects the object.",
    ),
    Value(
        "monitoring.prometheusRule.enabled",
        False,
        _FLAG,
        "Create a PrometheusRule for each program, with its alerts.",
    ),
    Value(
        "monitoring.prometheusRule.namespace",
        "",
        _NAME,
        "Namespace of all PrometheusRules; default: the program's own.",
    ),
    Value(
        "monitoring.prometheusRule.runbookBaseUrl",
        "",
        {"type": "string", "pattern": "^(https?://[^?#\\s]+)?$"},
        "Address before docs/runbooks/ALERT.md in the alerts' runbook_url, such as that of a "
        "folder of your forge; default: the path in the repository alone.",
    ),
    Value(
        "monitoring.prometheusRule.labels",
        {},
        _LABELS,
        "Labels by which a Prometheus selects the object.",
    ),
]

_ABOUT = {
    "konnector": "Consumer's cluster: keeps bound APIs in step with their providers.",
    "binding": "Consumer's cluster: projects Secrets of services into workloads.",
    "provider": "Provider's cluster: consumers' rights, namespaces and exports.",
    "postgres": "Provider's cluster: logins and grants of PostgresAccess objects.",
    "serve": "Provider's cluster: the front door, where people sign in and bind.",
}

_OWN: Mapping[str, Sequence[Value]] = {
    "konnector": [
        Value(
            "protocols",
            list(DEFAULT_PROTOCOLS),
            _one_of(PROTOCOLS) | {"minItems": 1},
            "Protocols that it serves: v1alpha2 for APIServiceBindings of kube-bind.io, v2 for"
            " Connections and bindings of core.kbind.io.",
        ),
        Value(
            "boundGroups",
            [],
            _TEXTS,
            "API groups on all of whose kinds it gets rights beforehand, or *; else each binding"
            " brings its own.",
        ),
    ],
    "binding": [
        Value(
            "crossNamespace",
            "false",
            {"enum": ["false", "requester", "true", False, True]},
            "Whether bindings may name services of other namespaces: never, with the rights of "
            "who asks (which needs webhooks), or always.",
        ),
        Value(
            "crossNamespaceDeniedRequesters",
            [],
            _TEXTS,
            "Users and groups whose bindings may not with requester; default: service accounts of "
            "other namespaces.",
        ),
        Value(
            "webhooks.enabled",
            False,
            _FLAG,
            "Serve admission webhooks, and let API servers call them.",
        ),
        Value(
            "webhooks.failOpen",
            [],
            _one_of(WEBHOOKS),
            "Webhooks that let writes go on while they cannot be reached.",
        ),
        Value(
            "webhooks.project",
            [],
            _KIND,
            "Resources, as plural.group, of workloads to bind when they are created.",
        ),
        Value(
            "webhooks.failClosed",
            False,
            _FLAG,
            "Refuse workloads of these resources while the webhook cannot be reached.",
        ),
    ],
    "provider": [
        Value(
            "exports",
            [],
            _RESOURCE,
            "Resources that may be offered, as plural.group; the provider gets rights on them.",
        ),
        Value(
            "claims",
            list(DEFAULT_CLAIMS),
            _one_of(sorted(CLAIMABLE)),
            "Core resources that may be claimed beside exports.",
        ),
        Value(
            "invitations",
            False,
            _FLAG,
            "Let the provider answer BindableResourcesRequests, as serve needs it; this has the "
            "power of an administrator.",
        ),
        Value(
            "externalAddress",
            "",
            _URL,
            "Address of this cluster's API server for consumers that bind by the front door; it "
            "is needed where only Pods reach the one that Pods have.",
        ),
    ],
    "postgres": [
        Value("exported", False, _FLAG, "Let kube-bind's provider offer PostgresAccess."),
        Value(
            "userRoles",
            "auto",
            {"enum": ["auto", True, False]},
            "Let people with edit or admin in a namespace write the PostgresAccesses there, and "
            "so make database logins, and people with view read them. auto does so in new "
            "releases, and leaves it off in those from before.",
        ),
        Value(
            "networkPolicy.databasePorts",
            [5432],
            _PORTS,
            "Ports of PostgreSQL servers, as egress.",
        ),
        Value(
            "networkPolicy.databaseCidrs",
            [],
            _CIDRS,
            "Networks of these servers; default: any address.",
        ),
    ],
    "serve": [
        Value("externalUrl", "", _URL, "Required: address of its Ingress for browsers and CLIs."),
        Value("oidc.issuerUrl", "", _ISSUER, "Required: URL of the OpenID Connect issuer."),
        Value("oidc.clientId", "", _TEXT, "Required: client id at the issuer."),
        Value(
            "oidc.existingSecret",
            CREDENTIALS,
            {**_NAME, "minLength": 1},
            "Secret that has the client secret in key client-secret; a public client has none.",
        ),
        Value("oidc.usernamePrefix", "oidc:", _TEXT, "Prefix of names of people in RBAC."),
        Value("oidc.groupsPrefix", "oidc:", _TEXT, "Prefix of names of groups in RBAC."),
        Value(
            "oidc.subjectClaim",
            DEFAULT_PERSON_CLAIMS.subject,
            {**_TEXT, "minLength": 1},
            "Claim of the id_token that owns what a person binds; the issuer must never give its "
            "value to another person.",
        ),
        Value(
            "oidc.groupsClaim",
            DEFAULT_PERSON_CLAIMS.groups,
            {**_TEXT, "minLength": 1},
            "Claim of the id_token with a person's groups.",
        ),
        Value(
            "oidc.mostGroups",
            DEFAULT_PERSON_CLAIMS.most_groups,
            {"type": "integer", "minimum": 1, "maximum": LARGEST_MOST_GROUPS},
            "Largest number of a person's groups; who has more cannot sign in.",
        ),
        Value("oidc.allowedGroups", [], _TEXTS, "Groups that may bind all that is offered."),
        Value(
            "oidc.allowedUsers",
            [],
            _TEXTS,
            "People, by sub or the subject claim, who may bind all that is offered.",
        ),
        Value(
            "oidc.consoleAdminGroups", [], _TEXTS, "Groups that see all consumers on the pages."
        ),
        Value("trustedProxies", [], _TEXTS, "Networks of the Ingress controller's Pods."),
        Value(
            "networkPolicy.egressPorts",
            [443, 6379],
            _PORTS,
            "Ports of the issuer and of Redis, as egress.",
        ),
        Value(
            "networkPolicy.from",
            [],
            _OBJECTS,
            "NetworkPolicy peers that may reach the front door; default: all.",
        ),
    ],
}


def _of_program(program: Program) -> Iterator[Value]:
    key = program.key
    pods = DEFAULT_PODS
    deployment = next(
        one for one in program.trees if isinstance(one, dict) and one["kind"] == "Deployment"
    )
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    for value in (
        Value("enabled", False, _FLAG, _ABOUT[key]),
        Value(
            "namespace", program.namespace, _NAMESPACE, "Namespace of the program and its Secrets."
        ),
        *_OWN[key],
        Value("replicas", pods.replicas, _COUNT, next(declarations(Pods)).help),
        Value(
            "resources",
            pods.resources(),
            _RESOURCES,
            "CPU and memory of each Pod; see the table of sizes.",
        ),
        Value("priorityClassName", "", _NAME, "PriorityClass of its Pods."),
        Value("tolerations", [], _OBJECTS, "Tolerations of its Pods."),
        Value(
            "hostAliases",
            [],
            _OBJECTS,
            "Addresses of host names that the cluster's DNS does not know.",
        ),
        Value("nodeSelector", {}, _LABELS, "Node selector of its Pods."),
        Value("affinity", {}, _OBJECT, "Affinity of its Pods."),
        Value(
            "topologySpread",
            list(pods.spread),
            _TEXTS,
            "Labels of nodes; replicas are spread over their values if there is room.",
        ),
        Value(
            "startupProbe",
            container["startupProbe"],
            {"type": ["object", "null"]},
            "Probe that gives a Pod time to start.",
        ),
        Value("podDisruptionBudget.enabled", False, _FLAG, "Create a PodDisruptionBudget."),
        Value(
            "podDisruptionBudget.maxUnavailable",
            1,
            {"type": ["integer", "string"]},
            "Pods that a drain may evict at the same time, a number or a percentage.",
        ),
        Value("serviceAccount.create", True, _FLAG, "Create its ServiceAccount."),
        Value(
            "serviceAccount.name",
            "",
            _NAME,
            "Name of the ServiceAccount; default: the program's name.",
        ),
        Value("serviceAccount.annotations", {}, _LABELS, "Annotations of the ServiceAccount."),
        Value("podAnnotations", {}, _LABELS, "Annotations of its Pods."),
        Value(
            "logLevel",
            "info",
            {"enum": list(get_args(LogLevel))},
            "Least level of what is logged; audit lines of serve are logged at any.",
        ),
        Value("extraArgs", [], _TEXTS, "More flags of the program; see its `--help`."),
        Value("extraEnv", [], _OBJECTS, "More environment variables of the container."),
        Value("extraVolumes", [], _OBJECTS, "More volumes of its Pods."),
        Value("extraVolumeMounts", [], _OBJECTS, "More volume mounts of the container."),
        Value(
            "networkPolicy.extraEgress", [], _OBJECTS, "More egress rules of its NetworkPolicy."
        ),
        Value(
            "networkPolicy.extraIngress", [], _OBJECTS, "More ingress rules of its NetworkPolicy."
        ),
    ):
        yield msgspec.structs.replace(value, path=f"{key}.{value.path}")


def table(programs: Sequence[Program]) -> list[Value]:
    """All values, in the order of values.yaml."""
    return [*_COMMON, *(value for one in programs for value in _ordered(one))]


def _ordered(program: Program) -> list[Value]:
    """The program's values, those below one key side by side."""
    values = list(_of_program(program))
    order = list(dict.fromkeys(value.path.split(".")[1] for value in values))
    return sorted(values, key=lambda value: order.index(value.path.split(".")[1]))


def values_file(programs: Sequence[Program]) -> str:
    """values.yaml, with what each value does above it."""
    lines = [_HEAD]
    before: list[str] = []
    for value in table(programs):
        *folders, name = value.path.split(".")
        for depth, folder in enumerate(folders):
            if before[: depth + 1] != folders[: depth + 1]:
                if not depth:
                    lines.append("")
                lines.append(f"{'  ' * depth}{folder}:")
        before = folders
        indent = "  " * len(folders)
        lines += [f"{indent}# {line}" for line in _wrapped(value.text, 96 - len(indent))]
        written = yaml.safe_dump({name: value.default}, sort_keys=False, width=10_000)
        if not folders:
            lines.append("")
            lines[-2:] = ["", lines[-2]]
        lines += [indent + line for line in written.splitlines()]
    return "\n".join([*lines, ""])


_HEAD = """\
# Values of the chart. Made by `python -m hack.chart`, like values.schema.json and the table in
# docs/reference/chart.md. No program is on by default; turn one on:
# `konnector.enabled: true`."""


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def schema(programs: Sequence[Program]) -> JSON:
    """values.schema.json: what is not in the table is refused, so that a typo is."""
    root: JSON = _folder()
    root = {"$schema": "http://json-schema.org/draft-07/schema#", **root}
    for value in table(programs):
        *folders, name = value.path.split(".")
        place = root
        for folder in folders:
            place = place["properties"].setdefault(folder, _folder())
        place["properties"][name] = {"description": value.text, **value.schema}
    # What Helm itself hands over, where another chart has this one below it.
    root["properties"]["global"] = {"type": "object"}
    return root


def _folder() -> JSON:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def page(programs: Sequence[Program]) -> str:
    """The tables of the docs: what is common, and what each program has."""
    keys = [one.key for one in programs]
    paths = [{value.path.partition(".")[2] for value in _of_program(one)} for one in programs]
    alike = set.intersection(*paths) - {"enabled", "namespace"}
    rows = [
        value
        for value in table(programs)
        if value.path.partition(".")[0] not in keys
        or value.path.partition(".")[2] not in alike
        or value.path.startswith(f"{keys[0]}.")
    ]
    lines = ["| value | default | |", "|---|---|---|"]
    for value in rows:
        key, _, rest = value.path.partition(".")
        path = f"PROGRAM.{rest}" if key in keys and rest in alike else value.path
        default = msgspec.json.encode(value.default).decode()
        lines.append(f"| `{path}` | `{default}` | {value.text} |")
    lines.sort(key=lambda line: line.startswith("| `PROGRAM."))
    return "\n".join([*lines, ""])
