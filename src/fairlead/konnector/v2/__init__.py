"""kbind v2 in the consumer's cluster: Connections, and what bindings do by them.

Nothing is installed in a provider's cluster. ``connection`` keeps one link for each Connection and
tells :class:`~fairlead.konnector.v2.providers.ConnectedProviders` of those that can be used;
bindings work on these. ``schemas`` reads what a provider offers, and ``pulls`` makes CRDs of all
of it where a Connection asks for that. ``identity`` tells clusters apart, ``lease`` tells whether
another konnector is at work.
"""
