"""The other side of the front door: what a terminal says to it.

``addresses`` names a server and one of its clusters, ``configfile`` keeps servers and tokens as
kube-bind's CLI does, ``backend`` asks a server, ``callback`` waits on loopback for what a browser
brings, and ``handshakes`` are the two that need a browser: signing in, and choosing on the page.
Both Fairlead's server and the original's are spoken to.
"""
