"""Bindings outside a cluster: the same pipeline over objects in memory.

``memory`` answers the reads of the pipeline and stores its writes, ``documents`` reads manifests,
``rendering`` does the controller's work on them, and ``compose`` binds services of Docker Compose.
None of them uses a server.
"""
