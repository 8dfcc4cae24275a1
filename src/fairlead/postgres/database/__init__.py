"""A PostgreSQL server as the operator works on it, as an administrator who trusts nobody in it.

``sync`` brings a role into its wanted state and ``cleanup`` removes it: ``catalog`` reads what is
there as a ``snapshot``, ``plan`` decides, and ``statements`` composes SQL. ``session`` keeps
servers from holding up the operator, and with the options of ``startup`` the owners of databases
from bending what the administrator does.
"""
