"""The front door: a team signs in, sees what is offered, and binds it, over HTTP.

``http`` is the server: limits, errors, headers, and how the outside reaches it. ``identity`` knows
who asks: OpenID Connect, sessions, the embedded issuer. ``handshake`` has the routes of
kube-bind's wire. ``app`` puts them together for ``fairlead provider serve``.

A bind is declared as a BindableResourcesRequest in the server's own namespace, and answered by
``fairlead provider run``: the program that strangers reach holds no right to make credentials.
"""
