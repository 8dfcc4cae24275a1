"""Decisions about roles and privileges, as pure functions.

``server_plan`` plans for all accesses of a server: it compares a ``snapshot`` of the catalogs with
their wanted states and returns the missing statements, which ``statements`` composes. It asks
``plan`` for roles, with ``login_statements`` for two logins in turn, and for databases, and
``groups`` for shared groups. ``differences`` plans the privileges inside of one database.

``grants`` has the desired privileges on ``targets``, ``attributes`` the desired attributes of a
role, ``names`` the allowed names, ``password`` the passwords and their verifiers, ``logins`` the
turns of two logins.
"""
