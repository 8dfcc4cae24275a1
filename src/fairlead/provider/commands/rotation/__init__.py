"""New credentials for a consumer, without an hour in which it has none.

How is known that the old ones are not used any more? Servers tell nobody which token a request
came with. So the konnector tells: condition CredentialsInUse of its ClusterBinding is written
with the credentials whose digest it carries. A konnector that does not tell keeps both tokens
until somebody decides.
"""
