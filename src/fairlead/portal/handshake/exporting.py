"""Export requests for binds by a page, created with the consumer's own credentials.

The konnector's bundle binds existing exports, so nothing in the consumer's cluster creates the
request. The server has no right to create it, but holds the consumer's token during the bind.
"""

from __future__ import annotations

import asyncio
import base64

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APIServiceExportRequest,
    ExportRequestSpec,
)
from fairlead.api.meta import JSON, Object
from fairlead.client import AlreadyExists, Client, ClusterConfig, Forbidden, parse_kubeconfig
from fairlead.konnector.commands.request import in_vain


SECONDS = 10.0
"""Longest wait for a request, in seconds: new RBAC of the consumer applies with a delay."""
_LOOK_AGAIN_SECONDS = 0.2
"""Delay before a request that RBAC refused is sent again, in seconds."""


def as_consumer(server: ClusterConfig, token: str, namespace: str = "") -> ClusterConfig:
    """Return the configuration of our API server with a consumer's token.

    Args:
        server: address and CA; its credentials are not used.
        token: the consumer's token.
        namespace: the consumer's cluster namespace.
    """
    return ClusterConfig(
        server=server.server,
        namespace=namespace,
        certificate_authority=server.certificate_authority,
        tls_server_name=server.tls_server_name,
        insecure_skip_tls_verify=server.insecure_skip_tls_verify,
        proxy_url=server.proxy_url,
        token=token,
    )


async def request_export(server: ClusterConfig, answer: JSON, request: JSON) -> str:
    """Make sure that the consumer's namespace has a request, and return its name.

    An existing request with the same spec that leads to an export is reused. If the name is
    taken by another, the new name begins with it.

    Args:
        server: address and CA of the provider; its credentials are not used.
        answer: the consumer's BindingResponse.
        request: an APIServiceExportRequest with its name.

    Raises:
        ClientError: the API server refused or is unavailable.
        TimeoutError: the API server does not answer, or the consumer gets no rights.
    """
    config = as_consumer(server, parse_kubeconfig(base64.b64decode(answer["kubeconfig"])).token)
    namespace: str = answer["providerNamespace"]
    async with Client(config) as consumer, asyncio.timeout(SECONDS):
        while True:
            try:
                return await _requested(consumer, namespace, request)
            except Forbidden:
                # The API server's authorizer learns of a new RoleBinding by a watch.
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _requested(consumer: Client, namespace: str, request: JSON) -> str:
    name: str = request["metadata"]["name"]
    try:
        made = await consumer.create(APISERVICEEXPORTREQUESTS, request, namespace)
    except AlreadyExists:
        wanted = msgspec.convert(request["spec"], ExportRequestSpec)
        for one in (await consumer.list(APISERVICEEXPORTREQUESTS, namespace)).items:
            known = one.meta.name == name or one.meta.name.startswith(f"{name}-")
            if known and _asks_for(one, wanted) and not await in_vain(consumer, one):
                return one.meta.name
        # As kube-bind does: a taken name gets a suffix.
        another = request | {"metadata": {"generateName": f"{name}-"}}
        made = await consumer.create(APISERVICEEXPORTREQUESTS, another, namespace)
    return made.meta.name


def _asks_for(request: Object, wanted: ExportRequestSpec) -> bool:
    try:
        spec = request.decode(APIServiceExportRequest).spec
    except msgspec.ValidationError:
        return False
    return spec == wanted and not request.meta.deleting
