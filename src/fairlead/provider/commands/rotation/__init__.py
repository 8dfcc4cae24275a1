"""New credentials for a consumer, without an interruption of its access.

A server does not tell which token a request came with, so that the end of the old ones' use has to
be reported: the konnector writes condition CredentialsInUse of its ClusterBinding with the
credentials whose digest it carries. A konnector that does not report keeps both tokens until a
person decides.
"""
