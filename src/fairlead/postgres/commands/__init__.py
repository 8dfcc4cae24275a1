"""The work of ``fairlead postgres plan``, ``audit``, ``import`` and ``explain``.

The commands read the cluster with the user's own rights, and PostgreSQL with the credentials that
the cluster keeps for it. Only ``import`` writes: its claims, and their key. ``surroundings`` reads
the objects that all commands need, ``accesses`` the PostgresAccesses. The command line prints the
reports that the commands return.
"""
