"""Bounds of the operator of PostgreSQL's accesses: name, value, and what each of them stops.

A name ends with its unit, or with what is counted. A number that an operator sets is in
``options``.
"""

from __future__ import annotations


# Accesses and what is read of them
START_NAMED = 20  # accesses and servers: stops a log at start that lists each
RESOLVERS = 64  # DNS lookups: stops a resolver that hangs from taking all threads
LARGE_BYTES = 32 << 10  # from which an access is large: stops passes of many such at once
OWNERS = 16  # of a Secret: stops a Secret with owners without end
CHANGED_SECONDS = 0.05  # stops a pass at once after each change of an access
UNDONE_SECONDS = 10.0  # stops a postponed password, or an unseen Secret, from waiting for ever
ACTIONS = 12  # of a pass: stops actions that never come to an end
DROPPED = 200  # roles or groups of a look: stops a server that reports claims without end
DROPPED_BRIEFLY = 5  # stops a look at groups from keeping other accesses waiting
SECRET_TRIES = 4  # stops a Secret that other writers delete without end
PASSES = 250  # at once, a batch, of an owner and namespace: stops it from taking all memory
LARGE_PASSES = 2  # at once: stops passes that take tens of megabytes each
OTHERS_SHARE = 5  # divisor of PASSES: stops one namespace from keeping others waiting
PASSES_WAITING = 4  # times PASSES: stops that limit from doubling where memory buys nothing
STATUS_CHARACTERS = 1024  # of a message: stops a status that is nothing but a quotation
STATUS_PARTS = 1000  # hashes of statements: stops a status that is refused
STATUS_GRANTS = 512  # stops the same, of grants
STATUS_ITEMS = 64  # of any other list: stops the same
SECRET_BYTES = 256 << 10  # of all values: stops a Secret that is refused after its password
PASSWORD_BITS = 96  # of a generated password: stops one that can be guessed
MARK_CHARACTERS = 128  # of an annotation: stops one that fills the status
NAMESPACES = 1000  # watched: stops a connection for each of thousands
SUMMARY_SECONDS = 5.0  # stops a write of the summary at each of many changes
SERVERS = 64  # in a summary: stops an object that is refused

# Work at servers
SERVER_WORKERS = 64  # stops servers that hang from taking all workers
BATCH_SECONDS = 100.0  # stops a batch, look or sweep at a server that hangs
JITTER = 0.1  # of an interval: stops looks that come at once
QUICK_SECONDS = 15.0  # stops a slow server from counting as one that refuses a size
CERTIFICATE_SECONDS = 1.0  # stops a certificate beside the key of the one before
COLLECT_SECONDS = 0.02  # stops a batch for each of many jobs
COLLECT_MOST_SECONDS = 0.25  # stops that wait while more jobs come
COLLECT_PAUSE_SECONDS = 0.003  # without a job: stops a small batch from waiting for more
MANY_JOBS = 16  # stops that wait where few jobs come
ROTATIONS = 2  # stops Secrets that are written slowly from taking all sessions
BATCH = 250  # jobs: stops a transaction that lasts for minutes
BATCHES = 10  # stops a busy server from postponing its look for ever
SESSIONS_LOST = 4  # during a job: stops a job that ends each session
REST_SECONDS = 30.0  # stops sessions that no work uses
NAMESPACE_SERVERS = 32  # stops the servers of one namespace from taking all workers
LARGE_SECONDS = 20.0  # stops a role with very many privileges from keeping others waiting
LARGE_WAIT_SECONDS = 5.0  # stops a wait for such a turn of which no status tells

# Connections and logins
TENANTS_BYTES = 64 << 20  # all sessions: stops tenants' servers from filling memory together
ROW_BYTES = 128  # of a row beside its values: stops many tiny rows
REFUSED_SECONDS = 2.0  # stops logins that a password policy counts
REFUSED_MOST_SECONDS = 120.0  # stops that delay from keeping a mended login waiting
ATTEMPT_SECONDS = 1.0  # stops a tenant's session from keeping others waiting
LOGINS = 10_000  # remembered: stops memory that grows with logins
CONNECT_SECONDS = 10  # of an address: stops one that does not answer
LOGIN_SECONDS = 40.0  # of all addresses: stops a host with many that do not answer
LOGIN_TRIES = 4  # stops a server that refuses options without end
OLDER_SERVERS = 1000  # stops memory that grows with servers
ROOM_SECONDS = 0.5  # stops a wait for a session that does not end
SESSIONS_BESIDE = 8  # stops removals and looks from waiting for work on databases
MESSAGE_BYTES = 2048  # PostgreSQL sends 150: stops a server that sends without end
HANDSHAKE_BYTES = 1 << 18  # most of them certificates: stops the same
HANDSHAKE_READ_BYTES = 1 << 14  # stops one read from taking all of these
LEAVE_SECONDS = 0.5  # stops a server that does not close
ANSWER_BYTES = 64 << 20  # 100,000 accesses fit: stops an answer that fills memory
ANSWER_ROWS = 1_000_000  # stops an answer of empty rows
LOGIN_BYTES = 1 << 20  # PostgreSQL sends 1000: stops a server that sends before it lets in
RECEIVE_BYTES = 64 << 10  # of the kernel's buffer: stops memory that each session takes
READS_AT_ONCE = 16  # stops an answer from holding up the event loop
ROWS_AT_ONCE = 5_000  # stops rows that are decoded from holding it up
IDLE_SESSIONS = 8  # stops connections that no work uses
WATCH_SECONDS = 3.0  # PostgreSQL waits for 5: stops looks at waiting sessions without a pause
SHUT_SECONDS = 0.2  # of a login: stops a wait for a lock on its database
LOCK_LOOK_SECONDS = 0.05  # stops looks at locks or blockers without a pause
ELSEWHERE_SECONDS = 1.0  # stops a first login that waits for a lock
HASTE_SECONDS = 0.5  # stops a brief login at a slow server from failing
HASTE_LOGINS = 5  # times the last one: stops a brief login that hangs
SEARCH_SECONDS = 10.0  # stops a search for a database that lets in
STATEMENT_SECONDS = 60  # less than the client's: stops a statement while its session is of use

