"""Request bodies in ``application/vnd.kubernetes.protobuf``, for the kinds that clients send so.

kubectl creates RoleBindings this way, and Go clients speak it by default for built-in kinds.
Answers are JSON, which all of them accept. Kinds that are not in :mod:`messages` get a 415.
"""

from __future__ import annotations

from fairlead.sandbox.protobuf.decode import ProtobufError, UnknownKindError, decode


__all__ = ["ProtobufError", "UnknownKindError", "decode"]
