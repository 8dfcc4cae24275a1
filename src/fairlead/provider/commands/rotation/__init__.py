"""New credentials for a consumer, without an interruption of its access.

An API server does not tell with which token a request came. So the konnector reports which one it
uses: it writes condition CredentialsInUse of its ClusterBinding with the
credentials whose digest it carries. A konnector that does not report keeps both tokens until a
person decides.
"""
