"""PostgresAccesses: the flowchart, the passes over it, and their results.

``controller`` runs the passes. ``passes`` has the flowchart and the observed state, ``steps`` the
actions, ``turns`` the limit of passes at once, ``claims`` the claims on roles, ``publication`` the
generated Secret, and ``status`` the outcome. ``leftovers`` removes roles whose object is gone.
"""
