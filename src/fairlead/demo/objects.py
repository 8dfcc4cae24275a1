"""The objects of the story, as a platform team and an app team would write them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fairlead.api.meta import JSON


ACCESS_GROUP = "access.k8s.delta10.nl"
SERVER = "main"
TEMPLATE = "postgres"
DATABASE = "shop"
NAMESPACE = "shop"
APP = "shop"
ACCESS = "shop-database"
SECRET = "shop-database-login"  # noqa: S105
USERNAME = "shop"
TEAM = "shop"
OTHER_TEAM = "blog"


def server(
    host: str,
    port: int,
    *,
    name: str = SERVER,
    secret: str = "",
    databases: Sequence[str] = (DATABASE,),
) -> JSON:
    """Return the platform team's PostgresServer, whose credentials only the operator reads."""
    return {
        "apiVersion": f"{ACCESS_GROUP}/v1",
        "kind": "PostgresServer",
        "metadata": {"name": name},
        "spec": {
            "host": host,
            "port": port,
            # All clusters of the story, and their apps, are on this machine.
            "externalHost": host,
            # The embedded server has no certificate, and listens on loopback alone.
            "sslMode": "disable",
            "credentialsSecretRef": {"name": secret or f"{name}-admin"},
            # The empty selector takes every namespace: the provider chooses the names of those for
            # copies.
            "allowedNamespaces": {},
            "allowedDatabases": list(databases),
        },
    }


def server_secret(namespace: str, username: str, password: str, *, name: str = "") -> JSON:
    """Return the administrator's credentials, in the operator's own namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name or f"{SERVER}-admin", "namespace": namespace},
        "stringData": {"username": username, "password": password},
    }


def template() -> JSON:
    """Return the template for consumers: PostgresAccess, with a claim on its generated Secret."""
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": TEMPLATE},
        "spec": {
            "description": "A login to a PostgreSQL database",
            "scope": "Namespaced",
            "resources": [
                {"group": ACCESS_GROUP, "resource": "postgresaccesses", "versions": ["v1"]}
            ],
            "permissionClaims": [
                {
                    "group": "",
                    "resource": "secrets",
                    "selector": {
                        "references": [
                            {
                                "group": ACCESS_GROUP,
                                "resource": "postgresaccesses",
                                "versions": ["v1"],
                                # gjson paths, by which the claim follows each PostgresAccess to
                                # its Secret.
                                "jsonPath": {
                                    "name": "spec.generatedSecret",
                                    "namespace": "metadata.namespace",
                                },
                            }
                        ]
                    },
                }
            ],
        },
    }


def may_bind() -> tuple[JSON, JSON]:
    """Return a ClusterRole and its binding, which let one team bind the template."""
    name, api_version = f"bind-{TEMPLATE}", "rbac.authorization.k8s.io/v1"
    rule = {
        "apiGroups": ["kube-bind.io"],
        "resources": ["apiserviceexporttemplates"],
        "resourceNames": [TEMPLATE],
        "verbs": ["bind"],
    }
    return (
        {
            "apiVersion": api_version,
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [rule],
        },
        {
            "apiVersion": api_version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": name,
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    # The front door prefixes the issuer's groups with "oidc:".
                    "name": f"oidc:{TEAM}",
                }
            ],
        },
    )


def bind_request(identity: str) -> JSON:
    """Return the BindableResourcesRequest with which a team's CLI asks to bind the template.

    ``identity`` is the identity of the team's cluster.
    """
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BindableResourcesRequest",
        "metadata": {"name": TEMPLATE},
        "spec": {
            "templateRef": {"name": TEMPLATE},
            "clusterIdentity": {"identity": identity},
        },
    }


def namespace(name: str = NAMESPACE) -> JSON:
    """Return the app team's namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def access(
    privileges: Sequence[str], *, name: str = ACCESS, in_namespace: str = NAMESPACE,
    username: str = USERNAME, secret: str = SECRET, server_name: str = SERVER,
) -> JSON:  # fmt: skip
    """Return the app team's first manifest: the wanted privileges in a database."""
    return {
        "apiVersion": f"{ACCESS_GROUP}/v1",
        "kind": "PostgresAccess",
        "metadata": {"name": name, "namespace": in_namespace},
        "spec": {
            "connection": {"serverRef": {"name": server_name}},
            "username": username,
            "generatedSecret": secret,
            "grants": [{"database": DATABASE, "schema": "public", "privileges": list(privileges)}],
        },
    }


def deployment(*, name: str = APP, in_namespace: str = NAMESPACE) -> JSON:
    """Return the second manifest: the app, which does not mention databases."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": in_namespace, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [
                        {
                            "name": "app",
                            # API servers want an image; the command runs on this machine, in this
                            # Python.
                            "image": "shop:1",
                            "command": [sys.executable, "-m", "fairlead.demo.app"],
                        }
                    ]
                },
            },
        },
    }


def binding(*, name: str = APP, in_namespace: str = NAMESPACE, access_name: str = ACCESS) -> JSON:
    """Return the third manifest: the binding that gives the app the login."""
    return {
        "apiVersion": "servicebinding.io/v1",
        "kind": "ServiceBinding",
        "metadata": {"name": name, "namespace": in_namespace},
        "spec": {
            "service": {
                "apiVersion": f"{ACCESS_GROUP}/v1",
                "kind": "PostgresAccess",
                "name": access_name,
            },
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        },
    }
