"""Consumers that are invited by kbind v2: a record, rights, and the file with which they bind.

Nothing is installed at the provider. Each consumer has a home, a namespace with its account, its
tokens and the record of its invitation, in which it has no rights; its objects are in other
namespaces, which bear the home's name as a label.
"""
