"""Manifests of the front door with the least rights.

It is reachable without sign-in, so it has a namespace of its own, no access to Secrets elsewhere
and no right on RBAC. People may bind by ``kube-bind-oidc-user``, or by another role with the verb
``bind``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fairlead.api.flags import Flag, arguments, separated
from fairlead.api.kubebind import GROUP, LABEL_AGGREGATE_TO_SERVE
from fairlead.api.manifests import DEFAULT_PODS, RBAC_GROUP, READ_VERBS, PodProgram, Pods, rule
from fairlead.api.meta import JSON
from fairlead.binding.options import DEFAULT_NAMESPACE as BINDING
from fairlead.portal.options import (
    DEFAULT_NAMESPACE,
    LARGEST_MOST_GROUPS,
    NAME,
    ExternalURL,
    PersonClaims,
    ServeOptions,
    parse_issuer_url,
)
from fairlead.postgres.options import DEFAULT_NAMESPACE as OPERATOR
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER


USERS_ROLE = "kube-bind-oidc-user"
"""The ClusterRole of people who may bind all templates, with kube-bind's name."""
SHOWN_ROLE = f"{NAME}-exports"
"""The aggregated ClusterRole of those that ``fairlead manifests provider --export`` prints."""
CONSOLE_ADMIN = "fairlead-console-admin"
"""The ClusterRole of administrators, who see all consumers on pages."""
CREDENTIALS = "fairlead-serve-oidc"
"""The Secret with the client_secret at the issuer; a public client has none."""
PORT = 8080
_SHARED = frozenset({"default", BINDING, OPERATOR, PROVIDER})
"""Namespaces of Fairlead's other programs, and default."""
_CLAIMS = PersonClaims()
_METRICS_PORT = 8082
"""Port of metrics; the usual 8080 is taken by the pages."""


def manifests(
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str,
    external_url: Annotated[str, Flag(metavar="URL")],
    issuer_url: Annotated[str, Flag("--oidc-issuer-url", "URL")],
    client_id: Annotated[str, Flag("--oidc-issuer-client-id", "ID")],
    trusted_proxies: Annotated[Sequence[str], Flag(metavar="NETWORK", parse=separated)] = (),
    allowed_groups: Annotated[
        Sequence[str],
        Flag("--oidc-allowed-group --oidc-allowed-groups", "GROUP", parse=separated),
    ] = (),
    allowed_users: Annotated[
        Sequence[str], Flag("--oidc-allowed-user --oidc-allowed-users", "SUB", parse=separated)
    ] = (),
    console_admin_groups: Annotated[
        Sequence[str],
        Flag("--console-admin-group --console-admin-groups", "GROUP", parse=separated),
    ] = (),
    username_prefix: Annotated[str, Flag("--oidc-username-prefix", "TEXT", None)] = "oidc:",
    groups_prefix: Annotated[str, Flag("--oidc-groups-prefix", "TEXT", None)] = "oidc:",
    subject_claim: Annotated[str, Flag("--oidc-subject-claim", "NAME", None)] = _CLAIMS.subject,
    groups_claim: Annotated[str, Flag("--oidc-groups-claim", "NAME", None)] = _CLAIMS.groups,
    most_groups: Annotated[
        int, Flag("--oidc-most-groups", default=None, least=1, most=LARGEST_MOST_GROUPS)
    ] = _CLAIMS.most_groups,
    pods: Pods = DEFAULT_PODS,
) -> list[JSON]:
    """Return all manifests in order. The Pods serve http: an Ingress terminates TLS.

    Args:
        namespace: the server's namespace, used by nothing else.
        image: the container image.
        external_url: address of its Ingress for browsers and CLIs.
        issuer_url: URL of the OpenID Connect issuer.
        client_id: client id at the issuer. A client secret goes into the Secret
            fairlead-serve-oidc, key client-secret.
        trusted_proxies: network of the Ingress controller's Pods, such as 10.0.0.0/8.
        allowed_groups: group of the issuer that may bind all that is offered.
        allowed_users: person of the issuer who may bind all that is offered.
        console_admin_groups: group of the issuer that sees all consumers on the pages.
        username_prefix: prefix of user names in RBAC; default: oidc:
        groups_prefix: prefix of group names in RBAC; default: oidc:
        subject_claim: claim of the id_token that identifies the owner of what a person binds; the
            issuer must never give its value to another person; default: sub
        groups_claim: claim of the id_token with a person's groups; default: groups
        most_groups: largest number of groups that a person may have; default: 2000
        pods: number, resources and placement of Pods; all replicas are active.

    Raises:
        ValueError: a value cannot be used; the message names the flag.
    """
    _check_namespace(namespace)
    external = ExternalURL.parse(external_url)
    if not external.secure:
        raise ValueError(f"--external-url {external_url!r} has to be https: an Ingress ends it")
    if not client_id:
        raise ValueError("--oidc-issuer-client-id is missing: give the client id at the issuer")
    flags = arguments(
        ServeOptions,
        {
            "listen_address": f"0.0.0.0:{PORT}",
            "external_url": external.absolute(""),
            "trusted_proxies": tuple(trusted_proxies),
            "oidc_issuer_url": parse_issuer_url(issuer_url),
            "oidc_issuer_client_id": client_id,
            "oidc_username_prefix": username_prefix,
            "oidc_groups_prefix": groups_prefix,
            "oidc_subject_claim": subject_claim,
            "oidc_groups_claim": groups_claim,
            "oidc_most_groups": most_groups,
        },
    )
    secret = {"name": CREDENTIALS, "key": "client-secret", "optional": True}
    program = PodProgram(
        name=NAME,
        namespace=namespace,
        image=image,
        command=("provider", "serve"),
        pods=pods,
        ports={"http": PORT},
        metrics_port=_METRICS_PORT,
        flags=flags,
        # Pods start without the Secret, as a public client has none.
        environment=({"name": "OIDC_CLIENT_SECRET", "valueFrom": {"secretKeyRef": secret}},),
    )
    return [
        *program.account(),
        *_rights(program),
        *users(
            allowed_groups,
            allowed_users,
            username_prefix=username_prefix,
            groups_prefix=groups_prefix,
        ),
        *console_admins(console_admin_groups, groups_prefix=groups_prefix),
        program.service({"http": 80}),
        program.deployment(),
    ]


