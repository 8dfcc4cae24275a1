"""Where bytes become requests and answers become bytes; aiohttp is spoken here and in ``auth``.

``listening`` accepts connections. ``server`` takes each request through faults that a test has
asked for (``faults``), authentication and authorization to the router or to a watch, and sends
the answer: an object, a Status, or the stream of a watch. Every error ends here as a Status.
"""
