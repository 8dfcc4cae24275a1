"""What is decided about roles and privileges, without asking anybody.

A ``snapshot`` of the catalogs and what accesses want go in, ``plan`` and ``differences`` make the
statements that are missing, and ``statements`` composes them. ``grants`` says what is wanted on
which ``targets``, ``attributes`` what a role is to be, ``names`` which may be taken, ``password``
what a login gets, and ``logins`` how two of them take turns.
"""
