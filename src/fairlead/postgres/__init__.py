"""PostgresAccess: a custom resource becomes a PostgreSQL role, its grants and a Secret.

What comes in: a PostgresAccess, and the PostgresServer or Secret that says where the server is.
The controller takes the steps of a flowchart: finalizer, server and policy, generated Secret, and
then the database. There the catalogs are read as a snapshot, a pure plan gives the statements that
are missing, they are run, and the catalogs are read again, because PostgreSQL answers OK to grants
it did not make. What goes out: the Secret with the login, the role with exactly the grants that
were asked for, and a status with its Event. A PostgresAccess that goes takes its role along, as
its cleanupPolicy says.

``controllers`` works on the cluster, ``database`` on the server; ``errors`` is what both say.
Source: the API access.k8s.delta10.nl/v1 of the access-operator project
(https://github.com/delta10/access-operator).
"""