# Plans and catalogs
GRANT_OBJECTS = 4096  # of an access: stops a spec that takes all sessions
STATEMENT_OBJECTS = 200  # stops a statement longer than servers log
STATEMENT_ROLES = 500  # stops the same, of roles
STATEMENT_NAMED = 10  # stops a message that lists all of a statement
STATEMENT_CHARACTERS = 500  # stops a message with a whole statement
ITERATIONS_MOST = 100_000  # 25 ms: stops a verifier that blocks a thread
AUDITED_DATABASES = 1_000  # stops an audit that lasts for hours
AUDITED_ROLES = 100_000  # stops an audit that fills memory
AUDIT_NAMED = 5  # objects of an ACL: stops a report that lists each of many
CROWD = 50_000  # objects and privileges that are counted: stops a login that has millions
READ_LOGINS = 10_000  # stops an answer with all roles of a server
SETTINGS_BYTES = 160 << 10  # more than a spec takes: stops a login's settings of any size
VERIFIER_CHARACTERS = 1000  # stops a login that chose a long salt
DIFFERENCES = 20_000  # 40 MiB: stops a reading that fills memory
ACL_OBJECTS = 10_000  # of one owner and ACL: stops a reading that names millions
ACL_WINDOW = 2_000  # stops a reading that holds up the server
ESTATE_WINDOW = 5_000  # objects or references: stops a removal that reads millions at once
LOCKS_SHARE = 8  # divisor of the lock table: stops a transaction that takes all locks
LOCKS = 4_000  # stops the same, where that table is large
HOLDING_ROWS = 20_000  # stops a look that fills memory
PROBE_SECONDS = 300.0  # stops a proof of a password from counting for ever
VERIFIERS_AT_ONCE = 4  # of a server: stops one from taking all threads
VERIFIERS_SPARE = 1000  # beyond the accesses: stops memory that grows with logins

# Transactions, locks and pieces of work
BLOCKED_SECONDS = 0.02  # stops a look for blockers at each brief wait
BLOCKED_END_SECONDS = 0.05  # stops a look that outlasts what it looks at
FAILED_PARTS = 8  # in a round trip: stops a failure from undoing many parts again
LOCK_WAITS = 5  # stops a transaction that waits for each of many locks
GONE_MS = 200  # stops a wait for a session that does not end
GONE_BRIEFLY_MS = 20  # stops the same from keeping other accesses waiting
TURN_SECONDS = 20.0  # stops a large removal from keeping other work waiting
BRIEF_OBJECTS = 500  # stops a brief try that cannot come to its end
PIECE_REFERENCES = 30  # any server has locks for them: stops a role with more from going at once
PIECE_COLUMNS = 2_000  # stops a statement that lasts longer than a fraction of a second
WINDOW_PARTS = 500  # stops a plan of which all windows are read
WRITES_MOST = 16  # of a transaction: stops revocations that cascade without end
ISOLATING_SECONDS = 20.0  # stops the search for the object that fails a statement
BRIEF_SECONDS = 1.0  # stops the same, and a statement, in work on a batch
REMOVAL_OBJECTS = 5_000  # counted first: stops a count of millions where Restrict is explained
TRANSACTION_TRIES = 6  # stops a transaction that others disturb without end
JOINS = 3  # tries to act as a role that others act as: stops them from going on without end
PUBLISH_SECONDS = 10.0  # of a Secret's write: stops a lock of the role's row that does not end
WRITES = 2  # stops a change that the server does not keep from being written without end

# Commands and messages
SERVERS_AT_ONCE = 8  # stops a command from waiting for one server after the other
GRANTS = 64  # as the CRD has it: stops a manifest that is refused
NAME_CHARACTERS = 512  # stops the same, of a name
SETTING_CHARACTERS = 1024  # stops the same, of a setting
FILE_LEVELS = 64  # stops a file that nests without end
FILE_BYTES = 64 << 20  # stops a file that is none of manifests
NAMED = 3  # sessions, objects or problems: stops a message that lists each of many
NAMED_READ = 4  # one more than a message names: stops a reading of all
