"""The template of each program: its RBAC, Deployment and Service, as its manifests have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from hack.chart.templating import (
    REST,
    Each,
    Expression,
    Given,
    Items,
    Tree,
    When,
    Writer,
    each,
    identity,
    when,
)

from fairlead.api.manifests import Pods
from fairlead.api.meta import JSON
from fairlead.binding import manifests as binding
from fairlead.binding.options import DEFAULT_NAMESPACE as BINDING_NAMESPACE
from fairlead.binding.options import PROJECTOR
from fairlead.konnector import manifests as konnector
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.konnector.options import PROTOCOLS
from fairlead.portal import manifests as serve
from fairlead.portal.options import DEFAULT_NAMESPACE as SERVE_NAMESPACE
from fairlead.portal.options import NAME as SERVE
from fairlead.postgres import manifests as postgres
from fairlead.postgres.options import DEFAULT_NAMESPACE as POSTGRES_NAMESPACE
from fairlead.provider import manifests as provider
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.uninstall.footprints import Program as Key


NAMESPACE, IMAGE, ACCOUNT = "ph-namespace", "ph-image", "ph-account"
_SPREAD = "ph-spread"
_CA = "or $.Values.ca.configMap $.Values.ca.secret"
CA_FOLDER = "/etc/fairlead/ca"
# Helm reads numbers as floats, and prints large ones with an exponent.
_USER = When("$.Values.runAsUser", Expression("$.Values.runAsUser | int64"))


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program of the chart: its key among the values, what its objects are called, its trees."""

    key: Key
    name: str
    namespace: str
    lease: str
    trees: Sequence[Tree]
    placeholders: Mapping[str, str] = {}

    @property
    def path(self) -> str:
        """Its values."""
        return f"$.Values.{self.key}"

    def writer(self, more: Mapping[str, str] | None = None) -> Writer:
        """Writes trees with the program's placeholders."""
        return Writer(
            {
                NAMESPACE: f"{self.path}.namespace",
                IMAGE: 'include "fairlead.image" $',
                "ph-log-level": f"{self.path}.logLevel",
                ACCOUNT: f'{self.path}.serviceAccount.name | default "{self.name}"',
                **self.placeholders,
                **(more or {}),
            }
        )

    def template(self) -> str:
        """The file of the program."""
        lines = [f"{{{{- if {self.path}.enabled }}}}"]
        for tree in self.trees:
            lines += self.writer().document(self._wrapped(tree))
        return "\n".join([*lines, "{{- end }}", ""])

    def _wrapped(self, tree: Tree) -> Tree:
        """An object with all that values say of its kind."""
        if isinstance(tree, When | Each):
            return msgspec.structs.replace(tree, value=self._wrapped(tree.value))
        kind = tree["kind"]
        found = labelled(tree)
        if kind == "Namespace":
            metadata = found["metadata"]
            metadata["labels"]["pod-security.kubernetes.io/enforce"] = When(
                "$.Values.namespaces.podSecurity",
                Expression("$.Values.namespaces.podSecurity | quote"),
            )
            # What it holds outlives the release: kubeconfigs, credentials of servers, sessions.
            metadata["annotations"] = {"helm.sh/resource-policy": "keep"}
            return When(f'include "fairlead.makesNamespace" (list $ "{self.key}")', found)
        if kind == "ServiceAccount":
            found["metadata"]["name"] = ACCOUNT
            found["metadata"]["annotations"] = Given(f"{self.path}.serviceAccount.annotations")
            return When(f"{self.path}.serviceAccount.create", found)
        if kind.endswith("Binding"):
            found["subjects"] = [
                {**one, "name": ACCOUNT} if _is_account(one) else one for one in tree["subjects"]
            ]
        if kind in _RBAC:
            return When("$.Values.rbac.create", found)
        if kind == "Deployment":
            found["spec"] = self._deployment(found["spec"])
        return found

    def _deployment(self, spec: JSON) -> JSON:
        path = self.path
        template = spec["template"]
        metadata = {
            "labels": _with_labels(template["metadata"]["labels"]),
            "annotations": Given(f"{path}.podAnnotations"),
        }
        return {
            **spec,
            "replicas": Expression(f"{path}.replicas"),
            "template": {"metadata": metadata, "spec": self.pod(template["spec"])},
        }

    def pod(self, spec: JSON) -> JSON:
        """A Pod's spec, with what values say of Pods."""
        path = self.path
        container = spec["containers"][0]
        (spread,) = spec["topologySpreadConstraints"]
        return {
            **spec,
            "serviceAccountName": ACCOUNT,
            "securityContext": {
                **spec["securityContext"],
                "runAsUser": _USER,
                "runAsGroup": _USER,
            },
            "containers": [self._container(container)],
            "volumes": [
                *spec["volumes"],
                When(_CA, _ca_volume()),
                Items(f"{path}.extraVolumes"),
            ],
            "imagePullSecrets": Given("$.Values.imagePullSecrets"),
            "priorityClassName": When(
                f"{path}.priorityClassName", Expression(f"{path}.priorityClassName | quote")
            ),
            "tolerations": Given(f"{path}.tolerations"),
            "hostAliases": Given(f"{path}.hostAliases"),
            "nodeSelector": Given(f"{path}.nodeSelector"),
            "affinity": Given(f"{path}.affinity"),
            "topologySpreadConstraints": When(
                f"{path}.topologySpread", [Each(f"{path}.topologySpread", "$key", spread)]
            ),
        }

    def _container(self, container: JSON) -> JSON:
        path = self.path
        crds = [When("not $.Values.crds.install", "--install-crds=false")] if self.lease else []
        # Without it a program logs what its default is, as the manifests have it.
        level = When(f'ne {path}.logLevel "info"', "--log-level=ph-log-level")
        environment = [
            *container.get("env", []),
            When(_CA, {"name": "SSL_CERT_FILE", "value": f"{CA_FOLDER}/ph-ca-key"}),
            Items(f"{path}.extraEnv"),
        ]
        has_any = f"or $.Values.ca.configMap $.Values.ca.secret {path}.extraEnv"
        mount = {"name": "ca", "mountPath": CA_FOLDER, "readOnly": True}
        return {
            **container,
            "imagePullPolicy": Expression("$.Values.image.pullPolicy"),
            "args": [*container["args"], *crds, level, Items(f"{path}.extraArgs")],
            "env": environment if container.get("env") else When(has_any, environment),
            "startupProbe": Given(f"{path}.startupProbe"),
            "resources": Given(f"{path}.resources"),
            "volumeMounts": [
                *container["volumeMounts"],
                When(_CA, mount),
                Items(f"{path}.extraVolumeMounts"),
            ],
        }


_RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


def _is_account(subject: Tree) -> bool:
    return isinstance(subject, dict) and subject["kind"] == "ServiceAccount"


def _ca_volume() -> JSON:
    return {
        "name": "ca",
        "configMap": When("$.Values.ca.configMap", {"name": "ph-ca-configmap"}),
        "secret": When("$.Values.ca.secret", {"secretName": "ph-ca-secret"}),
    }


def labelled(tree: JSON) -> JSON:
    """An object with the release's labels beside its own."""
    metadata = tree["metadata"]
    return {**tree, "metadata": {**metadata, "labels": _with_labels(metadata.get("labels", {}))}}


def _with_labels(own: Mapping[str, Any]) -> Tree:
    if not own:
        return Given("$.Values.labels")
    # YAML has each key once: what selectors look for cannot be said otherwise.
    names = " ".join(f'"{name}"' for name in own)
    return {REST: Items(f"omit $.Values.labels {names}"), **own}


def _call(function: Callable[..., list[JSON]], **arguments: object) -> list[JSON]:
    pods = Pods(spread=(_SPREAD,))
    return function(namespace=NAMESPACE, image=IMAGE, pods=pods, **arguments)


def _konnector() -> Program:
    path, group = "$.Values.konnector", "ph-group"
    trees: Tree = _call(konnector.manifests, bound_groups=(group,))
    for protocol, other in zip(PROTOCOLS, reversed(PROTOCOLS), strict=True):
        trees = _only(f'has "{protocol}" {path}.protocols', trees, _serving_alone(other))
    *others, granted, deployment = trees
    granted["rules"] = [
        Each(f"{path}.boundGroups", "$group", rule) if group in repr(rule) else rule
        for rule in granted["rules"]
    ]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    flag = konnector.protocols_flag(["ph-protocols"])
    container["args"].append(When(f"ne (len {path}.protocols) {len(PROTOCOLS)}", flag))
    return _program(
        "konnector",
        konnector.NAME,
        KONNECTOR_NAMESPACE,
        konnector.LEASE,
        [*others, When(f"{path}.boundGroups", granted), deployment],
        {group: "$group", "ph-protocols": f'join "," {path}.protocols'},
    )


