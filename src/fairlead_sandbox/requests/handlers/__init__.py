"""The verbs: get and list (``read``), create, update and delete (``write``), patch, apply, watch.

A handler takes a :class:`~fairlead_sandbox.requests.calls.Call` and returns an Answer once the
change, or the state that it has read, is stored; only ``watch`` writes to a stream.
"""
