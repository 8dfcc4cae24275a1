"""Bounds of the front door and of the consoles: name, value, and what each of them stops.

A name ends with its unit, or with what is counted. A number that an operator sets, and the limits
of a request, are in ``options``.
"""

from __future__ import annotations


# Requests and forms of strangers and of people
FORM_SECONDS = 3600.0  # life of a form's token: stops a form that was left open
FORM_FIELDS = 2000  # stops a form whose fields take the event loop a second
RETURN_CHARACTERS = 900  # address to return to: stops a redirect_url that is refused
PAGES_WAITING = 20  # pages of a person that wait for their turn: stops a queue without end
PAGE_FREE_SECONDS = 0.05  # CPU time without a pause: stops pauses between cheap pages
PAGE_PAUSE_SECONDS = 5.0  # stops a pause that a person takes for a hang
SHARE = 4.0  # pause per time of work: stops a person or a cluster from taking the whole loop
STREAMS_OF_A_PERSON = 30  # per replica: stops one person from taking all streams
STREAMS_IN_ALL = 2000  # per replica: stops streams that take all memory
RIGHTS_SECONDS = 4.0  # stops a stream whose viewer has lost the right to it
STREAM_REST_SECONDS = 0.2  # stops a stream that renders at each of many changes
STALE_SECONDS = 30  # age of an unchanged part: stops heartbeats that never become late
RENDERED_PARTS = 256  # parts of pages in the cache: stops memory that grows with the pages
TERMINAL_SECONDS = 900.0  # stops a bind for a command that waits no longer
SESSION_ID_CHARACTERS = 256  # stops a session_id that fills a cookie
REDIRECT_CHARACTERS = 1024  # stops a redirect_url that fills a cookie
SIGN_IN_SECONDS = 600.0  # stops a callback to a sign-in that its person has left
PENDING_BYTES = 3000  # other sign-in cookies: stops a header above 8190 bytes
RETRY_SECONDS = 5.0  # Retry-After where an API server gives none: stops retries without a pause
CERTIFICATE_SECONDS = 5.0  # interval of looks at the files: stops an expired certificate
SHUTDOWN_SECONDS = 10.0  # stops requests that outlast the Pod
OWN_SHUTDOWN_SECONDS = 0.1  # stops requests for which a person would wait at a terminal

# Sign-ins, sessions and passwords
SESSION_BELIEVED_SECONDS = 10.0  # stops a session whose end was not announced to this replica
SESSIONS_OF_A_PERSON = 20  # stops a person from taking all sessions
SESSIONS_IN_ALL = 10_000  # stops people from filling the store
VALUES_IN_MEMORY = 20_000  # codes, used forms and sessions: stops a store that fills memory
SESSIONS_CACHED = 10_000  # stops a cache that keeps each expired session
CODE_SECONDS = 60.0  # stops a code or a link that was copied from a log
LINK_PAUSE_SECONDS = 3.0  # stops a page that fills the terminal with links
OWN_SESSION_SECONDS = 12 * 3600.0  # stops a browser's session after a day of work
ISSUED_CODES = 1000  # stops codes that are never redeemed from filling memory
PERSON_CHARACTERS = 256  # stops names of 128 KiB in the count of tries and in the log
TRIES = 10  # failed passwords of a name in a window: stops guessing
TRIES_OF_ALL = 100  # of all names: stops a guess at each of many names
WINDOW_SECONDS = 300.0  # stops a person from being kept out for ever
HASHES_AT_ONCE = 2  # stops checks, of one CPU and 32 MiB each, from taking the machine
TRIED_NAMES = 1000  # stops invented names from filling the memory
KEY_DAYS = 30.0  # stops a stolen key from being of use for ever
KEY_SPREAD_SECONDS = 600.0  # stops a seal that another replica cannot open yet
KEYS = 3  # stops a Secret that grows with each key
KEY_LOOK_SECONDS = 300.0  # stops a key that is due from waiting for a restart
READS_AT_ONCE = 32  # stops guessed tokens from loading the API server
SWEEP_SECONDS = 60.0  # stops expired Secrets from piling up
SWEPT_AT_ONCE = 200  # stops a sweep that outlasts its interval
SWEEP_PAUSE_SECONDS = 1.0  # stops sweeps without a pause
DELETIONS_AT_ONCE = 20  # stops a sign-out of many from loading the API server
OWN_SESSIONS = 1000  # not in the cache yet: stops memory that grows while a watch is broken

