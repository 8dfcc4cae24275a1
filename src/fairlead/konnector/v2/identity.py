"""Identity of a cluster: the uid by which kbind v2 tells it from another one."""

from __future__ import annotations

from fairlead.api.kbind.names import IDENTITY_NAMESPACE, LOGICALCLUSTER_NAME, LOGICALCLUSTERS
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client, Forbidden, NotFound, NotServed
from fairlead.client.lookups import find


async def cluster_uid(client: Client) -> str:
    """Return the uid of kcp's LogicalCluster, or that of namespace kube-system where none is.

    Raises:
        Forbidden: the credentials may read neither.
        ClientError: the server refused the look or cannot be reached.
    """
    return (
        await _workspace_uid(client) or (await client.get(NAMESPACES, IDENTITY_NAMESPACE)).meta.uid
    )


async def _workspace_uid(client: Client) -> str:
    try:
        workspace = await find(client, LOGICALCLUSTERS, LOGICALCLUSTER_NAME)
    except NotFound:
        return ""
    except Forbidden:
        # Rights are checked before the kind is looked for: most servers do not have it.
        if await _has_workspaces(client):
            raise
        return ""
    return workspace.meta.uid if workspace is not None else ""


async def _has_workspaces(client: Client) -> bool:
    try:
        await client.discovery.resource_by_plural(LOGICALCLUSTERS.group, LOGICALCLUSTERS.plural)
    except NotServed:
        return False
    return True
