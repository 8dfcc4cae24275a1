"""OpenAPI v3 of what is served: enough for kubectl's validation and ``kubectl explain``.

kubectl asks for JSON here. It learns from the ``patch`` operations that the server validates
fields itself, and from the schemas what ``explain`` shows. OpenAPI v2, which clients want as
protobuf alone, is not served: they take a 404 for an answer.
"""

from __future__ import annotations

from fairlead_sandbox.requests.openapi.documents import OpenApiDocuments, document, index


__all__ = ["OpenApiDocuments", "document", "index"]
