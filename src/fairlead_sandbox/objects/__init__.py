"""How objects are created, changed and deleted, whoever asks for it.

``core`` is one control plane: its store, its resources and its admission. ``writes`` and
``deletes`` take a body through checks, admission and the kind's strategy into the store; handlers
and controllers use them alike. Nothing here awaits, so that an object cannot change between being
read and being written.
"""
