"""What the catalogs are asked, in a number of statements that does not grow with the objects.

``catalog`` reads roles and databases as a snapshot, ``comparison`` what the privileges of a
database lack, ``dependencies`` what depends on a role, ``verifiers`` which passwords hold;
``holdings`` and ``audit`` tell who has what.
"""
