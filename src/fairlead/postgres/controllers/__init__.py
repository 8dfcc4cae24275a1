"""The operator's controllers: PostgresAccesses, PostgresServers and Controllers.

``access``, ``servers`` and ``singleton`` are the controllers; ``reconcile`` is the flowchart of
the first and ``passes`` what one pass over it has learnt. ``settings`` are those in force,
``sources`` and ``resolution`` find the server, ``policy`` says what is allowed there,
``publication`` and ``login_secret`` make the generated Secret, ``leftovers`` removes roles whose
object is gone, ``status`` says what a pass came to, and ``watches`` brings the controllers back.
"""
