"""Copies of a cluster's collections: listed and watched, kept by name, shared by readers.

A ``reflector`` lists and watches one collection, a ``store`` keeps its objects with their indexes,
and an ``informer`` shares both and tells of each change; ``expectations`` are our own writes until
the store has seen them.
"""
