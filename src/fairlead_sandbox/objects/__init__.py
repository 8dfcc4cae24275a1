"""Writes of objects: create, update and delete, for handlers and controllers alike.

``core`` is one control plane: its store, its resources and its admission. ``writes`` and
``deletes`` take a body through checks, admission and the kind's strategy into the store. Nothing
here awaits, so that an object cannot change between being read and being written.
"""
