"""Decisions about objects in the cluster, without a request to any server.

``resolution`` composes the endpoint of an access, ``policy`` checks the rights to it, ``desired``
the wanted state; ``login_secret`` composes the generated Secret, and ``rotation`` decides when a
new password is due.
"""
