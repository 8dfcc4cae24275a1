"""The verbs: get and list (``read``), create, update and delete (``write``), patch, apply, watch.

Each handler takes a :class:`~fairlead_sandbox.requests.calls.Call` and gives an Answer once what
it says is stored; only ``watch`` writes to a stream.
"""
