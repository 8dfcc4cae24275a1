"""The sync engine: objects of the consumer and their copies on the provider, kept in step.

Events of two watches come in, one of each side. Echoes of our own writes are dropped; what is
left becomes a key in one queue. Workers take keys, look at both ends of the object in the caches
with our own newer writes (``runtime.expectations``) laid over them, ask a policy
(``konnector.policies``) for the next step, and carry it out as one write with uid and
resourceVersion as preconditions; then they ask again until nothing is left to do. Out go those
writes, Events on the consumer's objects, and what is wrong with a binding, in its conditions and
in metrics. ``engine`` has the queue, ``passes`` the steps of one look, ``ends`` what is read and
written; ``objects`` and ``claims`` set an engine up for a bound resource and for a permission
claim; ``release`` lets objects go whose copies nobody can take away any more.
"""
