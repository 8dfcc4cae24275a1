"""The sync engine: objects of the consumer and their copies on the provider, kept in step.

The input is events of two watches, one of each side. Echoes of our own writes are dropped; every
other event becomes a key in one queue. Workers take keys, look at both ends of the object in the
caches with our own newer writes (``runtime.cache.expectations``) laid over them, ask a policy
(``konnector.policies``) for the next step, and carry it out as one write with uid and
resourceVersion as preconditions; then they ask again until no step is left. The output is those
writes, Events on the consumer's objects, and the faults of a binding, in its conditions and in
metrics. ``engine`` has the queue, ``passes`` the steps of one look, ``ends`` the reads and writes;
``objects`` and ``claims`` set an engine up for a bound resource and for a permission claim;
``release`` releases objects whose copies cannot be deleted any more.
"""
