"""The operator's controllers: PostgresAccesses, PostgresServers and Controllers.

An object comes in through ``watches``. ``access`` takes it over the flowchart; what is to be done
in its server goes to the task of that server in ``servers``, and what is to be decided about it
is among the ``rules``. ``settings`` are those in force, which ``singleton`` finds in the oldest
Controller. Out go roles, Secrets, statuses and events.
"""
