"""Decisions about one object and its copy, without any I/O.

In comes what is known of both ends of one object (``steps.Pair``); out goes the one next step that
brings them nearer to one another, or the statement that there is none. ``bound`` decides about
objects of bound resources (spec to the provider, status back), ``claims`` about objects of
permission claims (the original is on either side). The engine in ``fairlead.konnector.sync``
carries the steps out, and ``fairlead bindings`` asks the same decisions whether an object is in
sync. ``work`` describes what shall run at all. Modules here import ``fairlead.api`` and one
another only.
"""
