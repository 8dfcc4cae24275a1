"""The schemas of a provider: labelled CRDs, or its discovery and OpenAPI documents.

``openapi`` makes CRDs of documents, ``discovery`` reads which APIs are served, and ``documents``
looks at both again from time to time. ``source`` chooses between these and labelled CRDs.
"""
