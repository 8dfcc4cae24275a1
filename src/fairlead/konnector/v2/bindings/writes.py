"""Writes of the consumer's CRDs."""

from __future__ import annotations

from fairlead.api.kbind.names import FORBIDDEN, PENDING
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client
from fairlead.client.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from fairlead.konnector.v2.bindings.crds import CRDPlan, Fault


async def write_crd(client: Client, name: str, plan: CRDPlan) -> Object | Fault:
    """Write a CRD by its plan; return it, or why this cluster does not take it.

    Raises:
        ConnectionFailed: this cluster does not answer.
    """
    body = plan.body or {}
    write = client.create if plan.action == "create" else client.update
    try:
        return await write(CUSTOMRESOURCEDEFINITIONS, body)
    except (AlreadyExists, Conflict, NotFound):
        # The cache is behind: its event brings the next look.
        return Fault(PENDING, f"CustomResourceDefinition {name} is changing", passing=True)
    except ApiError as error:
        return Fault(
            FORBIDDEN if isinstance(error, Forbidden) else PENDING,
            f"this cluster refuses CustomResourceDefinition {name}: {error.message}",
            refused=True,
        )
