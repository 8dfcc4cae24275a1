"""What Kubernetes' built-in kinds are made of: their fields, types and protobuf numbers.

One table serves everything that has to know: decoding protobuf, checking types, dropping unknown
fields and describing kinds in OpenAPI.
"""

from __future__ import annotations

from fairlead.sandbox.kinds.fit import misfit, prune, unknown
from fairlead.sandbox.kinds.model import Field, FieldType, Message, Model, empty, load


__all__ = ["Field", "FieldType", "Message", "Model", "empty", "load", "misfit", "prune", "unknown"]
