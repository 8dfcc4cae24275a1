"""Server-side apply: owners of fields, conflicts between them, and what an apply leaves.

``shapes`` says of a kind which parts of its objects have owners of their own; ``walk`` compares
and merges two objects along a shape; ``paths`` writes sets of fields as ``FieldsV1``. ``managers``
has the rules of ownership, ``tracking`` applies them to ordinary writes, ``lastapplied`` lets
client-side and server-side ``kubectl apply`` follow each other.
"""
