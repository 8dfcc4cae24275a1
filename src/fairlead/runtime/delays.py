"""Delays before something is tried or looked at again, by what has failed.

A program reads them where it waits. One request that a server puts off (429, 503) is repeated by
``client.transport.RetryPolicy``; what comes beyond that is here. Delays between looks that nothing
has failed before stand beside their looks.
"""

from __future__ import annotations

from fairlead.runtime.backoff import BackoffPolicy


FAILED_PASS = BackoffPolicy(initial=0.005, maximum=1000.0, jitter=0.0)
"""Delays of a key whose reconciler raised: those of client-go's item rate limiter.

https://pkg.go.dev/k8s.io/client-go/util/workqueue#DefaultTypedControllerRateLimiter
"""
REFUSED_WRITE = BackoffPolicy(initial=0.005, maximum=60.0, jitter=0.0)
"""Delays of a key that has failed by a fault of the server, a missing right, or another writer's
change.

These end without a word. What is wrong with an object ends with an event of it: it can wait
longer.
"""
WATCH = BackoffPolicy()
"""Delays between lists of a collection, and between watches that end at once."""
CHILD = BackoffPolicy()
"""Delays of a part of a program that has ended by an error: a connection, a webhook's keeper."""
PROGRAM_START = BackoffPolicy(initial=1.0, maximum=10.0)
"""Delays of a program that starts in a Pod while an API server is away."""
CRD_ESTABLISHED = BackoffPolicy(initial=0.05, maximum=1.0, factor=1.5, jitter=0.0)
"""Delays between looks at a CRD that was written and is not served yet."""
NO_WATCH = BackoffPolicy(initial=1.0, maximum=60.0, jitter=0.1)
"""Delays between looks of a binding's pass at what no watch announces the end of."""
NEW_CREDENTIALS = BackoffPolicy(initial=1.0, maximum=60.0, jitter=0.1)
"""Delays between tries of a consumer's new kubeconfig that does not work."""
NAMESPACE_EMPTY = BackoffPolicy(initial=5.0, maximum=60.0, factor=1.5)
"""Delays between looks at a provider namespace that has to go: no event tells that synced objects
are gone, for no kind of theirs is watched there."""
COPIES_GONE = BackoffPolicy(initial=0.5, maximum=60.0, factor=1.5)
"""Delays between looks at copies that are cleared away: no kind of theirs is watched there."""
LAGGING_CACHE = BackoffPolicy(initial=0.2, maximum=30.0)
"""Delays until a look at what is there already and has not come to the caches."""
ISSUER_AWAY = BackoffPolicy(initial=1.0, maximum=60.0, jitter=0.0)
"""Delays between tries to reach an issuer of identities."""
REDIS_AWAY = BackoffPolicy(initial=0.1, maximum=5.0, jitter=0.0)
"""Delays between tries to listen to Redis."""
