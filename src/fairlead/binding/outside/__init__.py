"""Bindings outside a cluster: the same pipeline over objects in memory.

``memory`` answers the reads of the pipeline and takes its writes, ``documents`` reads manifests,
``rendering`` does with them what the controller would do, and ``compose`` binds services of
Docker Compose. None of them speaks to a server.
"""
