"""Bounds of the konnector's controllers: name, value, and what each of them stops.

A name ends with its unit, or with what is counted. Those of the engine stand beside it, in
``sync`` and ``policies``; a number that an operator sets is in ``options``.
"""

from __future__ import annotations


# Bindings, bundles and connections
STOPPING_SECONDS = 0.1  # stops looks at a CRD that waits for writes without a pause
RELEASE_SECONDS = 0.5  # stops looks at copies that are released without a pause
REFUSED_SECONDS = 2.0  # stops a refused write from being tried without a pause
GRACE_SECONDS = 3.0  # age of a binding: stops a word about a Secret that is on its way
SOON_SECONDS = 1.0  # stops a pass that lacked facts from waiting for an event
LOOKS = 5  # without a connection: stops a condition about one that begins
GONE_LOOKS = 2  # in a row: stops a binding from going for an export that was away once
BINDINGS = 100  # of a bundle: stops a provider from bringing CRDs without end
BINDING_SERIES = 100  # of Bindings: stops tenants from making series without end
AUTO_BOUND_APIS = 500  # of a Connection: stops a provider from bringing CRDs without end
AGAIN_SECONDS = 30.0  # stops a connection that ended by itself from staying away
FAREWELL_SECONDS = 3.0  # stops a connection before it told the provider of its end
CALL_SECONDS = 10.0  # to the provider: stops heartbeats that wait for one that hangs
PEERS = 20  # stops entries of processes that crashed from filling the object
ANSWER_SECONDS = 40.0  # API servers wait 30: stops a look at a webhook that hangs
CONVERSIONS_AT_ONCE = 4  # stops webhooks that hang from taking all looks
NAMESPACES_READ = 50  # in deletion: stops a look that reads them for minutes
NAMESPACES = 100  # at providers' requests: stops a provider from making more

# Schemas of kbind v2's providers
SCHEMA_NODES = 50_000  # of a schema: stops references that unfold without end
SCHEMA_BYTES = 4_000_000  # of a schema: stops long texts from being repeated without end
PULLED_APIS = 1000  # of a Connection: stops a provider from bringing CRDs without end
SCHEMA_LEVELS = 100  # of a schema: stops one that no server takes
DISCOVERY_SECONDS = 30.0  # stops discovery from being read without a pause
DISCOVERY_PAUSE_SECONDS = 1.0  # stops APIs that are missed from having it read at once again
WHOLE_SECONDS = 600.0  # stops short names that no document has from staying old
ABSENT_LOOKS = 2  # in a row: stops an API from going that was away once

# Messages
NAME_CHARACTERS = 256  # of the provider: stops a name that fills a condition
NAMED = 3  # webhooks, namespaces or names: stops a message that lists each of many
TEXT_CHARACTERS = 300  # of a server: stops a quotation that displaces the remedy
