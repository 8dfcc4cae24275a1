"""Servers: their endpoints, and the work in each of them.

``sources`` finds the server of an access, ``work`` runs the ``jobs`` of each server in batches,
``looks`` compares synchronized accesses with it, and ``controller`` reports on PostgresServers.
"""
