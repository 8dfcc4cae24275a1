"""The embedded issuer, for laptops and the demo: people from a file, on this machine only.

Its keys and codes are in the memory of one process: with several replicas, or after a restart
in the middle of a sign-in, people have to sign in again. Sessions are stored elsewhere and last.
"""
