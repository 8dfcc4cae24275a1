"""Sessions of the administrator on one server.

An ``endpoint`` says where a server is. ``startup`` gives the options with which no owner of a
database can bend what is done there, and ``login`` lets no server have us work out more than a
login is worth: ``rounds`` learns what it asks for, and ``keys`` are what it gets. ``session``
bounds every wait, ``sessions`` keeps what is open from one pass to the next, and ``failures``
turns what a server says into errors that name what to do.
"""
