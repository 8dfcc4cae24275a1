"""Queries of the catalogs, in a number of statements that does not grow with the objects.

``catalog`` reads roles and databases as a snapshot, ``comparison`` the missing privileges of a
database, ``dependencies`` the objects that depend on a role. ``verifiers`` compares passwords.
``holdings`` and ``audit`` read all privileges and memberships.
"""
