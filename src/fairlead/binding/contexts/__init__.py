"""Contexts: the interface through which handlers read and write, one per API.

``protocol`` is the interface; ``base`` has the common part, ``coreos`` and ``spec`` have the
contexts of the two APIs, and ``reader`` reads services and workloads with the rights of the user
who edited the binding last.
"""
