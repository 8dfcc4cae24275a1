"""Definitions for kinds of other projects that have none themselves."""

from __future__ import annotations


_PERCONA_MYSQL = {
    "service.binding/type": "mysql",
    "service.binding/provider": "percona",
    "service.binding": "path={.spec.secretsName},objectType=Secret",
    "service.binding/database": "mysql",
    "service.binding/host": "path={.status.host}",
    "service.binding/port": "3306",
    "service.binding/username": "root",
    "service.binding/password": "path={.spec.secretsName},objectType=Secret,sourceValue=root",
}
_PERCONA_MONGODB = {
    "service.binding/type": "mongodb",
    "service.binding/provider": "percona",
    "service.binding": "path={.spec.secrets.users},objectType=Secret",
    "service.binding/username": (
        "path={.spec.secrets.users},objectType=Secret,sourceValue=MONGODB_USER_ADMIN_USER"
    ),
    "service.binding/password": (
        "path={.spec.secrets.users},objectType=Secret,sourceValue=MONGODB_USER_ADMIN_PASSWORD"
    ),
    "service.binding/host": "path={.status.host}",
}
_CRUNCHY = "path={.metadata.name}-pguser-{.metadata.name},objectType=Secret"
_ENTERPRISE = "path={.metadata.name}-{.spec.bootstrap.initdb.owner},objectType=Secret"

_REGISTRY: dict[tuple[str, str], dict[str, str]] = {
    ("redis.redis.opstreelabs.in/v1beta1", "Redis"): {
        "service.binding/type": "redis",
        "service.binding/host": "path={.metadata.name}",
        "service.binding/password": (
            "path={.spec.kubernetesConfig.redisSecret.name},objectType=Secret,"
            "sourceValue=password,optional=true"
        ),
    },
    ("postgres-operator.crunchydata.com/v1beta1", "PostgresCluster"): {
        "service.binding/type": "postgresql",
        "service.binding/provider": "crunchydata",
        "service.binding": _CRUNCHY,
        "service.binding/database": f"{_CRUNCHY},sourceValue=dbname",
        "service.binding/username": f"{_CRUNCHY},sourceValue=user",
        "service.binding/cert": "path={.metadata.name}-cluster-cert,objectType=Secret",
    },
    ("postgresql.k8s.enterprisedb.io/v1", "Cluster"): {
        "service.binding/type": "postgresql",
        "service.binding/provider": "enterprisedb",
        "service.binding": _ENTERPRISE,
        "service.binding/host": "path={.status.writeService}",
        "service.binding/database": "path={.spec.bootstrap.initdb.database}",
    },
    **{
        (f"pxc.percona.com/{version}", "PerconaXtraDBCluster"): _PERCONA_MYSQL
        for version in ("v1-8-0", "v1-9-0", "v1-10-0")
    },
    **{
        (f"psmdb.percona.com/{version}", "PerconaServerMongoDB"): _PERCONA_MONGODB
        for version in ("v1-9-0", "v1-10-0", "v1")
    },
}


def registered(api_version: str, kind: str) -> dict[str, str]:
    """The annotations a kind is given, {} for kinds that are not known."""
    return _REGISTRY.get((api_version, kind), {})
