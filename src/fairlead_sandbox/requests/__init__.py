"""From a request to its answer, without an HTTP library.

``info`` reads verb, resource and name from the path; ``router`` finds the resource and the
handler for a ``calls.Call``; ``negotiation`` chooses the form of the answer and ``bodies`` decodes
the request's body. ``handlers`` has a module for each kind of verb, which works on ``objects`` and
returns an Answer; ``answers`` encodes an object, a list or a Table for it. ``discovery`` and
``openapi`` describe the served resources.
"""
