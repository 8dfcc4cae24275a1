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
    """One value: its path, its default, its JSON schema, and its description."""

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
    Value("image.tag", "", _TEXT, "Tag of the image; by default the chart's appVersion."),
    Value(
        "image.digest",
        "",
        {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
        "Digest of the image, such as sha256:...; it replaces the tag.",
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
        (
            "Secrets in each program's namespace that nodes use to pull the image, as `-"
            " name: NAME`."
        ),
    ),
    Value("labels", {}, _LABELS, "Additional labels of every object and Pod."),
    Value(
        "ca.configMap",
        "",
        _NAME,
        (
            "ConfigMap in each program's namespace with CA certificates. They replace the"
            " image's, so include all CAs: your private one, and those of all other servers."
        ),
    ),
    Value("ca.secret", "", _NAME, "Secret with these CA certificates, instead of a ConfigMap."),
    Value(
        "ca.key",
        "ca.crt",
        {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"},
        "Key of the ConfigMap or Secret that has the CA certificates, in PEM.",
    ),
    Value(
        "namespaces.create",
        True,
        _FLAG,
        "Create the programs' namespaces. `helm uninstall` keeps them.",
    ),
    Value(
        "namespaces.podSecurity",
        "",
        {"enum": ["", "privileged", "baseline", "restricted"]},
        (
            "Pod Security Standard that the namespaces enforce. All programs comply with"
            " restricted."
        ),
    ),
    Value(
        "runAsUser",
        USER,
        {"type": ["integer", "string", "null"], "pattern": "^$", "minimum": 1},
        (
            "UID and GID of all Pods. If empty, the cluster chooses them: OpenShift accepts"
            " only those of the namespace."
        ),
    ),
    Value(
        "rbac.create",
        True,
        _FLAG,
        "Create the roles and role bindings that `fairlead manifests` prints.",
    ),
    Value(
        "crds.install",
        True,
        _FLAG,
        (
            "Let each program create and upgrade its CRDs. The chart contains no CRDs, so"
            " that `helm uninstall` deletes none. If false, apply `fairlead crds` before each"
            " upgrade."
        ),
    ),
    Value(
        "uninstall.hook",
        True,
        _FLAG,
        (
            "Make `helm uninstall` run `fairlead uninstall PROGRAM --prepare` first, as a"
            " Job. The Job fails while something needs the program, and does nothing if a"
            " tool other than Helm applies the chart."
        ),
    ),
    Value(
        "uninstall.timeout",
        "2m",
        {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(s|m|h)?$"},
        "Longest time that this command may take for one program.",
    ),
    Value(
        "uninstall.deadlineSeconds",
        240,
        _COUNT,
        "Time in seconds after which Kubernetes ends this Job.",
    ),
    Value(
        "uninstall.podLabels",
        {},
        _LABELS,
        (
            "Additional labels of this Job's Pod, such as one that keeps a mesh from adding"
            " containers to it."
        ),
    ),
    Value("uninstall.podAnnotations", {}, _LABELS, "Additional annotations of this Job's Pod."),
    Value("networkPolicy.enabled", False, _FLAG, "Create a NetworkPolicy for each program."),
    Value(
        "networkPolicy.apiServers.ports",
        [443, 6443],
        _PORTS,
        ("Ports of API servers: the cluster's own and, for the konnector, those of providers."),
    ),
    Value(
        "networkPolicy.apiServers.cidrs",
        [],
        _CIDRS,
        "Networks of these servers; by default any address.",
    ),
    Value("networkPolicy.dns.ports", [53], _PORTS, "Ports of DNS servers, for UDP and TCP."),
    Value(
        "networkPolicy.dns.to",
        [],
        _OBJECTS,
        "NetworkPolicy peers for the cluster's DNS; by default any address.",
    ),
    Value(
        "networkPolicy.metricsFrom",
        [],
        _OBJECTS,
        "NetworkPolicy peers that may scrape metrics; by default all.",
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
        "Labels by which your Prometheus selects the object.",
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
        "Labels by which your Prometheus selects the object.",
    ),
    Value(
        "monitoring.prometheusRule.enabled",
        False,
        _FLAG,
        "Create a PrometheusRule for each program, with the program's alerts.",
    ),
    Value(
        "monitoring.prometheusRule.namespace",
        "",
        _NAME,
        "Namespace of all PrometheusRules; by default the namespace of each program.",
    ),
    Value(
        "monitoring.prometheusRule.runbookBaseUrl",
        "",
        {"type": "string", "pattern": "^(https?://[^?#\\s]+)?$"},
        (
            "Start of the alerts' runbook_url, before docs/runbooks/ALERT.md, such as the URL"
            " of your copy of the repository; by default runbook_url has only this path."
        ),
    ),
    Value(
        "monitoring.prometheusRule.labels",
        {},
        _LABELS,
        "Labels by which your Prometheus selects the object.",
    ),
]

_ABOUT = {
    "konnector": (
        "Run the konnector, in a consumer's cluster. It synchronizes bound APIs with"
        " their providers."
    ),
    "binding": (
        "Run the binding controllers, in a consumer's cluster. They project Secrets of"
        " services into workloads."
    ),
    "provider": (
        "Run the provider's controllers, in a provider's cluster. They manage the"
        " consumers' rights, namespaces and exports."
    ),
    "postgres": (
        "Run the PostgresAccess operator, in a provider's cluster. It manages logins and grants."
    ),
    "serve": ("Run the front door, in a provider's cluster. People sign in and bind there."),
}

_OWN: Mapping[str, Sequence[Value]] = {
    "konnector": [
        Value(
            "protocols",
            list(DEFAULT_PROTOCOLS),
            _one_of(PROTOCOLS) | {"minItems": 1},
            (
                "Protocols to serve: v1alpha2 for the APIServiceBindings of kube-bind.io, v2 for"
                " the Connections and bindings of core.kbind.io."
            ),
        ),
        Value(
            "boundGroups",
            [],
            _TEXTS,
            (
                "API groups for which the konnector gets rights on all kinds beforehand, or * for"
                " all groups. Without them `fairlead bind` or `fairlead accept` grants the rights"
                " for each binding."
            ),
        ),
    ],
    "binding": [
        Value(
            "crossNamespace",
            "false",
            {"enum": ["false", "requester", "true", False, True]},
            (
                "Whether bindings may name services of other namespaces: false never, requester"
                " if the person who wrote the binding may read the service (needs webhooks), true"
                " always."
            ),
        ),
        Value(
            "crossNamespaceDeniedRequesters",
            [],
            _TEXTS,
            (
                "Users and groups that crossNamespace requester does not allow; by default"
                " service accounts of other namespaces."
            ),
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
            "Webhooks that let writes through while API servers cannot reach them.",
        ),
        Value(
            "webhooks.project",
            [],
            _KIND,
            (
                "Resources, as plural.group. A webhook binds workloads of these resources when"
                " they are created."
            ),
        ),
        Value(
            "webhooks.failClosed",
            False,
            _FLAG,
            (
                "Refuse new workloads of these resources while API servers cannot reach the"
                " webhook."
            ),
        ),
    ],
    "provider": [
        Value(
            "exports",
            [],
            _RESOURCE,
            (
                "Resources that exports may offer, as plural.group. The provider gets rights on"
                " them."
            ),
        ),
        Value(
            "claims",
            list(DEFAULT_CLAIMS),
            _one_of(sorted(CLAIMABLE)),
            "Core resources that exports may claim.",
        ),
        Value(
            "invitations",
            False,
            _FLAG,
            (
                "Let the provider answer BindableResourcesRequests, which serve needs. Its rights"
                " are then those of an administrator."
            ),
        ),
        Value(
            "externalAddress",
            "",
            _URL,
            (
                "Address of this cluster's API server for consumers that bind through the front"
                " door. Set it if only Pods of this cluster reach the address that Pods use."
            ),
        ),
    ],
    "postgres": [
        Value("exported", False, _FLAG, "Let kube-bind's provider offer PostgresAccess."),
        Value(
            "userRoles",
            "auto",
            {"enum": ["auto", True, False]},
            (
                "Let people with edit or admin in a namespace write PostgresAccesses there, and"
                " so make database logins, and let people with view read them. auto means true in"
                " a new release, and false if you upgrade a release without these ClusterRoles."
            ),
        ),
        Value(
            "networkPolicy.databasePorts",
            [5432],
            _PORTS,
            "Ports of PostgreSQL servers to which egress is allowed.",
        ),
        Value(
            "networkPolicy.databaseCidrs",
            [],
            _CIDRS,
            "Networks of these servers; by default any address.",
        ),
    ],
    "serve": [
        Value(
            "externalUrl",
            "",
            _URL,
            "Required: URL of the Ingress at which browsers and CLIs reach the front door.",
        ),
        Value("oidc.issuerUrl", "", _ISSUER, "Required: URL of the OpenID Connect issuer."),
        Value("oidc.clientId", "", _TEXT, "Required: client ID at the issuer."),
        Value(
            "oidc.existingSecret",
            CREDENTIALS,
            {**_NAME, "minLength": 1},
            (
                "Secret with the client secret in its key client-secret. A public client needs no"
                " such Secret."
            ),
        ),
        Value("oidc.usernamePrefix", "oidc:", _TEXT, "Prefix of the names of people in RBAC."),
        Value("oidc.groupsPrefix", "oidc:", _TEXT, "Prefix of the names of groups in RBAC."),
        Value(
            "oidc.subjectClaim",
            DEFAULT_PERSON_CLAIMS.subject,
            {**_TEXT, "minLength": 1},
            (
                "Claim of the id_token that identifies the owner of what a person binds. The"
                " issuer must never give its value to another person."
            ),
        ),
        Value(
            "oidc.groupsClaim",
            DEFAULT_PERSON_CLAIMS.groups,
            {**_TEXT, "minLength": 1},
            "Claim of the id_token that lists the person's groups.",
        ),
        Value(
            "oidc.mostGroups",
            DEFAULT_PERSON_CLAIMS.most_groups,
            {"type": "integer", "minimum": 1, "maximum": LARGEST_MOST_GROUPS},
            ("Largest number of groups that a person may have. People with more cannot sign in."),
        ),
        Value(
            "oidc.allowedGroups",
            [],
            _TEXTS,
            "Groups that may bind everything that the provider offers.",
        ),
        Value(
            "oidc.allowedUsers",
            [],
            _TEXTS,
            (
                "People who may bind everything that the provider offers, each by the value of"
                " the subject claim."
            ),
        ),
        Value(
            "oidc.consoleAdminGroups", [], _TEXTS, "Groups that see all consumers in the console."
        ),
        Value(
            "trustedProxies",
            [],
            _TEXTS,
            (
                "Networks of the Ingress controller's Pods; the front door trusts their"
                " X-Forwarded-For."
            ),
        ),
        Value(
            "networkPolicy.egressPorts",
            [443, 6379],
            _PORTS,
            "Ports of the issuer and of Redis to which egress is allowed.",
        ),
        Value(
            "networkPolicy.from",
            [],
            _OBJECTS,
            "NetworkPolicy peers that may reach the front door; by default all.",
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
            "CPU and memory of each Pod; see docs/reference/sizes.md.",
        ),
        Value("priorityClassName", "", _NAME, "PriorityClass of the program's Pods."),
        Value("tolerations", [], _OBJECTS, "Tolerations of the program's Pods."),
        Value(
            "hostAliases",
            [],
            _OBJECTS,
            "IP addresses of host names that the cluster's DNS does not know.",
        ),
        Value("nodeSelector", {}, _LABELS, "Node selector of the program's Pods."),
        Value("affinity", {}, _OBJECT, "Affinity of the program's Pods."),
        Value(
            "topologySpread",
            list(pods.spread),
            _TEXTS,
            (
                "Node labels, the topology keys over which the scheduler spreads the Pods if it"
                " can."
            ),
        ),
        Value(
            "startupProbe",
            container["startupProbe"],
            {"type": ["object", "null"]},
            "Startup probe of the container.",
        ),
        Value("podDisruptionBudget.enabled", False, _FLAG, "Create a PodDisruptionBudget."),
        Value(
            "podDisruptionBudget.maxUnavailable",
            1,
            {"type": ["integer", "string"]},
            "Largest number or percentage of Pods that a drain may evict at the same time.",
        ),
        Value("serviceAccount.create", True, _FLAG, "Create the program's ServiceAccount."),
        Value(
            "serviceAccount.name",
            "",
            _NAME,
            "Name of the ServiceAccount; by default the name of the program.",
        ),
        Value("serviceAccount.annotations", {}, _LABELS, "Annotations of the ServiceAccount."),
        Value("podAnnotations", {}, _LABELS, "Annotations of the program's Pods."),
        Value(
            "logLevel",
            "info",
            {"enum": list(get_args(LogLevel))},
            "Lowest level to log. serve logs its audit lines at every level.",
        ),
        Value("extraArgs", [], _TEXTS, "Additional flags of the program; see its `--help`."),
        Value("extraEnv", [], _OBJECTS, "Additional environment variables of the container."),
        Value("extraVolumes", [], _OBJECTS, "Additional volumes of the program's Pods."),
        Value("extraVolumeMounts", [], _OBJECTS, "Additional volume mounts of the container."),
        Value(
            "networkPolicy.extraEgress",
            [],
            _OBJECTS,
            "Additional egress rules of the program's NetworkPolicy.",
        ),
        Value(
            "networkPolicy.extraIngress",
            [],
            _OBJECTS,
            "Additional ingress rules of the program's NetworkPolicy.",
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
    """values.yaml, with a comment above each value."""
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
        if not folders:
            lines.append("")
        lines += [f"{indent}# {line}" for line in _wrapped(value.text, 96 - len(indent))]
        written = yaml.safe_dump({name: value.default}, sort_keys=False, width=10_000)
        lines += [indent + line for line in written.splitlines()]
    return "\n".join([*lines, ""])


_HEAD = """\
# Values of the chart. `python -m hack.chart` generates this file, values.schema.json and the table
# in docs/reference/chart.md. No program is on by default: turn on the ones that you need, such as
# `konnector.enabled: true`."""


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def schema(programs: Sequence[Program]) -> JSON:
    """values.schema.json, which refuses values that are not in the table, such as typos."""
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
    lines = ["| value | default | description |", "|---|---|---|"]
    for value in rows:
        key, _, rest = value.path.partition(".")
        path = f"PROGRAM.{rest}" if key in keys and rest in alike else value.path
        default = msgspec.json.encode(value.default).decode()
        lines.append(f"| `{path}` | `{default}` | {value.text} |")
    lines.sort(key=lambda line: line.startswith("| `PROGRAM."))
    return "\n".join([*lines, ""])
