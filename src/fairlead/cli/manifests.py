"""``fairlead manifests``: objects that a cluster needs to run a program, as YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, get_args

import click

from fairlead.api.manifests import Pods, labelled
from fairlead.api.meta import JSON
from fairlead.binding.admission.names import PROJECTOR, WEBHOOKS
from fairlead.binding.manifests import manifests as binding
from fairlead.binding.options import DEFAULT_DENIED, CrossNamespace, denied_mistake
from fairlead.cli.crds import to_yaml
from fairlead.cli.placing import labels_of, pod_options, pods_of
from fairlead.konnector.manifests import manifests as konnector
from fairlead.portal.manifests import manifests as serve
from fairlead.portal.options import LARGEST_MOST_GROUPS, PersonClaims
from fairlead.postgres.manifests import manifests as postgres
from fairlead.provider.manifests import manifests as provider


# A "+" of a local version can be in no tag.
DEFAULT_IMAGE = f"fairlead:{version('fairlead').replace('+', '-')}"
_PROGRAMS: dict[str, Callable[..., list[JSON]]] = {
    "binding": binding,
    "konnector": konnector,
    "postgres": postgres,
    "provider": provider,
    "serve": serve,
}


@click.command("manifests")
@click.argument("program", type=click.Choice(sorted(_PROGRAMS)))
@click.option(
    "--namespace", help="Namespace that the program runs in; each program has its own default."
)
@click.option(
    "--image",
    default=DEFAULT_IMAGE,
    show_default=True,
    help="Image of the program, as `make image` or the Dockerfile builds it; nodes pull it if "
    "they do not have it.",
)
@pod_options
@click.option(
    "--export",
    "exports",
    multiple=True,
    metavar="PLURAL.GROUP",
    help="provider only: resource that may be offered; adds the rights on it. May be given "
    "several times.",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="PLURAL",
    help="provider only: core resource that may be claimed beside exports; may be given several "
    "times. Default: secrets.",
)
@click.option(
    "--invitations",
    is_flag=True,
    help="provider only: let it answer BindableResourcesRequests, as serve needs it; this has the "
    "power of an administrator.",
)
@click.option(
    "--external-address",
    default="",
    metavar="URL",
    help="provider only: address of this cluster's API server for consumers that bind by the "
    "front door, https://...",
)
@click.option(
    "--exported",
    is_flag=True,
    help="postgres only: let kube-bind's provider offer PostgresAccess.",
)
@click.option(
    "--user-roles/--no-user-roles",
    default=True,
    show_default=True,
    help="postgres only: let people with edit or admin in a namespace write the PostgresAccesses "
    "there, and so make database logins, and people with view read them.",
)
@click.option(
    "--cross-namespace",
    type=click.Choice(get_args(CrossNamespace)),
    default="false",
    show_default=True,
    help="binding only: whether bindings may name services of other namespaces: never, with the "
    "rights of who asks (which needs --webhooks), or always.",
)
@click.option(
    "--cross-namespace-denied-requesters",
    "denied_requesters",
    multiple=True,
    metavar="NAME",
    help="binding only: user or group whose bindings may not with --cross-namespace requester; "
    "default: service accounts of other namespaces. May be given several times.",
)
@click.option(
    "--webhooks",
    is_flag=True,
    help="binding only: serve admission webhooks, and let API servers call them.",
)
@click.option(
    "--fail-open",
    type=click.Choice(WEBHOOKS),
    multiple=True,
    help="binding only: let writes go on while this webhook cannot be reached.",
)
@click.option(
    "--project",
    "projected",
    multiple=True,
    metavar="PLURAL.GROUP",
    help="binding only: bind workloads of this resource, such as jobs.batch, when they are "
    "created; needs --webhooks.",
)
@click.option(
    "--fail-closed",
    type=click.Choice([PROJECTOR]),
    help="binding only: refuse workloads to be bound while this webhook cannot be reached.",
)
@click.option(
    "--external-url",
    default="",
    metavar="URL",
    help="serve only, required: address of its Ingress for browsers and CLIs.",
)
@click.option(
    "--oidc-issuer-url",
    default="",
    metavar="URL",
    help="serve only, required: URL of the OpenID Connect issuer.",
)
@click.option(
    "--oidc-issuer-client-id",
    default="",
    metavar="ID",
    help="serve only, required: client id at the issuer. A client secret goes into the Secret "
    "fairlead-serve-oidc, key client-secret.",
)
@click.option(
    "--trusted-proxies",
    multiple=True,
    metavar="NETWORK",
    help="serve only: network of the Ingress controller's Pods, such as 10.0.0.0/8.",
)
@click.option(
    "--oidc-allowed-group",
    "--oidc-allowed-groups",
    "allowed_groups",
    multiple=True,
    metavar="GROUP",
    help="serve only: group of the issuer that may bind all that is offered.",
)
@click.option(
    "--oidc-allowed-user",
    "--oidc-allowed-users",
    "allowed_users",
    multiple=True,
    metavar="SUB",
    help="serve only: person of the issuer who may bind all that is offered.",
)
@click.option(
    "--console-admin-group",
    "--console-admin-groups",
    "console_admin_groups",
    multiple=True,
    metavar="GROUP",
    help="serve only: group of the issuer that sees all consumers on the pages.",
)
@click.option(
    "--oidc-username-prefix",
    metavar="TEXT",
    help="serve only: prefix of names of people in RBAC; default: oidc:",
)
@click.option(
    "--oidc-groups-prefix",
    metavar="TEXT",
    help="serve only: prefix of names of groups in RBAC; default: oidc:",
)
@click.option(
    "--oidc-subject-claim",
    metavar="NAME",
    help="serve only: claim of the id_token that owns what a person binds, which the issuer must "
    "never give to another person; default: sub",
)
@click.option(
    "--oidc-groups-claim",
    metavar="NAME",
    help="serve only: claim of the id_token with a person's groups; default: groups",
)
@click.option(
    "--oidc-most-groups",
    type=click.IntRange(1, LARGEST_MOST_GROUPS),
    help="serve only: largest number of a person's groups; default: 2000",
)
def command(
    program: str,
    namespace: str | None,
    image: str,
    exports: tuple[str, ...],
    claims: tuple[str, ...],
    invitations: bool,
    external_address: str,
    exported: bool,
    user_roles: bool,
    cross_namespace: CrossNamespace,
    denied_requesters: tuple[str, ...],
    webhooks: bool,
    fail_open: tuple[str, ...],
    projected: tuple[str, ...],
    fail_closed: str | None,
    labels: tuple[str, ...],
    **more: Any,
) -> None:
    """Print namespace, ServiceAccount, least-privilege RBAC and Deployment as YAML.

    \b
    Examples:
        fairlead manifests konnector | kubectl apply -f -
        fairlead manifests provider --export widgets.example.org
        fairlead manifests postgres --exported --memory-limit 1Gi
        fairlead manifests serve --external-url https://bind.example.org \\
            --oidc-issuer-url https://login.example.org --oidc-issuer-client-id fairlead
    """  # noqa: D301
    pods = pods_of(**{name: more.pop(name) for name in _POD_FLAGS})
    arguments: dict[str, object] = {"image": image, "pods": pods}
    if namespace:
        arguments["namespace"] = namespace
    for flag, owner, name, value in (
        ("--export", "the provider", "exports", exports),
        ("--claim", "the provider", "claims", claims),
        ("--invitations", "the provider", "invitations", invitations),
        ("--external-address", "the provider", "external_address", external_address),
        ("--exported", "postgres", "exported", exported),
        ("--no-user-roles", "postgres", "user_roles", not user_roles),
    ):
        if value:
            if program != owner.removeprefix("the "):
                raise click.UsageError(f"{flag} is for {owner} only")
            arguments[name] = value
    if not user_roles:
        arguments["user_roles"] = False
    if fail_open and not webhooks:
        raise click.UsageError("--fail-open needs --webhooks")
    if projected and not webhooks:
        raise click.UsageError("--project needs --webhooks")
    if fail_closed and not projected:
        raise click.UsageError("--fail-closed needs --project")
    if cross_namespace != "false" or denied_requesters:
        if program != "binding":
            raise click.UsageError("--cross-namespace is for binding only")
        if cross_namespace == "requester" and not webhooks:
            raise click.UsageError("--cross-namespace requester needs --webhooks")
        if wrong := denied_mistake(cross_namespace, denied_requesters or DEFAULT_DENIED):
            raise click.UsageError(wrong)
        arguments |= {"cross_namespace": cross_namespace, "denied_requesters": denied_requesters}
    if webhooks:
        if program != "binding":
            raise click.UsageError("--webhooks is for binding only")
        arguments |= {"webhooks": True, "fail_open": fail_open}
        arguments |= {"projected": projected, "fail_closed": bool(fail_closed)}
    if program == "serve":
        arguments |= _serving(more)
    elif given := [name for name, value in more.items() if value not in {None, "", ()}]:
        raise click.UsageError(f"{_flag(given[0])} is for serve only")
    try:
        documents = labelled(_PROGRAMS[program](**arguments), labels_of(labels))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(to_yaml(documents), nl=False)


_POD_FLAGS = Pods.__struct_fields__
_RENAMED = {
    "oidc_issuer_url": "issuer_url",
    "oidc_issuer_client_id": "client_id",
    "oidc_username_prefix": "username_prefix",
    "oidc_groups_prefix": "groups_prefix",
}
_CLAIMS = {
    "oidc_subject_claim": "subject",
    "oidc_groups_claim": "groups",
    "oidc_most_groups": "most_groups",
}
_NEEDED = ("external_url", "oidc_issuer_url", "oidc_issuer_client_id")
_SEVERAL = ("allowed_groups", "allowed_users", "console_admin_groups", "trusted_proxies")


def _serving(given: Mapping[str, Any]) -> dict[str, object]:
    """Return the arguments of serve's manifests.

    Raises:
        click.UsageError: one is missing.
    """
    for name in _NEEDED:
        if not given[name]:
            raise click.UsageError(f"serve needs {_flag(name)}")
    found = dict(given)
    for name in _SEVERAL:
        # Such a flag may be repeated, or have several values with commas, as Go's string slices.
        words = ",".join(given[name]).split(",")
        found[name] = tuple(filter(None, map(str.strip, words)))
    claims = {claim: found.pop(flag) for flag, claim in _CLAIMS.items()}
    found["claims"] = PersonClaims(**{key: v for key, v in claims.items() if v is not None})
    return {_RENAMED.get(name, name): value for name, value in found.items() if value is not None}


def _flag(name: str) -> str:
    short = {
        "allowed_groups": "oidc-allowed-group",
        "allowed_users": "oidc-allowed-user",
        "console_admin_groups": "console-admin-group",
    }
    return "--" + short.get(name, name.replace("_", "-"))
