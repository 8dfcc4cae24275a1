"""The story of ``fairlead demo``, and replacements for the parts of a cluster that it needs.

Two embedded control planes (``fairlead_sandbox``) become the provider's and the consumer's
cluster, Fairlead's programs run in them with the rights of their own manifests, and an embedded
PostgreSQL is the provider's service. The steps of the story follow: export, sign in, bind, ask for
a database, and bind it to an app. The output is each step on the screen, a report, and an app that
reads from its database with the login in its files.

``play`` sets the scene (``world``, ``programs``, ``identity``, ``objects``) and tells the
``story`` in ``steps`` on a ``screen``; ``app`` is the app. ``frontdoor`` is the server that people
sign in to, each with a ``browser``. ``pods`` runs a Deployment's pods as processes, and
``postgres`` a PostgreSQL from a wheel.
"""
