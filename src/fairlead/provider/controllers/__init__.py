"""The provider's controllers, which carry out the requests of consumers.

``bindableresources`` hands out invitations that are asked for by an object. ``exportrequest``
turns a request into BoundSchemas and an APIServiceExport, ``export`` tells the hash of its
schemas, ``namespace`` gives a consumer's namespace one on the provider, ``rbac`` gives the rights
in it, and ``clusterbinding`` tells whether the consumer's konnector is alive.
"""
