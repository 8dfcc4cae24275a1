"""Back-off delays of all programs, by what has failed.

A request that a server puts off (429, 503) is repeated by ``client.transport.RetryPolicy`` first;
the delays here begin when that has given up. Intervals of periodic checks without a failure stand
in the modules of the checks.
"""

from __future__ import annotations

from fairlead.runtime.backoff import BackoffPolicy


FAILED_PASS = BackoffPolicy(initial=0.005, maximum=1000.0, jitter=0.0)
"""Delays of a key whose reconciler raised: those of client-go's item rate limiter.

https://pkg.go.dev/k8s.io/client-go/util/workqueue#DefaultTypedControllerRateLimiter
"""
REFUSED_WRITE = BackoffPolicy(initial=0.005, maximum=60.0, jitter=0.0)
"""Delays of a key after a 5xx, 403, 409 or 429, at most a minute.

The end of these causes makes no watch event, so that a retry has to find out. A fault in an object
ends with a change of the object, which brings its key at once: :data:`FAILED_PASS` may grow
longer.
"""
UNDECODABLE = BackoffPolicy(initial=1.0, maximum=1000.0, jitter=0.0)
"""Delays of a key with an object that does not fit its type: its change brings the key at once."""
WATCH = BackoffPolicy()
"""Delays between lists of a collection, and between watches that end at once."""
CHILD = BackoffPolicy()
"""Delays before a failed part of a program starts again: a connection, a certificate keeper."""
PROGRAM_START = BackoffPolicy(initial=1.0, maximum=10.0)
"""Delays between connection attempts of a program that starts while an API server is away."""
CRD_ESTABLISHED = BackoffPolicy(initial=0.05, maximum=1.0, factor=1.5, jitter=0.0)
"""Delays between looks at a CRD that was written and is not served yet."""
NO_WATCH = BackoffPolicy(initial=1.0, maximum=60.0, jitter=0.1)
"""Delays between passes of a binding that waits for a state that no watch reports."""
SILENT_PROVIDER = BackoffPolicy(initial=1.0)
"""Delays between attempts to reach the provider of a Connection."""
NEW_CREDENTIALS = BackoffPolicy(initial=1.0, maximum=60.0, jitter=0.1)
"""Delays between tries of a consumer's new kubeconfig that does not work."""
NAMESPACE_EMPTY = BackoffPolicy(initial=5.0, maximum=60.0, factor=1.5)
"""Delays between looks at a provider namespace that has to go and still holds copies.

The provider's controllers watch no kind of the copies, so that no event tells when they are gone.
"""
COPIES_GONE = BackoffPolicy(initial=0.5, maximum=60.0, factor=1.5)
"""Delays between looks at copies that are being cleared away; no event tells of their end."""
LAGGING_CACHE = BackoffPolicy(initial=0.2, maximum=30.0)
"""Delays before a pass repeats its look into a cache that lags behind the server."""
ISSUER_AWAY = BackoffPolicy(initial=1.0, maximum=60.0, jitter=0.0)
"""Delays between attempts to reach an OpenID Connect issuer."""
REDIS_AWAY = BackoffPolicy(initial=0.1, maximum=5.0, jitter=0.0)
"""Delays between attempts to subscribe to Redis."""
