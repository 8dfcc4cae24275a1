"""The operator's controllers: PostgresAccesses and PostgresServers, read, decided about and told.

``access`` and ``servers`` are the controllers; ``reconcile`` is the flowchart of the first and
``passes`` what one pass over it has learnt. ``sources`` and ``resolution`` find the server,
``publication`` and ``login_secret`` the generated Secret, ``leftovers`` removes roles whose object
is gone, ``status`` says what a pass came to, and ``watches`` brings the controllers back.
"""
