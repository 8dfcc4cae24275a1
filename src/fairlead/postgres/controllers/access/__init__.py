"""PostgresAccesses: the flowchart, and what one pass over it learns and publishes.

``controller`` walks it: ``reconcile`` is the flowchart itself, ``passes`` what is known so far,
``turns`` how many passes are under way, ``claims`` whose a role is, ``publication`` the Secret,
``status`` what a pass came to, and ``leftovers`` removes roles whose object is gone.
"""
