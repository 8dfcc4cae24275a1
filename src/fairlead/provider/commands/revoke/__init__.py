"""Removal of a consumer: its access first, then its data, and its cluster namespace last.

Every step looks at the cluster and removes what it finds, so that an interrupted command can be
repeated. The cluster namespace carries the identity and therefore goes last.
"""
