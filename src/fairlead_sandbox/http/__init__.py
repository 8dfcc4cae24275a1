"""HTTP in and out, by aiohttp; besides this package only ``auth`` uses aiohttp.

``listening`` accepts connections. ``server`` takes each request through the faults that a test
has injected (``faults``), authentication and authorization to the router or to a watch, and sends
the answer: an object, a Status, or the stream of a watch. Every error becomes a Status here.
"""
