"""Bounds of the binding controller: name, value, and what each of them stops.

A name ends with its unit, or with what is counted. What a template of Go may take is in
``expressions/gotemplate/bounds.py``, and a number that an operator sets in ``options``.
"""

from __future__ import annotations


# The admission webhook
WEBHOOK_SECONDS = 5  # stops an API server from waiting for a webhook that hangs
REVIEW_SECONDS = 4.0  # less than WEBHOOK_SECONDS: stops a review of which no log tells

# Reads and writes of a pass
READS = 1000  # one after the other: stops a binding that asks without end
READS_AT_ONCE = 32  # of a binding: stops one from loading the API server
SELECTED = 16  # workloads read one by one: stops more requests than a list costs
ALLOWED_SECONDS = 30.0  # stops a right that was taken from counting on
DENIED_SECONDS = 5.0  # stops a right that was given from counting as missing
VERDICTS = 20_000  # stops a cache that grows with bindings
REQUESTS_AT_ONCE = 16  # writes, or services read: stops one binding from taking all connections
REBASES = 10  # after 409: stops a write beside writers who come every few milliseconds
SYNC_SECONDS = 5.0  # stops a pass from waiting for a watch that hangs
SYNC_LOOK_SECONDS = 0.02  # stops checks of a watch without a pause
NAMESPACES = 16  # watched one by one: stops a connection for each of many
PATIENCE_SECONDS = 60.0  # stops a Warning about what is only late
FIGHT_WRITES = 5  # of a projection in a window: stops a fight with another writer
FIGHT_SECONDS = 60.0  # the window: stops writes of last week from counting
PACED = 20_000  # workloads or bindings: stops memory that grows with them
ENDLESS_SECONDS = 300.0  # stops a binding with too many reads from a try at each back-off
ROLLOUT_SECONDS = 2.0  # stops a pass for each Pod of a rollout
CONFLICTS = 4  # at once: stops a worker from repeating a pass that loses each time
CONFLICT_SECONDS = 0.05  # stops two writers from meeting again
KIND_READERS = 4  # stops many CRDs from loading the API server

# Content of bindings, services and workloads
SERVICES = 200  # stops a binding that takes all workers' time
PATH_STEPS = 100  # of a secretPath: stops a workload that nests without end
VARIABLES = 500  # stops a search for each in each container
SERVICE_BYTES = 4 << 20  # of all services: stops a pass that fills memory
REQUESTER_BYTES = 16 << 10  # stops groups that each review of rights would send
OWNER_LEVELS = 2  # to ReplicaSets of a custom kind's Deployment: stops reads down to Pods
VALUES = 2_000_000  # visited by definitions: stops work of more than a second
VALUES_AT_ONCE = 50_000  # 20 ms of work: stops a binding from holding up the event loop
SECRET_BYTES = 1024 * 1024  # as Kubernetes' MaxSecretSize: stops a Secret that it refuses
ENTRIES = 20_000  # stops a binding that collects without end
TERMS = 100  # of a selector, and values of one: stops comparisons at each change
KINDS = 100  # stops an annotation that has unbinding read each kind
CONTAINER_PATHS = 20  # stops a noted mapping that is expensive to evaluate
STEPS = 3_000_000  # of edits in a pass: stops work of more than a second
FILE_LEVELS = 100  # stops a file that nests without end
FILE_VALUES = 1_000_000  # stops a file whose aliases multiply
ROUNDS = 10  # stops bindings that wait for each other

# Messages
TEXT_CHARACTERS = 500  # of others: stops a message that is nothing but a quotation
ERROR_CHARACTERS = 1_000  # stops an error that repeats a whole definition
VALUES_SHOWN = 10  # stops a message with all values of a list
NAMED = 3  # workloads or items: stops a message that lists each of many
