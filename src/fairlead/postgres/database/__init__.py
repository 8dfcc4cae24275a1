"""Work on a PostgreSQL server, by an administrator who trusts no role and no object there.

``plans`` compares the specs of accesses with the catalogs from ``reading``; ``work`` runs the
missing statements over the ``connections`` of one administrator, and reads the catalogs again.
"""
