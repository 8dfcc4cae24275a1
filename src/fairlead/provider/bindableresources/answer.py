"""The Secret with the answer to a request."""

from __future__ import annotations

import base64

import msgspec

from fairlead.api.kubebind import LocalSecretKeyRef
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import SECRETS
from fairlead.client import AlreadyExists, Client, NotFound
from fairlead.runtime import commit


class SecretRefusedError(Exception):
    """The answer cannot be stored where it is wanted; says why."""


async def store_answer(
    client: Client, request: Object, ref: LocalSecretKeyRef, response: JSON
) -> None:
    """Store a BindingResponse in a Secret of the request's own, which goes with it.

    Raises:
        SecretRefusedError: there is a Secret of this name that is not the request's: who may ask
            for an invitation may not overwrite others' Secrets by it.
        ApiError: the server refused.
    """
    encoded = base64.b64encode(msgspec.json.encode(response)).decode()
    stored = await _found(client, request, ref.name)
    if stored is None:
        try:
            await client.create(SECRETS, _new(request, ref.name, {ref.key: encoded}))
        except AlreadyExists:
            stored = await _found(client, request, ref.name)
    if stored is not None:
        body = stored.to_dict()
        body["data"] = {ref.key: encoded}
        await commit(client, SECRETS, stored, body)


async def _found(client: Client, request: Object, name: str) -> Object | None:
    namespace = request.meta.namespace
    try:
        found = await client.get(SECRETS, name, namespace)
    except NotFound:
        return None
    if not found.meta.owned_by(request.meta.uid):
        raise SecretRefusedError(
            f"Secret {namespace}/{name} exists and was not made for this request: delete it, or "
            "name another in spec.kubeconfigSecretRef"
        )
    return found


def _new(request: Object, name: str, data: dict[str, str]) -> JSON:
    # Blocking the request's deletion would take a right on its finalizers.
    owner = msgspec.structs.replace(request.owner_reference(), block_owner_deletion=None)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": request.meta.namespace,
            "ownerReferences": [msgspec.to_builtins(owner)],
        },
        "type": "Opaque",
        "data": data,
    }
