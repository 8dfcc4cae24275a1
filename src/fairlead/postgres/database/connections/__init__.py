"""Sessions of the administrator on one server.

An ``endpoint`` is the address and the login of a server. ``startup`` has the options that keep the
owner of a database from changing the meaning of statements there. ``login`` limits the work that a
server can ask for: ``rounds`` reads the number of SCRAM rounds, ``keys`` derives the keys.
``session`` bounds every wait, ``sessions`` keeps sessions open from one pass to the next, and
``failures`` turns answers of servers into errors with a remedy.
"""
