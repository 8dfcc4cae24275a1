"""A PostgreSQL server as the operator works on it, as an administrator who trusts nobody in it.

What accesses want and what ``reading`` found there go into ``plans``, which decide; ``work``
carries it out over the ``connections`` of one administrator, and reads again.
"""
