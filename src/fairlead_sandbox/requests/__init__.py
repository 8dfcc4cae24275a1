"""From a request to its answer, without any HTTP library.

``info`` reads verb, resource and name out of the path; ``router`` finds the resource and the
handler for a ``calls.Call``; ``negotiation`` chooses the form of the answer and ``bodies`` decodes
what was sent. ``handlers`` has a module for each kind of verb, which works on ``objects`` and
gives an ``answers`` back: an object, a list, a Table. ``discovery`` and ``openapi`` say what is
served.
"""
