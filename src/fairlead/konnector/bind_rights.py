"""The rights that a binding gives the konnector, written by whoever accepts it."""

from __future__ import annotations

from fairlead.api.kubebind import ExportRequestResponse, bindable
from fairlead.api.kubebind.claims import check_claims
from fairlead.api.resource import CLUSTERROLES
from fairlead.client import Client, NotFound
from fairlead.konnector.bind_request import BindError, Progress
from fairlead.konnector.bind_secret import ensure
from fairlead.konnector.roles import binding_roles


def check_rights(request: ExportRequestResponse, *, blame: str) -> None:
    """The konnector is given rights on what a provider names: on nothing of the cluster itself.

    Raises:
        BindError: it names more; the message ends with ``blame``.
    """
    for item in request.spec.resources:
        if not bindable(item.group):
            raise BindError(
                f"request {request.metadata.name} asks to bind {item.name}, a kind of Kubernetes "
                f"or kube-bind itself, which no provider can offer: {blame}"
            )
    if error := check_claims(request.spec.permission_claims):
        raise BindError(f"request {request.metadata.name}: {error.message}: {blame}")


async def ensure_roles(client: Client, request: ExportRequestResponse, progress: Progress) -> None:
    """The konnector's rights on what is bound, and the Service Binding operator's.

    Raises:
        ClientError: the server refused or cannot be reached.
    """
    spec = request.spec
    for role in binding_roles(request.metadata.name, spec.resources, spec.permission_claims):
        name = role["metadata"]["name"]
        try:
            found = await client.get(CLUSTERROLES, name)
        except NotFound:
            await ensure(client, CLUSTERROLES, role, progress)
            continue
        old = found.to_dict()
        labels = {**old["metadata"].get("labels", {}), **role["metadata"]["labels"]}
        new = {**old, "metadata": {**old["metadata"], "labels": labels}, "rules": role["rules"]}
        if new != old:
            await client.update(CLUSTERROLES, new)
            progress(f"updated ClusterRole {name}")