# Answers of issuers, of Redis and of API servers
SKEW_SECONDS = 60.0  # difference of two clocks: stops tokens of another time
CLAIM_CHARACTERS = 1024  # stops a subject or group that no review of rights takes
RSA_BITS = 2048  # stops a key that can be broken (RFC 7518, 3.3)
JWKS_KEYS = 100  # stops a JWKS of which reading takes seconds
ISSUER_SECONDS = 3600.0  # stops a key that the issuer has withdrawn
KEY_ID_SECONDS = 10.0  # stops invented key ids from asking the issuer without end
EXCHANGES_AT_ONCE = 64  # stops calls to a slow issuer from taking all requests
ISSUER_BYTES = 1 << 20  # stops an issuer's answer that fills memory
CALL_SECONDS = 10.0  # one call to an issuer or an API server: stops a server that hangs
REDIS_SECONDS = 5.0  # stops a Redis that hangs
REDIS_SILENT_SECONDS = 1.0  # silence before a ping: stops a channel that is cut off
REDIS_PINGS = 5  # unanswered in a row: stops a slow Redis from counting as gone
REVIEW_SECONDS = 5.0  # stops a right that was taken within ten seconds, with RIGHTS_SECONDS
REVIEWS_CACHED = 20_000  # stops a cache that grows with people and templates
OFFERS_CACHED = 1000  # people: stops a cache that grows with them
REVIEWS_AT_ONCE = 16  # stops pages from loading the API server with reviews
ENCODED_LISTS = 64  # per kind: stops a cache that grows with the sets of rights
ANSWER_SECONDS = 30.0  # stops a bind for which no controller runs
GRANT_SECONDS = 10.0  # stops a request that RBAC of the consumer never allows
POLL_SECONDS = 0.1  # stops looks at a cache or a server without a pause
BOUND_SECONDS = 5.0  # stops a page that waits for a cache that lags
IDENTITY_CHARACTERS = 512  # stops an identity that no annotation or message takes
KUBECONFIG_BYTES = 128 * 1024  # stops a kubeconfig with more than CA and token
CLUSTERS_AT_ONCE = 4  # stops clusters that hang from taking all requests
ANSWER_BYTES = 16 * 1024 * 1024  # stops a server's answer that fills the command's memory
BIND_SECONDS = 90.0  # stops a bind that hangs: kube-bind's controllers take up to 60
ERROR_CHARACTERS = 600  # stops an error that fills the terminal with a server's text
CALLBACK_BYTES = 1 << 20  # stops a request line larger than a BindingResponse

# Looks at the clusters, and what pages show
LOOK_SECONDS = 3.0  # stops looks at each change
FRESH_SECONDS = 1.0  # stops two pages from looking at the same twice
FIRST_LOOK_SECONDS = 5.0  # stops a page that waits for a cluster that hangs
NEXT_LOOK_SECONDS = 2.0  # the same, of a page that has an older result
LOOKS_AT_ONCE = 4  # stops pages from loading a cluster
LOOKS_KEPT = 200  # stops results that fill memory
LOOK_TICK_SECONDS = 0.5  # stops checks for due looks without a pause
REQUESTS_OF_A_LOOK = 4  # at once: stops one look from loading a cluster
CHAINS = 100  # followed in a look: stops a look that takes minutes
SELECTORS = 50  # evaluated in a look: stops a look that takes minutes
NAMESPACES_REVIEWED = 300  # per kind: stops a page that asks for reviews for minutes
OBJECTS = 5000  # in a graph or a history: stops memory that grows with a cluster
TRANSITIONS = 30  # of an object: stops a flapping condition from filling memory
OBJECT_BYTES = 65_536  # stops a large object from being kept whole
WRITERS = 50  # of a large object: stops the rest of its metadata from growing
RELATED = 50  # stops a page that lists all objects of a claim
ROWS_REST_SECONDS = 0.5  # stops rows that are computed at each change
TABLE_ROWS = 500  # stops a table that browsers render for seconds
UNFOLDED = 50  # stops a tree that fills more than a window
UNFOLDED_CHILDREN = 2  # stops children without a problem from taking that room
FOLDED = 500  # in all folds: stops a page of megabytes
IN_FOLD = 100  # stops one fold from taking the room of all
IN_NESTED_FOLD = 10  # the same, within another fold
LISTED = 5  # stops a list of related items that is longer than what it explains
ROWS_OF_A_PAGE = 200  # stops a page that browsers render for seconds
CHOICES = 50  # stops a select box in which no name can be found
PART_CHARACTERS = 60_000  # stops an object that fills a page
COMPARED_LINES = 1500  # stops a comparison, which takes the square of its lines
TIMELINE = 200  # entries: stops a timeline that fills a page
SCHEMA_LEVELS = 8  # stops a schema that nests without end
SCHEMA_ROWS = 400  # stops a schema that fills a page
VALUE_CHARACTERS = 400  # stops a default or a description that fills a page
EXAMPLE_LEVELS = 10  # stops an example that nests without end
EXAMPLE_CHARACTERS = 10_000  # stops an example that fills a page
COMMENT_CHARACTERS = 160  # stops a comment wider than a window
UNBINDINGS = 50  # finished ones: stops memory that grows with them
PROGRESS_LINES = 200  # stops the progress of an unbinding that waits for days