def _rights(program: PodProgram) -> list[JSON]:
    own = [
        # Sessions, keys and answers to binds. Update is for keys: sessions are immutable.
        rule("", ["secrets"], (*READ_VERBS, "create", "update", "delete")),
        rule(GROUP, ["bindableresourcesrequests"], (*READ_VERBS, "create", "delete")),
    ]
    offered = ["apiserviceexporttemplates", "collections", "apiserviceexports", "clusterbindings"]
    catalogue = [
        rule(GROUP, offered, READ_VERBS),
        # Pages show the schemas of a template's resources.
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], READ_VERBS),
        rule("", ["namespaces"], READ_VERBS),
        rule("authorization.k8s.io", ["subjectaccessreviews"], ("create",)),
    ]
    roles = (
        program.role(NAME, own),
        program.cluster_role(NAME, catalogue),
        program.aggregated_role(SHOWN_ROLE, LABEL_AGGREGATE_TO_SERVE),
    )
    return [item for role in roles for item in (role, program.bound(role))]


def _check_namespace(namespace: str) -> None:
    """Refuse a namespace with ServiceAccounts of another program.

    Raises:
        ValueError: the namespace is shared.
    """
    if namespace in _SHARED or namespace.startswith("kube-"):
        raise ValueError(
            f"--namespace {namespace} has ServiceAccounts of other programs: the server may "
            "create Secrets there, and a Secret with a token would let it act as any of them; "
            "give it a namespace of its own"
        )


def users(
    allowed_groups: Sequence[str],
    allowed_users: Sequence[str],
    *,
    username_prefix: str,
    groups_prefix: str,
) -> list[JSON]:
    """Return the ClusterRole of people who may bind everything, and its binding.

    Raises:
        ValueError: a name begins with ``system:``.
    """
    named = [
        *(("Group", "--oidc-allowed-group", groups_prefix + name) for name in allowed_groups),
        *(("User", "--oidc-allowed-user", username_prefix + name) for name in allowed_users),
    ]
    if not named:
        return []
    program = PodProgram(name=NAME, namespace="", image="", command=())
    role = program.cluster_role(
        USERS_ROLE, [rule(GROUP, ["apiserviceexporttemplates"], ("bind",))]
    )
    return [role, _bound(program, role, named)]


def console_admins(groups: Sequence[str], *, groups_prefix: str) -> list[JSON]:
    """Return the ClusterRole of administrators of the pages, and its binding to groups.

    Raises:
        ValueError: a name begins with ``system:``.
    """
    program = PodProgram(name=NAME, namespace="", image="", command=())
    role = program.cluster_role(CONSOLE_ADMIN, [rule(GROUP, ["clusterbindings"], ("list",))])
    named = [("Group", "--console-admin-group", groups_prefix + name) for name in groups]
    return [role, *([_bound(program, role, named)] if named else [])]


def _bound(program: PodProgram, role: JSON, named: Sequence[tuple[str, str, str]]) -> JSON:
    """Return a role's binding to users and groups, each given with its flag.

    Raises:
        ValueError: a name begins with ``system:``.
    """
    for _, flag, name in named:
        if name.startswith("system:"):
            raise ValueError(f"{flag}: {name!r} is a name that Kubernetes reserves: remove it")
    subjects = [{"kind": kind, "apiGroup": RBAC_GROUP, "name": name} for kind, _, name in named]
    return program.bound(role) | {"subjects": subjects}