def _serving_alone(protocol: str) -> list[JSON]:
    """The manifests of a konnector that serves one protocol, without the flag that says so."""
    trees = _call(konnector.manifests, protocols=(protocol,), bound_groups=("ph-group",))
    (container,) = trees[-1]["spec"]["template"]["spec"]["containers"]
    container["args"].remove(konnector.protocols_flag([protocol]))
    return trees


def _only(test: str, tree: Tree, other: Tree) -> Any:
    """The tree, with what ``other`` lacks of it where ``test`` holds."""
    if isinstance(tree, dict):
        return {
            key: _only(test, value, other[key]) if key in other else When(test, value)
            for key, value in tree.items()
        }
    if isinstance(tree, list):
        others = {identity(item): item for item in other}
        return [
            item
            if isinstance(item, When)
            else _only(test, item, others[identity(item)])
            if identity(item) in others
            else When(test, item)
            for item in tree
        ]
    return tree


def _postgres() -> Program:
    plain, exported = (_call(postgres.manifests, exported=yes) for yes in (False, True))
    bare = _call(postgres.manifests, user_roles=False)
    people = [one for one in plain if one not in bare]
    trees = [
        When('include "fairlead.userRoles" $', tree) if tree in people else tree
        for tree in when("$.Values.postgres.exported", plain, exported)
    ]
    return _program("postgres", postgres.NAME, POSTGRES_NAMESPACE, postgres.NAME, trees)


def _provider() -> Program:
    path = "$.Values.provider"
    plain = _call(provider.manifests)
    export, claim = "phplural.ph-group", provider.DEFAULT_CLAIMS[0]
    exporting = _call(provider.manifests, exports=(export,))
    invited = _call(provider.manifests, invitations=True)
    trees = when(f"{path}.invitations", plain, invited)
    address = "https://ph-external.invalid"
    (*_, reached) = _call(provider.manifests, external_address=address)
    trees[-1] = when(f"{path}.externalAddress", plain[-1], reached)
    for one in exporting:
        if one in plain:
            continue
        name = one["metadata"]["name"]
        tree: Tree
        if name.endswith(export):
            tree = Each(f"{path}.exports", "$export", one)
        elif name.endswith(f"-claim-{claim}"):
            # The role of the default claim stands for those of all.
            role = msgspec.json.encode(one).decode().replace(claim, "ph-claim")
            claimed = Each(f"{path}.claims", "$claim", msgspec.json.decode(role))
            tree = When(f"{path}.exports", claimed)
        else:
            tree = When(f"{path}.exports", one)
        trees.insert(-1, tree)
    return _program(
        "provider",
        provider.NAME,
        PROVIDER_NAMESPACE,
        provider.NAME,
        trees,
        {
            export: "$export",
            address: f"{path}.externalAddress",
            "phplural": '(splitn "." 2 $export)._0',
            "ph-group": '(splitn "." 2 $export)._1',
            "ph-claim": "$claim",
        },
    )


def _binding() -> Program:
    own, path = "$.Values.binding", "$.Values.binding.webhooks"
    project, one = "phplural.ph-group", "$project"
    plain = _call(binding.manifests)
    serving = _call(binding.manifests, webhooks=True)
    # An upgrade that turns webhooks off deletes the Service before the configurations, which are
    # called until then.
    plain += [one for one in serving if one["kind"] == "Service"]
    projecting = _call(binding.manifests, webhooks=True, projected=(project,))
    for tree in projecting:
        if tree["metadata"]["name"] == f"{binding.NAME}-projected":
            tree["rules"] = [Each(f"{path}.project", one, rule) for rule in tree["rules"]]
    joined = when(f"{path}.project", serving, projecting)
    for tree in joined:
        if isinstance(tree, dict) and tree["kind"] == "Deployment":
            (container,) = tree["spec"]["template"]["spec"]["containers"]
            container["args"] = [
                Each(f"{path}.project", one, flag.value) if isinstance(flag, When) else flag
                for flag in container["args"]
            ] + [
                Each(f"{path}.failOpen", "$webhook", "--fail-open=ph-webhook"),
                When(f"and {path}.project {path}.failClosed", f"--fail-closed={PROJECTOR}"),
            ]
    trees = when(f"{path}.enabled", plain, joined)
    # A value may be a boolean, as `--set` makes one of true.
    allowed = f'{own}.crossNamespace | default "false" | toString'
    for tree in trees:
        if isinstance(tree, dict) and tree["kind"] == "Deployment":
            (container,) = tree["spec"]["template"]["spec"]["containers"]
            container["args"] += [
                When(f'ne ({allowed}) "false"', "--cross-namespace=ph-cross-namespace"),
                Each(
                    f"{own}.crossNamespaceDeniedRequesters",
                    "$requester",
                    "--cross-namespace-denied-requesters=ph-requester",
                ),
            ]
    return _program(
        "binding",
        binding.NAME,
        BINDING_NAMESPACE,
        binding.NAME,
        trees,
        {
            "phplural": f'(splitn "." 2 {one})._0',
            "ph-group": f'(splitn "." 2 {one})._1 | default ""',
            project: one,
            "ph-webhook": "$webhook",
            "ph-cross-namespace": f"(toString {own}.crossNamespace)",
            "ph-requester": "$requester",
        },
    )


