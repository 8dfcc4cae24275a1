"""Sessions of the administrator on one server.

An ``endpoint`` says where a server is. ``startup`` gives the options with which no owner of a
database can bend what is done there, ``session`` bounds every wait, ``sessions`` keeps what is
open from one pass to the next, and ``failures`` turns what a server says into errors that name
what to do.
"""
