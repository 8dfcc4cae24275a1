"""The client of a front door, for commands in a terminal.

``addresses`` names a server and one of its clusters, ``configfile`` stores servers and tokens as
kube-bind's CLI does, ``backend`` sends requests, ``callback`` listens on loopback for the
browser's answer, and ``handshakes`` has the two that need a browser: sign-in, and the choice on
a page. It works with Fairlead's server and with kube-bind's.
"""