def _serve() -> Program:
    path = "$.Values.serve"
    proxy, url, issuer = (
        "192.0.2.77/32",
        "https://ph-external.invalid",
        "https://ph-issuer.invalid",
    )
    arguments = {
        "external_url": url,
        "issuer_url": issuer,
        "client_id": "ph-client",
        "username_prefix": "ph-user-prefix:",
        "groups_prefix": "ph-groups-prefix:",
        "subject_claim": "ph-subject-claim",
        "groups_claim": "ph-groups-claim",
        "most_groups": 4999,
    }
    group, user = "ph-group-name", "ph-user-name"
    plain = _call(serve.manifests, **arguments)
    proxied = _call(serve.manifests, **arguments, trusted_proxies=(proxy,))
    trees = each(f"{path}.trustedProxies", "$proxy", plain, proxied)
    people = {
        "Group": (f"{path}.oidc.allowedGroups", "$group"),
        "User": (f"{path}.oidc.allowedUsers", "$user"),
    }
    anybody = f"or {path}.oidc.allowedGroups {path}.oidc.allowedUsers"
    allowed = _call(serve.manifests, **arguments, allowed_groups=(group,), allowed_users=(user,))
    trees[-2:-2] = _granted(plain, allowed, anybody, people)
    admins = f"{path}.oidc.consoleAdminGroups"
    administrators = _call(serve.manifests, **arguments, console_admin_groups=(group,))
    trees[-2:-2] = _granted(plain, administrators, admins, {"Group": (admins, "$group")})
    return _program(
        "serve",
        SERVE,
        SERVE_NAMESPACE,
        "",
        trees,
        {
            proxy: "$proxy",
            url: f"{path}.externalUrl",
            issuer: f"{path}.oidc.issuerUrl",
            "ph-client": f"{path}.oidc.clientId",
            "ph-user-prefix:": f"{path}.oidc.usernamePrefix",
            "ph-groups-prefix:": f"{path}.oidc.groupsPrefix",
            "ph-subject-claim": f"{path}.oidc.subjectClaim",
            "ph-groups-claim": f"{path}.oidc.groupsClaim",
            "4999": f"(toString {path}.oidc.mostGroups)",
            group: "$group",
            user: "$user",
            serve.CREDENTIALS: f"{path}.oidc.existingSecret",
        },
    )


def _granted(
    plain: Sequence[JSON],
    granting: Sequence[JSON],
    test: str,
    people: Mapping[str, tuple[str, str]],
) -> list[Tree]:
    """Roles of people that are there where any are named, with a subject for each."""
    found: list[Tree] = []
    for tree in granting:
        if tree not in plain:
            if "subjects" in tree:
                tree["subjects"] = [Each(*people[one["kind"]], one) for one in tree["subjects"]]
            found.append(When(test, tree))
    return found


def _program(
    key: Key,
    name: str,
    namespace: str,
    lease: str,
    trees: Sequence[Tree],
    placeholders: Mapping[str, str] | None = None,
) -> Program:
    return Program(
        key=key,
        name=name,
        namespace=namespace,
        lease=lease,
        trees=trees,
        placeholders={
            _SPREAD: "$key",
            "ph-ca-key": "$.Values.ca.key",
            "ph-ca-configmap": "$.Values.ca.configMap",
            "ph-ca-secret": "$.Values.ca.secret",
            **(placeholders or {}),
        },
    )


def programs() -> list[Program]:
    """All of them: those of a consumer's cluster, then those of a provider's."""
    return [_konnector(), _binding(), _provider(), _postgres(), _serve()]
