"""Servers: where they are, and what is worked on in each.

``sources`` finds the server of an access, ``work`` keeps a task for each of them that takes the
``jobs`` in batches, and ``controller`` reports on PostgresServers.
"""
