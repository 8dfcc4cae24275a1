"""Decisions about roles and privileges, as pure functions.

``plan`` and ``differences`` compare a ``snapshot`` of the catalogs with the specs of accesses and
return the missing statements, which ``statements`` composes. ``grants`` has the desired privileges
on ``targets``, ``attributes`` the desired attributes of a role, ``names`` the allowed names,
``password`` the passwords and their verifiers, ``logins`` the turns of two logins.
"""
