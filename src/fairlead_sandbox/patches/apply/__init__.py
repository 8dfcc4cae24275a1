"""Server-side apply: owners of fields, conflicts between them, and the result of an apply.

``shapes`` describes which parts of a kind's objects have owners of their own. ``walk`` compares
and merges two objects along a shape. ``paths`` encodes sets of fields as ``FieldsV1``.
``managers`` has the rules of ownership, ``tracking`` applies them to other writes, ``lastapplied``
lets client-side and server-side ``kubectl apply`` follow each other. The rules are those of
structured-merge-diff (KEP-555).
"""
