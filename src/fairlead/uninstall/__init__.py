"""Removal of a program: its users, the order of the deletions, and the objects that stay.

The input is one of the programs of ``fairlead manifests`` and a cluster. ``footprints`` reads the
program's objects from its manifests; ``duties`` finds the objects that only the program can clean
up: bindings, consumers, roles, projections, sessions. ``work`` lists all of them
(:func:`.work.survey`) and deletes them in order (:func:`.work.uninstall`). The output is a
:class:`.findings.Survey`, to which a person agrees, and a line for each step.

Every step lists the existing objects and deletes those that it finds, so that a second run
finishes an interrupted one. Objects that wait for a program which was deleted too early are found
by its finalizers; they are released only with ``--orphan``.
"""
