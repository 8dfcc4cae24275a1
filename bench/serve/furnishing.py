"""What the front door of the benchmark stands on: kinds, rights, templates, and the program."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from bench.loading import regrouped
from bench.processes import Program, running
from bench.serve.calls import BARE_BINDINGS, BARE_REQUESTS
from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    CLUSTERBINDINGS,
    provider_crds,
)
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLEBINDINGS, CLUSTERROLES
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import create_all
from fairlead.portal import manifests as serving_manifests
from fairlead.portal.identity.embedded.passwords import hash_line
from fairlead.provider import manifests as providing
from fairlead.runtime import install_crds


TEMPLATES = 100
ALL, HALF = "all", "half"
"""Groups of people who may bind all templates, and half of them by name."""


async def furnish(admin: Client) -> None:
    """Create the kinds, the programs' rights, templates, and what people may."""
    await install_crds(admin, provider_crds())
    twins = {
        BINDABLERESOURCESREQUESTS.group_resource: BARE_REQUESTS,
        CLUSTERBINDINGS.group_resource: BARE_BINDINGS,
    }
    await install_crds(
        admin,
        [
            regrouped(crd, twins[crd["metadata"]["name"]])
            for crd in provider_crds()
            if crd["metadata"]["name"] in twins
        ],
    )
    await create_all(admin, providing.manifests(image="bench", invitations=True))
    bodies = serving_manifests.manifests(
        image="bench",
        external_url="https://bind.example.org",
        issuer_url="https://login.example.org",
        client_id="bench",
    )
    templates = [template(number) for number in range(TEMPLATES)]
    half = [one["metadata"]["name"] for one in templates[::2]]
    await create_all(admin, [*bodies, *templates, *_allowed(ALL), *_allowed(HALF, half)])


def serving(
    account: ClusterConfig, folder: Path, port: int
) -> AbstractAsyncContextManager[Program]:
    """Run the front door, without limits of what an address or a person may ask."""
    people = folder / "people.yaml"
    people.write_text(f"people: [{{name: bench, password: {hash_line('bench')!r}}}]")
    flags = (
        *(f"--listen-address=127.0.0.1:{port}", "--oidc-type=embedded"),
        *(f"--oidc-people-file={people}", "--requests-per-address=0", "--requests-per-person=0"),
    )
    return running("provider", account, folder, *flags, verb="serve")


def template(number: int) -> JSON:
    resources = [{"group": "example.org", "resource": f"widgets{number}", "versions": ["v1"]}]
    claims = [{"group": "", "resource": "secrets", "selector": {"all": True}}]
    return {
        "apiVersion": API_VERSION,
        "kind": APISERVICEEXPORTTEMPLATES.kind,
        "metadata": {"name": f"widgets-{number:03}"},
        "spec": {"scope": "Namespaced", "resources": resources, "permissionClaims": claims},
    }


def _allowed(group: str, names: Sequence[str] = ()) -> list[JSON]:
    """A ClusterRole to bind these templates, or all, and its binding to a group."""
    name, api = f"bench-{group}", CLUSTERROLES.group
    allowed = rule(APISERVICEEXPORTTEMPLATES.group, [APISERVICEEXPORTTEMPLATES.plural], ("bind",))
    if names:
        allowed["resourceNames"] = list(names)
    subject = {"kind": "Group", "apiGroup": api, "name": f"oidc:{group}"}
    return [
        {
            "apiVersion": CLUSTERROLES.api_version,
            "kind": CLUSTERROLES.kind,
            "metadata": {"name": name},
            "rules": [allowed],
        },
        {
            "apiVersion": CLUSTERROLEBINDINGS.api_version,
            "kind": CLUSTERROLEBINDINGS.kind,
            "metadata": {"name": name},
            "roleRef": {"apiGroup": api, "kind": CLUSTERROLES.kind, "name": name},
            "subjects": [subject],
        },
    ]
