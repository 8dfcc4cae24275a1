"""Work in a server, for many accesses at once.

``sync`` brings roles into their desired state, with ``privileges`` in each database; ``drift``
finds accesses that have changed since, and ``cleanup`` removes roles. ``unmanaged`` finds logins
without a PostgresAccess. ``planning`` returns the statements without running them, with the
``rights`` that the administrator lacks for them.
"""
