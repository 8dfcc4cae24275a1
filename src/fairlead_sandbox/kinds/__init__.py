"""The fields of Kubernetes' built-in kinds: names, types and protobuf numbers.

``model`` reads the one table, ``types.txt``, for all modules that need it: ``protobuf`` decodes
bodies with it, ``fit`` checks types and drops unknown fields, server-side apply and OpenAPI
describe kinds by it.
"""

from __future__ import annotations

from fairlead_sandbox.kinds.fit import misfit, prune, unknown
from fairlead_sandbox.kinds.model import (
    Field,
    FieldType,
    IncompleteModelError,
    Message,
    Model,
    empty,
    load,
)


__all__ = [
    "Field",
    "FieldType",
    "IncompleteModelError",
    "Message",
    "Model",
    "empty",
    "load",
    "misfit",
    "prune",
    "unknown",
]
