"""The front door: a team signs in, reads the catalogue and binds a template, over HTTP.

``http`` is the server: limits, errors, headers and listening. ``identity`` has OpenID Connect,
sessions and the embedded issuer. ``handshake`` has the routes of kube-bind's protocol,
``console`` the pages. ``app`` assembles them for ``fairlead provider serve``.

A bind is declared as a BindableResourcesRequest in the server's own namespace, and answered by
``fairlead provider run``: the program with a public address has no right to make credentials.
"""
