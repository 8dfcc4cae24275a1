"""What is done in a server, for many accesses at once.

``sync`` brings roles into their wanted state, with ``privileges`` in each database; ``drift``
looks whether they are still as they were left, and ``cleanup`` removes them. ``unmanaged`` finds
logins that nobody has asked for. ``planning`` says what would be done and does nothing, with the
``rights`` that the administrator lacks for it.
"""
