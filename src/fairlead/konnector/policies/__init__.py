"""Decisions about one object and its copy, without any I/O.

The input is the knowledge about both ends of one object (``steps.Pair``), the output is the next
step that brings them closer together, or the statement that there is none. ``bound`` decides about
objects of bound resources (spec to the provider, status back), ``claims`` about objects of
permission claims (the original is on either side). The engine in ``fairlead.konnector.sync``
carries the steps out, and ``fairlead bindings`` asks the same decisions whether an object is in
sync. ``work`` describes the work that has to run. Modules here import ``fairlead.api`` and one
another only.
"""
