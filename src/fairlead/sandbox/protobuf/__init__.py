"""Request bodies in ``application/vnd.kubernetes.protobuf``.

kubectl creates built-in kinds this way from 1.32 on, and so do many Go clients. Answers are JSON,
which all of them accept. Kinds that are not in :mod:`fairlead.sandbox.kinds` get a 415.
"""

from __future__ import annotations

from fairlead.sandbox.protobuf.decode import ProtobufError, UnknownKindError, decode


__all__ = ["ProtobufError", "UnknownKindError", "decode"]
