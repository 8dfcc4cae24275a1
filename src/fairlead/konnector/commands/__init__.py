"""What ``fairlead bind``, ``accept``, ``unbind`` and ``bindings`` do, with a person's own rights.

Each writes or reads the objects that the konnector's controllers work on, and waits for what they
make of them; no command does a controller's work.
"""
