"""A strict issuer of our own, for laptops and the demo: people of a file, on this machine alone.

It keeps its keys and codes in memory, so that it serves one process: with several replicas, or
after a restart in the middle of a sign-in, people have to begin anew. Sessions are not its
business, and last.
"""
