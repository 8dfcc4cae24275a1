"""What ``fairlead postgres plan``, ``audit``, ``import`` and ``explain`` find out.

They read the cluster with the rights of whoever runs them, and PostgreSQL with the credentials
that the cluster has for it; nothing is written to either. ``surroundings`` is what all of them
read, ``accesses`` where PostgresAccesses come from. The command line prints what they return.
"""
