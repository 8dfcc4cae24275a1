"""The provider's controllers, which carry out the requests of consumers.

``bindableresources`` hands out invitations that are asked for by an object. ``exportrequest``
turns a request into BoundSchemas and an APIServiceExport, ``export`` writes the hash of its
schemas, ``namespace`` creates the provider namespace of a consumer's namespace, ``rbac`` grants
the rights in it, ``clusterbinding`` judges the konnector's heartbeat, and ``clearing`` deletes the
objects of a revoked consumer.
"""
