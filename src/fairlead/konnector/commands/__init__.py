"""The work of ``fairlead bind``, ``accept``, ``unbind`` and ``bindings``, with a person's rights.

Each writes or reads the objects that the konnector's controllers work on, and waits for the
result; no command does a controller's work.
"""
