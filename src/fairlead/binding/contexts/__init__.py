"""Contexts: what handlers read and write, one for each API.

``protocol`` is the seam; ``base`` is what both contexts share, ``coreos`` and ``spec`` are those
of the two APIs, and ``reader`` asks for services and workloads on behalf of who edited the
binding last.
"""
