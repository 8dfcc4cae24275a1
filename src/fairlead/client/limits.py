"""Bounds that all programs have in common: name, value, and what each of them stops.

A name ends with its unit, or with what is counted. They are of ``client``, which speaks to API
servers, and of ``runtime``, which runs controllers; ``bounds`` beside it counts what servers send.
"""

from __future__ import annotations


# Answers of servers
OBJECT_BYTES = 1024  # of an object beside its JSON: stops lists of many tiny ones
ENTRY_BYTES = 128  # of a label, annotation, owner or finalizer: stops objects of many
LARGE_BYTES = 256 << 10  # from which an answer is large: stops waits of small ones for a place
LARGE_AT_ONCE = 4  # of a client: stops many large answers at a time
PAGE_BYTES = 16 << 20  # of a trusted server: stops a page of 500 objects of the largest size
EXCESS_SECONDS = 600.0  # stops a condition about an answer that is read no more
EXCESSES = 100  # requests with too large an answer: stops memory that grows with paths
CAUTION_BYTES = 32 << 20  # all answers to one command: stops a server that it does not trust
PAGE = 500  # objects: stops lists of any size in one answer
FEWER = 8  # divisor of a page that is too large: stops a list that can never be read
RESTARTS = 2  # of a list whose page has expired: stops a list that never ends
CLOCK_SECONDS = 120.0  # stops a word about clocks that tokens allow for
DATE_CHARACTERS = 64  # of 29: stops a header that takes long to parse
REMEMBERED = 1000  # warnings or API versions: stops a server that invents them
TEXT_CHARACTERS = 4096  # of a refusal: stops a server from filling conditions
ISSUER_SECONDS = 5.0  # stops a server that shows no certificate
ISSUER_NAMES = 3  # stops a certificate with a name of megabytes
ISSUER_CHARACTERS = 64  # as RFC 5280 has it: stops the same
KUBECONFIG_BYTES = 1 << 20  # as of a Secret: stops a kubeconfig that fills memory
KUBECONFIG_LEVELS = 64  # of about eight: stops one that nests without end

# Connections and credentials
SHUT_TURNS = 100  # of the event loop: stops a wait for a socket that does not close
TOKEN_SECONDS = 60.0  # as in client-go: stops a token that the kubelet has replaced
EXPIRY_SECONDS = 10.0  # stops a plugin's credential that ends on its way
PLUGIN_SECONDS = 60.0  # stops a plugin that waits for a person
IDLE_SECONDS = 15.0  # stops connections that no request uses
JOINED_BYTES = 1 << 16  # of a body: stops a copy of a large one to its headers
HEADS = 64  # encoded: stops a cache that grows with requests

# Looks, and outages
LOOK_SECONDS = 10.0  # of silence: stops one kind from keeping the others waiting
ANSWER_SECONDS = 10.0  # of a first look: stops a wait of zero from asking nothing
LOOK_PAUSE_SECONDS = 0.2  # stops looks at what is not served without a pause
SERVED_LOOKS = 10  # failed: stops a wait for a kind that never is served
NAMED = 10  # stops a message that lists each of many
OUTAGE_SECONDS = 5.0  # stops the word about an outage that back-offs cover
MOMENT_SECONDS = 1.0  # stops the word before what failed has a place in its queue
APART_SECONDS = 30.0  # between two ends: stops a server that comes and goes from hurrying all
MOST_APART_SECONDS = 960.0  # stops that interval from growing beyond any back-off
WELL_SECONDS = 120.0  # without a failure: stops that interval from lasting

# Caches
LAG_SECONDS = 5.0  # after a write: stops an object that came and went from counting as there
PUTS = 1000  # in a turn of the event loop: stops a list from holding it up
COMPARED_SECONDS = 3600.0  # between comparisons: stops a load on etcd (25,000: 1.4 s)
DUE_SECONDS = 60.0  # stops looks for what is due without a pause
BEHIND_SECONDS = 30.0  # between two lists: stops a watch that lags from counting as broken
DIFFERENCES = 1000  # stops a comparison after which all is listed anyway
SETTLED_SECONDS = 2.0  # without an answer: stops a wait for a watch that has begun
SHORT_SECONDS = 5.0  # of a watch without a change: stops watches that fail without a pause
STOOD_SECONDS = 1.0  # stops a watch's early end from lengthening the back-off
UNFINISHED_SECONDS = 60.0  # stops a list that goes on from looking like health
ABSENT_ANSWERS = 3  # 404s in a row: stops a starting server from counting as without the kind
OVERDUE_SECONDS = 30.0  # stops a watch whose server has forgotten it
STRINGS = 1024  # stops a table of shared texts that grows
STRING_CHARACTERS = 64  # stops that table from holding texts that are never equal

# Controllers and writes
GRACE_SECONDS = 2.0  # with a Lease's renewal less than its duration: stops two leaders
BURST = 200  # passes: stops memory that is given back after each
QUIET_SECONDS = 2.0  # stops memory that is given back within a burst
RECOVERED_FAILURES = 8  # stops an outage from delaying the next try for minutes
SPREAD_SECONDS = 0.01  # of each key: stops retries that come at once
ESTABLISHED_SECONDS = 30.0  # stops a wait for a CRD that never is established
CRD_ATTEMPTS = 10  # stops a write beside writers that never pause
SERIES_SECONDS = 600.0  # stops an equal Event from being a new one each time
SIMILAR_EVENTS = 10  # stops Events that differ in their message alone
EVENTS_BURST = 25  # about an object: stops Events without end
REFILL_SECONDS = 300.0  # of one Event more: stops silence for ever after a burst
CORRELATED = 4096  # as in client-go: stops memory that grows with Events
EVENTS_WAITING = 1000  # of a cluster: stops memory that grows while it is away
EVENT_CHARACTERS = 1024  # as ``note`` has: stops an Event that is refused
EVENT_ATTEMPTS = 3  # stops an Event from waiting for a server for ever
EVENT_PAUSE_SECONDS = 2.0  # stops those attempts from coming at once
RELEASE_SECONDS = 3.0  # stops a process that ends from waiting for its Lease
LOOP_SECONDS = 1.0  # between measurements of the event loop: stops their own load
CERTIFICATE_SECONDS = 3600.0  # stops a certificate that is due where nothing changes
REVIEW_BYTES = 16 * 1024 * 1024  # the new object and the old one: stops a body that fills memory
REVIEW_SECONDS = 10.0  # stops a request that never arrives

# Objects that a command removes
REMOVALS_AT_ONCE = 16  # stops a command from loading the API server
REMOVAL_PAUSE_SECONDS = 0.5  # between two lists: stops a wait from loading the API server
QUIET_REMOVAL_SECONDS = 2.0  # stops a progress line about what is gone at once
