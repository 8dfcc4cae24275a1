"""Bounds of the provider's side: name, value, and what each of them stops.

A name ends with its unit, or with what is counted. A number that an operator sets is in
``options``.
"""

from __future__ import annotations


# Work for consumers
AGAIN_SECONDS = 30.0  # stops a failed request, or a wrong clock, from waiting for an event
REMAINS = 5  # named by one check: stops a namespace of which all objects are read
REMAINS_PAGE = 50  # stops a check that reads more than it names
LOT = 100  # namespaces in a turn: stops a turn that compares for seconds
WRITES = 20  # in a turn of an export: stops a large consumer from delaying others
KINDS_AT_ONCE = 8  # listed: stops a slow kind from delaying the others
CONSUMERS = 200  # with series of their own: stops a scrape that grows with all
COUNT_SECONDS = 600.0  # between two counts of all copies: stops a load on etcd at each scrape

# Commands
TOKEN_PAUSE_SECONDS = 0.5  # between two tries of a token: stops them from loading the API server
UNTOUCHED_SECONDS = 20.0  # of a declaration: stops a wait for controllers that do not run
UNLISTED_SECONDS = 5.0  # of a kind that could not be listed: stops a wait for its list
FINALIZER_SECONDS = 15.0  # with --force: stops finalizers of a consumer from holding its end
LEFTOVER_SECONDS = 10.0  # of a namespace: stops a wait for objects that belong to no copy
CREDENTIALS_SECONDS = 10.0  # of a test of credentials: stops a wait for a server that is silent
CREDENTIALS_PAUSE_SECONDS = 0.3  # between two tests: stops one that loads the API server
UNREPORTED_SECONDS = 30.0  # stops a wait for a konnector that reports no credentials
COPIES_PAGE = 500  # stops a list of copies that fills memory

# Messages
NAME_CHARACTERS = 128  # stops an identity or a name that a consumer makes long
NAMED = 3  # objects, templates or bindings: stops a message that lists each of many
TEXT_CHARACTERS = 300  # of an API server: stops a message that is nothing but a quotation
