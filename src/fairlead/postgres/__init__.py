"""PostgresAccess: a custom resource becomes a PostgreSQL role, its grants and a Secret.

The input is a PostgresAccess, and the PostgresServer or Secret with the address of the server. The
controller takes the steps of a flowchart: finalizer, server and policy, generated Secret, and then
the database. It reads the catalogs as a snapshot, runs the missing statements of a pure plan, and
reads the catalogs again, because PostgreSQL answers OK to grants that it did not make. The output
is the Secret with the login, the role with exactly the grants of the spec, and a status with its
Event. When a PostgresAccess is deleted, its cleanupPolicy decides what happens to the role.

``controllers`` works on the cluster, ``database`` on the server; both raise ``errors``.
Source: the API access.k8s.delta10.nl/v1 of the access-operator project
(https://github.com/delta10/access-operator).
"""
