"""OpenAPI v3 of the served kinds: enough for kubectl's validation and ``kubectl explain``.

kubectl asks for JSON here. It learns from the ``patch`` operations that the server validates
fields itself, and from the schemas what ``explain`` prints. OpenAPI v2 has schemas without paths
as JSON, and an empty document as protobuf.
"""

from __future__ import annotations

from fairlead_sandbox.requests.openapi.documents import OpenApiDocuments, document, index


__all__ = ["OpenApiDocuments", "document", "index"]
