"""The operator's controllers: PostgresAccesses, PostgresServers and Controllers.

An object comes in through ``watches``. ``access`` runs the passes over it; its jobs go to the task
of its server in ``servers``, and the decisions about it are in ``rules``. ``settings`` holds the
settings in force, by flags and the oldest Controller, and ``singleton`` reports on Controllers.
The results are roles, Secrets, statuses and events.
"""
